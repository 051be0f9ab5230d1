//! A chunk: the size of the one before it (only if that is free), its own size with three flags, and what the program sees.

use crate::window::Window;

/// From a chunk to the memory that the program sees; in a free one, the pointers to its neighbours in a bin are there.
pub(super) const BACK: u64 = 16;
/// Chunks begin at multiples of it.
pub(super) const ALIGNMENT: u64 = 16;
/// The smallest that can be given out.
pub(super) const SMALLEST: u64 = 32;
/// What ends a heap that cannot grow: two chunks of a header each, never free.
pub(super) const FENCE: u64 = 16;

const PREVIOUS_IN_USE: u64 = 1;
const IS_MAPPED: u64 = 2;
const FLAGS: u64 = 7;

/// The header of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    /// Bytes with the header.
    pub(super) size: u64,
    /// The one before it is in use.
    pub(super) previous_in_use: bool,
    /// It has a mapping of its own.
    pub(super) is_mapped: bool,
}

impl Header {
    /// Reads it; `None` where memory is missing.
    pub(super) fn read(window: &mut Window<'_>, chunk: u64) -> Option<Self> {
        let word = window.word(chunk.checked_add(8)?)?;
        Some(Self {
            size: word & !FLAGS,
            previous_in_use: word & PREVIOUS_IN_USE != 0,
            is_mapped: word & IS_MAPPED != 0,
        })
    }
}
