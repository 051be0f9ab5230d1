//! What somebody or something has made up: passwords of programs, and names of code, which look alike.

use crate::called::{is_called, is_path, is_release};
use crate::reference::is_reference;
use crate::scrambled::{bits_per_pair, is_no_name, is_scrambled, is_unspoken};

/// `address2`, `last_login`, `createdAt`: the name of a column or a variable, with a number behind it at most.
pub(crate) fn is_named_like_code(value: &[u8]) -> bool {
    let end = value.iter().rposition(|b| !b.is_ascii_digit()).map_or(0, |last| last + 1);
    let is_name =
        value[..end].iter().all(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'-' | b'.' | b' '));
    is_name && value.len() - end <= 2 && !is_no_name(value) && !is_unspoken(value)
}

/// `sk0eaceAWbvQsdVK`, `C622vx!5y9j7nibn`: a password that a program has made, where nothing says so. No hash, number of something,
/// path, address or name is one.
pub(crate) fn is_generated(value: &[u8]) -> bool {
    let count = |of: fn(&u8) -> bool| value.iter().filter(|b| of(b)).count();
    let (lower, upper) = (count(u8::is_ascii_lowercase), count(u8::is_ascii_uppercase));
    let (digits, signs) = (count(u8::is_ascii_digit), count(|b| b"!#$%^&*~?".contains(b)));
    let is_plain = value.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%^&*~?_-.+@=".contains(b));
    let is_option = value.starts_with(b"-") || value.starts_with(b"+") || value.starts_with(b"$");
    (8..=64).contains(&value.len())
        && is_plain
        && !is_option
        && lower >= 2
        && (digits >= 1 || value.len() >= 14 && upper >= 3 && is_no_name(value) && is_unspoken(value))
        && (upper >= 2 && value.len() >= 12
            || upper >= 1 && signs >= 1
            || signs >= 1 && digits >= 2
            || upper >= 1 && digits >= 3 && is_scrambled(value))
        && !value.windows(2).any(|pair| matches!(pair, b"%d" | b"%s" | b"%Y"))
        && value[1..value.len() - 1].iter().filter(|b| **b == b'=').count() == 0
        && (signs > 0 || is_scrambled(value) || bits_per_pair(value).is_some_and(|bits| bits >= 5.25))
        && !is_called(value)
        && !is_release(value)
        && !is_path(value)
        && !is_reference(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_make_is_told_from_what_things_are_called() {
        for made in ["sk0eaceAWbvQsdVK", "C622vx!5y9j7nibn", "tvGNdFCUacOiLQPG", "Lzk7xt2_1em6b"] {
            assert!(is_generated(made.as_bytes()), "{made}");
        }
        for other in [
            "UserServiceFactory2",
            "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
            "-XX:+UseG1GC",
            "shop-2026-11-02.tar",
            "/srv/App2x!",
            "%Y-%m-%dT%H",
        ] {
            assert!(!is_generated(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn names_of_code_are_told_by_their_letters() {
        assert!(is_named_like_code(b"address2") && !is_named_like_code(b"Bl4u77"));
    }
}
