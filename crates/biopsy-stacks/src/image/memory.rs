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

/// Up to `length` bytes at `address`; nothing when the first is missing.
pub(super) fn read(image: &dyn Image, address: u64, length: usize) -> Vec<u8> {
    // Much is asked for and little may be there: memory is taken as it comes.
    const STEP: usize = 1 << 20;
    let mut bytes = Vec::new();
    while bytes.len() < length {
        let Some(at) = address.checked_add(bytes.len() as u64) else { break };
        let wanted = STEP.min(length - bytes.len());
        match image.read_up_to(at, wanted) {
            Ok(more) if more.is_empty() => break,
            Ok(more) => {
                let whole = more.len() == wanted;
                bytes.extend(more);
                if !whole {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    bytes
}
