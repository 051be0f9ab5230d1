//! The trait.

use std::ops::Range;

use crate::{Crash, ImageModule, Mapping, ProcessFacts, ReadError, Thread};

/// The memory of one process at one moment, and what is known about it.
///
/// Implementations are cheap to share: all methods take `&self`, and several threads may read at once.
pub trait Image: Send + Sync {
    /// Reads memory from `address` on into `buffer` and returns how many bytes were read: at least 1 (0 only for an
    /// empty buffer), and fewer than asked for where a byte follows that the image does not have. Never fills up
    /// with zeros: bytes that are missing are an error that says why ([`ReadError::Missing`]), given when the very
    /// first byte is missing.
    ///
    /// # Errors
    /// [`ReadError::Missing`] when the byte at `address` is not in the image; the others when the source cannot be
    /// read or is damaged.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError>;

    /// All mappings, by address, not overlapping.
    fn mappings(&self) -> &[Mapping];

    /// All threads; the one that the dump is about first (the crashed one, else the main thread).
    fn threads(&self) -> &[Thread];

    /// Files mapped as code or data that were recognised as modules, by address.
    fn modules(&self) -> &[ImageModule];

    /// Facts of the process.
    fn process(&self) -> &ProcessFacts;

    /// What the process died of, where that is known. For signals it is also in the thread ([`Thread::signal`]). An image
    /// that wraps another passes it on.
    fn crash(&self) -> Option<&Crash> {
        None
    }

    /// Appends to `runs` the parts of `range` whose bytes are in the image *and* may differ from zero or from the
    /// mapped file: pages that were written, in the case of a live process. What is left out of an anonymous mapping
    /// reads as zeros in the process; what is left out of a file mapping is in the file. Runs are by address, page
    /// granular, cut to `range`, not touching each other. An image that does not know says the whole range is there.
    /// Memory that a dump lacks although nobody knows that it was zeros is a run too, one of its own: reading it says why it
    /// is missing.
    ///
    /// # Errors
    /// The source cannot be asked any more.
    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        runs.push(range);
        Ok(())
    }

    /// Appends to `runs` the parts of `range`, a shared mapping of a file that is memory (memfd, System V, `/dev/shm`, shared
    /// anonymous memory), that hold data, whoever wrote it: nothing but this process's memory will have them later, and
    /// reading what was never written makes pages, which the target pays for. Runs as in [`Image::written`], which is asked
    /// unless an image knows better.
    ///
    /// # Errors
    /// The source cannot be asked any more.
    fn populated(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        self.written(range, runs)
    }
}

/// What is lent is an image too, so that wrappers can be put around what somebody else holds.
impl<I: Image + ?Sized> Image for &I {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        (**self).read(address, buffer)
    }

    fn mappings(&self) -> &[Mapping] {
        (**self).mappings()
    }

    fn threads(&self) -> &[Thread] {
        (**self).threads()
    }

    fn modules(&self) -> &[ImageModule] {
        (**self).modules()
    }

    fn process(&self) -> &ProcessFacts {
        (**self).process()
    }

    fn crash(&self) -> Option<&Crash> {
        (**self).crash()
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        (**self).written(range, runs)
    }

    fn populated(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        (**self).populated(range, runs)
    }
}
