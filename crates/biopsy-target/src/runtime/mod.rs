//! Which language runtime a process runs on, told from its mappings, its executable and its command line.
//!
//! Everything is read through `/proc/PID`, so it works for deleted files and in other mount namespaces. Versions
//! come from the runtime's own files as the process sees them.

mod dotnet;
mod go;
mod jvm;
mod scripted;

use std::collections::BTreeSet;

use biopsy_model::Pid;
use biopsy_model::process::{Runtime, RuntimeKind};

use crate::command;
use crate::list::Seen;
use crate::maps;
use crate::proc_root::ProcRoot;

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

/// What one detector looks at.
struct Evidence<'a> {
    seen: &'a Seen,
    /// Mapped files; empty where they may not be read.
    files: BTreeSet<String>,
}

impl Evidence<'_> {
    /// The first mapped file whose last part satisfies the test.
    fn mapped(&self, test: impl Fn(&str) -> bool) -> Option<&str> {
        self.files.iter().map(String::as_str).find(|path| test(command::base_name(path)))
    }
}

pub(crate) fn detect_seen(seen: &Seen) -> Runtime {
    if seen.stat.is_kernel_thread || seen.stat.is_zombie() {
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

/// Takes a version off the front of a text: digits and dots, with a `-preview.1` kind of ending; at least `1.2`.
fn leading_version(text: &str) -> Option<String> {
    let end =
        text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (numbers, rest) = text.split_at(end);
    let numbers = numbers.trim_end_matches('.');
    if numbers.len() > 32 || !numbers.contains('.') || numbers.split('.').any(str::is_empty) {
        return None;
    }
    let suffix_end = rest.strip_prefix('-').map_or(0, |suffix| {
        1 + suffix.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(suffix.len())
    });
    let suffix = if (2..=32).contains(&suffix_end) { rest.get(..suffix_end).unwrap_or("") } else { "" };
    Some(format!("{numbers}{suffix}"))
}

#[cfg(test)]
mod tests;
