//! Credentials of issuers that no table lists: a random run behind a short beginning (`acme_x1`), and random runs where a value
//! stands behind a name that is not that of an identifier.
//!
//! Randomness alone says nothing: build ids, hashes and traces are what a report is read for. So what is named or begins like one of
//! them stays, and so does what has no name.

use std::ops::Range;

use crate::called::{is_called, is_file_name, is_path};
use crate::plausible::{self, Lists};
use crate::published::is_published;
use crate::scrambled::{bits_per_pair, is_scrambled};
use crate::words::words_of;

/// Shortest run that is looked at, in bytes.
const RUN_MIN: usize = 20;
/// Longest credential: what is longer is data.
const RUN_MAX: usize = 400;
/// Longest name, and longest beginning of an issuer, in bytes.
const NAME_MAX: usize = 64;
const BEGINNING_MAX: usize = 12;
/// Most groups that a credential begins with: `acme_live_sk_`.
const GROUPS_MAX: usize = 3;
/// What public keys, certificates and pictures begin with in base64.
const OPEN_DATA: [&[u8]; 16] = [
    b"LS0tLS1CRUdJTiBD",
    b"RWQ",
    b"RWR",
    b"RWS",
    b"RWT",
    b"age1",
    b"AAAAB3Nza",
    b"AAAAC3Nza",
    b"AAAAE2Vj",
    b"AAAAG",
    b"MI",
    b"iVBOR",
    b"R0lGOD",
    b"UklGR",
    b"PHN2Zy",
    b"JVBERi",
];

/// The credentials in `text`.
pub(crate) fn find(text: &[u8], lists: &Lists) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut floor, mut at) = (0, RUN_MIN - 1);
    // From behind, what ends a run is met first: hardly any byte of text is looked at.
    while at < text.len() {
        if let Some(ends) = text[floor..=at].iter().rposition(|b| !belongs(*b)) {
            floor += ends + 1;
        } else {
            let end = at + 1 + text[at + 1..].iter().take_while(|b| belongs(**b)).count();
            if end - floor <= RUN_MAX && may_be_of_credential(text, &(floor..end)) {
                let run = without_escape(text, floor..end);
                // `site-verification=x1-x2`
                let is_id = name_in_front(text, run.start)
                    .is_some_and(|name| words_of(name).any(|word| lists.names_an_id(word)));
                if !is_id && !is_published(text, &run) {
                    let credential = issued(text, &run, lists)
                        .or_else(|| numbered(text, &run))
                        .or_else(|| dotted(text, &run))
                        .or_else(|| grouped(text, &run))
                        .or_else(|| alone(text, &run))
                        .or_else(|| named(text, &run, lists));
                    found.extend(credential);
                }
            }
            floor = end;
        }
        at = floor + RUN_MIN - 1;
    }
    found
}

/// Looked up: of every text each twentieth byte is asked.
const BELONGS: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let of = byte as u8;
        table[byte] = of.is_ascii_alphanumeric() || matches!(of, b'-' | b'_');
        byte += 1;
    }
    table
};

fn belongs(byte: u8) -> bool {
    BELONGS[usize::from(byte)]
}

/// Most runs are words, numbers or ids of hex: they end here.
fn may_be_random(run: &[u8]) -> bool {
    let has = |of: fn(&u8) -> bool| run.iter().any(of);
    has(u8::is_ascii_digit) && has(|b| matches!(b, b'g'..=b'z' | b'G'..=b'Z'))
}

/// Hex with something behind a point may be the first part of one.
fn may_be_of_credential(text: &[u8], run: &Range<usize>) -> bool {
    may_be_random(&text[run.clone()]) || run.len() == 32 && text.get(run.end) == Some(&b'.')
}

/// The `n` of an escaped line end is no part of what follows.
fn without_escape(text: &[u8], run: Range<usize>) -> Range<usize> {
    let is_escape = text[..run.start].ends_with(b"\\") && matches!(text[run.start], b'n' | b'r' | b't');
    run.start + usize::from(is_escape)..run.end
}

