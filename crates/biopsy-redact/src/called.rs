//! What things are called that are no secrets: versions and releases, paths and files, names of code and services.

use crate::scrambled::{bits_per_pair, is_scrambled};

/// `1.302103`, `2.4.6`.
pub(crate) fn is_version(value: &[u8]) -> bool {
    value.contains(&b'.') && value.len() < 12 && value.split(|b| *b == b'.').all(is_number)
}

/// `1:4.13+dfsg1-1+deb12u1`, `v7.9.0-rc.42413`: numbers with points between them, and words of a release behind them.
pub(crate) fn is_release(value: &[u8]) -> bool {
    // `libssl.so.3.0.1`
    let library = memchr::memmem::find(value, b".so.").map(|at| &value[at + 4..]);
    if library.is_some_and(|rest| rest.iter().all(|b| b.is_ascii_digit() || *b == b'.')) {
        return true;
    }
    let value = value.strip_prefix(b"v").unwrap_or(value);
    let begins = value.iter().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b':')).count();
    let head = &value[..begins];
    let is_word = |word: &[u8]| {
        let letters = word.iter().filter(|b| b.is_ascii_alphabetic()).count();
        let digits = word.len() - letters;
        let turns =
            word.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
        word.iter().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase())
            && (letters <= 1 || digits <= 5 && turns <= 3 && word.len() <= 14)
    };
    head.first().is_some_and(u8::is_ascii_digit)
        && head
            .windows(3)
            .any(|three| three[1] == b'.' && three[0].is_ascii_digit() && three[2].is_ascii_digit())
        && value[begins..].split(|b| b"+-.~:_".contains(b)).all(is_word)
}

/// `com.apple.xpc.activity/4505`, `UpdateParseToMoneyTypeV1Beta1`: words of a language with a number behind them, as code and
/// services are called.
pub(crate) fn is_called(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_domain = [&b"com."[..], b"org.", b"net.", b"io.", b"java.", b"de."]
        .iter()
        .any(|start| value.starts_with(start));
    let humps =
        value.windows(2).filter(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase()).count();
    let is_of_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'/' | b'_' | b'-' | b'$');
    let spoken = |least: f32| bits_per_pair(value).is_some_and(|bits| bits < least);
    value.iter().all(is_of_name)
        && (is_domain && value.iter().filter(|b| **b == b'.').count() >= 2 && spoken(5.0)
            || value.len() >= 16 && humps >= 3 && digits <= 4 && !is_scrambled(value) && spoken(4.4))
}

/// `/4JoDKf9+0/sYmM9+p/ipZT+rPitDCZPSNwxGlCf6jg=`: base64 that begins with a slash.
pub(crate) fn is_base64_behind_slash(value: &[u8]) -> bool {
    let body = &value[..value.iter().rposition(|b| *b != b'=').map_or(0, |last| last + 1)];
    let has = |of: fn(&u8) -> bool| body.iter().any(of);
    body.len() >= 20
        && body.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/'))
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && bits_per_pair(body).is_some_and(|bits| bits >= 5.25)
        && !is_file_name(body)
}

/// `/srv/app`, `~/app`, `C:\app`.
pub(crate) fn is_path(value: &[u8]) -> bool {
    value.starts_with(b"/") && !is_base64_behind_slash(value)
        || value.starts_with(b"*.")
        || value.starts_with(b"%2F")
        || value.starts_with(b".%2F")
        || value.starts_with(b"~/")
        || value.starts_with(b"./")
        || value.starts_with(b"../")
        || value.get(1..3) == Some(b":\\")
        || is_file_name(value)
        || has_ending(value)
}

/// `photos/2026/11/IMG_1.jpg`: folders, and a name with an ending.
fn has_ending(value: &[u8]) -> bool {
    let Some(slash) = value.iter().rposition(|b| *b == b'/') else { return false };
    let name = &value[slash + 1..];
    let Some(dot) = name.iter().rposition(|b| *b == b'.') else { return false };
    let ending = &name[dot + 1..];
    dot > 0
        && (2..=5).contains(&ending.len())
        && ending.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        && ending[0].is_ascii_lowercase()
        && value.iter().all(|b| b.is_ascii_alphanumeric() || b"/._-%".contains(b))
}

/// `rsakey.pem`, `$dir/private/ca.key#`.
pub(crate) fn is_file_name(value: &[u8]) -> bool {
    const ENDS: [&[u8]; 12] = [
        b".pem", b".key", b".crt", b".cer", b".p12", b".pfx", b".jks", b".json", b".yml", b".yaml", b".conf",
        b".txt",
    ];
    let value = value.strip_suffix(b"#").unwrap_or(value);
    ENDS.iter().any(|end| value.len() > end.len() && value.ends_with(end))
        && value.iter().all(|b| b.is_ascii_alphanumeric() || b"/.-_$".contains(b))
}

/// Only digits.
pub(crate) fn is_number(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_numbers_with_words_behind_them() {
        for release in
            ["1:4.13+dfsg1-1+deb12u1", "v7.9.0-rc.42413", "2.36-9+deb12u13", "1.2.3", "0.20.5-3~bpo12+1"]
        {
            assert!(is_release(release.as_bytes()), "{release}");
        }
        for other in
            ["q7f3kd0a92mx", "4.Blau77kern", "1.2-Q7f3kd0a92mx", "12345678", "2026-01-02", "9x.q7f3kd0a9"]
        {
            assert!(!is_release(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn names_of_code_and_services_have_words() {
        for name in [
            "com.apple.xpc.activity/4505",
            "UpdateParseToMoneyTypeV1Beta1",
            "org.apache.kafka.clients.Consumer2",
        ] {
            assert!(is_called(name.as_bytes()), "{name}");
        }
        for other in ["WSsDXzCD.uOcxAp7k82IvCKyY36", "com.7xK2qP9zL", "Xq7Kd0Pz2Mw9Lc4Rt", "Madrid2024"] {
            assert!(!is_called(other.as_bytes()), "{other}");
        }
    }
}
