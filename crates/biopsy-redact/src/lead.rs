//! What languages and tools put between a sign and the quotes of a value: types, pointers, casts, brackets of a template.

use crate::quote::Quote;
use crate::value::{skip_blank, skip_space};

/// Most of them, and the longest one, in bytes.
const LEADS_MAX: usize = 3;
const LEAD_MAX: usize = 48;
/// What stands in front of a text in quotes and is no value.
const TYPES: [&[u8]; 19] = [
    b"Str",
    b"Text",
    b"SecureString",
    b"string",
    b"String",
    b"str",
    b"text",
    b"String.t",
    b"std::string",
    b"QString",
    b"Some",
    b"Ok",
    b"Just",
    b"new",
    b"value",
    b"literal",
    b"utf8",
    b"varchar",
    b"bytes",
];

/// `Some("x")`, `&"x"`, `string(10) "x"`, `(string) (len=10) "x"`, `0x55d0 "x"`, `<%= "x" %>`, `<<"x">>`: where the quote is. Without one,
/// `at`.
pub(crate) fn quote_behind(text: &[u8], at: usize) -> usize {
    find(text, at).unwrap_or(at)
}

/// The same, over the end of a line too, for what only stands there behind a type: `=>\n  string(10) "x"`.
pub(crate) fn quote_below(text: &[u8], at: usize) -> Option<usize> {
    let below = skip_space(text, at);
    find(text, below).filter(|quote| *quote > below)
}

fn find(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..=LEADS_MAX {
        if Quote::at(text, at).is_some() {
            return Some(at);
        }
        at = skip_blank(text, behind(text, at)?);
    }
    None
}

/// Behind the one that stands at `at`.
fn behind(text: &[u8], at: usize) -> Option<usize> {
    let rest = text.get(at..text.len().min(at + LEAD_MAX))?;
    let word =
        rest.iter().position(|b| !b.is_ascii_alphanumeric() && !b"_:.".contains(b)).unwrap_or(rest.len());
    let length = match rest {
        [b'<', b'%', b'=' | b'-', ..] => 3,
        [b'<', b'<', ..] => 2,
        // `!!str "x"`, `!string 'x'`, `!<tag:yaml.org,2002:str> "x"`
        [b'!', tag @ ..] => {
            let length =
                tag.iter().take_while(|b| b.is_ascii_alphanumeric() || b"!:<>.,_-".contains(b)).count();
            (length > 0 && tag.get(length) == Some(&b' ')).then_some(length + 2)?
        }
        [b'&' | b'*' | b'@' | b'#', b'"' | b'\'' | b'\\', ..] => 1,
        // `[]byte("x")`
        [b'[', b']', inside @ ..] => {
            let word = inside.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
            matches!(inside.get(word), Some(b'(' | b'{')).then_some(word + 3)?
        }
        // A cast: `(char *)`, `(string) (len=10)`.
        [b'(', inside @ ..] => {
            let close = inside.iter().position(|b| *b == b')')?;
            let is_cast = close > 0
                && inside[0].is_ascii_alphabetic()
                && inside[..close].iter().all(|b| b.is_ascii_alphanumeric() || b" _*:.=<>&".contains(b));
            is_cast.then_some(close + 2)?
        }
        // A pointer of a debugger.
        [b'0', b'x', hex @ ..] => {
            let digits = hex.iter().take_while(|b| b.is_ascii_hexdigit()).count();
            (digits >= 4 && hex.get(digits) == Some(&b' ')).then_some(digits + 2)?
        }
        _ if TYPES.contains(&&rest[..word]) => {
            let open = rest.get(word..)?;
            match open {
                [b' ', ..] => word,
                [b'(', inside @ ..] => {
                    let digits = inside.iter().take_while(|b| b.is_ascii_digit()).count();
                    match inside.get(digits) {
                        Some(b')') if digits > 0 => word + digits + 2,
                        _ if digits == 0 => word + 1,
                        _ => return None,
                    }
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    Some(at + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quote_is_found_behind_what_stands_before_it() {
        for lead in [
            "",
            "&",
            "Some(",
            "string(10) ",
            "(string) (len=10) ",
            "0x55d0c0de ",
            "<%= ",
            "<<",
            "(const char *) 0x55d0 ",
            "!!str ",
            "!<tag:yaml.org,2002:str> ",
        ] {
            let text = format!("{lead}\"x\"");
            assert_eq!(quote_behind(text.as_bytes(), 0), lead.len(), "{text}");
        }
        for other in ["x \"y\"", "(a, b) \"x\"", "0x12", "string", "(", "get(\"x\")", "!x\"y\"", "! \"y\""] {
            assert_eq!(quote_behind(other.as_bytes(), 0), 0, "{other}");
        }
        assert_eq!(quote_below(b"\n  string(3) \"x\"", 0), Some(13));
        assert_eq!(quote_below(b"\n  \"x\"", 0), None);
    }
}
