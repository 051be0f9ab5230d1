//! Is a value worth being searched for everywhere? One that is a word of the text around would be masked in every line.

use crate::plausible::{self, Lists};
use crate::pseudonym::MASK_START;
use crate::scrambled;

/// Shortest value that is learned, in bytes: shorter ones would turn up by chance.
pub(crate) const LEARN_MIN: usize = 6;
/// Fewest words of a sentence that is searched for: two or three words turn up by themselves.
const WORDS_MIN: usize = 4;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// Environment, command line, configuration: the caller says that it is a secret.
    Told,
    /// A key rule met it in running text.
    Text,
}

/// What is known about a value before it is searched for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Worth {
    /// It turns up by chance, or is no value.
    None,
    /// It may be a word of the text around it: text where it stands without a name speaks against it.
    Likely,
    /// Nobody writes it but as this secret.
    Certain,
}

/// Long enough, and not something that every log is full of.
pub(crate) fn worth(value: &[u8], source: Source, lists: &Lists) -> Worth {
    if value.len() < LEARN_MIN || plausible::is_placeholder(value, lists) || lists.is_never_learned(value) {
        return Worth::None;
    }
    // Nor what our own masks are made of.
    if memchr::memmem::find(value, b"redacted").is_some()
        || memchr::memmem::find(MASK_START.as_bytes(), value).is_some()
    {
        return Worth::None;
    }
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    // Numbers turn up as times and counts.
    if digits == value.len() && value.len() < 16 {
        return match source {
            Source::Told if is_long_number(value, TOLD_MIN) => Worth::Certain,
            Source::Text if is_long_number(value, MET_MIN) => Worth::Likely,
            Source::Told | Source::Text => Worth::None,
        };
    }
    // Words and names: masking `postgres` or `my-service` everywhere would ruin the recording and protect nobody.
    let wordlike = value.iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'-' | b'_' | b'.' | b' '));
    let mixed = value.iter().skip(1).any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    if wordlike && !(mixed && value.len() >= 10) && value.len() < 16 {
        return Worth::None;
    }
    // Paths and addresses name a place where the secret may be, or hold it as a part that a rule masks.
    let is_path = !crate::called::is_base64_behind_slash(value)
        && (value[0] == b'/' || value.starts_with(b"./") || value.get(1..3) == Some(b":\\"))
        && value.iter().filter(|b| matches!(b, b'/' | b'\\')).count() >= 2
        && value.iter().all(|b| {
            b.is_ascii_alphanumeric() || matches!(b, b'/' | b'\\' | b'.' | b'-' | b'_' | b':' | b' ')
        });
    // A scheme stands in front; anywhere else it may be chance.
    if is_path || memchr::memmem::find(&value[..value.len().min(128)], b"://").is_some() {
        return Worth::None;
    }
    match source {
        Source::Told => Worth::Certain,
        Source::Text if is_of_text(value) => Worth::None,
        Source::Text if is_generated(value) => Worth::Certain,
        Source::Text => Worth::Likely,
    }
}

/// Shortest number that is believed to be a password where environment or command line say so, in digits.
const TOLD_MIN: usize = 8;
/// The same where a text says so.
const MET_MIN: usize = 9;

/// A number that is no date, no time since 1970 and no round one.
fn is_long_number(value: &[u8], least: usize) -> bool {
    let is_date = value.starts_with(b"19") || value.starts_with(b"20");
    let is_time = matches!(value.len(), 10 | 13) && value[0] == b'1' && value[1] >= b'4';
    let different = (b'0'..=b'9').filter(|digit| value.contains(digit)).count();
    value.len() >= least && !is_date && !is_time && different >= 4
}

/// Something that texts are made of: words, a time, an address, code, the next setting.
fn is_of_text(value: &[u8]) -> bool {
    let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is_word = |word: &[u8]| {
        word.iter().all(|b| b.is_ascii_alphabetic() || *b >= 0x80 || matches!(b, b'\'' | b',' | b'.' | b'-'))
    };
    let (mut all, mut plain) = (0, 0);
    for word in words {
        all += 1;
        plain += usize::from(is_word(word));
    }
    (all > 1 && plain == all && all < WORDS_MIN)
        || plausible::is_pointer(value)
        || is_identifier(value)
        || is_of_numbers(value)
        || is_setting(value)
        || is_expression(value)
}

