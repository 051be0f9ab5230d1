//! Where the memory of a frozen process is kept: the seam between the freeze and its fallbacks.

use std::ops::Range;

use biopsy_image::{ReadError, Thread};

use super::FreezeError;

/// Memory as it was in the window.
pub(crate) trait KeptMemory: Send + Sync {
    /// As [`biopsy_image::Image::read`].
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError>;

    /// As [`biopsy_image::Image::written`].
    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError>;
}

/// A copy that is made ready before the window (buffer there, faulted in, locked) and made in it.
///
/// `freeze` asks `copy::prepare(&ProcessPlan)` for one, for each process whose method is stop-and-copy.
pub(crate) trait PreparedCopy: Send {
    /// Copies. All threads of the process stand still; every microsecond counts. `threads` are those of the window with
    /// their registers: from each one's stack pointer on, its stack is copied before everything else.
    ///
    /// # Errors
    /// The process is gone, or what is there does not fit into the buffer any more.
    fn copy(self: Box<Self>, threads: &[Thread]) -> Result<Box<dyn KeptMemory>, FreezeError>;
}
