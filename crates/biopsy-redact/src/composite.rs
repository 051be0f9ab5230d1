//! Values of several parts behind one name: lists, lists of numbers, objects, blocks of lines.

use crate::answered;
use crate::below;
use crate::pseudonym::mask_at;
use crate::quote::Quote;
use crate::value::{How, KeyQuote, Place, Value, element, quoted, single, skip_space, until};

/// Most values of one list behind one key.
const LIST_MAX: usize = 64;
/// How far the end of a list of numbers is looked for, in bytes.
const LIST_REACH: usize = 8 << 10;
/// How far into `{ ... }` a value is looked for, in bytes.
const OBJECT_REACH: usize = 512;

/// Reads the value or values at `place`.
pub(crate) fn read(text: &[u8], place: Place) -> Vec<Value> {
    match place.how {
        How::Element => return element(text, place.at).into_iter().collect(),
        How::CodedElement => return until(text, place.at, b"&lt;").into_iter().collect(),
        How::Block => return block(text, place),
        How::Part => {
            let rest = &text[place.at..];
            let end = place.at + memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let end = place.at + text[place.at..end].trim_ascii_end().len();
            return vec![Value { range: place.at..end, quoted: true, open: end == text.len(), wrap: None }];
        }
        How::Assigned { .. } | How::Flag | How::Beside | How::Cell | How::Column => {}
    }
    match text.get(place.at) {
        Some(b'[') if mask_at(text, place.at).is_none() => {
            let values = list(text, place.at + 1);
            if !values.is_empty() {
                return values;
            }
            if let Some(at) = answered::behind_null(text, place) {
                return list(text, at);
            }
            if let Some(KeyQuote::Json(backslashes)) = place.key_quote {
                let inner = skip_space(text, place.at + 1);
                return match text.get(inner) {
                    Some(b'{') => object(text, inner + 1).into_iter().collect(),
                    Some(b'[') => list(text, inner + 1),
                    Some(b'0'..=b'9') => numbers(text, inner, backslashes).into_iter().collect(),
                    _ => Vec::new(),
                };
            }
        }
        Some(b'{') => {
            if let Some(value) = object(text, place.at + 1) {
                return vec![value];
            }
            let values = texts_of_object(text, place.at + 1);
            if !values.is_empty() {
                return values;
            }
        }
        _ => {}
    }
    let Some(value) = single(text, place) else { return Vec::new() };
    let next = if value.quoted { behind_arrow(text, &value) } else { None };
    std::iter::once(value).chain(next).collect()
}

/// `"old" -> "x"`: what the value becomes, as plans and differences write it.
fn behind_arrow(text: &[u8], value: &Value) -> Option<Value> {
    let (_, length) = Quote::at(text, value.range.end)?;
    let rest = text.get(value.range.end + length..)?;
    let arrow = [&b" -> "[..], b" => ", b" \xe2\x86\x92 ", b" -&gt; "]
        .into_iter()
        .find(|arrow| rest.starts_with(arrow))?;
    quoted(text, value.range.end + length + arrow.len())
}

/// `"a", "b"]`
fn list(text: &[u8], at: usize) -> Vec<Value> {
    let mut values = Vec::new();
    let mut at = skip_space(text, at);
    while values.len() < LIST_MAX {
        let Some(value) = quoted(text, at) else { break };
        let Some((_, length)) = Quote::at(text, value.range.end) else {
            values.push(value);
            break;
        };
        at = skip_space(text, value.range.end + length);
        values.push(value);
        if text.get(at) != Some(&b',') {
            break;
        }
        at = skip_space(text, at + 1);
    }
    values
}

/// Fewest numbers of a list that may be a text.
const NUMBERS_MIN: usize = 6;

/// `112, 97, 115, 115]`: bytes as numbers. What stands for all of them is one text of JSON.
fn numbers(text: &[u8], at: usize, backslashes: usize) -> Option<Value> {
    let reach = &text[at..text.len().min(at + LIST_REACH)];
    let end = memchr::memchr(b']', reach)?;
    let inside = reach[..end].trim_ascii_end();
    let commas = inside.iter().filter(|b| **b == b',').count();
    let is_list = inside.iter().all(|b| b.is_ascii_digit() || *b == b',' || b.is_ascii_whitespace());
    (is_list && commas + 1 >= NUMBERS_MIN).then(|| Value {
        range: at..at + inside.len(),
        quoted: true,
        open: false,
        wrap: Some(backslashes),
    })
}

