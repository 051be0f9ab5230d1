//! What happens when there is no memory.

use crate::exit_codes::Code;

/// What is said when there is no memory: by then nothing can be put together any more.
#[global_allocator]
pub(crate) static ALLOCATOR: biopsy_sys::allocator::EndsWithoutMemory =
    biopsy_sys::allocator::EndsWithoutMemory::new(
        "error: biopsy itself has run out of memory\n\nhint: what was written so far, if anything, is kept and called partial; \
     what was recorded runs on\n",
        Code::Memory as i32,
    );
