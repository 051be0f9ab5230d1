//! What was written.

use std::time::Duration;

use super::Class;
use crate::vendor::MissingRange;

/// Bytes of each class of memory, in the order of [`Class::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ClassBytes(pub [u64; 5]);

impl ClassBytes {
    /// Bytes of one class.
    #[must_use]
    pub fn of(&self, class: Class) -> u64 {
        self.0[class.index()]
    }

    /// Of all classes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn add(&mut self, class: Class, bytes: u64) {
        self.0[class.index()] += bytes;
    }
}

/// A core, or minidump, was written to its end.
#[derive(Clone, Debug)]
pub struct CoreSummary {
    /// Size of the uncompressed core in bytes, holes included.
    pub logical_bytes: u64,
    /// Bytes given to the output; holes of a sparse file are not counted.
    pub written_bytes: u64,
    /// Memory in it by class.
    pub contents: ClassBytes,
    /// Program headers.
    pub segments: usize,
    /// What the headers say was left out, by address.
    pub left_out: Vec<MissingRange>,
    /// What the headers promise and the file does not have, by address: it was gone, or the ceiling was reached.
    pub missing: Vec<MissingRange>,
    /// From the first read until all memory that changes was read.
    pub freeze_needed: Duration,
    /// From the first read until the last byte was given to the output.
    pub total: Duration,
}

impl CoreSummary {
    /// Nothing that this kind of core should have is missing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        use crate::vendor::Reason;
        self.missing.is_empty() && !self.left_out.iter().any(|one| one.reason == Reason::Ceiling)
    }
}
