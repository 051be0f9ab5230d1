//! Values that a tool reports behind a name it has wrapped: in a sentence (`Found key 'k' with value v`), behind a type (`param k string = 'v'`),
//! behind the reference of a build (`$(k)="v"`), in a command to its agent (`##vso[task.setvariable variable=k]v`), on the line below a path.

use std::ops::Range;

use crate::plausible;
use crate::quote::Quote;
use crate::value::{How, Place, quoted, skip_blank};

/// How far behind the name its value may be reported, in bytes.
const REACH: usize = 160;
/// Longest type between a name and its value, in bytes.
const TYPE_MAX: usize = 40;
/// What a tool calls what it names.
const CALLED: [&[u8]; 16] = [
    b"key",
    b"property",
    b"setting",
    b"variable",
    b"option",
    b"parameter",
    b"param",
    b"field",
    b"entry",
    b"attribute",
    b"config",
    b"env",
    b"header",
    b"secret",
    b"argument",
    b"cookie",
];
/// What it says in front of the value.
const SAYS: [&[u8]; 9] = [
    b" value of type ",
    b" value ",
    b" value: ",
    b" value=",
    b" resolved to ",
    b" set to ",
    b" changed to ",
    b" overridden by ",
    b" = ",
];

/// Where the value of a wrapped name is.
pub(crate) fn place(text: &[u8], name: &Range<usize>) -> Option<Place> {
    let at = in_sentence(text, name)
        .or_else(|| behind_reference(text, name))
        .or_else(|| behind_path_of_store(text, name))
        .or_else(|| behind_type(text, name.end))
        .or_else(|| in_command(text, name))
        .or_else(|| changed(text, name))
        .or_else(|| below_path(text, name))
        .or_else(|| below_number(text, name))
        .or_else(|| in_validation(text, name))?;
    let how = How::Assigned { prose: false, percent: false, query: false, compared: false };
    Some(Place { key: name.start, at, how, key_quote: None, whole_line: false })
}

/// `Found key 'k' in source 's' with value of type String: v`, `Property [k] resolved to [v]`, `key 'k' value 'v'`
fn in_sentence(text: &[u8], name: &Range<usize>) -> Option<usize> {
    // `'spring.datasources[2].password'`: the name ends a path.
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || b"_.-:[]".contains(b);
    let path = text[..name.start].iter().rev().take(64).take_while(is_path).count();
    let is_quoted = |at: usize| at > 0 && matches!(text[at - 1], b'\'' | b'"' | b'`');
    let start = if is_quoted(name.start - path) { name.start - path } else { name.start };
    let open = *text.get(start.checked_sub(1)?)?;
    let close = match open {
        b'\'' | b'"' | b'`' => open,
        b'[' => b']',
        b'<' => b'>',
        _ => return None,
    };
    if text.get(name.end) != Some(&close) {
        return None;
    }
    let before = text[..start - 1].strip_suffix(b" ")?;
    let length = before.iter().rev().take(16).take_while(|b| b.is_ascii_alphabetic()).count();
    let word = &before[before.len() - length..];
    if !CALLED.iter().any(|called| called.eq_ignore_ascii_case(word)) {
        return None;
    }
    let rest = line(text, name.end + 1);
    let (at, says) = SAYS
        .iter()
        .filter_map(|says| memchr::memmem::find(rest, says).map(|at| (at, says)))
        .min_by_key(|(at, says)| (*at, usize::MAX - says.len()))?;
    let mut start = at + says.len();
    if says.ends_with(b"type ") {
        start += memchr::memmem::find(&rest[start..], b": ")? + 2;
    }
    let start = name.end + 1 + start;
    let start = skip_blank(text, start);
    Some(start + usize::from(matches!(text.get(start), Some(b'[' | b'<'))))
}

/// `set /shop/k v`, `put /shop/k v`: commands of ZooKeeper, etcd, Consul and their kin.
fn behind_path_of_store(text: &[u8], name: &Range<usize>) -> Option<usize> {
    const VERBS: [&[u8]; 5] = [b"set ", b"put ", b"create ", b"PUT ", b"SET "];
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || b"_.-/".contains(b);
    let path = name.start - text[..name.start].iter().rev().take(96).take_while(is_path).count();
    let before = &text[path.saturating_sub(8)..path];
    let is_command =
        text[path..name.start].ends_with(b"/") && VERBS.iter().any(|verb| before.ends_with(verb));
    let rest = text.get(name.end..text.len().min(name.end + REACH))?.strip_prefix(b" ")?;
    let word = &rest[..rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len())];
    let is_value = plausible::is_of_a_cell(word) || plausible::is_no_word(word) || plausible::is_uuid(word);
    // `PUT /oauth/token HTTP/1.1` is a request.
    (is_command && is_value && !word.starts_with(b"HTTP/")).then_some(name.end + 1)
}

