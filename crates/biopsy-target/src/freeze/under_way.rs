//! The freezes of this program that are under way: so that all can be let go in order before it ends, and so that nobody
//! suspends it while it holds a process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use biopsy_sys::job_control::JobControl;

static COUNT: Mutex<usize> = Mutex::new(0);
static LESS: Condvar = Condvar::new();
static ENDING: AtomicBool = AtomicBool::new(false);

/// One freeze, from before the first thread is seized until everything is let go.
#[derive(Debug)]
pub(super) struct UnderWay {
    _job_control: JobControl,
}

impl UnderWay {
    /// Begins one; `None`: the program is ending.
    pub(super) fn begin() -> Option<Self> {
        let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
        if is_ending() {
            return None;
        }
        *count += 1;
        Some(Self { _job_control: JobControl::hold() })
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        *COUNT.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        LESS.notify_all();
    }
}

/// Lets all frozen processes go in order: their copies are ended and removed from them, a window that is open is gone through
/// first. Whoever still reads from a copy is told that it is gone, and nothing is frozen any more: this is for a program that is
/// about to end. Returns when nothing is held, or after this time; `false`: something still is, and the kernel lets go of it
/// when the program ends.
pub fn end_all(within: Duration) -> bool {
    let count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    ENDING.store(true, Ordering::SeqCst);
    let waited = LESS.wait_timeout_while(count, within, |count| *count > 0);
    !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
}

/// Whether everything is being let go.
pub(super) fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}
