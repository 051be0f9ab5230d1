//! The allocator of the program: as the system's, but an allocation that is refused ends the program with a sentence.
//!
//! Rust's answer is to abort: a signal, perhaps a core dump of ourselves with the memory of others in it, and nothing that a user
//! understands. Nobody in this workspace goes on after a refused allocation, so it is as good to end here. What a process ends
//! with holds as it does for SIGKILL: everything that was switched on ends with our descriptors and threads.

use std::alloc::{GlobalAlloc, Layout, System};

/// Ends the program when there is no memory.
#[derive(Debug)]
pub struct EndsWithoutMemory {
    message: &'static str,
    exit_code: i32,
}

impl EndsWithoutMemory {
    /// Writes `message` to standard error as it is, and exits with this code.
    #[must_use]
    pub const fn new(message: &'static str, exit_code: i32) -> Self {
        Self { message, exit_code }
    }

    fn there_is(&self, address: *mut u8) -> *mut u8 {
        if address.is_null() {
            self.end();
        }
        address
    }

    /// Ends the program as when there is no memory.
    #[cold]
    pub fn end(&self) -> ! {
        // SAFETY: pointer and length are those of a constant; that nobody reads it is no reason to stay.
        unsafe { libc::write(libc::STDERR_FILENO, self.message.as_ptr().cast(), self.message.len()) };
        // SAFETY: it ends the process and runs nothing of it: no handler, no destructor, no allocation.
        unsafe { libc::_exit(self.exit_code) }
    }
}

// SAFETY: everything is the system's allocator; what it returns is handed on as it is, or the process ends.
unsafe impl GlobalAlloc for EndsWithoutMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller promises what the system's allocator demands.
        self.there_is(unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: as above; the address came from the system's allocator.
        unsafe { System.dealloc(address, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for `alloc`.
        self.there_is(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, address: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as for `alloc` and `dealloc`.
        self.there_is(unsafe { System.realloc(address, layout, size) })
    }
}
