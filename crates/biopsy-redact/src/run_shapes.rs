//! Credentials that begin with nothing: told by the length and the alphabet of their parts, and by being random.

use std::ops::Range;

use crate::plausible;
use crate::scrambled::bits_per_pair;

/// Shortest run that is looked at, in bytes.
const RUN_MIN: usize = 32;
/// How far in front of a run the name of a hash may stand, in bytes.
const NAME_REACH: usize = 24;
/// What is as long as a key and is none.
const HASHES: [&[u8]; 8] =
    [b"sha512", b"sha-512", b"sha_512", b"hash", b"digest", b"integrity", b"checksum", b"signature"];

/// The credentials in `text`.
pub(crate) fn find(text: &[u8]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut floor, mut at) = (0, RUN_MIN - 1);
    // From behind, what ends a run is met first: hardly any byte of text is looked at.
    while at < text.len() {
        if let Some(ends) = text[floor..=at].iter().rposition(|b| !belongs(*b)) {
            floor += ends + 1;
        } else {
            let end = at + 1 + text[at + 1..].iter().take_while(|b| belongs(**b)).count();
            found.extend(of_run(text, floor..end));
            floor = end;
        }
        at = floor + RUN_MIN - 1;
    }
    found
}

/// Looked up: of every text each thirty-second byte is asked.
const BELONGS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let of = byte as u8;
        table[byte] = of.is_ascii_alphanumeric() || matches!(of, b'+' | b'/' | b'-' | b'_');
        byte += 1;
    }
    table
};

fn belongs(byte: u8) -> bool {
    BELONGS[usize::from(byte)]
}

fn of_run(text: &[u8], run: Range<usize>) -> Option<Range<usize>> {
    key_of_64_bytes(text, &run)
        .or_else(|| three_groups(text, &run))
        .or_else(|| three_parts(text, &run))
        .or_else(|| seed(text, &run))
        .or_else(|| two_uuids(text, &run))
}

/// Base64 of 64 bytes, as the keys of storage accounts are, and no SHA-512.
fn key_of_64_bytes(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = &text[run.clone()];
    let is_ended = text[run.end..].starts_with(b"==") && text.get(run.end + 2) != Some(&b'=');
    if bytes.len() != 86 || !is_ended {
        return None;
    }
    let before = text[run.start.saturating_sub(NAME_REACH)..run.start].to_ascii_lowercase();
    let is_hash = HASHES.iter().any(|name| memchr::memmem::find(&before, name).is_some());
    (!is_hash && is_mixed(bytes)).then_some(run.start..run.end + 2)
}

/// Seeds of NATS (58) and Stellar (56) in base32 of capital letters, by their first letters, and tokens of Azure DevOps (52) in small ones.
fn seed(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = &text[run.clone()];
    let is_of = |letters: fn(&u8) -> bool| bytes.iter().all(|b| letters(b) || matches!(b, b'2'..=b'7'));
    let is_seed = match bytes.len() {
        58 => bytes[0] == b'S' && b"NCOAUX".contains(&bytes[1]) && is_of(u8::is_ascii_uppercase),
        56 => bytes[0] == b'S' && is_of(u8::is_ascii_uppercase),
        52 => is_of(u8::is_ascii_lowercase),
        _ => false,
    };
    let is_alone = |b: Option<&u8>| b.is_none_or(|b| !b.is_ascii_alphanumeric() && !b"./=_-".contains(b));
    let digits = bytes.iter().filter(|b| b.is_ascii_digit()).count();
    (is_seed
        && digits >= 4
        && is_alone(run.start.checked_sub(1).and_then(|before| text.get(before)).filter(|b| **b != b'='))
        && is_alone(text.get(run.end).filter(|b| **b != b'.'))
        && plausible::has_random_run(bytes, 52))
    .then(|| run.clone())
}

/// `team-UUID-UUID`: two of them behind a name are one credential.
fn two_uuids(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    const BOTH: usize = 2 * 36 + 1;
    let bytes = &text[run.clone()];
    let name = bytes.len().checked_sub(BOTH)?;
    let (one, other) = (&bytes[name..name + 36], &bytes[name + 37..]);
    let is_named = name == 0 || bytes[name - 1] == b'-';
    (is_named
        && bytes[name + 36] == b'-'
        && plausible::is_uuid(one)
        && plausible::is_uuid(other)
        && one != other)
        .then(|| run.clone())
}

