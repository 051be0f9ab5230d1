//! Which language runtime a process runs on, told from its mappings, its executable and its command line.
//!
//! Everything is read through `/proc/PID`, so it works for deleted files and in other mount namespaces. Versions
//! come from the runtime's own files as the process sees them.

mod dotnet;
mod evidence;
mod go;
mod jvm;
mod scripted;

use biopsy_model::Pid;
use biopsy_model::process::{Runtime, RuntimeKind};

use evidence::Evidence;

use crate::process::command;
use crate::process::maps;
use crate::process::proc_root::ProcRoot;
use crate::process::seen::Seen;

/// The runtime of a process; `Unknown` when it has ended or may not be looked at.
#[must_use]
pub fn detect(pid: Pid) -> Runtime {
    detect_in(&ProcRoot::live(), pid)
}

/// As [`detect`], below any root.
#[must_use]
pub fn detect_in(root: &ProcRoot, pid: Pid) -> Runtime {
    Seen::read(root, pid).map_or(UNKNOWN, |seen| detect_seen(&seen))
}

const UNKNOWN: Runtime = Runtime { kind: RuntimeKind::Unknown, version: None, entry: None };

pub(crate) fn detect_seen(seen: &Seen) -> Runtime {
    if !seen.is_living() {
        return UNKNOWN;
    }
    let Some(files) = maps::mapped_files(&seen.dir) else { return by_name(seen) };
    let evidence = Evidence { seen, files };
    dotnet::detect(&evidence)
        .or_else(|| jvm::detect(&evidence))
        .or_else(|| scripted::node(&evidence))
        .or_else(|| scripted::python(&evidence))
        .or_else(|| scripted::other(&evidence))
        .or_else(|| go::detect(&evidence))
        .unwrap_or(Runtime { kind: RuntimeKind::Native, version: None, entry: None })
}

/// Without permission to look at the mappings, the command line is all there is, and it can say anything: it is
/// believed when the name of the process agrees.
fn by_name(seen: &Seen) -> Runtime {
    let named = seen.arguments.first().and_then(|program| command::kind_by_name(command::base_name(program)));
    match named {
        Some(kind) if command::kind_by_name(&seen.name()) == Some(kind) => {
            Runtime { kind, version: None, entry: command::entry(kind, &seen.arguments) }
        }
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests;
