//! Numbers and texts as short as a page needs them.

use crate::units::to_f64;
use biopsy_model::Nanos;

/// Everything up to `limit` bytes, not inside a character.
pub(super) fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Four significant digits: more cannot be seen, and the page stays small.
pub(super) fn round(value: f64) -> f64 {
    crate::units::significant(value, 4)
}

/// A count of nanoseconds in whole microseconds.
pub(super) fn micros(time: Nanos) -> f64 {
    (to_f64(time.0) / 1e3).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_between_characters() {
        assert_eq!(cut("aä", 2), "a");
        assert_eq!(cut("aä", 3), "aä");
    }
}
