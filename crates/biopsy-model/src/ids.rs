//! Identity of processes and threads.

use std::fmt;

/// A process id (thread group id) in the pid namespace of the recorder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Pid(pub u32);

/// A thread id in the pid namespace of the recorder. Ids are reused: a `ThreadStart` event renews one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Tid(pub u32);

/// The first thread of a process, whose number is that of the process.
impl From<Pid> for Tid {
    fn from(pid: Pid) -> Self {
        Self(pid.0)
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kernel's random id of this boot (`/proc/sys/kernel/random/boot_id`), as text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct BootId(pub String);

/// Names one process for ever: pids are reused, boot id + pid + start time are not.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessKey {
    /// The boot this process belongs to.
    pub boot_id: BootId,
    /// Its pid in the recorder's namespace.
    pub pid: Pid,
    /// Field 22 of `/proc/PID/stat` (proc_pid_stat(5)): clock ticks (`sysconf(_SC_CLK_TCK)`, 100 Hz in practice)
    /// between boot and the start of the process.
    pub start_ticks: u64,
}
