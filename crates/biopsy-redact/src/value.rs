//! Where a value ends: the part of a key rule that reads what stands behind the key.

use std::ops::Range;

use crate::pseudonym::mask_at;
use crate::quote::{Open, Quote, backslashes_at, open_quote_before};
use crate::rows;

/// What languages put around a value, the longest of it, and how deep.
const WRAPPERS: [&[u8]; 22] = [
    b"Some",
    b"Ok",
    b"Just",
    b"Right",
    b"Left",
    b"Secret",
    b"SecretString",
    b"SecretStr",
    b"SecretBox",
    b"SecretBytes",
    b"Sensitive",
    b"Zeroizing",
    b"Protected",
    b"Optional",
    b"Box",
    b"Arc",
    b"Value",
    b"Password",
    b"ApiKey",
    b"Token",
    b"String",
    b"str",
];
const WRAPPER_MAX: usize = 16;
const WRAPPERS_MAX: usize = 3;

/// What is known about the place of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Start of the key.
    pub(crate) key: usize,
    /// Start of the value, quote included.
    pub(crate) at: usize,
    /// How the value is written.
    pub(crate) how: How,
    /// The key stands in quotes of its own: `"` behind this many backslashes, or others.
    pub(crate) key_quote: Option<KeyQuote>,
    /// A setting on a line of its own, so that a value without quotes may hold blanks.
    pub(crate) whole_line: bool,
}

/// Quotes around a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KeyQuote {
    /// `"` behind this many backslashes: JSON, or JSON in JSON.
    Json(usize),
    /// `""`: inside a CSV field or a connection string.
    Doubled,
    /// Any other.
    Other,
}

/// How key and value are joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// `key=value`, `"key": "value"`.
    Assigned {
        /// `key: value` in running text, unquoted.
        prose: bool,
        /// Percent-encoded: `key%3Dvalue`.
        percent: bool,
        /// In a query string: `?key=value&`.
        query: bool,
        /// `==`: a comparison, where a name may stand.
        compared: bool,
    },
    /// `--key value`.
    Flag,
    /// `<key>value</key>`.
    Element,
    /// `&lt;key&gt;value&lt;/key&gt;`.
    CodedElement,
    /// `key 'value'`.
    Beside,
    /// On a line of its own, in a form of several parts.
    Part,
    /// In the next cell: `key<tab>value`, `put("key", "value")`.
    Cell,
    /// In the column below.
    Column,
    /// `key: |` with the value on the following, deeper lines.
    Block,
}

/// A value that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Value {
    /// Without quotes.
    pub(crate) range: Range<usize>,
    /// It stood in quotes or in an element of its own.
    pub(crate) quoted: bool,
    /// The text ended before the value did.
    pub(crate) open: bool,
    /// A JSON value without quotes (a number), whose mask needs `"` behind this many backslashes around it.
    pub(crate) wrap: Option<usize>,
}

pub(crate) fn single(text: &[u8], place: Place) -> Option<Value> {
    // A key's own quote is no wrapping.
    let wrapped = match place.key_quote {
        None => true,
        Some(KeyQuote::Json(_)) => text.get(place.at) != Some(&b'"'),
        Some(KeyQuote::Doubled | KeyQuote::Other) => false,
    };
    let in_quotes = Quote::at(text, place.at).and_then(|(quote, _)| doubled(text, quote, place.at));
    if in_quotes.is_some() {
        return in_quotes;
    }
    if wrapped && closes_outer(text, place) {
        return None;
    }
    if place.key_quote == Some(KeyQuote::Doubled) && text[place.at.min(text.len())..].starts_with(b"\"\"") {
        let start = place.at + 2;
        let (end, open) = Quote::Coded(b"\"\"").close(text, start);
        return Some(Value { range: start..end, quoted: true, open, wrap: None });
    }
    if let Some(value) = quoted(text, place.at) {
        return Some(value);
    }
    // Prefixes of literals in source code: b'..', N'..', @"..".
    if text.get(place.at).is_some_and(|b| matches!(b, b'b' | b'u' | b'r' | b'N' | b'@' | b'$'))
        && matches!(text.get(place.at + 1), Some(b'"' | b'\''))
        && !open_quote_before(text, place.key).is_some_and(|open| open.is_closed_at(text, place.at + 1))
    {
        return quoted(text, place.at + 1);
    }
    in_wrappers(text, place.at).or_else(|| bare(text, place))
}

