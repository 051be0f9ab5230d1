//! What stands behind the name of a secret and is none, by what is around it: names of resources, tests of code, rules for users,
//! templates.

use std::ops::Range;

use crate::words::words_of;

/// How far the line of a value is looked at, in bytes.
const REACH: usize = 160;
/// What names of secrets end in that are kept elsewhere: `shop-db-credentials`.
const KINDS_OF_SECRETS: [&[u8]; 22] = [
    b"tls",
    b"secret",
    b"secrets",
    b"cert",
    b"certs",
    b"certificate",
    b"creds",
    b"cred",
    b"credentials",
    b"auth",
    b"key",
    b"keys",
    b"token",
    b"tokens",
    b"password",
    b"passwords",
    b"config",
    b"env",
    b"ca",
    b"db",
    b"registry",
    b"postgresql",
];

/// Is the value of this name no secret, by what stands around them?
pub(crate) fn is_harmless(text: &[u8], name: &Range<usize>, value: &Range<usize>, quoted: bool) -> bool {
    if value.start < name.end {
        return false;
    }
    let line_start =
        name.start - text[..name.start].iter().rev().take(REACH).take_while(|b| **b != b'\n').count();
    let line_end = value.end + text[value.end..].iter().take(REACH).take_while(|b| **b != b'\n').count();
    let before = &text[line_start..name.start];
    let behind = &text[value.end..line_end];
    is_of_resource_block(before)
        || is_open_template(before) && memchr::memmem::find(&text[value.start..line_end], b"}}").is_some()
        || is_tested(before, &text[name.end..value.start])
        || !quoted && is_placeholder_of_words(&text[value.clone()], behind)
        || !quoted && is_rule_for_users(behind)
        || !quoted && is_database_of_client(before, &text[name.end..value.start], &text[value.clone()])
        || is_digest_behind_word(&text[value.clone()])
        || !quoted
            && is_name_of_secret(&text[name.clone()], &text[name.end..value.start], &text[value.clone()])
}

/// `resource "random_password" "db" {`: kind and name of something.
fn is_of_resource_block(before: &[u8]) -> bool {
    let head = before.iter().position(u8::is_ascii_alphabetic).map_or(&before[..0], |at| &before[at..]);
    [&b"resource \""[..], b"data \"", b"ephemeral \"", b"module \"", b"provider \""]
        .iter()
        .any(|word| head.starts_with(word))
}

/// `{{resolve:secretsmanager:shop/db:SecretString:password}}`, `${{ secrets.TOKEN }}`: inside of what a template fills in.
fn is_open_template(before: &[u8]) -> bool {
    let last = |part: &[u8]| memchr::memmem::rfind(before, part);
    let is_open =
        |start: &[u8], end: &[u8]| last(start).is_some_and(|open| last(end).is_none_or(|close| close < open));
    is_open(b"{{", b"}}") && !before.ends_with(b"\"") && !before.ends_with(b"'")
}

/// `if not password: raise ValueError`: a name that code asks about.
fn is_tested(before: &[u8], between: &[u8]) -> bool {
    let head = before.trim_ascii_start();
    let is_asked = [&b"if "[..], b"elif ", b"while ", b"unless ", b"assert ", b"} elif "]
        .iter()
        .any(|word| head.starts_with(word));
    is_asked && between.starts_with(b":") && !head.iter().any(|b| matches!(b, b'"' | b'=' | b','))
}

/// `<set to the key 'password' in secret 'shop-db'>`, `<not set here>`
fn is_placeholder_of_words(value: &[u8], behind: &[u8]) -> bool {
    value
        .strip_prefix(b"<")
        .is_some_and(|word| word.len() >= 2 && word.iter().all(|b| b.is_ascii_lowercase() || *b == b'-'))
        && behind.first() == Some(&b' ')
        && behind.contains(&b'>')
}

/// `Kennwort: mindestens 8 Zeichen`: what a password must be like, with a small number and what it counts.
fn is_rule_for_users(behind: &[u8]) -> bool {
    let Some(behind) = behind.strip_prefix(b" ") else { return false };
    let mut words = behind.split(|b| *b == b' ').take(4);
    let number = words
        .by_ref()
        .take(3)
        .position(|word| matches!(word.len(), 1..=2) && word.iter().all(u8::is_ascii_digit));
    let is_counted = |word: &[u8]| {
        let word = word.strip_suffix(b".").unwrap_or(word);
        word.len() >= 5 && word.iter().all(|b| b.is_ascii_alphabetic() || *b >= 0x80)
    };
    number.is_some() && words.next().is_some_and(is_counted)
}

