//! What is asked of a place before an expression is tried there: cheap, and true wherever the expression can match.
//!
//! Signs that stand in every log (`@`) and programs that are called like the end of a time (`7z`) cost more than all other rules
//! together without it.

use std::ops::Range;

use crate::rules::Rule;

/// What a rule says that must be there.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Precheck {
    /// The sign in front of the run that ends at the `@`.
    led_by: Option<u8>,
    /// An option stands behind the keyword, on its line.
    has_option: bool,
}

impl Precheck {
    /// Of a rule.
    pub(crate) fn new(rule: &Rule) -> Self {
        let led_by = rule.led_by.and_then(|sign| u8::try_from(sign).ok());
        Self { led_by, has_option: rule.has_option }
    }

    /// May the rule match a part of `window`, which has its keyword at `at`?
    pub(crate) fn allows(self, text: &[u8], at: usize, window: &Range<usize>) -> bool {
        self.led_by.is_none_or(|sign| text.get(at) != Some(&b'@') || is_led_by(text, sign, at, window))
            && (!self.has_option || has_option(&text[at..window.end]))
    }
}

/// `:x1@`: is the run in front of this `@` led by the sign? A match has one `@`, and each is asked by itself.
fn is_led_by(text: &[u8], sign: u8, at: usize, window: &Range<usize>) -> bool {
    let before = &text[window.start.min(at)..at];
    let behind = &text[(at + 1).min(window.end)..window.end];
    let is_end = |b: &u8| matches!(b, b'\t'..=b'\r' | b' ' | b'"' | b'\'' | b'<' | b'>' | b'/' | b':' | b'|');
    behind.first().is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/'))
        && before.iter().rposition(is_end).is_some_and(|end| before[end] == sign && end + 1 < before.len())
}

/// ` -p`, ` --user`: a blank, a hyphen and what an option is called, on this line or on one that it goes on in.
fn has_option(text: &[u8]) -> bool {
    let is_option = |hyphen: &usize| {
        *hyphen > 0
            && matches!(text[hyphen - 1], b' ' | b'\t')
            && text.get(hyphen + 1).is_none_or(|b| b.is_ascii_alphabetic() || *b == b'-')
    };
    let goes_on = |newline: usize| matches!(text[..newline], [.., b'\\'] | [.., b'\\', b'\r']);
    memchr::memchr_iter(b'-', text)
        .find(is_option)
        .is_some_and(|hyphen| memchr::memchr_iter(b'\n', &text[..hyphen]).all(goes_on))
}

#[cfg(test)]
mod tests {
    use regex_automata::meta::Regex;

    use super::*;

    #[test]
    fn places_that_no_expression_can_match_are_told() {
        for (text, sign, wanted) in [
            ("ann:x1y2@db1", b':', true),
            ("ann:x1@y2@db1", b':', true),
            ("ann@db1 ann:x1y2@db1", b':', false),
            ("ann/x1y2@db1", b'/', true),
            ("ann/x1y2@db1", b':', false),
            ("ann.brown@db1", b':', false),
            ("mail: ann@db1", b':', false),
            ("{\"@t\":1}", b':', false),
            ("ann:x1y2@ db1", b':', false),
            ("ann:@db1", b':', false),
            ("@db1", b':', false),
            ("ann:x1y2@", b':', false),
        ] {
            let at = text.find('@').expect("a sign");
            assert_eq!(is_led_by(text.as_bytes(), sign, at, &(0..text.len())), wanted, "{text}");
        }
        for (text, wanted) in [
            ("7z x -px1 a.7z", true),
            ("7z x\t-px1", true),
            ("curl \\\n  -u a:b", true),
            ("curl \\\r\n  --user a:b", true),
            ("7z x -", true),
            ("7Z INFO - done", false),
            ("7Z INFO a-b -1", false),
            ("7Z INFO\nls -l", false),
            ("-p", false),
            ("", false),
        ] {
            assert_eq!(has_option(text.as_bytes()), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_match_is_refused(text in "[a1:/@ \"'<|.\n-]{0,40}") {
            let bytes = text.as_bytes();
            let window = 0..bytes.len();
            let colon = Regex::new("[^\\s\"'|<>/@:]:[^\\s\"'|<>/@:]{1,9}@[a1.]").expect("an expression");
            let slash = Regex::new("[a1]/[^\\s\"'|<>/@:,;()]{1,9}@(?://)?[a1.]").expect("an expression");
            for (regex, sign) in [(&colon, b':'), (&slash, b'/')] {
                for found in regex.find_iter(bytes) {
                    let at = memchr::memchr(b'@', &bytes[found.range()]).expect("a sign") + found.start();
                    proptest::prop_assert!(is_led_by(bytes, sign, at, &window), "{}", text);
                }
            }
            let option = Regex::new("^[^\\r\\n]*[ \t]-[a-zA-Z-]").expect("an expression");
            if option.is_match(bytes) && !bytes.starts_with(b"\n") {
                proptest::prop_assert!(has_option(bytes), "{}", text);
            }
        }
    }
}
