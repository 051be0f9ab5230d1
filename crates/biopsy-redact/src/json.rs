//! Masks in JSON stay inside of its strings: whatever a rule took for a value, what comes out parses as before, with the same keys.
//!
//! A string of JSON has no line end in it, so the state at the beginning of a line is known, and one line is enough to say what is
//! a string there: a record of a log, an object behind what a logger wrote, or a line of a document that is set out in lines.

use std::ops::Range;

use crate::scan::Span;

/// What is a string in a stretch of JSON.
struct Strings {
    /// The stretch: a line, or what of it is JSON.
    stretch: Range<usize>,
    /// What stands between the quotes of each string, in their order.
    inside: Vec<Range<usize>>,
}

/// Keeps each of the spans, which are sorted and do not overlap, within one string of the JSON that it stands in.
pub(crate) fn within_strings(text: &[u8], spans: Vec<Span>) -> Vec<Span> {
    let mut kept: Vec<Span> = Vec::with_capacity(spans.len());
    let mut line = 0..0;
    let mut json: Option<Strings> = None;
    for mut span in spans {
        if span.wide.is_some() {
            kept.push(span);
            continue;
        }
        if span.range.start >= line.end {
            line = line_around(text, span.range.start);
            json = strings_of(text, &line);
        }
        let Some(found) = json.as_ref().filter(|found| found.stretch.contains(&span.range.start)) else {
            kept.push(span);
            continue;
        };
        // A number in the place of a text has a mask in quotes; it stands outside of strings.
        if span.wrap.is_some() {
            span.range.end = scalar_end(text, &span.range);
            // No mask stands for an object, `true` or nothing.
            if text[span.range.clone()].first().is_some_and(|b| b.is_ascii_digit() || *b == b'-') {
                kept.push(span);
            }
            continue;
        }
        let next = found.inside.partition_point(|string| string.end < span.range.start);
        let before = kept.len();
        for string in found.inside.iter().skip(next).take_while(|string| string.start < span.range.end) {
            // Elements of a list belong together; what has a name of its own is another value. Names stay, unless a secret begins in one.
            if span.range.start < string.start && is_name(text, string) {
                if kept.len() > before {
                    break;
                }
                continue;
            }
            let start = span.range.start.max(string.start);
            let end = span.range.end.min(string.end);
            if start < end {
                let range = before_escape(text, string.start, start)..behind_escape(text, string, end);
                kept.push(Span { range, ..span.clone() });
            }
        }
        if kept.len() == before {
            // A number, of which the mask is a string.
            let floor =
                kept.last().map_or(found.stretch.start, |last| last.range.end.max(found.stretch.start));
            if let Some(range) = number_around(text, floor..found.stretch.end, &span.range) {
                kept.push(Span { range, wrap: Some(0), ..span });
            }
        }
    }
    kept
}

/// Where the number, or the list of numbers, ends that a span stands on.
fn scalar_end(text: &[u8], range: &Range<usize>) -> usize {
    let bytes = &text[range.clone()];
    if bytes.iter().all(|b| b.is_ascii_digit() || matches!(b, b',' | b' ')) {
        return range.end;
    }
    let ends = |b: &u8| matches!(b, b',' | b']' | b'}') || b.is_ascii_whitespace();
    range.start + bytes.iter().position(ends).unwrap_or(bytes.len())
}

/// Whether a colon follows the string.
fn is_name(text: &[u8], string: &Range<usize>) -> bool {
    text.get(string.end + 1..).unwrap_or_default().trim_ascii_start().first() == Some(&b':')
}

/// The whole number that the span stands on or in, between what is around it; `None`: it stands on something else.
fn number_around(text: &[u8], within: Range<usize>, span: &Range<usize>) -> Option<Range<usize>> {
    let is_of_number = |b: &&u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
    let first = span.start + text.get(span.clone())?.iter().position(u8::is_ascii_digit)?;
    let front = text.get(within.start..first)?.iter().rev().take_while(is_of_number).count();
    let behind = text.get(first..within.end)?.iter().take_while(is_of_number).count();
    Some(first - front..first + behind)
}