/// `acme_x1`, `acme-live-x1`: a beginning of one to three short groups, and a random run to the end.
fn issued(text: &[u8], run: &Range<usize>, lists: &Lists) -> Option<Range<usize>> {
    let before = run.start.checked_sub(1).and_then(|before| text.get(before));
    if before.is_some_and(|b| b"/.+@%\\$".contains(b)) || is_name_or_file(text, run.end) {
        return None;
    }
    let bytes = &text[run.clone()];
    let mut start = 0;
    for _ in 0..GROUPS_MAX {
        let group = bytes[start..].iter().position(|b| matches!(b, b'-' | b'_'))?;
        let name = &bytes[start..start + group];
        // `KEY0E191CC8084ED4AD1A9B1F206C7EB504_x1`: a long number in hex is its name.
        let is_number = group >= 24
            && name[group - 16..].iter().all(u8::is_ascii_hexdigit)
            && bytes[start + group] == b'_';
        let is_beginning = is_number
            || (1..=BEGINNING_MAX).contains(&group)
                && name[0].is_ascii_alphabetic()
                && name.iter().all(u8::is_ascii_alphanumeric)
                && !is_scrambled(name);
        // `pi_x1_secret_x2`: the secret of what the first part names.
        let is_named = lists.begins_an_id(name) && memchr::memmem::find(bytes, b"_secret_").is_none();
        if !is_beginning || is_named {
            return None;
        }
        let sign = bytes[start + group];
        start += group + 1;
        let rest = &bytes[start..];
        if (is_number || rest.len() * 2 >= bytes.len())
            && (is_random(rest)
                || is_random_of_one_case(rest, sign)
                || says_secret(name) && is_short_of_one_case(rest))
        {
            return Some(run.clone());
        }
    }
    None
}

/// `skey`, `atok`: a beginning that says itself that it is a secret, and not a public one.
fn says_secret(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    [&b"key"[..], b"tok", b"token", b"sec", b"secret", b"pat", b"cred", b"pwd"]
        .iter()
        .any(|word| lower.len() > word.len() && lower.ends_with(word))
        && !lower.starts_with(b"p")
        && !lower.starts_with(b"csrf")
}

/// Letters and digits of one case behind such a beginning: no hex, and in no order that words have.
fn is_short_of_one_case(value: &[u8]) -> bool {
    (value.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        || value.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()))
        && !value.iter().all(u8::is_ascii_hexdigit)
        && plausible::has_random_run(value, 16)
        && bits_per_pair(value).is_some_and(|bits| bits >= 5.0)
}

/// `4711-x1`: a number, and a random run of thirty or more, as tokens are that name their user or their own number.
fn numbered(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = &text[run.clone()];
    let number = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let rest = bytes.get(number..)?.strip_prefix(b"-")?;
    let before = run.start.checked_sub(1).and_then(|before| text.get(before));
    let is_alone = before.is_none_or(|b| !b"/.+@%\\$".contains(b)) && !is_name_or_file(text, run.end);
    ((1..=20).contains(&number) && rest.len() >= 30 && is_random(rest) && is_alone).then(|| run.clone())
}

/// `x1.x2`, `x1.x2.x3`: random runs with points between them, of which the first may be hex.
fn dotted(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let before = run.start.checked_sub(1).and_then(|before| text.get(before));
    if before.is_some_and(|b| b"/.+@%\\$".contains(b)) || text.get(run.end) != Some(&b'.') {
        return None;
    }
    let first = &text[run.clone()];
    let is_hex = first.len() == 32 && first.iter().all(u8::is_ascii_hexdigit);
    if !is_hex && !is_random(first) {
        return None;
    }
    let mut end = run.end;
    let mut parts = 0;
    while text.get(end) == Some(&b'.') {
        let length = text[end + 1..].iter().take_while(|b| belongs(**b)).count();
        let part = &text[end + 1..end + 1 + length];
        let is_part = length >= 16
            && (plausible::has_random_run(part, 12) || is_scrambled(part))
            && bits_per_pair(part).is_none_or(|bits| bits >= 4.75);
        if !is_part {
            break;
        }
        parts += 1;
        end += 1 + length;
    }
    (parts > 0 && !is_name_or_file(text, end)).then_some(run.start..end)
}

