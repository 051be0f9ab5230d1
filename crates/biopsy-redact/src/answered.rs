//! Values that answer a name: on the line below what asks for them (`echo %k%`, `> var.k`), below a ruled heading, behind a call that reads
//! them (`getenv("k") = "v"`), behind leading dots, in a list behind what was there before, in an installer's report.

use std::ops::Range;

use crate::below;
use crate::fallback;
use crate::plausible;
use crate::quote::Quote;
use crate::value::{How, KeyQuote, Place, quoted, skip_blank, skip_space};

/// How much of the line in front of a name is looked at, and how much behind it, in bytes.
const REACH: usize = 160;
/// Fewest dots that lead from a name to its value.
const DOTS_MIN: usize = 4;
/// Fewest signs of a ruler.
const RULER_MIN: usize = 3;

/// Where the value of a name is that was asked for.
pub(crate) fn place(text: &[u8], name: &Range<usize>) -> Option<Place> {
    let at = below_question(text, name)
        .or_else(|| behind_call(text, name))
        .or_else(|| behind_dots(text, name))
        .or_else(|| of_installer(text, name))
        .or_else(|| fallback::behind_name(text, name))?;
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    Some(Place { key: name.start, at, how, key_quote: None, whole_line: false })
}

/// `"k":[null,"v"]`: what is there now, behind what was there before.
pub(crate) fn behind_null(text: &[u8], place: Place) -> Option<usize> {
    matches!(place.key_quote, Some(KeyQuote::Json(_))).then_some(())?;
    let inner = skip_space(text, place.at + 1);
    let rest = text.get(inner..)?.strip_prefix(b"null")?;
    let comma = skip_space(text, text.len() - rest.len());
    (text.get(comma) == Some(&b',')).then(|| skip_space(text, comma + 1))
}

/// The line in front of a name, for as far as it is looked at.
fn line_before<'t>(text: &'t [u8], name: &Range<usize>) -> &'t [u8] {
    let before = &text[name.start.saturating_sub(REACH)..name.start];
    &before[memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1)..]
}

/// `C:\>echo %k%`, `$ echo $k`, `$ printenv k`, `> var.k`, and on the line below `v`.
fn below_question(text: &[u8], name: &Range<usize>) -> Option<usize> {
    const ASKS: [&[u8]; 6] =
        [b"echo ", b"printenv ", b"Write-Host ", b"Write-Output ", b"Get-Content env:", b"getenv "];
    let before = line_before(text, name);
    let sign = [&b"%"[..], b"${", b"$env:", b"$Env:", b"$"].into_iter().find(|sign| before.ends_with(sign));
    let front = &before[..before.len() - sign.map_or(0, <[u8]>::len)];
    let closing = match sign {
        Some(b"%") => 1,
        Some(b"${") => 1,
        _ => 0,
    };
    let is_closed = closing == 0 || matches!(text.get(name.end), Some(b'%' | b'}'));
    let is_reference =
        sign.is_some() || text[name.clone()].starts_with(b"$") || front.ends_with(b"printenv ");
    let is_asked = is_reference && ASKS.iter().any(|word| front.ends_with(word));
    let is_typed = matches!(front, b"> " | b">>> " | b"irb> ") && text[name.clone()].contains(&b'.');
    let is_got = is_command_that_gets(before);
    let newline =
        below::newline(text, name.end + closing).filter(|_| is_closed && (is_asked || is_typed || is_got))?;
    let word = below::word_below(text, name.start, newline)?;
    // What was typed next, and not what was answered.
    let is_answer = text[word.end..].first().is_none_or(|b| matches!(b, b'\n' | b'\r'))
        && !text[word.clone()].ends_with(b">")
        && !text[word.clone()].starts_with(b"%")
        && (!is_typed || Quote::at(text, word.start).is_some());
    is_answer.then_some(word.start)
}

