//! Signals to processes that a test started.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// Sends `signal` to `pid`. False: there is no such process (any more).
///
/// # Panics
///
/// For pids that mean groups or everyone (0 and 1): a test never wants those.
pub fn send_signal(pid: u32, signal: Signal) -> bool {
    kill_process(checked(pid), signal).is_ok()
}

/// A process of this pid exists and is not a zombie.
///
/// # Panics
///
/// As [`send_signal`].
#[must_use]
pub fn is_running(pid: u32) -> bool {
    test_kill_process(checked(pid)).is_ok()
        && crate::proc_status::state_and_start(pid).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

fn checked(pid: u32) -> Pid {
    assert!(pid > 1, "pid {pid} is not one process of a test");
    i32::try_from(pid).ok().and_then(Pid::from_raw).expect("pids fit into 31 bits")
}