/// `Z86OQJWH-O0E2X82Y-75V3N0EO-LUX220FC`: four or more groups of one length, of capital letters and digits, and no hex.
fn grouped(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = &text[run.clone()];
    let groups = bytes.split(|b| *b == b'-').count();
    let before = run.start.checked_sub(1).and_then(|before| text.get(before));
    let is_alone = before.is_none_or(|b| !b"/.+@%\\$".contains(b)) && !is_name_or_file(text, run.end);
    let turns = bytes.windows(2).filter(|pair| pair[0].is_ascii_digit() != pair[1].is_ascii_digit()).count();
    (groups >= 4 && turns >= 2 * groups && plausible::is_of_groups(bytes) && is_alone).then(|| run.clone())
}

/// Shortest run that stands alone and has no beginning, in bytes, and fewest letters and digits of it that hex and base32 have not.
const ALONE_MIN: usize = 40;
const BEYOND_MIN: usize = 3;

/// A long random run that stands alone, whatever begins it: no hash (hex), no id of content (base32), no part of a path or of base64.
fn alone(text: &[u8], run: &Range<usize>) -> Option<Range<usize>> {
    let bytes = &text[run.clone()];
    let before = run.start.checked_sub(1).and_then(|before| text.get(before));
    let is_alone = before.is_none_or(|b| b.is_ascii_whitespace() || b"\"'`=<([{".contains(b))
        && text.get(run.end).is_none_or(|b| b.is_ascii_whitespace() || b"\"'`<>)]},;|&*\\".contains(b))
        && !is_in_block(text, run)
        // `0x938F94a2DCcC...`: an address, whose capitals are its checksum.
        && !bytes.strip_prefix(b"0x").is_some_and(|hex| hex.len() == 40 && hex.iter().all(u8::is_ascii_hexdigit))
        && !is_public_bech32(bytes);
    if bytes.len() < ALONE_MIN || !is_alone || OPEN_DATA.iter().any(|open| bytes.starts_with(open)) {
        return None;
    }
    let count = |of: fn(&u8) -> bool| bytes.iter().filter(|b| of(b)).count();
    let is_one_case = count(u8::is_ascii_lowercase) == 0 || count(u8::is_ascii_uppercase) == 0;
    let is_credential = if is_one_case {
        count(|b| matches!(b, b'g'..=b'z' | b'G'..=b'Z')) >= BEYOND_MIN
            && count(|b| matches!(b, b'0' | b'1' | b'8' | b'9')) >= BEYOND_MIN
            && count(|b| matches!(b, b'-' | b'_')) == 0
            && plausible::has_random_run(bytes, ALONE_MIN)
    } else {
        // Names of contents in base58: 46 letters and digits.
        !(bytes.len() == 46 && bytes.starts_with(b"Qm")) && is_random(bytes)
    };
    is_credential.then(|| run.clone())
}

/// `bc1qw508d6qejxtdg...`: an address or public key, with a name, a one and letters of its own alphabet.
fn is_public_bech32(run: &[u8]) -> bool {
    const ALPHABET: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    let rest = run.iter().rposition(|b| *b == b'1').map_or(&run[..0], |one| &run[one + 1..]);
    rest.len() >= 32 && rest.iter().all(|b| ALPHABET.contains(&b.to_ascii_lowercase()))
}

