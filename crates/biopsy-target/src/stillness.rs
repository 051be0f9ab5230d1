//! Whether a process got on over a while, by what the kernel counts of its threads: it is neither stopped nor spoken with.

use biopsy_model::process::RuntimeKind;
use biopsy_model::{Nanos, Pid, Tid};

use crate::peers::call_of;
use crate::process::proc_root::ProcRoot;
use crate::process::runs::Runs;

/// Calls in which a thread rests until work comes: who stands in one of them keeps nobody waiting, as far as can be seen from outside.
/// poll, select, nanosleep, pause, accept, `rt_sigtimedwait`, `rt_sigsuspend`, `io_getevents`, `clock_nanosleep`, `epoll_wait`,
/// pselect6, ppoll, `epoll_pwait`, accept4, `io_uring_enter`, `epoll_pwait2` (x86-64).
const RESTING: [u32; 16] = [7, 23, 34, 35, 43, 128, 130, 208, 230, 232, 270, 271, 281, 288, 426, 441];

/// A process at the beginning of a while.
#[derive(Clone, Debug)]
pub struct Stillness {
    pid: Pid,
    runs: Runs,
}

/// What it did since then.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Still {
    /// CPU time that it took.
    pub cpu: Nanos,
    /// Threads that did not run at all, and are in a call that somebody else would have to end.
    pub waiting: usize,
}

impl Stillness {
    /// From now on.
    #[must_use]
    pub fn begin(pid: Pid) -> Self {
        Self { pid, runs: Runs::read(pid) }
    }

    /// Which process.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What it did until now; `None`: it is not known.
    #[must_use]
    pub fn read(&self) -> Option<Still> {
        let now = Runs::read(self.pid);
        if self.runs.is_empty() || now.is_empty() {
            return None;
        }
        let dir = ProcRoot::live().process(self.pid).ok()?;
        let waits = |tid: &Tid| call_of(&dir, *tid).is_some_and(|call| !RESTING.contains(&call));
        let waiting = now.idle_since(&self.runs).iter().filter(|tid| waits(tid)).count();
        Some(Still { cpu: now.cpu_since(&self.runs), waiting })
    }
}

/// Whether work of this runtime waits without a thread that does: goroutines, tasks, promises.
#[must_use]
pub fn has_strands(kind: RuntimeKind) -> bool {
    match kind {
        RuntimeKind::DotNet | RuntimeKind::Go | RuntimeKind::Node | RuntimeKind::Python => true,
        RuntimeKind::Native | RuntimeKind::Jvm | RuntimeKind::OtherInterpreter | RuntimeKind::Unknown => {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn who_waits_for_another_is_seen_and_who_sleeps_is_not() {
        let waiting = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            let mut child = command.args(arguments).stdin(Stdio::piped()).spawn().expect("it starts");
            std::thread::sleep(Duration::from_millis(200));
            let stillness = Stillness::begin(Pid(child.id()));
            std::thread::sleep(Duration::from_millis(200));
            let still = stillness.read();
            child.kill().expect("it runs");
            child.wait().expect("it ends");
            // Kernels that do not count tell nothing.
            still.map(|still| still.waiting)
        };
        assert!(waiting("cat", &[]).is_none_or(|count| count == 1), "it reads what nobody writes");
        assert!(waiting("sleep", &["60"]).is_none_or(|count| count == 0));
    }

    #[test]
    fn of_a_process_that_is_not_there_nothing_is_known() {
        assert_eq!(Stillness::begin(Pid(u32::MAX)).read(), None);
    }
}
