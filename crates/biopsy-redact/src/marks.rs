//! Marks that stand around a name or behind it, in front of its sign: braces, stars, and the dash of a line of notes.

use std::ops::Range;

use crate::plausible;
use crate::quote::Quote;

/// Longest value behind a dash, in bytes.
const VALUE_MAX: usize = 160;

/// Length of what closes around a name: the brace of `$conf{'key'} = x` of Perl, the stars of `*key*: x` of a wiki.
pub(crate) fn around(
    text: &[u8],
    name: &Range<usize>,
    at: usize,
    quote: Option<(Quote<'_>, usize)>,
) -> usize {
    let is_member = match (text.get(at), quote) {
        (Some(b'}'), Some((_, length))) => {
            let before = text[..name.start.saturating_sub(length)].strip_suffix(b"{");
            before.is_some_and(|before| {
                before.ends_with(b">")
                    || before.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
            })
        }
        _ => false,
    };
    if is_member {
        return 1;
    }
    let stars = text[at..].iter().take(3).take_while(|b| **b == b'*').count();
    let before = text[..name.start].iter().rev().take(3).take_while(|b| **b == b'*').count();
    let is_marked = stars > 0 && stars == before && text.get(at + stars) == Some(&b':');
    if is_marked { stars } else { 0 }
}

/// Is this the dash of a line that has nothing but a name of several words, or in capitals, and a value that nobody would write in a sentence?
pub(crate) fn is_dash_of_line(text: &[u8], name: &Range<usize>, at: usize) -> bool {
    let called = &text[name.clone()];
    let before = &text[name.start.saturating_sub(16)..name.start];
    let line = memchr::memrchr(b'\n', before).map_or(before, |newline| &before[newline + 1..]);
    let begins = line.len() < before.len() || name.start <= before.len();
    let rest = &text[at + 2..text.len().min(at + 2 + VALUE_MAX)];
    let value = rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())].trim_ascii_end();
    let is_compound = called.contains(&b'_')
        || called.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        || called.len() >= 4 && called.iter().all(u8::is_ascii_uppercase);
    begins
        && line.iter().all(|b| matches!(b, b' ' | b'\t'))
        && text[..at].ends_with(b" ")
        && is_compound
        && !value.iter().any(u8::is_ascii_whitespace)
        && (plausible::is_of_a_cell(value) || plausible::is_no_word(value) || plausible::is_uuid(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_closed_as_they_were_opened() {
        for (text, wanted) in [
            ("$conf{'kk'} = 'x'", 1),
            ("$self->{'kk'} = 'x'", 1),
            ("{'kk'} = 'x'", 0),
            ("* *kk*: x", 1),
            ("**kk**: x", 2),
            ("*kk*, x", 0),
            ("*kk**: x", 0),
            ("kk*: x", 0),
        ] {
            let at = text.find("kk").expect("the name");
            let quote = Quote::at(text.as_bytes(), at + 2);
            let end = at + 2 + quote.map_or(0, |(_, length)| length);
            assert_eq!(around(text.as_bytes(), &(at..at + 2), end, quote), wanted, "{text}");
        }
    }

    #[test]
    fn a_dash_leads_to_a_value_in_a_line_of_its_own() {
        for (text, name, wanted) in [
            ("DB_TOKEN - l4q8zs.el44nascxgg3fzou\n", "DB_TOKEN", true),
            ("x\n  dbPassword - Gvxslop295!\nhost - db1\n", "dbPassword", true),
            ("SALT - ZvbIIv1waj7fsrTMf6vkXRSi9ZqG0DT2", "SALT", true),
            ("password - Gvxslop295!\n", "password", false),
            ("DB_TOKEN - the token of it\n", "DB_TOKEN", false),
            ("DB_TOKEN - optional\n", "DB_TOKEN", false),
            ("see DB_TOKEN - l4q8zs.el44nascxgg3fzou\n", "DB_TOKEN", false),
            ("DB_TOKEN - \n", "DB_TOKEN", false),
        ] {
            let at = text.find(name).expect("the name");
            let name = at..at + name.len();
            assert_eq!(is_dash_of_line(text.as_bytes(), &name, name.end + 1), wanted, "{text}");
        }
    }
}
