//! Values beside a name that is itself one: `name="password" value="x"`, `{"k":"password","v":"x"}`.

use std::ops::Range;

use crate::below;
use crate::quote::Quote;
use crate::value::{How, KeyQuote, Place, skip_blank, skip_space};

/// How far an attribute `value=` may be from `name="password"`, in bytes.
pub(crate) const ATTRIBUTE_REACH: usize = 256;
/// Other names of values in objects.
const SHORT_VALUES: [&[u8]; 11] = [
    b"\"v\"",
    b"\"val\"",
    b"\"new\"",
    b"\"after\"",
    b"\"data\"",
    b"\"content\"",
    b" content=",
    b" default=",
    b" data=",
    b" val=",
    b" text=",
];

/// `name="key" value="x"`, `{"name": "KEY", "value": "x"}`, `- name: KEY` with `value: x` on the next line,
/// `<setting name="key"><value>x</value>`.
pub(crate) fn attribute(text: &[u8], name: &Range<usize>, quoted: bool) -> Option<Place> {
    // `Database:Password` is a path.
    let path = text[..name.start]
        .iter()
        .rev()
        .take(64)
        .take_while(|b| b.is_ascii_alphanumeric() || b":_.-/".contains(b))
        .count();
    let is_path = path > 0 && path < 64 && matches!(text[name.start - 1], b':' | b'/');
    let start = if is_path { name.start - path } else { name.start };
    // `"path":"/password","value":"x"`
    let is_beside = [&b"\",\"value\":"[..], b"\", \"value\":", b"\\\",\\\"value\\\":"]
        .iter()
        .any(|behind| text[name.end..].starts_with(behind));
    let is_patch = is_path
        && text[start] == b'/'
        && (is_beside || memchr::memmem::find(&text[start.saturating_sub(48)..start], b"op").is_some());
    let mut before = &text[start.saturating_sub(32)..start];
    if quoted {
        let trimmed = before.iter().rposition(|b| !matches!(b, b'"' | b'\'' | b'\\')).map_or(0, |at| at + 1);
        before = &before[..trimmed];
    }
    before = before.trim_ascii_end();
    let assigned = before.strip_suffix(b"=").or_else(|| before.strip_suffix(b":"));
    if assigned.is_none()
        && let Some(place) = option_behind(text, name, before).or_else(|| behind_list(text, name, quoted))
    {
        return Some(place);
    }
    let before = assigned?;
    let before = before.trim_ascii_end();
    let end = before.iter().rposition(|b| !matches!(b, b'"' | b'\'' | b'\\')).map_or(0, |at| at + 1);
    let label_start = before[..end].iter().rposition(|b| !b.is_ascii_alphabetic()).map_or(0, |at| at + 1);
    let label = before[label_start..end].to_ascii_lowercase();
    let names = match label.as_slice() {
        b"name" | b"key" | b"property" | b"variable" | b"field" | b"setting" | b"option" | b"type"
        | b"id" | b"param" | b"parameter" | b"k" | b"n" | b"label" | b"attribute" | b"header" | b"title" => {
            true
        }
        // `{"op":"replace","path":"/password","value":"x"}`, `SET value='x' WHERE path='a/password'`
        b"path" => is_patch || is_condition(text, start),
        label => label.ends_with(b"name") || label.ends_with(b"key"),
    };
    if !names {
        return None;
    }
    let quote = Quote::at(text, name.end).map_or(0, |(_, length)| length);
    let behind = name.end + quote;
    if quoted && text[behind..].starts_with(b"><![CDATA[") {
        let at = behind + b"><![CDATA[".len();
        return Some(Place { key: name.start, at, how: How::Element, key_quote: None, whole_line: false });
    }
    if quoted
        && text.get(behind) == Some(&b'>')
        && text.get(behind + 1).is_some_and(|b| *b != b'<' && !b.is_ascii_whitespace())
    {
        return Some(Place {
            key: name.start,
            at: behind + 1,
            how: How::Element,
            key_quote: None,
            whole_line: false,
        });
    }
    if quoted
        && label == b"name"
        && let Some(part) = below::of_part(text, name.start, behind)
    {
        return Some(Place {
            key: name.start,
            at: part.start,
            how: How::Part,
            key_quote: None,
            whole_line: false,
        });
    }
    let reach = &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)];
    let stop = [b"}".as_slice(), b"/>", b"</", b"\n\n", b"- name"]
        .iter()
        .filter_map(|end| memchr::memmem::find(reach, end))
        .min()
        .unwrap_or(reach.len());
    let found = (0..stop.saturating_sub(4)).find(|at| {
        reach[*at..].len() >= 5
            && reach[*at..*at + 5].eq_ignore_ascii_case(b"value")
            && *at > 0
            && (!reach[*at - 1].is_ascii_alphanumeric()
                || [&b"new"[..], b"parameter", b"option", b"property", b"setting", b"string"]
                    .iter()
                    .any(|word| reach[..*at].to_ascii_lowercase().ends_with(word)))
            && !reach.get(*at + 5).is_some_and(u8::is_ascii_alphanumeric)
    });
    // `{"k":"password","v":"x"}`, `{"field":"password","new":"x"}`.
    let short = |word: &&[u8]| memchr::memmem::find(&reach[..stop], word).map(|at| (at + 1, word.len() - 2));
    let found =
        found.map(|found| (found, 5)).or_else(|| SHORT_VALUES.iter().filter(|_| quoted).find_map(short));
    let Some((found, length)) = found else {
        return value_in_front(text, name, &label).or_else(|| in_tag(text, name, quoted));
    };
    let mut at = name.end + found + length;
    at += Quote::at(text, at).map_or(0, |(_, length)| length);
    at = skip_blank(text, at);
    match text.get(at)? {
        b'=' | b':' => {
            let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
            Some(Place {
                key: name.start,
                at: skip_space(text, at + 1),
                how,
                key_quote: quoted.then_some(KeyQuote::Other),
                whole_line: false,
            })
        }
        b'>' => {
            Some(Place { key: name.start, at: at + 1, how: How::Element, key_quote: None, whole_line: false })
        }
        _ => None,
    }
}