/// Is it a line of a block of base64, as pictures and certificates are written?
fn is_in_block(text: &[u8], run: &Range<usize>) -> bool {
    let is_data = |line: &[u8]| {
        let line = line.trim_ascii_end();
        let word = &line[line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |blank| blank + 1)..];
        word.ends_with(b"-----")
            || word.len() >= ALONE_MIN
                && word.iter().all(|b| b.is_ascii_alphanumeric() || b"+/=-_".contains(b))
    };
    let line_of = |bytes: &[u8]| bytes.iter().take(RUN_MAX).take_while(|b| **b != b'\n').count();
    let line = run.start - text[..run.start].iter().rev().take(RUN_MAX).take_while(|b| **b != b'\n').count();
    let before = text[..line].strip_suffix(b"\n").map(|before| {
        let length = before.iter().rev().take(RUN_MAX).take_while(|b| **b != b'\n').count();
        is_data(&before[before.len() - length..])
    });
    let behind = text[run.end..].strip_prefix(b"\n").map(|behind| is_data(&behind[..line_of(behind)]));
    // As long as the lines of PEM and MIME are, and nothing else on its line.
    let is_line = line == run.start && text.get(run.end).is_none_or(|b| matches!(b, b'\n' | b'\r'));
    is_line && matches!(run.len(), 64 | 76) || before == Some(true) || behind == Some(true)
}

/// Is it followed by what follows a name (`=1`, `(x)`, `/x`), or by the ending of a file?
fn is_name_or_file(text: &[u8], end: usize) -> bool {
    match text.get(end..).unwrap_or_default() {
        [b'(' | b'/' | b'+' | b'[' | b'*', ..] => true,
        [b'=', next, ..] => *next != b'=' && !next.is_ascii_whitespace() && !b"\"'&,;)".contains(next),
        [b'.', rest @ ..] => rest.first().is_some_and(u8::is_ascii_alphanumeric),
        _ => false,
    }
}

/// Small and capital letters and digits, in no order that words have; `-` and `_` may be of the alphabet.
fn is_random(value: &[u8]) -> bool {
    let body: Vec<u8> = value.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
    let count = |of: fn(&u8) -> bool| body.iter().filter(|b| of(b)).count();
    body.len() >= RUN_MIN
        && (value.len() - body.len()) * 7 <= value.len()
        && count(u8::is_ascii_lowercase) >= 2
        && count(u8::is_ascii_uppercase) >= 2
        && count(u8::is_ascii_digit) >= 1
        && is_scrambled(&body)
        && bits_per_pair(&body).is_some_and(|bits| bits >= 5.25)
        && !is_called(value)
}

/// The same of one case: letters and digits that are no hex, or behind `_` as much hex as a key has.
fn is_random_of_one_case(value: &[u8], sign: u8) -> bool {
    let is_one = value.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        || value.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if !is_one || !plausible::has_random_run(value, RUN_MIN) {
        return false;
    }
    if value.iter().all(u8::is_ascii_hexdigit) {
        return sign == b'_' && value.len() >= 32;
    }
    value.len() >= 24 && bits_per_pair(value).is_some_and(|bits| bits >= 5.0)
}