/// `mysql --password shop`: these programs ask for it, and the next word is a database.
fn is_database_of_client(before: &[u8], between: &[u8], value: &[u8]) -> bool {
    let asks =
        [&b"mysql"[..], b"mariadb"].iter().any(|program| memchr::memmem::find(before, program).is_some());
    asks && before.ends_with(b"--")
        && between == b" "
        && value.iter().all(|b| b.is_ascii_lowercase() || *b == b'_')
}

/// `node-e214dd38927f...`: something is told apart by the digest of what it was made from.
fn is_digest_behind_word(value: &[u8]) -> bool {
    const OF_SECRETS: [&[u8]; 12] = [
        b"key", b"token", b"secret", b"api", b"sk", b"pk", b"live", b"test", b"prod", b"auth", b"pat",
        b"pass",
    ];
    let value = value.strip_suffix(b",").unwrap_or(value);
    let Some(dash) = value.iter().rposition(|b| *b == b'-') else { return false };
    let (words, digest) = (&value[..dash], &value[dash + 1..]);
    matches!(digest.len(), 32 | 40 | 64)
        && digest.iter().all(u8::is_ascii_hexdigit)
        && words.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'.'))
        && words.len() >= 2
        && !words
            .split(|b| matches!(b, b'-' | b'.'))
            .any(|word| OF_SECRETS.iter().any(|known| known.eq_ignore_ascii_case(word)))
}

/// `certificatesSecret: shop-tls`: the name of a secret that is kept elsewhere.
fn is_name_of_secret(name: &[u8], between: &[u8], value: &[u8]) -> bool {
    let last = words_of(name).last().unwrap_or_default();
    let is_reference = last.eq_ignore_ascii_case(b"secret")
        && name.len() > last.len()
        && name.iter().any(u8::is_ascii_lowercase);
    let is_word = |word: &[u8]| {
        !word.is_empty()
            && (word.iter().all(u8::is_ascii_lowercase)
                || word.len() <= 2 && word.iter().all(u8::is_ascii_digit))
    };
    is_reference
        && between == b": "
        && value.contains(&b'-')
        && value.split(|b| *b == b'-').all(is_word)
        && value.rsplit(|b| *b == b'-').next().is_some_and(|word| KINDS_OF_SECRETS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(text: &str, name: &str, value: &str) -> bool {
        let name_at = text.find(name).expect("the name");
        let at = name_at + name.len() + text[name_at + name.len()..].find(value).expect("the value");
        is_harmless(text.as_bytes(), &(name_at..name_at + name.len()), &(at..at + value.len()), false)
    }

    #[test]
    fn what_stands_around_says_that_it_is_none() {
        for (text, name, value) in [
            ("+ resource \"random_password\" \"shop_1\" {", "password", "shop_1"),
            ("x: {{resolve:secretsmanager:db:SecretString:password}}", "SecretString", "password"),
            ("  if not password: raise ValueError(x)", "password", "raise"),
            ("PW: <set to the key 'x'> y", "PW", "<set"),
            ("Kennwort: mindestens 8 Zeichen", "Kennwort", "mindestens"),
            ("mysql --user=app --password shop", "password", "shop"),
            (
                "keys: node-e214dd38927fc289cd19fa07985b53f04d5328fd,",
                "keys",
                "node-e214dd38927fc289cd19fa07985b53f04d5328fd",
            ),
            ("certificatesSecret: shop-0-tls", "certificatesSecret", "shop-0-tls"),
        ] {
            assert!(is(text, name, value), "{text}");
        }
        for (text, name, value) in [
            ("password: hunter2 for 3 days", "password", "hunter2"),
            ("if it asks, password: hunter2", "password", "hunter2"),
            ("secret: shop-0-tls", "secret", "shop-0-tls"),
            ("mysql --password=shop", "password", "shop"),
            (
                "api_key: key-e214dd38927fc289cd19fa07985b53f0",
                "api_key",
                "key-e214dd38927fc289cd19fa07985b53f0",
            ),
            ("clientSecret: blue-tea-pot", "clientSecret", "blue-tea-pot"),
        ] {
            assert!(!is(text, name, value), "{text}");
        }
    }
}