/// The value in what languages put around it: `Some("x")`, `SecretString(x)`, `Secret(value='x')`.
fn in_wrappers(text: &[u8], at: usize) -> Option<Value> {
    let mut at = at;
    for depth in 0..=WRAPPERS_MAX {
        let rest = text.get(at..)?;
        let name = rest.iter().take(WRAPPER_MAX).take_while(|b| b.is_ascii_alphanumeric()).count();
        if rest.get(name) == Some(&b'(') && WRAPPERS.iter().any(|known| *known == &rest[..name]) {
            at += name + 1;
            continue;
        }
        if depth == 0 {
            return None;
        }
        // Its name as an argument.
        let argument = [&b"value="[..], b"value: ", b"value:", b"inner: ", b"inner="];
        at += argument.iter().find(|name| rest.starts_with(name)).map_or(0, |name| name.len());
        if let Some(value) = quoted(text, at) {
            return Some(value);
        }
        let rest = &text[at..];
        let end = at + rest.iter().take(512).position(|b| b.is_ascii_whitespace() || b"),;".contains(b))?;
        let value = &text[at..end];
        let is_value = text[end] == b')'
            && (value.iter().any(u8::is_ascii_digit) || crate::plausible::is_no_word(value))
            && value.iter().all(|b| b.is_ascii_graphic() && !b"(\"'{".contains(b));
        return is_value.then_some(Value { range: at..end, quoted: false, open: false, wrap: None });
    }
    None
}

/// The value in quotes at `at`.
pub(crate) fn quoted(text: &[u8], at: usize) -> Option<Value> {
    let (quote, length) = Quote::at(text, at)?;
    let start = at + length;
    if let Some(value) = tripled(text, quote, start) {
        return Some(value);
    }
    // `""` is an empty value, not the start of one that begins with a quote.
    if let Some((again, _)) = Quote::at(text, start)
        && again == quote
    {
        return Some(Value { range: start..start, quoted: true, open: false, wrap: None });
    }
    let (end, open) = quote.close(text, start);
    Some(Value { range: start..end, quoted: true, open, wrap: None })
}

/// `''value''` inside of `'...'`, as YAML and SQL write a quote in quotes.
fn doubled(text: &[u8], quote: Quote<'_>, at: usize) -> Option<Value> {
    let Quote::Escaped { quote, backslashes: 0 } = quote else { return None };
    let start = at + 2;
    let first = text.get(start)?;
    if text[at + 1] != quote
        || *first == quote
        || is_end(text, start)
        || open_quote_before(text, at) != Some(Open { quote, backslashes: 0 })
    {
        return None;
    }
    let line = &text[start..text.len().min(start + LINE_MAX)];
    let line = &line[..memchr::memchr(b'\n', line).unwrap_or(line.len())];
    let end = start + memchr::memmem::find(line, &[quote, quote])?;
    Some(Value { range: start..end, quoted: true, open: false, wrap: None })
}

/// `"""value"""`, also over several lines.
fn tripled(text: &[u8], quote: Quote<'_>, start: usize) -> Option<Value> {
    let Quote::Escaped { quote, backslashes: 0 } = quote else { return None };
    let triple = [quote; 3];
    let inside = start + 2;
    if text.get(start - 1..inside)? != triple {
        return None;
    }
    let end = inside + memchr::memmem::find(&text[inside..text.len().min(inside + (16 << 10))], &triple)?;
    Some(Value { range: inside..end, quoted: true, open: false, wrap: None })
}