/// A random run behind a name (`acme = "x1"`, `X-Acme: x1`, `--acme x1`, `<acme>x1</acme>`) that is not that of an identifier.
fn named(text: &[u8], run: &Range<usize>, lists: &Lists) -> Option<Range<usize>> {
    let is_of_value = |b: &&u8| b.is_ascii_alphanumeric() || b"+/-_.~".contains(b);
    let before = text[..run.start].iter().rev().take(RUN_MAX).take_while(is_of_value).count();
    let behind = text[run.end..].iter().take(RUN_MAX).take_while(is_of_value).count();
    let (start, mut end) = (run.start - before, run.end + behind);
    while text[..end].ends_with(b".") {
        end -= 1;
    }
    let value = &text[start..end];
    let signs = value.iter().filter(|b| !b.is_ascii_alphanumeric()).count();
    let body: Vec<u8> = value.iter().copied().filter(u8::is_ascii_alphanumeric).collect();
    let is_value = (RUN_MIN..=RUN_MAX).contains(&value.len())
        && signs * 8 <= value.len()
        && is_random(&body)
        && !is_path(value)
        && !is_file_name(value)
        && !OPEN_DATA.iter().any(|open| value.starts_with(open))
        && !value.split(|b| !b.is_ascii_alphanumeric()).any(|part| lists.begins_an_id(part));
    let padding = text[end..].iter().take(2).take_while(|b| **b == b'=').count();
    let next = text.get(end + padding);
    let is_ended = next.is_none_or(|b| b.is_ascii_whitespace() || b"\"'`,;&<>)}]|\\".contains(b));
    if !is_value || !is_ended {
        return None;
    }
    let name = name_in_front(text, start)?;
    // Rules of keys know which ones those of stores are.
    if words_of(name).last().is_some_and(|word| word.eq_ignore_ascii_case(b"key")) {
        return None;
    }
    let is_of_id = words_of(name).any(|word| lists.names_an_id(word) || lists.is_neutral_after(word));
    let letters = name.iter().filter(|b| b.is_ascii_alphabetic() || **b >= 0x80).count();
    // `-uapp -px1`: the letter of an option is no part of its value.
    let is_option = matches!(value, [b'-', letter, ..] if letter.is_ascii_alphabetic())
        && text[..start].last().is_some_and(u8::is_ascii_whitespace)
        && value.len() >= RUN_MIN + 2;
    let start = start + if is_option { 2 } else { 0 };
    (letters >= 3 && !is_of_id).then_some(start..end + padding)
}

