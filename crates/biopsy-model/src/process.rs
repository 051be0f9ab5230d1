//! What a process is.

use crate::{Pid, ProcessKey, Tid};

/// The language runtime a process runs on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RuntimeKind {
    /// .NET (Core 3.1 and later).
    DotNet,
    /// A Java virtual machine.
    Jvm,
    /// Node.js.
    Node,
    /// CPython.
    Python,
    /// Go.
    Go,
    /// Ruby, PHP, Perl and others that are told by name only.
    OtherInterpreter,
    /// Compiled code without a managed runtime.
    Native,
    /// Could not be told (no permission to look, usually).
    Unknown,
}

impl RuntimeKind {
    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DotNet => ".NET",
            Self::Jvm => "JVM",
            Self::Node => "Node",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::OtherInterpreter => "interpreter",
            Self::Native => "native",
            Self::Unknown => "-",
        }
    }
}

/// Runtime with its version.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Runtime {
    /// Which.
    pub kind: RuntimeKind,
    /// Version as the runtime writes it, where it could be found.
    pub version: Option<String>,
    /// The application: entry assembly of .NET, main class or jar, script; where it could be found.
    pub entry: Option<String>,
}

/// Facts of one process that do not change while it runs (apart from exec).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessInfo {
    /// Who.
    pub key: ProcessKey,
    /// Parent.
    pub parent: Pid,
    /// `/proc/PID/comm`, lossily made UTF-8.
    pub name: String,
    /// `/proc/PID/exe` as the target sees it; empty where it could not be read.
    pub exe: String,
    /// The executable is deleted.
    pub exe_deleted: bool,
    /// Arguments, redacted in a recording.
    pub command_line: Vec<String>,
    /// Real uid.
    pub uid: u32,
    /// Runtime.
    pub runtime: Runtime,
    /// Its pid in its own (innermost) pid namespace, when that is another one than ours.
    pub ns_pid: Option<u32>,
    /// cgroup v2 path (or the v1 cpu controller's), as in `/proc/PID/cgroup`.
    pub cgroup: String,
    /// Container id, when the cgroup path names one.
    pub container_id: Option<String>,
    /// systemd unit, when the cgroup path names one.
    pub unit: Option<String>,
}

/// One thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ThreadInfo {
    /// Who.
    pub tid: Tid,
    /// Of which process.
    pub pid: Pid,
    /// `/proc/PID/task/TID/comm`.
    pub name: String,
}