/// Is what stands at `at` compared in a statement of SQL: `WHERE path='x'`?
fn is_condition(text: &[u8], at: usize) -> bool {
    let before = text[at.saturating_sub(48)..at].to_ascii_lowercase();
    memchr::memmem::rfind(&before, b"where ").is_some()
}

/// `-name 'key' -value 'x'`, `--key key --value x`: options of one command, as PowerShell and many tools have them. `before` ends with
/// the first one.
fn option_behind(text: &[u8], name: &Range<usize>, before: &[u8]) -> Option<Place> {
    let label = before.iter().rev().take_while(|b| b.is_ascii_alphabetic()).count();
    let (head, label) = before.split_at(before.len() - label);
    let names = [&b"name"[..], b"key", b"variable", b"setting", b"property", b"parameter", b"n", b"k"];
    let dashes = head.iter().rev().take_while(|b| **b == b'-').count();
    let begins = head.len() == dashes || head[head.len() - dashes - 1].is_ascii_whitespace();
    if !(1..=2).contains(&dashes) || !begins || !names.contains(&label.to_ascii_lowercase().as_slice()) {
        return None;
    }
    let behind = name.end + Quote::at(text, name.end).map_or(0, |(_, length)| length);
    let rest = &text[behind..text.len().min(behind + ATTRIBUTE_REACH)];
    let line = &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())];
    let lower = line.to_ascii_lowercase();
    let option = [&b" -value"[..], b" --value"]
        .iter()
        .find_map(|option| Some(memchr::memmem::find(&lower, option)? + option.len()))?;
    let sign = line.get(option).filter(|b| matches!(b, b' ' | b'=' | b':' | b'\t'))?;
    let at = skip_blank(text, behind + option + usize::from(!sign.is_ascii_whitespace()));
    Some(Place { key: name.start, at, how: How::Flag, key_quote: None, whole_line: false })
}

