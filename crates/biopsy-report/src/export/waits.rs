//! Words for single waits, as the exports with a time axis show them.

use biopsy_model::timeline::{Wait, WaitState};

/// What a wait is called: the scheduler's state, and the number of the system call. Names of system calls depend on
/// the recorded architecture; the analysis knows them, the recording only has numbers.
pub(crate) fn wait_name(wait: &Wait) -> String {
    match (wait.state, wait.syscall) {
        (WaitState::Preempted, _) => "preempted".to_owned(),
        (WaitState::Stopped, _) => "stopped".to_owned(),
        (WaitState::Disk, Some(number)) => format!("disk wait in system call {number}"),
        (WaitState::Disk, None) => "disk wait".to_owned(),
        (WaitState::Sleep | WaitState::Other, Some(number)) => format!("wait in system call {number}"),
        (WaitState::Sleep | WaitState::Other, None) => "wait".to_owned(),
    }
}

pub(crate) fn wait_state(state: WaitState) -> &'static str {
    match state {
        WaitState::Sleep => "interruptible sleep",
        WaitState::Disk => "uninterruptible sleep",
        WaitState::Stopped => "stopped or traced",
        WaitState::Preempted => "preempted",
        WaitState::Other => "not known",
    }
}