/// Does the quote at the value's place end what is wrapped around the key, as in "the parameter `password=` is empty"?
fn closes_outer(text: &[u8], place: Place) -> bool {
    let behind = place.at + backslashes_at(text, place.at) + 1;
    // `"PWD="+folder` goes on with code.
    (is_end(text, behind) || text.get(behind) == Some(&b'+'))
        && open_quote_before(text, place.key).is_some_and(|open| open.is_closed_at(text, place.at))
}

/// Up to the closing tag. What other tags follow is no value, but for `<Value>`.
pub(crate) fn element(text: &[u8], at: usize) -> Option<Value> {
    let rest = text.get(at..)?;
    let inner = rest.trim_ascii_start();
    if inner.len() >= 7 && inner[..7].eq_ignore_ascii_case(b"<value>") {
        return until(text, at + rest.len() - inner.len() + 7, b"<");
    }
    if let Some(inside) = rest.strip_prefix(b"<![CDATA[") {
        let start = at + rest.len() - inside.len();
        let end = memchr::memmem::find(inside, b"]]>");
        let range = start..start + end.unwrap_or(inside.len());
        return Some(Value { range, quoted: true, open: end.is_none(), wrap: None });
    }
    let close = memchr::memchr(b'<', rest).unwrap_or(rest.len());
    if rest[close..].starts_with(b"</") {
        return until(text, at, b"<");
    }
    // No closing tag, as in a line that was cut short. White space, or another tag, says that it was none to begin with.
    // `<user>:<password>@host` is no element either.
    if rest.first().is_none_or(|b| b.is_ascii_whitespace() || *b == b'@') {
        return None;
    }
    let line = memchr::memchr2(b'\n', b'\r', &rest[..close]).unwrap_or(close);
    let cut_short = line < close || close == rest.len();
    cut_short.then_some(Value { range: at..at + line, quoted: true, open: line == rest.len(), wrap: None })
}

pub(crate) fn until(text: &[u8], at: usize, end: &[u8]) -> Option<Value> {
    let rest = text.get(at..)?;
    let found = memchr::memmem::find(rest, end);
    let inside = &rest[..found.unwrap_or(rest.len())];
    let start = at + inside.len() - inside.trim_ascii_start().len();
    let range = start..at + inside.trim_ascii_end().len().max(start - at);
    Some(Value { range, quoted: true, open: found.is_none(), wrap: None })
}

/// A value without quotes: ends at white space, or where the syntax around it goes on.
fn bare(text: &[u8], place: Place) -> Option<Value> {
    let (percent, query) = match place.how {
        How::Assigned { percent, query, .. } => (percent, query),
        _ => (false, false),
    };
    // `key: # to be done`: a comment.
    if text.get(place.at) == Some(&b'#') && place.at > 0 && text[place.at - 1].is_ascii_whitespace() {
        return None;
    }
    let outer = open_quote_before(text, place.key);
    if !percent
        && !query
        && let Some(end) = connection_string_end(text, place, outer)
    {
        return Some(Value { range: place.at..end, quoted: false, open: false, wrap: None });
    }
    let mut at = place.at;
    let mut in_row = None;
    while at < text.len() {
        let byte = text[at];
        let ends = match byte {
            0..=b' ' | 0x7f => true,
            b'[' => {
                if let Some(length) = mask_at(text, at) {
                    at += length;
                    continue;
                }
                false
            }
            b'"' | b'\'' | b'`' => {
                outer.is_some_and(|outer| outer.quote == byte) || is_end(text, at + 1) || at == place.at
            }
            b'\\' => {
                let run = backslashes_at(text, at);
                if !outer.is_some_and(|outer| ends_escaped(text, at, run, outer)) {
                    at += run;
                    continue;
                }
                true
            }
            b';' | b',' => {
                is_end(text, at + 1)
                    || pair_follows(text, at + 1)
                    || *in_row.get_or_insert_with(|| rows::separator_around(text, place.key)) == Some(byte)
            }
            b'&' => {
                query
                    || is_parameter(text, at + 1)
                    || Quote::at(text, at).is_some()
                    || text[at..].starts_with(b"&lt;")
            }
            // The fragment behind a query, unless further parameters follow.
            b'#' => query && !goes_on_as_query(text, at + 1),
            // The end of a comment, and of an instruction, of XML.
            b'-' => text[at..].starts_with(b"-->"),
            b'?' => text[at..].starts_with(b"?>"),
            b'%' if percent => {
                let code = text.get(at + 1..at + 3).unwrap_or_default().to_ascii_lowercase();
                matches!(code.as_slice(), b"26" | b"3b" | b"22" | b"27" | b"0a" | b"0d" | b"20" | b"7d")
            }
            b'<' => text.get(at + 1) == Some(&b'/') || text[at..].starts_with(b"<br"),
            b')' | b']' | b'}' | b'>' => is_end(text, at + 1) && opened_before(text, place.key, byte),
            b'|' => is_end(text, at + 1) || is_parameter(text, at + 1),
            _ => false,
        };
        if ends {
            break;
        }
        at += 1;
    }
    if matches!(place.key_quote, Some(KeyQuote::Json(_))) && is_composite(&text[place.at..]) {
        return None;
    }
    // In JSON a mask must stand in quotes.
    let wrap = match place.key_quote {
        Some(KeyQuote::Json(backslashes)) if mask_at(text, place.at).is_none() => Some(backslashes),
        _ => None,
    };
    Some(Value { range: place.at..at, quoted: false, open: at == text.len(), wrap })
}

