//! An image as the unwinder wants its memory.

use biopsy_image::{Image, MemoryExt};

use crate::unwind::ProcessMemory;

/// Memory of an image.
pub(super) struct ImageMemory<'a>(pub(super) &'a dyn Image);

impl ProcessMemory for ImageMemory<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        self.0.read_exact(address, buffer).is_ok()
    }
}
