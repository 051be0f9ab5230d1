//! A stretch of text that is a text in another form, and what of it is masked for a value.

use std::ops::Range;

/// A stretch that is a text in another form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// Where it stands: one piece, or one in each line.
    pub(crate) pieces: Vec<Range<usize>>,
    /// Which part of the text each piece has; empty: they are one.
    pub(crate) of: Vec<Range<usize>>,
    /// The text.
    pub(crate) text: Vec<u8>,
}

impl Run {
    /// What is masked for a value at this place of the text.
    pub(crate) fn pieces_of(&self, value: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
        let holds = |index: usize| {
            self.of.get(index).is_none_or(|part| part.start < value.end && value.start < part.end)
        };
        self.pieces.iter().enumerate().filter(move |(index, _)| holds(*index)).map(|(_, piece)| piece.clone())
    }
}