/// `$(k)="v"`, `${k} = "v"`, `Substituting ${shop.k} with v`
fn behind_reference(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || b"_.-".contains(b);
    let path = name.start - text[..name.start].iter().rev().take(64).take_while(is_path).count();
    let before = if text[..path].ends_with(b"${") { &text[..path] } else { &text[..name.start] };
    let close = if before.ends_with(b"$(") {
        b')'
    } else if before.ends_with(b"${") {
        b'}'
    } else {
        return None;
    };
    (text.get(name.end) == Some(&close)).then_some(())?;
    if let Some(said) = text[name.end + 1..].strip_prefix(b" with ") {
        let word = &said
            [..said.iter().take(REACH).position(u8::is_ascii_whitespace).unwrap_or(said.len().min(REACH))];
        let is_value =
            plausible::is_of_a_cell(word) || plausible::is_no_word(word) || plausible::is_uuid(word);
        return is_value.then_some(name.end + 1 + 6);
    }
    let sign = skip_blank(text, name.end + 1);
    (text.get(sign) == Some(&b'=')).then_some(())?;
    let at = skip_blank(text, sign + 1);
    Quote::at(text, at).map(|_| at)
}

/// `k string = 'v'`, `k nvarchar(64) = N'v'`, `k As String = "v"`
fn behind_type(text: &[u8], end: usize) -> Option<usize> {
    let rest = text.get(end..text.len().min(end + TYPE_MAX + 8))?.strip_prefix(b" ")?;
    let kind = rest
        .iter()
        .take(TYPE_MAX)
        .take_while(|b| b.is_ascii_alphanumeric() || b"_ ()<>[]?.*".contains(b))
        .count();
    let named = rest[..kind].trim_ascii_end();
    let is_type = named.first().is_some_and(u8::is_ascii_alphabetic)
        && named.iter().filter(|b| **b == b' ').count() <= 1
        // `Pass Through<a class="x"`: what opens and is not closed is markup.
        && [(b'<', b'>'), (b'(', b')'), (b'[', b']')].iter().all(|(open, close)| {
            let count = |sign: u8| named.iter().filter(|b| **b == sign).count();
            count(*open) == count(*close)
        });
    let sign = rest[kind..].strip_prefix(b":").unwrap_or(&rest[kind..]);
    // `Pass CFLAGS="-O"` is a sentence: nobody writes a type and its value without a blank between them.
    let is_apart = rest[..kind].ends_with(b" ") || sign.len() < rest[kind..].len();
    let value = sign.strip_prefix(b"=").filter(|_| is_type && is_apart)?.trim_ascii_start();
    let value = match value {
        [b'N' | b'@' | b'L' | b'b' | b'u' | b'r', quoted @ ..]
            if matches!(quoted.first(), Some(b'"' | b'\'')) =>
        {
            quoted
        }
        _ => value,
    };
    let at = end + 1 + rest.len() - value.len();
    matches!(value.first(), Some(b'"' | b'\'' | b'`')).then_some(at)
}

/// `##vso[task.setvariable variable=k;issecret=true]v`, `::set-output name=k::v`
fn in_command(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let start = text[..name.start].iter().rev().take(REACH).take_while(|b| **b != b'\n').count();
    let before = &text[name.start - start..name.start];
    let rest = line(text, name.end);
    before.ends_with(b"=").then_some(())?;
    let close = if memchr::memmem::find(before, b"##").is_some() && before.contains(&b'[') {
        matches!(rest.first(), Some(b']' | b';')).then(|| memchr::memchr(b']', rest))?? + 1
    } else if memchr::memmem::find(before, b"::").is_some() && rest.starts_with(b"::") {
        2
    } else {
        return None;
    };
    rest.get(close).is_some_and(|b| b.is_ascii_graphic() || *b >= 0x80).then_some(name.end + close)
}

/// `/shop/config/k` and on the line below `v`, as stores of settings list them.
fn below_path(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let start = text[..name.start].iter().rev().take(REACH).take_while(|b| **b != b'\n').count();
    let path = &text[name.start - start..name.start];
    let is_path = path.starts_with(b"/")
        && path.ends_with(b"/")
        && path.len() > 1
        && path.iter().all(|b| b.is_ascii_alphanumeric() || b"/._-:".contains(b));
    let at = end_of_line(text, name.end).filter(|_| is_path)?;
    let value = line(text, at);
    let value = value.strip_suffix(b"\r").unwrap_or(value);
    let is_value = !value.starts_with(b"/")
        && !value.iter().any(u8::is_ascii_whitespace)
        && (plausible::is_of_a_cell(value) || plausible::is_no_word(value));
    is_value.then_some(at)
}

/// `changed k from "u" to "v"`, `setting k to v`: what whoever keeps account of settings writes.
fn changed(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let rest = line(text, name.end);
    if let Some(old) = rest.strip_prefix(b" from ") {
        let value = quoted(old, 0)?;
        let (_, length) = Quote::at(old, value.range.end)?;
        let to = old.get(value.range.end + length..)?.strip_prefix(b" to ")?;
        return Quote::at(to, 0).map(|_| name.end + rest.len() - to.len());
    }
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || b"_.-".contains(b);
    let path = name.start - text[..name.start].iter().rev().take(64).take_while(is_path).count();
    let before = &text[path.saturating_sub(8)..path];
    let value = rest.strip_prefix(b" to ")?;
    let word = &value[..value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len())];
    let is_value = plausible::is_of_a_cell(word) || plausible::is_no_word(word) || plausible::is_uuid(word);
    let is_set = [&b"setting "[..], b"Setting "].iter().any(|verb| before.ends_with(verb));
    (is_set && is_value).then_some(name.end + b" to ".len())
}