/// `{"path":["shop","key"],"from":"","to":"x"}`: the name ends a path that is a list.
fn behind_list(text: &[u8], name: &Range<usize>, quoted: bool) -> Option<Place> {
    let (_, length) = Quote::at(text, name.end).filter(|_| quoted)?;
    text[name.end + length..].strip_prefix(b"]")?;
    let before = &text[name.start.saturating_sub(ATTRIBUTE_REACH / 2)..name.start];
    let open = memchr::memrchr(b'[', before)?;
    let label = before[..open].trim_ascii_end().strip_suffix(b":")?;
    let label = &label[..label.iter().rposition(u8::is_ascii_alphabetic)? + 1];
    let is_path = [&b"path"[..], b"Path", b"key", b"keys", b"loc"].iter().any(|word| label.ends_with(word));
    let rest = &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)];
    let rest = &rest[..memchr::memchr(b'}', rest).unwrap_or(rest.len())];
    let found = [&b"to"[..], b"new", b"value", b"after", b"rhs", b"newValue"].into_iter().find_map(|word| {
        memchr::memmem::find_iter(rest, word).find_map(|at| {
            let before = rest[..at].last().is_some_and(|b| matches!(b, b'"' | b'\''));
            let (_, quote) = Quote::at(rest, at + word.len()).filter(|_| before)?;
            let sign = skip_blank(rest, at + word.len() + quote);
            (rest.get(sign) == Some(&b':')).then(|| skip_blank(rest, sign + 1))
        })
    });
    let at = name.end + found.filter(|_| is_path)?;
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    Some(Place { key: name.start, at, how, key_quote: Some(KeyQuote::Other), whole_line: false })
}

/// `<item name="key" type="string">x</item>`: behind the rest of the tag.
fn in_tag(text: &[u8], name: &Range<usize>, quoted: bool) -> Option<Place> {
    let rest = &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)];
    let close =
        memchr::memchr2(b'>', b'<', rest).filter(|at| quoted && rest[*at] == b'>' && rest[at - 1] != b'/')?;
    let value = rest.get(close + 1).is_some_and(|b| *b != b'<' && !b.is_ascii_whitespace());
    let is_closed = memchr::memmem::find(&rest[close..], b"</").is_some();
    (value && is_closed && !rest[..close].contains(&b'\n')).then_some(Place {
        key: name.start,
        at: name.end + close + 1,
        how: How::Element,
        key_quote: None,
        whole_line: false,
    })
}

