//! Values that code falls back on where the environment has none: `process.env.K || 'v'`, `env('K', 'v')`, `os.environ.get("K") or "v"`.

use std::ops::Range;

use crate::quote::Quote;
use crate::value::{quoted, skip_blank};

/// Longest expression that reads the environment, in bytes.
const REACH: usize = 120;
/// What stands between that and the value.
const OTHERWISE: [&[u8]; 5] = [b"||", b"??", b"?:", b"//", b"or "];
/// What reads the environment, up to the name of the variable.
const READS: [&[u8]; 22] = [
    b"process.env.",
    b"process.env[",
    b"import.meta.env.",
    b"Deno.env.get(",
    b"Bun.env.",
    b"ENV[",
    b"ENV.fetch(",
    b"$ENV{",
    b"$_ENV[",
    b"$_SERVER[",
    b"env(",
    b"getenv(",
    b"get_env(",
    b"os.getenv(",
    b"os.Getenv(",
    b"os.environ.get(",
    b"environ.get(",
    b"System.getenv(",
    b"System.get_env(",
    b"config(",
    b"Environment.GetEnvironmentVariable(",
    b"System.Environment.GetEnvironmentVariable(",
];

/// The quote of the value, if at `at` an expression begins that reads the environment and has one.
pub(crate) fn of_expression(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..text.len().min(at + REACH))?;
    let read = READS.iter().find(|read| rest.starts_with(read))?;
    let at = at + read.len();
    let open = Quote::at(text, at);
    let start = at + open.map_or(0, |(_, length)| length);
    let is_of_name = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b':');
    let length = text[start..].iter().take(REACH).take_while(is_of_name).count();
    let end = start + length;
    (length > 0
        && open.is_none_or(|(quote, _)| Quote::at(text, end).is_some_and(|(close, _)| close == quote)))
    .then_some(())?;
    behind(text, end + open.map_or(0, |(_, length)| length))
}

/// The same behind a name that stands in such an expression.
pub(crate) fn behind_name(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let quote = Quote::at(text, name.end).map_or(0, |(_, length)| length);
    // Cheap first: most names have something else behind them.
    matches!(text.get(name.end + quote), Some(b' ' | b')' | b']' | b'}')).then_some(())?;
    let before = &text[name.start.saturating_sub(REACH)..name.end];
    let start = before
        .iter()
        .rposition(|b| !b.is_ascii_alphanumeric() && !b"_.-:$[({\"'\\".contains(b))
        .map_or(0, |at| at + 1);
    let from = name.end - before.len();
    let is_read = READS.iter().any(|read| {
        memchr::memmem::rfind(&before[start..], read)
            .is_some_and(|at| from + start + at + read.len() <= name.end)
    });
    is_read.then(|| behind(text, name.end + quote)).flatten()
}

/// `, 'v'` of a call that is still open, or ` || 'v'` behind the expression.
fn behind(text: &[u8], at: usize) -> Option<usize> {
    let value = match text.get(at)? {
        b',' => skip_blank(text, at + 1),
        _ => {
            let closed = at + usize::from(matches!(text.get(at), Some(b')' | b']' | b'}')));
            let sign = skip_blank(text, closed);
            let word = OTHERWISE.iter().find(|word| text[sign..].starts_with(word))?;
            skip_blank(text, sign + word.len())
        }
    };
    quoted(text, value).filter(|value| !value.range.is_empty()).map(|_| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, at: Option<usize>) -> Option<&str> {
        let inside = &text[at? + 1..];
        inside.find(['\'', '"']).map(|end| &inside[..end])
    }

    #[test]
    fn the_value_stands_behind_what_reads_the_environment() {
        for (text, wanted) in [
            ("process.env.KK || 'v1x'", Some("v1x")),
            ("process.env['KK'] ?? \"v1x\"", Some("v1x")),
            ("ENV['KK'] || 'v1x'", Some("v1x")),
            ("ENV.fetch('KK', 'v1x')", Some("v1x")),
            ("$ENV{KK} // 'v1x'", Some("v1x")),
            ("$_ENV['KK'] ?? 'v1x'", Some("v1x")),
            ("env('KK', 'v1x')", Some("v1x")),
            ("getenv('KK') ?: 'v1x'", Some("v1x")),
            ("os.environ.get(\"KK\") or \"v1x\"", Some("v1x")),
            ("os.environ.get(\"KK\", \"v1x\")", Some("v1x")),
            ("Environment.GetEnvironmentVariable(\"KK\") ?? \"v1x\"", Some("v1x")),
            ("process.env.KK || ''", None),
            ("process.env.KK || other", None),
            ("process.env.KK", None),
            ("env('KK')", None),
            ("env('KK', other('v1x'))", None),
            ("options.KK || 'v1x'", None),
            ("read('KK', 'v1x')", None),
        ] {
            assert_eq!(value(text, of_expression(text.as_bytes(), 0)), wanted, "{text}");
            let at = text.find("KK").expect("the name");
            let is_of_call = text.contains(", ");
            let wanted = if is_of_call { None } else { wanted };
            assert_eq!(value(text, behind_name(text.as_bytes(), &(at..at + 2))), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn places_are_inside_of_the_text(text in "[a-zA-Z_.'\"()\\[\\]|?:, ]{0,20}(process.env.|env\\('|ENV\\[')[ -~]{0,40}") {
            for at in 0..text.len() {
                if let Some(at) = of_expression(text.as_bytes(), at) {
                    proptest::prop_assert!(at < text.len());
                }
            }
        }
    }
}
