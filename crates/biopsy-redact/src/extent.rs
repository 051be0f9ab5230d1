//! Whether a text is all that there is, or more follows.

use std::ops::Range;

/// Longest value at the end of a text that is taken for a whole one: what a quote that is never closed makes of the rest of a file is no value.
const VALUE_MAX: usize = 512;

/// How much of a text is at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// It ends where it ends: a file's last line may have no line end, and its value is as whole as others.
    Whole,
    /// More may follow: a value at its end may go on.
    Part,
}

impl Extent {
    /// Whether a value that reaches the end of the text ends there.
    pub(crate) fn ends(self, text: &[u8], value: &Range<usize>) -> bool {
        let is_quoted = value
            .start
            .checked_sub(1)
            .and_then(|before| text.get(before))
            .is_some_and(|b| matches!(b, b'"' | b'\'' | b'`'));
        self == Self::Whole
            && value.end == text.len()
            && value.len() <= VALUE_MAX
            && !is_quoted
            && !text.get(value.clone()).is_some_and(|value| value.contains(&b'\n'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_of_a_text_is_whole_and_that_of_a_piece_may_go_on() {
        let ends =
            |extent: Extent, text: &str, from: usize| extent.ends(text.as_bytes(), &(from..text.len()));
        assert!(ends(Extent::Whole, "KEY=value", 4));
        assert!(!ends(Extent::Part, "KEY=value", 4));
        // A quote that is open, a value over lines, and one that is most of a file.
        assert!(!ends(Extent::Whole, "KEY=\"value", 5));
        assert!(!ends(Extent::Whole, "KEY=value\nmore", 4));
        assert!(!ends(Extent::Whole, &format!("KEY={}", "v".repeat(600)), 4));
        assert!(!Extent::Whole.ends(b"KEY=value;", &(4..9)), "it does not reach the end");
    }
}