/// The name that the value at `at` is assigned to.
fn name_in_front(text: &[u8], at: usize) -> Option<&[u8]> {
    let without = |text: &'_ [u8], signs: &[u8], most: usize| {
        text.len() - text.iter().rev().take(most).take_while(|b| signs.contains(b)).count()
    };
    let text = &text[at.saturating_sub(2 * NAME_MAX)..at];
    let quoted = without(text, b"\"'`\\", 4);
    let before = &text[..quoted];
    let assigned = &before[..without(before, b" \t", 8)];
    let name_end = match assigned {
        [head @ .., b'='] => without(head, b":?+ \t", 8),
        [head @ .., b'=', b'>'] => without(head, b" \t", 8),
        // `https://x`, `12:30`
        [head @ .., b':'] if !head.last().is_some_and(u8::is_ascii_digit) => without(head, b" \t", 2),
        [_, .., b'>'] if assigned.len() == text.len() => {
            let element = &assigned[..assigned.len() - 1];
            let open = element.iter().rposition(|b| *b == b'<')?;
            let name = &element[open + 1..];
            let name = &name[..name.iter().position(u8::is_ascii_whitespace).unwrap_or(name.len())];
            return name.first().filter(|b| b.is_ascii_alphabetic()).map(|_| name);
        }
        // `--acme x1`
        _ if assigned.len() < before.len() => {
            let start = assigned.iter().rposition(u8::is_ascii_whitespace).map_or(0, |last| last + 1);
            let flag = assigned[start..].strip_prefix(b"-")?;
            return flag.iter().all(|b| belongs(*b)).then_some(flag);
        }
        _ => return None,
    };
    let head = &assigned[..name_end];
    let head = &head[..without(head, b"\"'`\\]", 4)];
    let is_of_name = |b: &&u8| b.is_ascii_alphanumeric() || b"_-.$".contains(b) || **b >= 0x80;
    let length = head.iter().rev().take(NAME_MAX).take_while(is_of_name).count();
    (length > 0).then(|| &head[head.len() - length..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Words;

    fn found(text: &str) -> Vec<&str> {
        let lists = Lists::new(Words::load().expect("the lists are right"));
        find(text.as_bytes(), &lists).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn beginnings_of_unknown_issuers_are_told() {
        for token in [
            "zorb_9fKq2LxV7bTn4WsYc8Ed",
            "qux-live-9fKq2LxV7bTn4WsYc8EdPm",
            "zorb_a8f5f167f44f4964e6c998dee827110c",
            "zorb_kq92xmv7w4z1p8t6yh3jr5ub",
            "zkey_mqu6q7xve4510ktuqpv",
            "frobpat_9fKq2_xV7bTn4Ws-c8EdQz",
            "Z86OQJWH-O0E2X82Y-75V3N0EO-LUX220FC",
            "492554818d6ac99ce635eecd87550819.9sXjLPcF0ztLEEB07cQxj1EN",
            "9fKq2LxV7bTn4WsYc8EdPm.wn1NlWojTApCGlBhb2EGU3ZP",
            "4711-HfP8GZBsFdtS8gSpGbT6NfBI8nLSlSvsPGRCx5pKW82",
            "pi_3MtwBwLkdIwHu7ix28a3tqPa_secret_YrKJUKribcBjcG8HVhfZluoGH",
        ] {
            assert_eq!(found(&format!("the answer to {token} was late")), [token]);
            assert_eq!(found(&format!("{{\"x\":\"{token}\"}}")), [token]);
        }
    }

    #[test]
    fn random_values_behind_names_are_told() {
        let value = "9fKq2LxV7bTn4WsYc8EdPm";
        for text in [
            format!("zorblax = \"{value}\""),
            format!("X-Zorblax: {value}"),
            format!("run --zorblax {value} now"),
            format!("<zorblax>{value}</zorblax>"),
            format!("{{\"zorblax\":\"{value}\"}}"),
            format!("GET /x?zorblax={value}&y=1"),
            format!("zorblax => '{value}',"),
            format!("slaptas: {value}"),
            format!("run -zorblax -p{value} now"),
        ] {
            assert_eq!(found(&text), [value], "{text}");
        }
    }

    #[test]
    fn identifiers_hashes_and_names_stay() {
        for text in [
            "google-site-verification=HgbbChUK-e530bvpCc6J1VknNoTrECKYz8DSQXkw03F",
            "request_id=9fKq2LxV7bTn4WsYc8EdPm",
            "etag: \"9fKq2LxV7bTn4WsYc8EdPm\"",
            "\"integrity\": \"sha384-9fKq2LxV7bTn4WsYc8EdPm9fKq2LxV7bTn4WsYc8EdPm\"",
            "SHA256:uNiVztksCsDhcc0u9e8BrzP3zDlZ0Tz1zQ1wUuZyJZk",
            "github.com/x/y v1.2.3 h1:9fKq2LxV7bTn4WsYc8EdPm+x=",
            "req_9fKq2LxV7bTn4WsYc8Ed done",
            "pkey_mqu6q7xve4510ktuqpv",
            "zorb_mqu6q7xve4510ktuqpv",
            "cus_9fKq2LxV7bTn4WsYc8Ed paid",
            "pi_3MtwBwLkdIwHu7ix28a3tqPa succeeded",
            "\"if-none-match\":\"W/\\\"e88-OMq8cEwqVYRhboXwtHfMHZEo3Hz\\\"\"",
            "src=/static/main-9fKq2LxV7bTn4WsYc8Ed.js",
            "_ZN4core3fmt9Formatter9pad17h9f8e7d6c5b4a3210E",
            "at UpdateParseToMoneyTypeV1Beta1Factory.create",
            "kubernetes_pod_container_status_restarts_2",
            "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl",
            "image-a8f5f167f44f4964e6c998dee827110c",
            "QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKWbqv pinned",
            "CLSID {7C9E6679-7425-40DE-944B-E07FC1F90AE7}",
            "took 12 ms: 9fKq2LxV7bTn4WsYc8EdPm",
            "cache_a8f5f167f44f4964e6c998dee827110c hit",
        ] {
            assert_eq!(found(text), Vec::<&str>::new(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_taken(text in "[a-zA-Z0-9=:\"<>_ .+/-]{0,120}") {
            for value in found(&text) {
                proptest::prop_assert!(!value.is_empty());
            }
        }
    }
}