/// `"HasValue": true, "NewValue": "x"}`: the value of `value` or `NewValue`.
fn object(text: &[u8], at: usize) -> Option<Value> {
    let end = text.len().min(at + OBJECT_REACH);
    let end = memchr::memchr(b'}', &text[at..end]).map_or(end, |close| at + close);
    let inside = &text[at..end];
    // `{"S":"x"}`: one text alone.
    if let Some((_, length)) = Quote::at(text, at)
        && inside.len() > length
        && let Some((quote, length)) = Quote::at(text, at).map(|(quote, _)| (quote, length))
    {
        let (name_end, _) = quote.close(text, at + length);
        let colon = name_end + length;
        let is_schema = text
            .get(at + length..name_end)
            .is_some_and(|name| NO_SECRETS.iter().any(|word| name.eq_ignore_ascii_case(word)));
        if name_end - at <= 24 && !is_schema && text.get(colon) == Some(&b':') {
            let value = quoted(text, skip_space(text, colon + 1));
            let is_alone =
                |value: &Value| text.get(skip_space(text, value.range.end + length)) == Some(&b'}');
            if let Some(value) = value.filter(is_alone) {
                return Some(value);
            }
        }
    }
    let found = (0..inside.len().saturating_sub(4)).find(|i| {
        inside[*i..].len() >= 5
            && inside[*i..*i + 5].eq_ignore_ascii_case(b"value")
            && !(*i >= 3 && inside[*i - 3..*i].eq_ignore_ascii_case(b"has"))
    })?;
    let mut at = at + found + 5;
    at += Quote::at(text, at)?.1;
    at = skip_space(text, at);
    if text.get(at) != Some(&b':') {
        return None;
    }
    quoted(text, skip_space(text, at + 1))
}

/// Names in an object under the name of secrets that hold none.
const NO_SECRETS: [&[u8]; 29] = [
    b"pattern",
    b"shape",
    b"title",
    b"locationName",
    b"documentation",
    b"example",
    b"message",
    b"label",
    b"location",
    b"icon",
    b"name",
    b"type",
    b"kind",
    b"id",
    b"path",
    b"engine",
    b"description",
    b"user",
    b"username",
    b"format",
    b"in",
    b"ref",
    b"$ref",
    b"namespace",
    // `"node_modules/js-tokens": {...}` of a lock file
    b"integrity",
    b"resolved",
    b"version",
    b"license",
    b"checksum",
];

/// `"Header": "X-Api-Key", "Store": "database"`: where secrets are looked for and kept, in words.
fn is_way_of_keeping(name: &[u8], value: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] =
        [b"header", b"headername", b"store", b"storage", b"provider", b"backend", b"scheme", b"source"];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
        && value.split(|b| *b == b'-').all(|word| {
            word.first().is_some_and(u8::is_ascii_alphabetic) && word[1..].iter().all(u8::is_ascii_lowercase)
        })
}

/// `"db": "x", "mq": "y"}`: the texts of an object that holds no other values.
fn texts_of_object(text: &[u8], at: usize) -> Vec<Value> {
    let end = text.len().min(at + OBJECT_REACH);
    let mut values = Vec::new();
    let mut at = skip_space(text, at);
    while at < end && values.len() < LIST_MAX {
        let Some(name) = quoted(text, at) else { break };
        let Some((_, length)) = Quote::at(text, name.range.end) else { break };
        let colon = skip_space(text, name.range.end + length);
        if text.get(colon) != Some(&b':') {
            break;
        }
        let Some(value) = quoted(text, skip_space(text, colon + 1)) else { break };
        at = value.range.end + length;
        let is_secret = !NO_SECRETS.iter().any(|word| text[name.range.clone()].eq_ignore_ascii_case(word))
            && !is_way_of_keeping(&text[name.range.clone()], &text[value.range.clone()]);
        if is_secret {
            values.push(value);
        }
        at = skip_space(text, at);
        if text.get(at) != Some(&b',') {
            break;
        }
        at = skip_space(text, at + 1);
    }
    values
}