/// `$ shopctl config get `: a command behind the prompt of a shell that asks for one setting, whose path may begin already.
fn is_command_that_gets(before: &[u8]) -> bool {
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || b"_.-:/".contains(b);
    let front = &before[..before.len() - before.iter().rev().take_while(is_path).count()];
    let prompt = [&b"$ "[..], b"# ", b"% "].iter().find_map(|sign| {
        let at = memchr::memmem::find(front, sign)?;
        (!front[..at].contains(&b' ')).then_some(at + sign.len())
    });
    prompt.is_some_and(|at| [&b" get "[..], b" read "].iter().any(|verb| front[at..].ends_with(verb)))
}

/// `k:`, a ruler of hyphens, and below it `v`.
pub(crate) fn below_heading(text: &[u8], name: &Range<usize>) -> Option<Place> {
    let at = below_ruler(text, name)?;
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    Some(Place { key: name.start, at, how, key_quote: None, whole_line: false })
}

fn below_ruler(text: &[u8], name: &Range<usize>) -> Option<usize> {
    line_before(text, name).trim_ascii().is_empty().then_some(())?;
    let ruler = below::newline(text, name.end + usize::from(text.get(name.end) == Some(&b':')))? + 1;
    let ruler = skip_blank(text, ruler);
    let length = text[ruler..].iter().take_while(|b| **b == b'-').count();
    let value = skip_blank(text, below::newline(text, ruler + length).filter(|_| length >= RULER_MIN)? + 1);
    let line = &text[value..text.len().min(value + REACH)];
    let line = line[..memchr::memchr(b'\n', line).unwrap_or(line.len())].trim_ascii_end();
    let is_value = !line.iter().any(u8::is_ascii_whitespace)
        && (plausible::is_of_a_cell(line) || plausible::is_no_word(line) || plausible::is_uuid(line))
        && !line.ends_with(b":");
    is_value.then_some(value)
}

/// `getenv("k") = "v"`, `lookup('k') -> 'v'`
fn behind_call(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let quote = *text.get(name.end).filter(|b| matches!(b, b'"' | b'\''))?;
    let open = text[..name.start].strip_suffix(&[quote])?.strip_suffix(b"(")?;
    open.last().filter(|b| b.is_ascii_alphanumeric() || **b == b'_')?;
    let rest = text.get(name.end + 1..)?.strip_prefix(b")")?;
    let sign = [&b" = "[..], b" -> ", b" => ", b" == "].into_iter().find(|sign| rest.starts_with(sign))?;
    let at = name.end + 2 + sign.len();
    quoted(text, at).map(|_| at)
}

/// `  k ............ v`: the value at the end of the line, where nothing but the name stands in front of the dots.
fn behind_dots(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let dots = skip_blank(text, name.end);
    let length = text[dots..].iter().take(REACH).take_while(|b| **b == b'.').count();
    let at = skip_blank(text, dots + length);
    let is_leader = length >= DOTS_MIN && dots > name.end && at > dots + length;
    (is_leader && line_before(text, name).trim_ascii().is_empty()).then_some(())?;
    let line = &text[at..text.len().min(at + REACH)];
    let line = line[..memchr::memchr(b'\n', line).unwrap_or(line.len())].trim_ascii_end();
    let is_one = !line.is_empty() && !line.iter().any(u8::is_ascii_whitespace);
    (is_one && (plausible::is_of_a_cell(line) || plausible::is_no_word(line))).then_some(at)
}