/// `value="x" key="password"`, `{"value":"x","name":"password"}`: the value stands in front of the name.
fn value_in_front(text: &[u8], name: &Range<usize>, label: &[u8]) -> Option<Place> {
    if label == b"type" {
        return None;
    }
    let from = name.start.saturating_sub(ATTRIBUTE_REACH);
    let before = &text[from..name.start];
    let open =
        before.iter().rposition(|b| matches!(b, b'{' | b'<' | b'\n' | b'>' | b'}')).map_or(0, |at| at + 1);
    let lower = before[open..].to_ascii_lowercase();
    // `<Variable Default="x" Name="key"/>`
    let is_tag = open > 0 && before[open - 1] == b'<';
    let (at, length) = memchr::memmem::rfind(&lower, b"value").map(|at| (open + at, 5)).or_else(|| {
        let at = memchr::memmem::rfind(&lower, b" default=").filter(|_| is_tag)?;
        Some((open + at + 1, 7))
    })?;
    // `SET option_value='x' WHERE option_name='key'`
    let is_word = at > 0 && matches!(before[at - 1], b' ' | b'"' | b'\'' | b'{' | b',' | b'_');
    let mut behind = from + at + length;
    behind += Quote::at(text, behind).map_or(0, |(_, length)| length);
    behind = skip_blank(text, behind);
    let is_assigned = matches!(text.get(behind), Some(b'=' | b':'));
    let value = skip_blank(text, behind + 1);
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    (is_word && is_assigned && Quote::at(text, value).is_some()).then_some(Place {
        key: name.start,
        at: value,
        how,
        key_quote: Some(KeyQuote::Other),
        whole_line: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<&str> {
        let at = text.find("kk").expect("the name");
        let name = at..at + 2;
        let quoted = matches!(text.as_bytes().get(name.end), Some(b'"' | b'\'' | b'\\'));
        let place = attribute(text.as_bytes(), &name, quoted)?;
        let value = text[place.at..].trim_start_matches(['\'', '"', '\\']);
        Some(&value[..value.find(['\'', '"', '\\', '<', '\n', ' ', '\r']).unwrap_or(value.len())])
    }

    #[test]
    fn values_of_names_that_are_values_themselves_are_found() {
        for (text, value) in [
            ("<add key=\"kk\" value=\"v1\" />", Some("v1")),
            ("<property name='kk' value='v1'/>", Some("v1")),
            ("{\"name\": \"kk\", \"value\": \"v1\"}", Some("v1")),
            ("{\"name\":\"kk\",\"value\":\"v1\"}", Some("v1")),
            ("{\\\"name\\\":\\\"kk\\\",\\\"value\\\":\\\"v1\\\"}", Some("v1")),
            ("{\"k\":\"kk\",\"v\":\"v1\"}", Some("v1")),
            ("{\"Key\":\"Smtp:kk\",\"Value\":\"v1\"}", Some("v1")),
            ("- name: kk\n  value: v1\n", Some("v1")),
            ("<setting name=\"kk\" serializeAs=\"String\"><value>v1</value></setting>", Some("v1")),
            ("[{\"op\":\"replace\",\"path\":\"/data/kk\",\"value\":\"v1\"}]", Some("v1")),
            ("<meta name=\"kk\" content=\"v1\" />", Some("v1")),
            ("<input type=\"kk\" value=\"v1\">", Some("v1")),
            ("Set-Variable -Name 'kk' -Value 'v1' -Force", Some("v1")),
            ("tool set --key kk --value=v1", Some("v1")),
            ("UPDATE t SET option_value='v1' WHERE option_name='kk'", Some("v1")),
            ("UPDATE t SET value='v1' WHERE path='a/b/kk'", Some("v1")),
            ("<option name=\"kk\"><![CDATA[v1]]></option>", Some("v1]]>")),
            ("{\"id\":7,\"title\":\"kk\",\"content\":\"v1\"}", Some("v1")),
            ("{\"path\":[\"shop\",\"kk\"],\"from\":\"\",\"to\":\"v1\"}", Some("v1")),
            ("{'path': ['kk'], 'old': 'x', 'new': 'v1'}", Some("v1")),
            ("{\"tags\":[\"shop\",\"kk\"],\"to\":\"v1\"}", None),
            ("{\"path\":[\"kk\",\"x\"],\"to\":\"v1\"}", None),
            // Nothing that names, and nothing that holds.
            ("{\"user\":\"kk\",\"value\":\"v1\"}", None),
            ("{\"path\":\"/data/kk\",\"value\":\"v1\"}", Some("v1")),
            ("{\"path\":\"/data/kk\",\"x\":1,\"value\":\"v1\"}", None),
            ("<add key=\"kk\" />\n<add key=\"x\" value=\"v1\" />", None),
            ("name kk", None),
            ("tool --file kk --value v1", None),
            ("tool --key kk\n --value v1", None),
            ("kk", None),
        ] {
            assert_eq!(of(text), value, "{text}");
        }
    }

    #[test]
    fn values_in_front_of_their_names_are_found() {
        for (text, value) in [
            ("<Variable Default=\"v1\" Name=\"kk\" />", Some("v1")),
            ("<Variable Value=\"v1\" Name=\"kk\" />", Some("v1")),
            ("{\"default\":\"v1\",\"name\":\"kk\"}", None),
            ("<a Default=\"v1\"/><b Name=\"kk\"/>", None),
        ] {
            assert_eq!(of(text), value, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn places_are_inside_of_the_text(before in "[name=:\"'\\\\ {</-]{0,20}", behind in "[value=:\"'\\\\,1 >\n-]{0,40}", quoted in proptest::bool::ANY) {
            let text = format!("{before}kk{behind}");
            let name = before.len()..before.len() + 2;
            if let Some(place) = attribute(text.as_bytes(), &name, quoted) {
                proptest::prop_assert!(place.at >= name.end && place.at <= text.len());
            }
        }
    }
}
