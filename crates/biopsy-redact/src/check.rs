//! What an expression cannot say of a value: checksums, numbers in bounds, and what stands around it.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use serde::Deserialize;

/// What else a value must be.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Check {
    /// An address of a machine, and no version.
    Ipv4,
    /// The same, of the newer kind.
    Ipv6,
    /// An address of a network card, and no fingerprint.
    Mac,
    /// An account number by its length and checksum (ISO 13616).
    Iban,
    /// The number of a card by its checksum (Luhn).
    Card,
    /// A number in the international form.
    Phone,
    /// A name of a machine, and not this one whatever it is called.
    Host,
    /// What a header of HTTP says, and no name of code or of a header.
    Credentials,
    /// No `Password: ` that a program asks with.
    NoPrompt,
    /// A password in an address, and no example's `user:password`.
    OfAddress,
}

impl Check {
    /// The part of the value that is one.
    pub(crate) fn part(self, text: &[u8], value: Range<usize>) -> Option<Range<usize>> {
        let value = if self == Self::Credentials { within_query(text, value) } else { value };
        let bytes = &text[value.clone()];
        let before = text[..value.start].last().copied();
        let behind = text.get(value.end).copied();
        let is_alone = !before.is_some_and(is_of_word) && !behind.is_some_and(is_of_word);
        let is = match self {
            Self::Ipv4 => is_alone && !goes_on(text, value.end, b'.') && is_ipv4(&text[..value.start], bytes),
            Self::Ipv6 => {
                is_alone && before != Some(b':') && !goes_on(text, value.end, b':') && is_ipv6(bytes)
            }
            Self::Mac => {
                is_alone && !matches!(before, Some(b':' | b'-')) && !matches!(behind, Some(b':' | b'-'))
            }
            Self::Iban => return iban(bytes).map(|length| value.start..value.start + length),
            Self::Card => is_alone && !goes_on(text, value.end, b'.') && is_card(bytes),
            Self::Phone => is_alone && (8..=15).contains(&digits(bytes).count()),
            Self::Host => !is_this_host(bytes),
            Self::Credentials => is_credentials(&text[..value.start], bytes) && !is_filled_in(text, &value),
            Self::NoPrompt => !bytes.trim_ascii_end().ends_with(b":"),
            Self::OfAddress => !is_example(&text[..value.start], bytes),
        };
        is.then_some(value)
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Does a number go on here: `.5` behind `1.2.3.4`?
fn goes_on(text: &[u8], at: usize, sign: u8) -> bool {
    text.get(at) == Some(&sign) && text.get(at + 1).is_some_and(|b| b.is_ascii_alphanumeric())
}

fn is_ipv4(before: &[u8], value: &[u8]) -> bool {
    let Some(address) = std::str::from_utf8(value).ok().and_then(|text| text.parse::<Ipv4Addr>().ok()) else {
        return false;
    };
    // `Version=4.6.1.3`, `Chrome/120.0.0.0`, `v1.2.3.4`, `1.2.3.4-5`.
    let head = before[before.len().saturating_sub(9)..].to_ascii_lowercase();
    let is_version = ["version ", "version=", "version: ", "version\":\"", "ver "]
        .iter()
        .any(|word| head.ends_with(word.as_bytes()))
        || matches!(head[..], [.., b, b'/'] if b.is_ascii_alphabetic())
        || matches!(head[..], [.., b'.' | b'-']);
    !is_version && !address.is_loopback() && !address.is_unspecified() && address.octets()[0] != 0
}

fn is_ipv6(value: &[u8]) -> bool {
    let address = std::str::from_utf8(value).ok().and_then(|text| text.parse::<Ipv6Addr>().ok());
    // `::` and `dead::` are signs of code.
    address.is_some_and(|address| !address.is_loopback() && !address.is_unspecified())
        && value.iter().filter(|b| **b == b':').count() >= 3
}

fn digits(value: &[u8]) -> impl DoubleEndedIterator<Item = u32> {
    value.iter().filter_map(|byte| char::from(*byte).to_digit(10))
}

fn is_card(value: &[u8]) -> bool {
    let length = digits(value).count();
    let all_same = digits(value).all(|digit| Some(digit) == digits(value).next());
    let sum: u32 = digits(value)
        .rev()
        .enumerate()
        .map(|(place, digit)| match (place % 2, digit) {
            (0, digit) => digit,
            (_, digit) if digit < 5 => digit * 2,
            (_, digit) => digit * 2 - 9,
        })
        .sum();
    (13..=19).contains(&length) && !all_same && sum.is_multiple_of(10)
}

/// Lengths of account numbers by country (registry of ISO 13616).
const IBAN_LENGTHS: &str = "AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18\
FR27GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30\
NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30";

/// How many bytes of the value are an account number.
fn iban(value: &[u8]) -> Option<usize> {
    let country = value.get(..2)?.to_ascii_uppercase();
    let row = IBAN_LENGTHS.as_bytes().chunks_exact(4).find(|row| row[..2] == country[..])?;
    let wanted = usize::from((row[2] - b'0') * 10 + (row[3] - b'0'));
    let mut letters = Vec::with_capacity(wanted);
    let mut end = 0;
    for (at, byte) in value.iter().enumerate() {
        if *byte != b' ' && *byte != b'-' {
            letters.push(byte.to_ascii_uppercase());
        }
        if letters.len() == wanted {
            end = at + 1;
            break;
        }
    }
    if end == 0 || value.get(end).is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    letters.rotate_left(4);
    let rest = letters.iter().try_fold(0, |rest: u32, byte| {
        let digit = char::from(*byte).to_digit(36)?;
        let shift = if digit > 9 { 100 } else { 10 };
        Some((rest * shift + digit) % 97)
    });
    (rest == Some(1)).then_some(end)
}

fn is_this_host(value: &[u8]) -> bool {
    let name = value.to_ascii_lowercase();
    let is_number = name.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let is_loopback = name == b"localhost" || name.starts_with(b"127.") || name == b"0.0.0.0";
    // Addresses have a rule of their own.
    is_number || is_loopback
}

/// `Bearer abc`, `abc123`, and not `Authorization::layer`, `'authorization', 'content-length'`, `= _auth_str(user)`, `=> $auth`.
fn is_credentials(before: &[u8], value: &[u8]) -> bool {
    let is_of_path = before.ends_with(b"::") || before.ends_with(b"::{");
    let is_name =
        |bytes: &[u8]| bytes.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.'));
    let is_variable = value.strip_prefix(b"$").is_some_and(is_name);
    let call = value.iter().position(|b| matches!(b, b'(' | b'[' | b'{')).unwrap_or(0);
    let is_call = call > 0 && is_name(&value[..call]);
    // Behind a scheme a word may be one.
    let head = before.trim_ascii_end();
    let has_scheme = before.len() > head.len()
        && head.last().is_some_and(|b| b.is_ascii_alphanumeric())
        && !head.to_ascii_lowercase().ends_with(b"authorization");
    let is_word = !has_scheme && is_name(value) && value.len() < 32 && !crate::scrambled::is_scrambled(value);
    !is_of_path && !is_variable && !is_call && !is_word
}

/// `Authorization: Bearer {token}`: what documentation and clients fill in: one word in braces.
fn is_filled_in(text: &[u8], value: &Range<usize>) -> bool {
    let bytes = &text[value.clone()];
    let word = bytes.strip_prefix(b"{").unwrap_or(bytes);
    let is_open = word.len() < bytes.len() || text[..value.start].ends_with(b"{");
    is_open
        && text.get(value.end) == Some(&b'}')
        && (1..=32).contains(&word.len())
        && word.iter().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-' | b'.'))
}

/// `/a?authorization=x1&lang=en`: in a query the next parameter is none of the credentials.
fn within_query(text: &[u8], value: Range<usize>) -> Range<usize> {
    const NAME: &[u8] = b"authorization=";
    let before = &text[..value.start];
    let start = before.len().saturating_sub(NAME.len());
    let is_of_query =
        before[start..].eq_ignore_ascii_case(NAME) && matches!(before[..start].last(), Some(b'?' | b'&'));
    let end = memchr::memchr(b'&', &text[value.clone()]).filter(|_| is_of_query);
    value.start..end.map_or(value.end, |end| value.start + end)
}

/// `user:password@`, `username:pass@`: what documentation writes.
fn is_example(before: &[u8], value: &[u8]) -> bool {
    let user = before.strip_suffix(b":").unwrap_or(before);
    let user = &user[user.iter().rposition(|b| !b.is_ascii_alphanumeric()).map_or(0, |at| at + 1)..];
    let is = |words: &[&[u8]], word: &[u8]| words.iter().any(|one| one.eq_ignore_ascii_case(word));
    is(&[b"user", b"username", b"login", b"usr"], user)
        && is(&[b"password", b"passwd", b"pass", b"pwd", b"pw"], value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'t>(check: Check, text: &'t str, value: &str) -> Option<&'t str> {
        let start = text.find(value).expect("it is there");
        check.part(text.as_bytes(), start..start + value.len()).map(|range| &text[range])
    }

    #[test]
    fn versions_and_fingerprints_are_no_addresses() {
        for (check, text, value, is_one) in [
            (Check::Ipv4, "from 10.1.2.3:80", "10.1.2.3", true),
            (Check::Ipv4, "http://192.0.2.7/", "192.0.2.7", true),
            (Check::Ipv4, "Version=4.6.1.3", "4.6.1.3", false),
            (Check::Ipv4, "Chrome/120.0.0.1", "120.0.0.1", false),
            (Check::Ipv4, "1.2.3.4.5", "1.2.3.4", false),
            (Check::Ipv4, "at 127.0.0.1", "127.0.0.1", false),
            (Check::Ipv6, "from [2001:db8::7]:80", "2001:db8::7", true),
            (Check::Ipv6, "at 10:11:12 x", "10:11:12", false),
            (Check::Ipv6, "a ::1 b", "::1", false),
            (Check::Mac, "eth0 52:54:00:12:34:56 up", "52:54:00:12:34:56", true),
            (Check::Mac, "MD5 aa:52:54:00:12:34:56", "52:54:00:12:34:56", false),
            (Check::Host, "//db1.example.com/", "db1.example.com", true),
            (Check::Host, "//localhost/", "localhost", false),
        ] {
            assert_eq!(part(check, text, value), is_one.then_some(value), "{text}");
        }
    }

    #[test]
    fn numbers_of_cards_and_accounts_have_checksums() {
        assert_eq!(
            part(Check::Card, "card 4111 1111 1111 1111.", "4111 1111 1111 1111"),
            Some("4111 1111 1111 1111")
        );
        assert_eq!(part(Check::Card, "id 4111111111111112", "4111111111111112"), None);
        assert_eq!(part(Check::Card, "id 0000000000000000", "0000000000000000"), None);
        let account = "DE89 3704 0044 0532 0130 00";
        assert_eq!(
            part(Check::Iban, "to DE89 3704 0044 0532 0130 00 paid", "DE89 3704 0044 0532 0130 00 paid"),
            Some(account)
        );
        assert_eq!(
            part(Check::Iban, "gb82west12345698765432", "gb82west12345698765432"),
            Some("gb82west12345698765432")
        );
        assert_eq!(part(Check::Iban, "GB83WEST12345698765432", "GB83WEST12345698765432"), None);
        assert_eq!(part(Check::Iban, "XX89370400440532013000", "XX89370400440532013000"), None);
    }
}
