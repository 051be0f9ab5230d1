//! Why a process does not answer, as far as that can be told without it.

use std::path::Path;

use biopsy_model::Pid;

use crate::target::TargetFacts;

/// Name that runtimes since .NET 6 give to the thread of their diagnostics server.
const SERVER_THREAD: &[u8] = b".NET EventPipe";

/// Why a runtime does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Silence {
    /// It has ended meanwhile.
    Ended,
    /// All of it is stopped by a signal (SIGSTOP, or a shell's Ctrl-Z).
    Stopped,
    /// A debugger holds it.
    Traced,
    /// The file system or a device does not answer one of its threads.
    Uninterruptible,
    /// Its control group is frozen.
    Frozen,
    /// Its runtime writes a dump of it.
    Dumping,
    /// Its runtime waits at its start for a tool that lets it go on.
    Suspended,
    /// Its runtime has not started its diagnostics server.
    Starting,
    /// Its diagnostics server is there and does not come to it: it serves another command, or hangs.
    Busy,
}

impl Silence {
    /// Looks at a process that did not answer.
    #[must_use]
    pub fn of(pid: Pid) -> Self {
        Self::in_folder(Path::new("/proc"), pid)
    }

    pub(crate) fn in_folder(proc_folder: &Path, pid: Pid) -> Self {
        let Some(facts) = TargetFacts::read(proc_folder, pid) else { return Self::Ended };
        if facts.has_ended() {
            return Self::Ended;
        }
        let threads = facts.threads();
        let all = |state: u8| !threads.is_empty() && threads.iter().all(|(of, _)| *of == state);
        let server = threads.iter().find(|(_, name)| name == SERVER_THREAD);
        if all(b'T') || server.is_some_and(|(state, _)| *state == b'T') {
            return Self::Stopped;
        }
        if all(b't') || server.is_some_and(|(state, _)| *state == b't') {
            return if has_createdump(proc_folder, &facts) { Self::Dumping } else { Self::Traced };
        }
        if is_frozen(&facts) {
            return Self::Frozen;
        }
        if server.is_some_and(|(state, _)| *state == b'D') {
            return Self::Uninterruptible;
        }
        if has_createdump(proc_folder, &facts) {
            return Self::Dumping;
        }
        if is_suspended(&facts, &threads) {
            return Self::Suspended;
        }
        // Before .NET 6 the thread has no name of its own: nothing can be concluded from its absence then.
        if server.is_none() && facts.maps(b"libcoreclr.so") == Some(false) {
            Self::Starting
        } else {
            Self::Busy
        }
    }

    pub(crate) fn hint(self) -> Option<String> {
        let hint = match self {
            Self::Stopped => "`kill -CONT` lets it go on",
            Self::Traced => "end the debugger, or use it",
            Self::Suspended => {
                "it was started with `DOTNET_DiagnosticPorts` or `DOTNET_DefaultDiagnosticPortSuspend`, and waits for the tool of whoever set it"
            }
            Self::Frozen => "its control group is frozen (a paused container?)",
            Self::Busy => "`biopsy stacks` reads its memory without asking it",
            Self::Ended | Self::Uninterruptible | Self::Dumping | Self::Starting => return None,
        };
        Some(hint.to_owned())
    }
}

impl std::fmt::Display for Silence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ended => "it has ended",
            Self::Stopped => "it is stopped",
            Self::Traced => "a debugger holds it",
            Self::Uninterruptible => "it waits for a disk or file server that does not answer",
            Self::Frozen => "its control group is frozen",
            Self::Dumping => "its runtime writes a dump of it",
            Self::Suspended => "its runtime is suspended at its start",
            Self::Starting => "its runtime is starting",
            Self::Busy => "its diagnostics server serves another command, or hangs",
        })
    }
}

/// A child `createdump` writes a dump.
fn has_createdump(proc_folder: &Path, facts: &TargetFacts) -> bool {
    let pid = facts.pid;
    let children = crate::target::read_some(&facts.path(&format!("task/{pid}/children"))).unwrap_or_default();
    let children = String::from_utf8_lossy(&children).into_owned();
    children.split_ascii_whitespace().take(1024).any(|child| {
        crate::target::read_some(&proc_folder.join(child).join("comm"))
            .is_ok_and(|name| name.starts_with(b"createdump"))
    })
}

fn is_frozen(facts: &TargetFacts) -> bool {
    let Ok(cgroup) = crate::target::read_some(&facts.path("cgroup")) else { return false };
    let path = cgroup.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"0::/"));
    let Some(path) = path.and_then(|path| std::str::from_utf8(path).ok()) else { return false };
    let events = Path::new("/sys/fs/cgroup").join(path).join("cgroup.events");
    crate::target::read_some(&events).is_ok_and(|text| text.windows(8).any(|word| word == b"frozen 1"))
}

/// Told to wait at its start, and no managed thread is there yet.
fn is_suspended(facts: &TargetFacts, threads: &[(u8, Vec<u8>)]) -> bool {
    let Ok(environment) = facts.environment() else { return false };
    let port_waits = environment.setting("DiagnosticPorts").is_some_and(|(_, value)| {
        value.split(|byte| *byte == b';').any(|port| {
            !port.is_empty()
                && !port.split(|byte| *byte == b',').any(|tag| tag.eq_ignore_ascii_case(b"nosuspend"))
        })
    });
    let default_waits =
        environment.setting("DefaultDiagnosticPortSuspend").is_some_and(|(_, value)| value == b"1");
    (port_waits || default_waits) && !threads.iter().any(|(_, name)| name.starts_with(b".NET Finalizer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_not_there_has_ended() {
        assert_eq!(Silence::in_folder(Path::new("/nowhere"), Pid(1)), Silence::Ended);
    }

    #[test]
    fn each_reason_has_words() {
        for reason in [
            Silence::Ended,
            Silence::Stopped,
            Silence::Traced,
            Silence::Uninterruptible,
            Silence::Frozen,
            Silence::Dumping,
            Silence::Suspended,
            Silence::Starting,
            Silence::Busy,
        ] {
            assert!(!reason.to_string().is_empty());
        }
        assert!(Silence::Stopped.hint().is_some());
    }
}
