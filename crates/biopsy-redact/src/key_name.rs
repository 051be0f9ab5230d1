//! The name that a keyword is part of: how far it goes, and where its words begin and end.

use std::ops::Range;

use crate::shape::escape_before;

/// Longest name looked at on each side of the keyword, in bytes.
pub(crate) const NAME_REACH: usize = 64;

/// The name around a keyword: letters, digits, `_`, `$`, and `-` or `.` between them.
pub(crate) fn name_bounds(text: &[u8], word: Range<usize>) -> Range<usize> {
    let is_foreign = !text[word.clone()].is_ascii();
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'$' || is_foreign && b >= 0x80 && b != 0xef;
    let mut start = word.start;
    let floor = word.start.saturating_sub(NAME_REACH);
    // `?key` and `&key` begin where they say.
    let begins = matches!(text.get(word.start), Some(b'?' | b'&'));
    while start > floor && !begins {
        let byte = text[start - 1];
        let joined =
            matches!(byte, b'-' | b'.') && start - 1 > floor && text[start - 2].is_ascii_alphanumeric();
        if !plain(byte) && !joined {
            break;
        }
        start -= 1;
    }
    // The `n` of an escaped line end is no part of the name behind it, nor is the `3D` of `%3D` or the `u0022` of `\u0022`.
    if start > 0 {
        let escape = match text[start - 1] {
            b'\\' if matches!(text[start], b'n' | b'r' | b't') => 1,
            b'\\' if text[start] == b'u' => 5,
            b'%' => 2,
            _ => 0,
        };
        if escape > 0 && start + escape <= word.start && escape_before(&text[..start + escape]) {
            start += escape;
        }
        // Nor is the end of a colour code: `[1;32mpassword`.
        if matches!(text[start - 1], b'[' | b';') {
            let digits = text[start..word.start].iter().take_while(|b| b.is_ascii_digit()).count();
            if digits > 0 && text[start + digits] == b'm' && start + digits < word.start {
                start += digits + 1;
            }
        }
    }
    start += define_before(text, start, word.start);
    let mut end = word.end;
    let ceiling = text.len().min(word.end + NAME_REACH);
    while end < ceiling {
        let byte = text[end];
        let joined = matches!(byte, b'-' | b'.') && text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        if !plain(byte) && !joined {
            break;
        }
        end += 1;
    }
    start..end
}

/// Length of what says that a setting follows, and is no part of its name: the `D` of `-Dtoken=x`, the `P` of `-Ptoken=x`.
fn define_before(text: &[u8], start: usize, word: usize) -> usize {
    let begins = |at: usize| {
        at.checked_sub(1).and_then(|before| text.get(before)).is_none_or(|before| {
            before.is_ascii_whitespace()
                || matches!(before, b'"' | b'\'' | b'`' | b'=' | b',' | b'[' | b'J' | 0)
        })
    };
    let is_define = start >= 1
        && start < word
        && matches!(text[start], b'D' | b'P')
        && text[start - 1] == b'-'
        && begins(start - 1)
        && text[start + 1].is_ascii_alphabetic();
    usize::from(is_define)
}

/// The word in front of a name, one blank away: `cache key`.
pub(crate) fn word_before(text: &[u8], at: usize) -> Option<&[u8]> {
    let before = text[..at].strip_suffix(b" ")?;
    let length = before.iter().rev().take(NAME_REACH).take_while(|b| b.is_ascii_alphabetic()).count();
    (length > 0).then(|| &before[before.len() - length..])
}

pub(crate) fn starts_word(text: &[u8], at: usize, name_start: usize) -> bool {
    if at == name_start {
        return true;
    }
    let (before, first) = (text[at - 1], text[at]);
    !before.is_ascii_alphabetic()
        || (before.is_ascii_lowercase() && first.is_ascii_uppercase())
        || (before.is_ascii_uppercase()
            && first.is_ascii_uppercase()
            && text.get(at + 1).is_some_and(u8::is_ascii_lowercase))
}

pub(crate) fn ends_word(text: &[u8], at: usize, name_end: usize) -> bool {
    if at == name_end {
        return true;
    }
    let (last, next) = (text[at - 1], text[at]);
    if matches!(next, b's' | b'S') && (at + 1 == name_end || !text[at + 1].is_ascii_alphabetic()) {
        return true;
    }
    !next.is_ascii_alphabetic() || (next.is_ascii_uppercase() && last.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_where_its_signs_do() {
        for (text, word, name) in [
            ("x-api-key: v", "key", "x-api-key"),
            ("spring.datasource.password=v", "password", "spring.datasource.password"),
            ("DB_PASSWORD_2=v", "PASSWORD", "DB_PASSWORD_2"),
            ("password- v", "password", "password"),
            ("-password v", "password", "password"),
            ("a.-password v", "password", "password"),
            ("$db_password = v", "password", "$db_password"),
            // What stands in front is an escape, a colour or an option, and no part of it.
            ("line\\npassword: v", "password", "password"),
            ("a%3Dpassword: v", "password", "password"),
            ("\\u0022password: v", "password", "password"),
            ("\u{1b}[32mpassword: v", "password", "password"),
            ("java -Dpassword=v", "password", "password"),
            ("java -Ddb.password=v", "password", "db.password"),
            ("gradle -PsignPassword=v", "Password", "signPassword"),
            ("GET /?key=v", "?key", "?key"),
            ("GET /x?a=1&key=v", "&key", "&key"),
        ] {
            let at = text.find(word).expect("the word");
            let bounds = name_bounds(text.as_bytes(), at..at + word.len());
            assert_eq!(&text[bounds], name, "{text:?}");
        }
    }

    #[test]
    fn a_long_name_is_read_for_so_many_bytes_on_either_side() {
        let text = format!("{}password{}=x", "a".repeat(200), "b".repeat(200));
        let bounds = name_bounds(text.as_bytes(), 200..208);
        assert_eq!(bounds, 200 - NAME_REACH..208 + NAME_REACH);
    }

    #[test]
    fn the_word_in_front_is_one_blank_away() {
        for (text, word) in [
            ("cache key", Some("cache")),
            ("cache  key", None),
            ("a2 key", None),
            (" key", None),
            ("key", None),
        ] {
            let at = text.find("key").expect("the word");
            assert_eq!(word_before(text.as_bytes(), at), word.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn words_begin_and_end_where_case_or_separators_say() {
        let bounds = |text: &str, word: &str| {
            let at = text.find(word).expect("the word");
            let name = name_bounds(text.as_bytes(), at..at + word.len());
            (
                starts_word(text.as_bytes(), at, name.start),
                ends_word(text.as_bytes(), at + word.len(), name.end),
            )
        };
        assert_eq!(bounds("tokenizer=", "token"), (true, false));
        assert_eq!(bounds("authToken=", "Token"), (true, true));
        assert_eq!(bounds("AUTH_TOKEN=", "TOKEN"), (true, true));
        assert_eq!(bounds("APIToken=", "Token"), (true, true));
        assert_eq!(bounds("tokens=", "token"), (true, true));
        assert_eq!(bounds("betoken=", "token"), (false, true));
    }
}
