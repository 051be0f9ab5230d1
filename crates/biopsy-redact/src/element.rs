//! Values in elements that are called after a secret: `<key>v</key>`, `<x:key a="b">v`, also coded.

use std::ops::Range;

use crate::attribute::ATTRIBUTE_REACH;
use crate::value::{How, Place};

/// How far the end of an element may be from its beginning, in bytes: longer than any token.
const CLOSING_REACH: usize = 16 << 10;

/// `<key>` or `<x:key a="b">`.
pub(crate) fn element(text: &[u8], name: &Range<usize>) -> Option<Place> {
    // Most names stand in no tag, and end here.
    if !text[..name.start].ends_with(b"<")
        && !text[..name.start].ends_with(b"&lt;")
        && !text[..name.start].ends_with(b":")
    {
        return None;
    }
    // The line that a logger of JSON wrote ends behind the tag.
    let tag_end = memchr::memchr(b'>', &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)]);
    let behind = tag_end.map_or(&text[name.end..], |tag_end| &text[name.end + tag_end + 1..]);
    if tag_end.is_some()
        && [&b"\\n\""[..], b"\\r\\n\"", b"\\\\n\\\""].iter().any(|end| behind.starts_with(end))
    {
        return None;
    }
    let before = &text[..name.start];
    let before = match before.split_last() {
        Some((b':', prefix)) => {
            let length =
                prefix.iter().rev().take(16).take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            &prefix[..prefix.len() - length]
        }
        _ => before,
    };
    if let Some(outer) = before.strip_suffix(b"&lt;") {
        let rest = &text[name.end..];
        if rest
            .strip_prefix(b"&gt;")
            .is_some_and(|behind| is_type_argument(outer, &text[name.clone()], behind))
        {
            return None;
        }
        return rest.starts_with(b"&gt;").then_some(Place {
            key: name.start,
            at: name.end + 4,
            how: How::CodedElement,
            key_quote: None,
            whole_line: false,
        });
    }
    let outer = before.strip_suffix(b"<")?;
    if text[name.end..]
        .strip_prefix(b">")
        .is_some_and(|behind| is_type_argument(outer, &text[name.clone()], behind))
    {
        return None;
    }
    let tag = &text[name.end..text.len().min(name.end + ATTRIBUTE_REACH)];
    let close = memchr::memchr2(b'>', b'<', tag)?;
    let opens =
        tag[close] == b'>' && (close == 0 || (tag[0].is_ascii_whitespace() && tag[close - 1] != b'/'));
    opens.then_some(Place {
        key: name.start,
        at: name.end + close + 1,
        how: How::Element,
        key_quote: None,
        whole_line: false,
    })
}

/// Whether what looks like an element is part of the name of code: `ValueTask<AccessToken>.GetAwaiter`, `<GetAccessToken>d__5.MoveNext`.
/// Seen in the stacks of every program with `Azure.Core`: the rest of the name was learned as a secret, found everywhere, and no
/// bundle was made.
fn is_type_argument(outer: &[u8], name: &[u8], behind: &[u8]) -> bool {
    // An element that is closed is one, whatever stands in it.
    if is_closed(name, behind) {
        return false;
    }
    // What compilers make: `d__5`, `g__Inner|3_0`, `c__DisplayClass`.
    if let [b'b' | b'c' | b'd' | b'g', b'_', b'_', ..] = behind {
        return true;
    }
    let of_type = outer.last().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let goes_on = behind.first().is_none_or(|byte| {
        byte.is_ascii_whitespace()
            || matches!(byte, b'.' | b'(' | b')' | b'[' | b']' | b',' | b'>' | b':' | b'+' | b'"' | b'\\')
    });
    of_type && (goes_on || behind.starts_with(b"&gt;"))
}

/// Whether the element `name` ends in what follows its beginning: `</name>`, `</space:name>`, also coded.
fn is_closed(name: &[u8], behind: &[u8]) -> bool {
    let reach = &behind[..behind.len().min(CLOSING_REACH)];
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'-' | b'.');
    memchr::memmem::find_iter(reach, name).any(|at| {
        let start = reach[..at].iter().rposition(|byte| !is_of_name(byte)).map_or(0, |last| last + 1);
        [&b"</"[..], b"<\\/", b"&lt;/"].iter().any(|opening| reach[..start].ends_with(opening))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<&str> {
        let at = text.find("kk").expect("the name");
        let place = element(text.as_bytes(), &(at..at + 2))?;
        let value = &text[place.at..];
        Some(&value[..value.find(['<', '&']).unwrap_or(value.len())])
    }

    #[test]
    fn values_begin_behind_the_tag() {
        for (text, value) in [
            ("<kk>v1</kk>", Some("v1")),
            ("<x:kk>v1</x:kk>", Some("v1")),
            ("<kk a=\"b\">v1</kk>", Some("v1")),
            ("&lt;kk&gt;v1&lt;/kk&gt;", Some("v1")),
            ("&lt;x:kk&gt;v1&lt;/x:kk&gt;", Some("v1")),
            ("List<kk>v1</kk>", Some("v1")),
            // Nothing is in it, or the line of the log ends behind it.
            ("<kk/>v1", None),
            ("<kk a=\"b\"/>v1", None),
            ("<kk <b>v1</b>", None),
            ("</kk>v1", None),
            ("{\"message\":\"<kk>\\n\"}", None),
            ("kk>v1", None),
        ] {
            assert_eq!(of(text), value, "{text}");
        }
    }

    #[test]
    fn names_of_code_that_look_like_elements_are_none() {
        for text in [
            "ValueTask<kk>.GetAwaiter()",
            "List<kk> items",
            "Func<kk>>",
            "<kk>d__5.MoveNext()",
            "<kk>g__Inner|3_0",
            "<kk>b__1",
            "<kk>c__DisplayClass",
            "ValueTask&lt;kk&gt;.GetAwaiter()",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn an_end_far_away_is_no_end() {
        let near = format!("List<kk>{}</kk>", ".".repeat(100));
        let far = format!("List<kk>{}</kk>", ".".repeat(CLOSING_REACH));
        assert!(of(&near).is_some());
        assert_eq!(of(&far), None);
    }
}
