//! What a reader gives.

use std::ops::Range;

use biopsy_model::footprint::AllocatorFacts;

/// What was read of one allocator, and where it is.
#[derive(Default)]
pub(crate) struct Read {
    /// `None`: it is there and was not understood; a warning says why.
    pub(crate) facts: Option<AllocatorFacts>,
    /// Memory of arenas, by address.
    pub(crate) heaps: Vec<Range<u64>>,
    /// Blocks with a mapping of their own, by address.
    pub(crate) mapped: Vec<Range<u64>>,
    /// Bookkeeping that leads to free blocks, by address.
    pub(crate) books: Vec<Range<u64>>,
    pub(crate) warnings: Vec<String>,
}