/// An object or a list of JSON begins here.
fn is_composite(rest: &[u8]) -> bool {
    let inner = rest.get(1..).unwrap_or_default().trim_ascii_start();
    let inner = &inner[inner.iter().take_while(|b| **b == b'\\').count()..];
    matches!(rest.first(), Some(b'{' | b'['))
        && matches!(inner.first(), Some(b'"' | b'{' | b'[' | b'}' | b']'))
}

/// Longest value with blanks and without quotes, in bytes.
const LINE_MAX: usize = 256;

/// Takes the rest of the line into a value that has been accepted, up to a comment, unless more pairs follow.
pub(crate) fn extend_to_line(text: &[u8], value: &mut Value) {
    let from = value.range.end;
    let rest = &text[from..text.len().min(from + LINE_MAX)];
    let Some(end) = rest
        .iter()
        .position(|b| matches!(b, 0..=8 | 10..=0x1f))
        .or((rest.len() < LINE_MAX).then_some(rest.len()))
    else {
        return;
    };
    let rest = &rest[..end];
    let comment =
        rest.windows(2).position(|pair| pair[0].is_ascii_whitespace() && matches!(pair[1], b'#' | b';'));
    let rest = rest[..comment.unwrap_or(end)].trim_ascii_end();
    if !rest.iter().any(|b| matches!(b, b'=' | b'"' | b'['))
        && !rest.windows(2).any(|pair| pair == b": " || pair == b", ")
    {
        value.range.end = from + rest.len();
        value.open = value.range.end == text.len();
    }
}

/// `...;Password=a b c;...`: in a connection string a value may hold white space and ends at the semicolon.
fn connection_string_end(text: &[u8], place: Place, outer: Option<Open>) -> Option<usize> {
    let before = text[..place.key].trim_ascii_end();
    if before.last() != Some(&b';') {
        return None;
    }
    let reach = text.len().min(place.at + 256);
    for at in place.at..reach {
        match text[at] {
            b'\n' | b'\r' | 0 => return None,
            b'[' if mask_at(text, at).is_some() => return None,
            b';' if pair_follows(text, at + 1) || is_end(text, at + 1) => return Some(at),
            b'\\' | b'"' | b'\'' if outer.is_some_and(|outer| outer.is_closed_at(text, at)) => {
                return Some(at);
            }
            _ => {}
        }
    }
    None
}

/// White space, the end, or punctuation that can only close something.
fn is_end(text: &[u8], at: usize) -> bool {
    text.get(at).is_none_or(|b| {
        b.is_ascii_whitespace()
            || matches!(
                b,
                0..=0x1f
                    | b','
                    | b';'
                    | b')'
                    | b']'
                    | b'}'
                    | b'>'
                    | b'"'
                    | b'\''
                    | b'`'
                    | b'.'
                    | b':'
                    | b'\\'
                    | b'&'
                    | b'<'
            )
    })
}

