//! Waiting for descriptors in a loop that looks at them anyway.

use std::time::Duration;

use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;

/// How long is waited where the kernel refuses to: for want of memory, or by a filter of system calls.
const REFUSED: Duration = Duration::from_millis(1);

/// Waits until one of them is ready, a signal comes, or the time is over. The caller looks at all of them afterwards; where poll(2) itself
/// is refused, a short sleep keeps his loop from taking a whole processor.
pub(crate) fn wait(descriptors: &mut [PollFd<'_>], longest: Option<&Timespec>) {
    match poll(descriptors, longest) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => std::thread::sleep(REFUSED),
    }
}