/// `k` alone in a line, and on the one below what is wrong with it: `... [type=string_too_long, input_value='v', input_type=str]`
fn in_validation(text: &[u8], name: &Range<usize>) -> Option<usize> {
    const SAYS: &[u8] = b"input_value=";
    let start = text[..name.start].iter().rev().take(REACH).take_while(|b| **b != b'\n').count();
    let is_path = |b: &u8| b.is_ascii_alphanumeric() || b"_.-".contains(b);
    let below = end_of_line(text, name.end)
        .filter(|_| text[name.start - start..name.start].trim_ascii_start().iter().all(is_path))?;
    let says = memchr::memmem::find(line(text, below), SAYS)?;
    let at = below + says + SAYS.len();
    Quote::at(text, at).map(|_| at)
}

/// `1) "k"` and on the line below `2) "v"`
fn below_number(text: &[u8], name: &Range<usize>) -> Option<usize> {
    let is_item = text[..name.start].ends_with(b") \"") && text.get(name.end) == Some(&b'"');
    let at = end_of_line(text, name.end + 1).filter(|_| is_item)?;
    let rest = line(text, at);
    let item = memchr::memmem::find(&rest[..rest.len().min(24)], b") \"")?;
    let number = rest[..item].iter().rev().take_while(|b| b.is_ascii_digit()).count();
    (number > 0).then_some(at + item + 2)
}

/// Where the next line begins, if this one ends at `at`.
fn end_of_line(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at..)? {
        [b'\n', ..] => Some(at + 1),
        [b'\r', b'\n', ..] => Some(at + 2),
        _ => None,
    }
}

/// The rest of the line, for as far as it is looked at.
fn line(text: &[u8], at: usize) -> &[u8] {
    let rest = text.get(at..).unwrap_or_default();
    let rest = &rest[..rest.len().min(REACH)];
    &rest[..memchr::memchr(b'\n', rest).unwrap_or(rest.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let at = text.find(name).expect("the name");
        let place = place(text.as_bytes(), &(at..at + name.len()))?;
        let value = text[place.at..].trim_start_matches(['\'', '"']);
        Some(&value[..value.find(['\'', '"', ']', '\n', ' ']).unwrap_or(value.len())])
    }

    #[test]
    fn values_of_wrapped_names_are_found() {
        for (text, value) in [
            ("Found key 'kk' in PropertySource 'env' with value of type String: v1x", Some("v1x")),
            ("conf: key 'kk' value 'v1x'", Some("v1x")),
            ("Property [kk] resolved to [v1x]", Some("v1x")),
            ("setting \"kk\" changed to \"v1x\"", Some("v1x")),
            ("user 'kk' changed to 'v1x'", None),
            ("key 'kk' was not found", None),
            ("Property reassignment: $(kk)=\"v1x\" (previous value: \"\")", Some("v1x")),
            ("echo $(kk) = x", None),
            ("param kk string = 'v1x'", Some("v1x")),
            ("DECLARE @kk nvarchar(64) = N'v1x';", Some("v1x")),
            ("Dim kk As String = \"v1x\"", Some("v1x")),
            ("var kk string := `x`", Some("`x`")),
            ("kk of the user bob = 'x'", None),
            ("kk Through<a class=\"headerlink\"", None),
            ("kk: x", None),
            ("kk CFLAGS=\"-O2 -g\" to it", None),
            ("##vso[task.setvariable variable=kk]v1x", Some("v1x")),
            ("##vso[task.setvariable variable=kk;isSecret=true]v1x", Some("v1x")),
            ("::set-output name=kk::v1x", Some("v1x")),
            ("x=kk::v1x", None),
            ("/shop/config/kk\nTree-77-a\n", Some("Tree-77-a")),
            ("/shop/config/kk\n/shop/config/port\n", None),
            ("/shop/config/kk\nsome more words\n", None),
            ("1) \"kk\"\n2) \"v1x\"\n", Some("v1x")),
            ("1) \"kk\"\nOK\n", None),
            ("ann changed kk from \"\" to \"v1x\"", Some("v1x")),
            ("ann changed kk from 'u' to 'v1x'", Some("v1x")),
            ("ann moved kk from here to there", None),
            ("INFO setting kk to Tree-77-a", Some("Tree-77-a")),
            ("INFO setting kk to nothing", None),
            ("reset kk to Tree-77-a", None),
            ("kk\n  Too long [type=x, input_value='v1x', input_type=str]", Some("v1x")),
            ("see kk\n  Too long [type=x, input_value='v1x']", None),
            ("PUT /oauth/kk HTTP/1.1", None),
            ("put /oauth/kk Tree-77-a", Some("Tree-77-a")),
        ] {
            assert_eq!(of(text, "kk"), value, "{text}");
        }
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