/// The line of this place, with its end.
fn line_around(text: &[u8], at: usize) -> Range<usize> {
    let start = memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline + 1);
    start..end
}

/// The strings of a line, if it is one of JSON, or has an object or a list of JSON in it.
fn strings_of(text: &[u8], line: &Range<usize>) -> Option<Strings> {
    let bytes = &text[line.clone()];
    let first = bytes.iter().position(|b| !b.is_ascii_whitespace())?;
    // A line of a document in lines: `"name": "value",`, or an element of a list.
    if bytes[first] == b'"' {
        let close = string_end(text, line.start + first + 1, line.end);
        // A string of JSON has no line end in it; a cell of CSV has, with a key of many lines.
        if close == line.end && text[..close].ends_with(b"\n") {
            return None;
        }
        let behind = text.get(close + 1..line.end).unwrap_or_default().trim_ascii();
        return match behind {
            [] | [b','] => {
                let inside = line.start + first + 1..close;
                Some(Strings { stretch: line.start + first..line.end, inside: vec![inside] })
            }
            [b':', ..] => read(text, line.start + first, line.end, false),
            _ => None,
        };
    }
    let opening = memchr::memchr2_iter(b'{', b'[', &bytes[first..])
        .take(OPENINGS_MAX)
        .map(|at| first + at)
        .filter(|at| {
            let behind = bytes[at + 1..].trim_ascii_start();
            matches!(behind.first(), Some(b'"' | b'{' | b'['))
        });
    opening.filter_map(|at| read(text, line.start + at, line.end, true)).next()
}

/// Brackets of a line that are tried.
const OPENINGS_MAX: usize = 8;

/// Reads strings from `start`, up to the bracket that closes the first one or to `end`; `None`: there is more outside of them than
/// JSON has.
fn read(text: &[u8], start: usize, end: usize, is_whole: bool) -> Option<Strings> {
    let mut inside = Vec::new();
    let mut depth = 0usize;
    let mut at = start;
    while at < end {
        match text[at] {
            b'"' => {
                let from = at + 1;
                let to = string_end(text, from, end);
                inside.push(from..to);
                at = to;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && is_whole {
                    return is_object(text, start, &inside)
                        .then_some(Strings { stretch: start..at + 1, inside });
                }
            }
            b':' | b',' | b'-' | b'+' | b'.' | b'0'..=b'9' => {}
            byte if byte.is_ascii_whitespace() => {}
            b't' | b'f' | b'n' | b'E' | b'e' => {
                // `true`, `false`, `null`, or the exponent of a number.
                let is_exponent = at > start && text[at - 1].is_ascii_digit();
                let word = [&b"true"[..], b"false", b"null"]
                    .into_iter()
                    .find(|word| text[at..end].starts_with(word));
                at += match word {
                    Some(word) => word.len() - 1,
                    None if is_exponent && matches!(text[at], b'E' | b'e') => 0,
                    None => return None,
                };
            }
            _ => return None,
        }
        at += 1;
    }
    // A document in lines, or a line that goes on behind this text.
    let is_set_out = inside.len() <= 2 || !is_whole || end == text.len();
    (is_set_out && is_object(text, start, &inside)).then_some(Strings { stretch: start..end, inside })
}

/// Does a colon follow the first string of an object? A list of texts needs none.
fn is_object(text: &[u8], start: usize, inside: &[Range<usize>]) -> bool {
    match (text[start], inside.first()) {
        (_, None) => false,
        (b'[', _) => true,
        (_, Some(first)) => text
            .get(first.end + 1..)
            .unwrap_or_default()
            .trim_ascii_start()
            .first()
            .is_none_or(|b| *b == b':'),
    }
}

