//! `password=Ab12cd34` and the like: a name that can only mean a secret, and a value that can only be one.

/// Names, in lower case without `_` and `-`. The name in the text must end with one of them.
const NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "clientsecret",
    "secretkey",
    "apikey",
    "accountkey",
    "sharedaccesskey",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "secretaccesskey",
    "privatekey",
    "apitoken",
];

/// Shortest value that is reported.
const VALUE_MIN: usize = 8;
/// Longest name that is looked at.
const NAME_MAX: usize = 48;

/// Reports the start of every such value.
pub(super) fn find(text: &[u8], report: &mut impl FnMut(usize)) {
    for at in memchr::memchr2_iter(b'=', b':', text) {
        if !named(&text[at.saturating_sub(NAME_MAX + 2)..at]) {
            continue;
        }
        let mut start = at + 1;
        start += usize::from(text.get(start) == Some(&b' '));
        start += match text[start.min(text.len())..] {
            [b'"' | b'\'', ..] => 1,
            [b'\\', b'"' | b'\'', ..] => 2,
            _ => 0,
        };
        let rest = &text[start.min(text.len())..text.len().min(start + 256)];
        let length = rest
            .iter()
            .position(|b| !b.is_ascii_graphic() || b"\"';&<>,\\".contains(b))
            .unwrap_or(rest.len());
        if is_secret(&rest[..length]) {
            report(start);
        }
    }
}

fn named(before: &[u8]) -> bool {
    let quotes = match before {
        [.., b'\\', b'"' | b'\''] => 2,
        [.., b'"' | b'\''] => 1,
        _ => 0,
    };
    let before = &before[..before.len() - quotes];
    if !before.last().is_some_and(u8::is_ascii_alphanumeric) {
        return false;
    }
    let mut name = [0u8; NAME_MAX];
    let mut length = 0;
    for byte in before.iter().rev() {
        match byte {
            b'_' | b'-' => {}
            b if b.is_ascii_alphanumeric() && length < NAME_MAX => {
                name[length] = b.to_ascii_lowercase();
                length += 1;
            }
            _ => break,
        }
    }
    // The name was read from its end.
    NAMES
        .iter()
        .any(|known| known.len() <= length && known.bytes().rev().eq(name[..known.len()].iter().copied()))
}

/// Letters and digits, and nothing that code, paths, templates or masks are made of.
fn is_secret(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    value.len() >= VALUE_MIN
        && digits >= 2
        && letters >= 2
        && value.iter().all(|b| b.is_ascii_alphanumeric() || b"!#%+/=_-~^".contains(b))
        && !matches!(value[0], b'/' | b'%' | b'#' | b'-' | b'=')
        && !value.starts_with(b"0x")
        && !is_uuid_like(value)
}

/// Groups of hex digits with hyphens: an identifier as often as a secret.
fn is_uuid_like(value: &[u8]) -> bool {
    value.len() == 36 && value.iter().filter(|b| **b == b'-').count() == 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> usize {
        let mut count = 0;
        find(text.as_bytes(), &mut |_| count += 1);
        count
    }

    #[test]
    fn pairs_are_seen() {
        for text in [
            "Password=hunter2024;",
            "\"password\": \"hunter2024\"",
            "\\\"DB_PASSWORD\\\":\\\"hunter2024\\\"",
            "api_key: ab12cd34ef",
            "AccountKey=ab12cd34ef==",
            "client-secret='ab12cd34ef'",
        ] {
            assert_eq!(count(text), 1, "{text}");
        }
    }

    #[test]
    fn ordinary_text_is_not() {
        for text in [
            "password=[redacted:password:0123abcd]",
            "password: required",
            "\"password\": null",
            "Password=${DB_PASSWORD_1}",
            "password = GetPassword2(x1)",
            "PublicKeyToken=b77a5c561934e089",
            "passwordLength=12345678a1",
            "token_type: ab12cd34",
        ] {
            assert_eq!(count(text), 0, "{text}");
        }
    }
}
