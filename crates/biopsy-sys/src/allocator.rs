//! The allocator of the program: as the system's, but an allocation that is refused ends the program with a sentence.
//!
//! Rust's answer is to abort: a signal, perhaps a core dump of ourselves with the memory of others in it, and nothing that a user
//! understands. Nobody in this workspace goes on after a refused allocation, so it is as good to end here. What a process ends
//! with holds as it does for SIGKILL: everything that was switched on ends with our descriptors and threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::CString;
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

/// When the end looks once more for what was announced and was not there.
const SECOND_LOOK: Duration = Duration::from_millis(50);

/// Ends the program when there is no memory.
#[derive(Debug)]
pub struct EndsWithoutMemory {
    message: &'static str,
    exit_code: i32,
    left: Mutex<Vec<(CString, String)>>,
}

impl EndsWithoutMemory {
    /// Writes `message` to standard error as it is, and exits with this code.
    #[must_use]
    pub const fn new(message: &'static str, exit_code: i32) -> Self {
        Self { message, exit_code, left: Mutex::new(Vec::new()) }
    }

    /// What else is written at such an end: for each of these files that is there, its sentence.
    pub fn leaves(&self, left: Vec<(CString, String)>) {
        // Nothing is allocated while it is held: the end itself looks into it.
        let before = self.left.lock().map(|mut now| std::mem::replace(&mut *now, left));
        drop(before);
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
        say(self.message);
        let left = match self.left.try_lock() {
            Ok(left) => Some(left),
            Err(TryLockError::Poisoned(left)) => Some(left.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        name(left.as_deref().map_or(&[], Vec::as_slice), say);
        // SAFETY: it ends the process and runs nothing of it: no handler, no destructor, no allocation.
        unsafe { libc::_exit(self.exit_code) }
    }
}

/// Calls `say` with the sentence of each of these files that is there, now or a moment later. At most 64. Allocates nothing.
fn name(left: &[(CString, String)], mut say: impl FnMut(&str)) {
    let mut said = 0_u64;
    // Another thread may be about to make what it has announced.
    for wait in [Duration::ZERO, SECOND_LOOK] {
        std::thread::sleep(wait);
        for (bit, (path, sentence)) in left.iter().enumerate().take(64) {
            // SAFETY: the path ends with a zero byte and lives as long as the slice.
            if said & (1 << bit) == 0 && unsafe { libc::access(path.as_ptr(), libc::F_OK) } == 0 {
                say(sentence);
                said |= 1 << bit;
            }
        }
        if said.count_ones() as usize == left.len().min(64) {
            return;
        }
    }
}

/// Writes it to standard error without allocating.
fn say(text: &str) {
    // SAFETY: pointer and length are those of a string that lives; that nobody reads it is no reason to stay.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_once_even_if_it_comes_a_moment_later() {
        let scratch = tempfile::tempdir().unwrap();
        let one = |name: &str| {
            let path = scratch.path().join(name);
            (CString::new(path.as_os_str().as_encoded_bytes()).unwrap(), format!("`{name}` is left"))
        };
        std::fs::write(scratch.path().join("there"), "").unwrap();
        let left = [one("there"), one("late"), one("never")];
        let mut said = Vec::new();
        name(&left, |sentence| {
            said.push(sentence.to_owned());
            std::fs::create_dir_all(scratch.path().join("late")).unwrap();
        });
        // The folder came while the first was named: before it was looked for, or by the second look at the latest.
        assert_eq!(said, ["`there` is left", "`late` is left"]);
        let late = scratch.path().join("later still");
        let mut said = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SECOND_LOOK / 10);
                std::fs::create_dir(&late).unwrap();
            });
            name(&[one("later still")], |sentence| said.push(sentence.to_owned()));
        });
        assert_eq!(said, ["`later still` is left"]);
    }
}