/// Where the string ends whose text begins at `from`: at its quote, or at `end`.
fn string_end(text: &[u8], from: usize, end: usize) -> usize {
    let mut at = from;
    while let Some(found) = memchr::memchr2(b'"', b'\\', &text[at..end]) {
        at += found;
        if text[at] == b'"' {
            return at;
        }
        at = end.min(at + 2);
    }
    end
}

/// In front of the escape that `at` is in the middle of.
fn before_escape(text: &[u8], floor: usize, at: usize) -> usize {
    escape_around(text, floor, at).map_or(at, |escape| escape.start)
}

/// Behind the escape that `at` is in the middle of.
fn behind_escape(text: &[u8], string: &Range<usize>, at: usize) -> usize {
    escape_around(text, string.start, at).map_or(at, |escape| escape.end.min(string.end))
}

/// The escape with its backslash in front of `at` and its end behind it.
fn escape_around(text: &[u8], floor: usize, at: usize) -> Option<Range<usize>> {
    let from = floor.max(at.saturating_sub(5));
    (from..at).rev().find_map(|backslash| {
        if text[backslash] != b'\\' {
            return None;
        }
        let run = text[floor..=backslash].iter().rev().take_while(|b| **b == b'\\').count();
        let length = if text.get(backslash + 1) == Some(&b'u') { 6 } else { 2 };
        (run % 2 == 1 && backslash + length > at).then(|| backslash..backslash + length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(text: &str, part: &str) -> Option<String> {
        let start = text.find(part).expect("it is there");
        let span = Span {
            range: start..start + part.len(),
            rule: Some(0),
            pseudonym: None,
            open: false,
            learn: false,
            wide: None,
            wrap: None,
        };
        let kept = within_strings(text.as_bytes(), vec![span]);
        let parts: Vec<&str> = kept.into_iter().map(|span| &text[span.range]).collect();
        (!parts.is_empty()).then(|| parts.join("|"))
    }

    #[test]
    fn what_is_masked_ends_with_its_string() {
        for (text, part, wanted) in [
            (r#"{"a":"x1","b":2}"#, r#"x1","b":2"#, Some("x1")),
            (r#"{"a":"x\\","b":2}"#, r#"x\\","b"#, Some(r"x\\")),
            (r#"{"a":{"b":"x1"}}"#, r#"{"b":"x"#, Some("x")),
            (r#"{"sk_x1":1}"#, "sk_x1", Some("sk_x1")),
            ("  \"a\": \"x1\",\n  \"b\": 2\n", "x1\",\n  \"b", Some("x1")),
            (r#"10:01 got {"a":"x1","b":true} ok"#, r#"x1","b":t"#, Some("x1")),
            (r#"{"a":"x\u00e9y"}"#, r"x\u00", Some(r"x\u00e9")),
            (r#"{"a":"x\"y"}"#, r#""y"#, Some(r#"\"y"#)),
            (r#"{"a":["x1","y1"]}"#, r#"x1","y1"#, Some("x1|y1")),
            (r#"{"a":["x1","y1"],"b":"z1"}"#, r#"x1","y1"],"b":"z"#, Some("x1|y1")),
            (r#"{"a":4111,"b":2}"#, "4111", Some("4111")),
            (r#"{"a":[1,4111.5e3],"b":2}"#, "4111", Some("4111.5e3")),
            (r#"{"a": -4111}"#, ": -4111}", Some("-4111")),
            (r#"{"a":true}"#, "true", None),
            ("[\n  \"x1 y\",\n  2\n]", "1 y\",\n  2", Some("1 y")),
            // No JSON: nothing is said of it.
            (r#"f("a", x"y") {"#, r#"x"y"#, Some(r#"x"y"#)),
            ("a,\"x\"\"y\",b", "x\"\"y", Some("x\"\"y")),
            ("\"x1\ny1\",b\n", "x1\ny1", Some("x1\ny1")),
            (r#"{"a":"x"} and "y" z"#, r#"y" z"#, Some(r#"y" z"#)),
        ] {
            assert_eq!(kept(text, part).as_deref(), wanted, "{text}");
        }
    }
}