/// 32, 8 and 8 digits of hex, as keys that sign messages are.
fn three_groups(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = &text[run.clone()];
    let is_group = |group: &[u8]| group.iter().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'));
    (bytes.len() == 50
        && bytes[32] == b'-'
        && bytes[41] == b'-'
        && [&bytes[..32], &bytes[33..41], &bytes[42..]].into_iter().all(is_group)
        && plausible::has_random_run(bytes, 32))
    .then(|| run.clone())
}

/// A number in base64, a time of six characters and a signature, as tokens of bots are.
fn three_parts(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let is_part = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    let part_before = |end: usize| {
        let before = text[..end].strip_suffix(b".")?;
        let length = before.iter().rev().take(64).take_while(is_part).count();
        Some(before.len() - length..before.len())
    };
    let signature = &text[run.clone()];
    if !(36..=42).contains(&signature.len()) || signature.iter().any(|b| matches!(b, b'+' | b'/')) {
        return None;
    }
    let time = part_before(run.start).filter(|time| time.len() == 6)?;
    let number = part_before(time.start).filter(|number| (23..=30).contains(&number.len()))?;
    let begins = text[number.start].is_ascii_uppercase()
        && number.start.checked_sub(1).and_then(|before| text.get(before)).is_none_or(|b| *b != b'.');
    (begins && is_mixed(&text[number.clone()]) && is_mixed(signature)).then_some(number.start..run.end)
}

/// Small letters, capital ones and digits, in no order that words have.
fn is_mixed(bytes: &[u8]) -> bool {
    let has = |of: fn(&u8) -> bool| bytes.iter().any(of);
    has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_digit)
        && bits_per_pair(bytes).is_some_and(|bits| bits >= 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str =
        "EKY6zDX7dAFViH74P0MuApg13rCnU6lA78IXtE5ts9Eq6VW/uiqjaihHdEXRKpf1M/G4ODkxEdDWUH5ZPn3sSO==";

    #[test]
    fn credentials_without_a_beginning_are_told() {
        for (text, wanted) in [
            (format!("arg0={KEY}, x"), Some(KEY)),
            (format!("\"integrity\": \"sha512-{KEY}\""), None),
            (format!("\"contentHash\": \"{KEY}\""), None),
            (
                "got eab42ab083f489e74ad001d2a4023f7a-3b86e950-567ce01e.".to_owned(),
                Some("eab42ab083f489e74ad001d2a4023f7a-3b86e950-567ce01e"),
            ),
            ("7f3c0a1b-0000-4000-8000-0123456789ab-7f3c0a1b-0000".to_owned(), None),
            (
                "got MxZOimtJGW29b6LRkVN5IUwNoM.GkPZlD.bcp5dVrQ8DcOMO7f1XXi5SLkgB3N6nXFAqs6dz from"
                    .to_owned(),
                Some("MxZOimtJGW29b6LRkVN5IUwNoM.GkPZlD.bcp5dVrQ8DcOMO7f1XXi5SLkgB3N6nXFAqs6dz"),
            ),
            (
                "use SUALRRRIECMZZK42FM53GCBUVEO3JHZ36A7RRQUGEZQLM6E5SAJDKBVK2X now".to_owned(),
                Some("SUALRRRIECMZZK42FM53GCBUVEO3JHZ36A7RRQUGEZQLM6E5SAJDKBVK2X"),
            ),
            (
                "x=ghtq4i7dbs4f2d5gmbpenyvtvt2saoa2sber45jmhecfiluhso5t;".to_owned(),
                Some("ghtq4i7dbs4f2d5gmbpenyvtvt2saoa2sber45jmhecfiluhso5t"),
            ),
            // Identifiers of contents have 59, hashes have hex, and a path goes on.
            ("bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi".to_owned(), None),
            ("/store/ghtq4i7dbs4f2d5gmbpenyvtvt2saoa2sber45jmhecfiluhso5t/x".to_owned(), None),
            (
                "key team-7c9e6679-7425-40de-944b-e07fc1f90ae7-0c2f6679-7425-40de-944b-e07fc1f90a11"
                    .to_owned(),
                Some("team-7c9e6679-7425-40de-944b-e07fc1f90ae7-0c2f6679-7425-40de-944b-e07fc1f90a11"),
            ),
            ("pod-7c9e6679-7425-40de-944b-e07fc1f90ae7".to_owned(), None),
            ("OrganizationServiceFactory.Create.DefaultOrganizationServiceProxyFactory12".to_owned(), None),
        ] {
            let found = find(text.as_bytes()).into_iter().next().map(|range| text[range].to_owned());
            assert_eq!(found.as_deref(), wanted, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[a-zA-Z0-9=.+/-]{0,120}") {
            for range in find(text.as_bytes()) {
                proptest::prop_assert!(range.start < range.end && range.end <= text.len());
            }
        }
    }
}
