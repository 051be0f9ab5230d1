//! Names and values in turn, each on a numbered line of its own, as `redis-cli` shows what a hash holds: `3) "key"`, `4) "value"`.

use std::ops::Range;

use crate::below;
use crate::value::{Value, quoted};

/// Most digits of a number of a line.
const DIGITS_MAX: usize = 5;
/// Longest path that a name ends, in bytes.
const PATH_MAX: usize = 64;

/// The value on the next line, where that has the next number.
pub(crate) fn beside(text: &[u8], name: &Range<usize>) -> Option<Value> {
    let behind_name = text.get(name.end..)?.strip_prefix(b"\"")?;
    let is_path = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b':' | b'_' | b'.' | b'-');
    let path = text[..name.start].iter().rev().take(PATH_MAX).take_while(is_path).count();
    let front = text[..name.start - path].strip_suffix(b") \"")?;
    let digits = front.iter().rev().take_while(|b| b.is_ascii_digit()).take(DIGITS_MAX + 1).count();
    let at = front.len() - digits;
    let own = number(&front[at..])?;
    let newline = below::newline(text, text.len() - behind_name.len())?;
    let next = below::next_line(text, at, newline)?;
    let next = next + text.get(next..)?.iter().take(8).take_while(|b| **b == b' ').count();
    let digits = text[next..].iter().take(DIGITS_MAX + 1).take_while(|b| b.is_ascii_digit()).count();
    let behind = number(&text[next..next + digits])?;
    // Names have odd numbers.
    let is_pair = own % 2 == 1 && behind == own + 1 && text[next + digits..].starts_with(b") \"");
    is_pair.then(|| quoted(text, next + digits + 2))?.filter(|value| !value.open && !value.range.is_empty())
}

fn number(digits: &[u8]) -> Option<u32> {
    let is_short = (1..=DIGITS_MAX).contains(&digits.len());
    is_short.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        let at = text.find(name).expect("the name");
        beside(text.as_bytes(), &(at..at + name.len())).map(|value| &text[value.range])
    }

    #[test]
    fn the_next_number_is_the_value() {
        for (text, wanted) in [
            ("1) \"host\"\n2) \"db1\"\n3) \"App:ApiKey\"\n4) \"v1\"\n", Some("v1")),
            (" 9) \"ApiKey\"\r\n10) \"v1\"\r\n", Some("v1")),
            ("10:11 I 1) \"ApiKey\"\n10:12 I 2) \"v1\"\n", Some("v1")),
            // A list of names: each second one is as good as the first.
            ("2) \"ApiKey\"\n3) \"v1\"\n", None),
            ("1) \"ApiKey\"\n3) \"v1\"\n", None),
            ("1) \"ApiKey\"\nnext line\n", None),
            ("1) ApiKey\n2) v1\n", None),
            ("1) \"the ApiKey\"\n2) \"v1\"\n", None),
            ("1) \"ApiKey\"", None),
            ("9999999999) \"ApiKey\"\n2) \"v1\"", None),
        ] {
            assert_eq!(of(text, "ApiKey"), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[0-9) \"\n\r:a]{0,60}key[0-9) \"\n\r:a]{0,60}") {
            of(&text, "key");
        }
    }
}