/// YAML's `key: |`: every following line that is indented deeper than the key.
fn block(text: &[u8], place: Place) -> Vec<Value> {
    let line = memchr::memrchr(b'\n', &text[..place.key]).map_or(0, |newline| newline + 1);
    let prefix = below::in_front(text, line, place.key).len();
    if prefix > 0 && below::next_line(text, place.key, place.at - 1) == Some(place.at + prefix) {
        return block_behind(text, place, line, prefix);
    }
    let indent = |at: usize| text[at..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let key_indent = indent(line);
    let mut values = Vec::new();
    let mut at = place.at;
    while at < text.len() && values.len() < 1000 {
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
        let start = at + indent(at);
        let trimmed = at + text[at..end].trim_ascii_end().len();
        if start < trimmed {
            if indent(at) <= key_indent {
                break;
            }
            values.push(Value { range: start..trimmed, quoted: true, open: end == text.len(), wrap: None });
        }
        at = end + 1;
    }
    values
}

/// The same where a logger wrote something in front of each line.
fn block_behind(text: &[u8], place: Place, line: usize, prefix: usize) -> Vec<Value> {
    let indent = |at: usize| text[at..].iter().take_while(|b| **b == b' ').count();
    let least = indent(line + text[line..place.key].trim_ascii_end().len());
    let mut values = Vec::new();
    let mut newline = place.at - 1;
    while values.len() < 1000 {
        let Some(at) = below::next_line(text, place.key, newline) else { break };
        if at < newline + 1 + prefix || at >= text.len() {
            break;
        }
        let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline);
        let start = at + indent(at);
        let trimmed = at + text[at..end].trim_ascii_end().len();
        if start < trimmed {
            if indent(at) <= least {
                break;
            }
            values.push(Value { range: start..trimmed, quoted: true, open: end == text.len(), wrap: None });
        }
        if end == text.len() {
            break;
        }
        newline = end;
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values behind `k` and a sign, read as they stand behind an assignment.
    fn values<'t>(text: &'t str, sign: &str) -> Vec<&'t str> {
        let key = text.find('k').expect("the name");
        let at = text.find(sign).expect("the sign") + sign.len();
        let key_quote = text[..key].ends_with('"').then_some(KeyQuote::Json(0));
        let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
        let place = Place { key, at, how, key_quote, whole_line: false };
        read(text.as_bytes(), place).into_iter().map(|value| &text[value.range]).collect()
    }

    #[test]
    fn lists_and_objects_have_several_values() {
        for (text, wanted) in [
            ("\"k\":[\"a1\",\"b2\"]", vec!["a1", "b2"]),
            ("\"k\":[ \"a1\" , \"b2\" ]", vec!["a1", "b2"]),
            ("\"k\":[null,\"b2\"]", vec!["b2"]),
            ("\"k\":[null, null]", vec![]),
            ("\"k\":[{\"value\":\"a1\"}]", vec!["a1"]),
            ("\"k\":[[\"a1\",\"b2\"]]", vec!["a1", "b2"]),
            ("\"k\":[112,97,115,115,119,100]", vec!["112,97,115,115,119,100"]),
            ("\"k\":[1,2,3]", vec![]),
            ("\"k\":{\"HasValue\":true,\"NewValue\":\"a1\"}", vec!["a1"]),
            ("\"k\":{\"S\":\"a1\"}", vec!["a1"]),
            ("\"k\":{\"type\":\"a1\"}", vec![]),
            ("\"k\":{\"db\":\"a1\",\"mq\":\"b2\"}", vec!["a1", "b2"]),
            ("\"k\":{\"db\":\"a1\",\"user\":\"b2\"}", vec!["a1"]),
            ("\"k\":{\"Header\":\"X-Api-Key\",\"Store\":\"database\"}", vec![]),
            ("\"k\":{\"version\":\"4.0.0\",\"integrity\":\"sha512-x\"}", vec![]),
            ("\"k\":{\"Header\":\"a1\",\"store\":\"b2\"}", vec!["a1", "b2"]),
            ("\"k\":{}", vec![]),
            ("\"k\":\"a1\" -> \"b2\"", vec!["a1", "b2"]),
        ] {
            assert_eq!(values(text, ":"), wanted, "{text}");
        }
    }

    #[test]
    fn blocks_end_where_the_indent_does() {
        let block = |text: &str, key: &str| -> Vec<String> {
            let key = text.find(key).expect("the name");
            let at = key + text[key..].find("|\n").expect("a block") + 2;
            let place = Place { key, at, how: How::Block, key_quote: None, whole_line: false };
            let range = |value: Value| text[value.range].to_owned();
            read(text.as_bytes(), place).into_iter().map(range).collect()
        };
        assert_eq!(block("k: |\n  a1\n  b2\nx: y\n", "k"), ["a1", "b2"]);
        assert_eq!(block("k: |\n\n  a1\n\n  b2", "k"), ["a1", "b2"]);
        assert_eq!(block("m:\n  k: |\n    a1\n  x: y\n", "k"), ["a1"]);
        assert_eq!(block("10:11:12 D - k: |\n10:11:13 D -   a1\n10:11:13 D - x: y\n", "k"), ["a1"]);
    }

    proptest::proptest! {
        #[test]
        fn values_are_inside_of_the_text(rest in "[a1\\[\\]{}\": ,nul|\n>-]{0,60}", quoted in proptest::bool::ANY) {
            let text = if quoted { format!("\"k\":{rest}") } else { format!("k: {rest}") };
            for value in values(&text, ":") {
                proptest::prop_assert!(value.len() <= rest.len());
            }
        }
    }
}
