//! Where the memory of a frozen process is kept: the seam between the freeze and its fallbacks.

use std::ops::Range;

use biopsy_image::{GeneralRegisters, Mapping, ReadError};

use super::FreezeError;

/// Memory as it was in the window.
pub(crate) trait KeptMemory: Send + Sync {
    /// As [`biopsy_image::Image::read`].
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError>;

    /// As [`biopsy_image::Image::written`], for a range inside one mapping.
    fn written(
        &self,
        mapping: &Mapping,
        range: Range<u64>,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), ReadError>;

    /// The mappings as they were in the window, where this memory has its own list.
    fn mappings(&self) -> Option<&[Mapping]> {
        None
    }
}

/// A copy that is made ready before the window (buffer there, faulted in, locked) and made in it.
///
/// `freeze` asks `copy::prepare(&ProcessPlan)` for one, for each process whose method is stop-and-copy.
pub(crate) trait PreparedCopy: Send {
    /// Copies. All threads of the process stand still; every microsecond counts. From each thread's stack pointer on, its stack is
    /// copied before everything else, and then the lock that it waits for.
    ///
    /// # Errors
    /// The process is gone, or what is there does not fit into the buffer any more.
    fn copy(self: Box<Self>, registers: &[GeneralRegisters]) -> Result<Box<dyn KeptMemory>, FreezeError>;
}