/// Whether the `run` backslashes at `at` begin what ends the value: a line's end, a tabulator or a quote of the string around it.
fn ends_escaped(text: &[u8], at: usize, run: usize, outer: Open) -> bool {
    let behind = &text[at + run..];
    match behind.first() {
        // In a string in a string a line's end has one more.
        Some(b'n' | b'r' | b't') => run <= outer.backslashes + 1,
        Some(quote @ (b'"' | b'\'')) => outer.quote == *quote || outer.quote == b'"',
        _ => behind.starts_with(b"u0022") || behind.starts_with(b"u0027"),
    }
}

/// `name=`, `name:` or `"name"` follows: the next pair of a list.
fn pair_follows(text: &[u8], at: usize) -> bool {
    let rest = &text[at.min(text.len())..text.len().min(at + 64)];
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"amp;").or_else(|| rest.strip_prefix(b"+")).unwrap_or(rest);
    let name = rest
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b' ' | b'"' | b'\''))
        .count();
    name > 0 && matches!(rest.get(name), Some(b'=' | b':')) && rest[0] != b' '
}

/// `x&name=y` follows: what is behind the `#` belongs to a query still.
fn goes_on_as_query(text: &[u8], at: usize) -> bool {
    let word = &text[at..text.len().min(at + 96)];
    let word = &word[..word.iter().position(u8::is_ascii_whitespace).unwrap_or(word.len())];
    memchr::memchr(b'&', word).is_some_and(|and| is_parameter(text, at + and + 1))
}

/// `name=` follows: what stands behind `&`.
fn is_parameter(text: &[u8], at: usize) -> bool {
    let rest = &text[at.min(text.len())..text.len().min(at + 64)];
    let rest = rest.strip_prefix(b"amp;").unwrap_or(rest);
    let name = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || b"_-.".contains(b)).count();
    name > 0 && rest.get(name) == Some(&b'=')
}

/// Is the bracket that `close` closes open in front of the key, on its line?
fn opened_before(text: &[u8], key: usize, close: u8) -> bool {
    let open = match close {
        b')' => b'(',
        b']' => b'[',
        b'}' => b'{',
        _ => b'<',
    };
    let mut depth = 0i32;
    for byte in text[key.saturating_sub(512)..key].iter().rev() {
        if *byte == b'\n' {
            break;
        }
        if *byte == close {
            depth += 1;
        } else if *byte == open {
            depth -= 1;
            if depth < 0 {
                return true;
            }
        }
    }
    false
}

/// Past white space, line ends included.
pub(crate) fn skip_space(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take(64).take_while(|b| b.is_ascii_whitespace()).count()
}

/// Past blanks and the colour codes of terminals.
pub(crate) fn skip_blank(text: &[u8], mut at: usize) -> usize {
    let limit = text.len().min(at.saturating_add(64));
    while at < limit {
        match text[at] {
            b' ' | b'\t' => at += 1,
            _ => match colour_code(&text[at..]) {
                Some(length) => at += length,
                None => break,
            },
        }
    }
    at
}

/// Length of a colour code at the start of `text`: as it is sent, and as loggers write it down.
fn colour_code(text: &[u8]) -> Option<usize> {
    const STARTS: [&[u8]; 7] = [b"\x1b[", b"#033[", b"^[[", b"\\x1b[", b"\\u001b[", b"\\033[", b"\\e["];
    let start = STARTS
        .iter()
        .find(|start| text.len() >= start.len() && text[..start.len()].eq_ignore_ascii_case(start))?;
    let parameters =
        text[start.len()..].iter().take(16).take_while(|b| b.is_ascii_digit() || **b == b';').count();
    let last = text.get(start.len() + parameters)?;
    last.is_ascii_alphabetic().then_some(start.len() + parameters + 1)
}

#[cfg(test)]
mod tests;