/// `Adding k property. Its value is 'v'.`, `Modifying k property. Its current value is 'u'. Its new value: 'v'.`
fn of_installer(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let rest = &text[name.end..text.len().min(name.end + 2 * REACH)];
    let rest = rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())].strip_prefix(b" property. Its ")?;
    let says = [&b"new value: '"[..], b"new value is '", b"value is '", b"value: '"];
    let (at, says) = says.iter().find_map(|says| memchr::memmem::find(rest, says).map(|at| (at, says)))?;
    Some(name.end + b" property. Its ".len() + at + says.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let at = text.find(name).expect("the name");
        let name = at..at + name.len();
        let place = place(text.as_bytes(), &name).or_else(|| below_heading(text.as_bytes(), &name))?;
        let value = text[place.at..].trim_start_matches(['\'', '"']);
        Some(&value[..value.find(['\'', '"', '\n', ' ', '\r']).unwrap_or(value.len())])
    }

    #[test]
    fn answers_are_found_where_they_were_asked_for() {
        for (text, name, value) in [
            ("C:\\build>echo %KK%\nv1xQ\n", "KK", Some("v1xQ")),
            ("C:\\build>echo %KK%\r\nv1xQ\r\n", "KK", Some("v1xQ")),
            ("$ echo $KK\nv1xQ\n", "$KK", Some("v1xQ")),
            ("$ echo ${KK}\nv1xQ\n", "KK", Some("v1xQ")),
            ("$ printenv KK\nv1xQ\n", "KK", Some("v1xQ")),
            ("PS> Write-Host $env:KK\nv1xQ\n", "KK", Some("v1xQ")),
            ("> var.kk\n\"v1xQ\"\n> exit\n", "var.kk", Some("v1xQ")),
            ("$ shopctl config get KK\nv1xQ\n", "KK", Some("v1xQ")),
            ("root@db1:/# shopctl config get shop.KK\nv1xQ\n", "KK", Some("v1xQ")),
            ("$ see how to get KK of it\nv1xQ\n", "KK", None),
            ("they get KK\nv1xQ\n", "KK", None),
            ("$ shopctl get KK\nmore than one word\n", "KK", None),
            // A word is not asked for, what is typed next is no answer, and a quotation is no console.
            ("$ echo KK\nv1xQ\n", "KK", None),
            ("C:\\build>echo %KK%\nC:\\build>\n", "KK", None),
            ("$ echo $KK\nsome more words\n", "$KK", None),
            ("> see kk\n\"v1xQ\"\n", "kk", None),
            ("> kk\n\"v1xQ\"\n", "kk", None),
            ("KK:\n----\nv1xQ77\nOTHER:\n----\n", "KK", Some("v1xQ77")),
            ("KK:\n----\nin all of these\n", "KK", None),
            ("Tokens\n------\nOverview\n", "Tokens", None),
            ("shop->getenv(\"KK\") = \"v1xQ\"", "KK", Some("v1xQ")),
            ("lookup('kk') -> 'v1xQ'", "kk", Some("v1xQ")),
            ("(\"kk\") = \"v1xQ\"", "kk", None),
            ("getenv(\"KK\") = nil", "KK", None),
            ("  kk ............ v1xQ77\n", "kk", Some("v1xQ77")),
            ("  kk ............ ok\n", "kk", None),
            ("  kk ............ 14\n", "kk", None),
            ("check kk ............ v1xQ77\n", "kk", None),
            ("  kk ............ is set and fine2\n", "kk", None),
            ("PROPERTY CHANGE: Adding KK property. Its value is 'v1xQ'.", "KK", Some("v1xQ")),
            ("Modifying KK property. Its current value is 'old'. Its new value: 'v1xQ'.", "KK", Some("v1xQ")),
            ("Deleting KK property. It is gone.", "KK", None),
        ] {
            assert_eq!(of(text, name), value, "{text}");
        }
    }

    #[test]
    fn what_was_there_before_may_be_nothing() {
        let place = |at: usize| Place {
            key: 1,
            at,
            how: How::Assigned { prose: false, percent: false, query: false, compared: false },
            key_quote: Some(KeyQuote::Json(0)),
            whole_line: false,
        };
        assert_eq!(behind_null(b"\"k\":[null, \"v\"]", place(4)), Some(11));
        assert_eq!(behind_null(b"\"k\":[null]", place(4)), None);
        assert_eq!(behind_null(b"\"k\":[\"u\",\"v\"]", place(4)), None);
    }

    proptest::proptest! {
        #[test]
        fn places_are_inside_of_the_text(before in "[ -~\n]{0,40}", behind in "[ -~\n]{0,60}") {
            let text = format!("{before}kk{behind}");
            let name = before.len()..before.len() + 2;
            if let Some(place) = place(text.as_bytes(), &name) {
                proptest::prop_assert!(place.at > name.start && place.at <= text.len());
            }
        }
    }
}
