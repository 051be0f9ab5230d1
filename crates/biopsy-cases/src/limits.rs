//! How much a query may take.

/// Most memory of what a query gathers: sorts, groups and joins. What it reads on the way is not counted, and little.
pub(crate) const MOST_MEMORY: usize = 256 << 20;
/// Parts of a query that run at once.
pub(crate) const MOST_PARTITIONS: usize = 4;
/// Longest question, in bytes.
pub(crate) const LONGEST_QUESTION: usize = 64 << 10;