/// `testEd25519PrivateKey`, `update-secrets`, `$default`, and columns of source code: what is named after secrets, and is none.
fn is_identifier(value: &[u8]) -> bool {
    const WORDS: [&[u8]; 6] = [b"key", b"secret", b"password", b"passwd", b"token", b"session"];
    let lower = value.to_ascii_lowercase();
    let is_of_name = |b: &u8| b.is_ascii_alphanumeric() || b"_-.:$&*<>'".contains(b);
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_variable = value
        .strip_prefix(b"$")
        .is_some_and(|name| name.iter().all(|b| b.is_ascii_lowercase() || *b == b'_'));
    let is_called =
        value.iter().all(is_of_name) && digits * 3 <= value.len() && !crate::scrambled::is_scrambled(value);
    // `cryptography_has_psk_tlsv13`: words of a name, however it goes on.
    let is_snake = value.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'_')
        && value.iter().filter(|b| **b == b'_').count() >= 2
        && digits <= 3
        && crate::scrambled::bits_per_pair(value).is_some_and(|bits| bits < 4.75);
    is_variable
        || is_snake
        || contains(value, b"  ")
        || is_called && WORDS.iter().any(|word| contains(&lower, word))
}

/// `2026-11-01T10:11:12Z`, `10.0.3.17:5432`, `1.2.3`, `12/24`.
fn is_of_numbers(value: &[u8]) -> bool {
    value.len() < 40
        && value.iter().all(|b| b.is_ascii_digit() || b".:-/T Z+_,%".contains(b))
        && value.iter().any(|b| !b.is_ascii_digit())
}

/// `page=2`, `name:x`: a name with a value of its own.
fn is_setting(value: &[u8]) -> bool {
    let name =
        value.iter().take_while(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.')).count();
    let rest = &value[name..];
    // `sdbYa=K4nOfN` has no name in front.
    name >= 2
        && rest.first() == Some(&b'=')
        && rest.iter().any(|b| *b != b'=')
        && !scrambled::is_no_name(&value[..name])
        && turns(rest) < 2
}

/// How often letters and digits take turns.
fn turns(value: &[u8]) -> usize {
    let is_turn = |pair: &&[u8]| {
        pair.iter().all(u8::is_ascii_alphanumeric) && pair[0].is_ascii_digit() != pair[1].is_ascii_digit()
    };
    value.windows(2).filter(is_turn).count()
}

/// Code or a template: brackets around names, without a digit.
fn is_expression(value: &[u8]) -> bool {
    let has_bracket = value.iter().any(|b| b"()[]{}<>".contains(b));
    let is_code =
        |b: &u8| b.is_ascii_alphabetic() || *b >= 0x80 || b"()[]{}<>_.:,;=-\"'$&|*/\\ %".contains(b);
    (has_bracket && value.iter().all(is_code))
        || (value.len() < 24 && [&b"%s"[..], b"%d", b"{0}", b"${"].iter().any(|sign| contains(value, sign)))
}

fn contains(value: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(value, part).is_some()
}

/// In an order that no word and no name has, and nobody else's identifier.
fn is_generated(value: &[u8]) -> bool {
    !plausible::is_uuid(value)
        && (plausible::is_strong(value, crate::rules::Strength::Random)
            || crate::scrambled::is_scrambled(value)
            || value.len() >= 12 && crate::scrambled::is_unspoken(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Words;

    #[test]
    fn words_of_the_text_are_not_learned_from_text() {
        let lists = Lists::new(Words::load().expect("the built-in lists"));
        for (value, expected) in [
            ("hunter2x!", Worth::Likely),
            ("Madrid2024.", Worth::Likely),
            ("three little words and more", Worth::Likely),
            ("3f2504e0-4f89-41d3-9a0c-0305e82c3301", Worth::Likely),
            ("cTsFo#ujMahr9", Worth::Certain),
            ("q4gSE*V39wfngUN", Worth::Certain),
            ("9f86d081884c7d659a2feaa0c55ad015", Worth::Certain),
            ("q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQ==", Worth::Certain),
            ("Question secrète", Worth::None),
            ("see the administrator", Worth::None),
            ("(attempt", Worth::None),
            ("page=2", Worth::None),
            ("2026-11-01T10:11:12.123Z", Worth::None),
            ("10.0.3.17:5432", Worth::None),
            ("form.get(name)", Worth::None),
            ("user_%s_key", Worth::None),
            ("MyApp.Services.UserHandler2", Worth::Likely),
            ("utf8mb4_general_ci", Worth::None),
            ("cryptography_has_psk_tlsv13", Worth::None),
        ] {
            assert_eq!(worth(value.as_bytes(), Source::Text, &lists), expected, "{value}");
        }
        for (value, told, met) in [
            ("4498732945", Worth::Certain, Worth::Likely),
            ("60039199", Worth::Certain, Worth::None),
            ("1794603267", Worth::None, Worth::None),
            ("1794603267123", Worth::None, Worth::None),
            ("20261103", Worth::None, Worth::None),
            ("10000000", Worth::None, Worth::None),
            ("4498732", Worth::None, Worth::None),
        ] {
            assert_eq!(worth(value.as_bytes(), Source::Told, &lists), told, "{value}");
            assert_eq!(worth(value.as_bytes(), Source::Text, &lists), met, "{value}");
        }
        assert_eq!(worth(b"page=2", Source::Told, &lists), Worth::Certain, "what was told is believed");
    }
}
