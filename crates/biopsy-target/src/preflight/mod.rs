//! Checks of the machine, the account and the target, each with a hint that holds here.
//!
//! What can be tried harmlessly is tried (an event on this very thread, a BPF program that is never attached); the
//! settings are then named as the reason, never taken as the proof. A hint is given only when its conditions were
//! checked: `setcap` is not proposed where `no_new_privs` or a `nosuid` mount would make it do nothing, and so on.

pub mod capabilities;
mod container;
mod facts;
pub(crate) mod hints;
mod machine;
pub mod namespace;
pub(crate) mod storage;
mod target;

use std::path::PathBuf;

use biopsy_model::Pid;

pub use container::Container;
pub use facts::{Facts, Trial, ring_bytes};

use crate::proc_root::ProcRoot;

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// Nothing is in the way.
    Ok,
    /// It works with less.
    Limited,
    /// It does not work.
    Missing,
}

impl Status {
    /// A word for people and for JSON: `ok`, `limited`, `missing`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Stable name, lower case with hyphens: `cpu-sampling`.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found, and what that means for a recording. One line.
    pub detail: String,
    /// What would allow more: commands as they are to be typed here.
    pub hint: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), hint: None }
    }

    pub(crate) fn limited(name: &'static str, detail: impl Into<String>, hint: Option<String>) -> Self {
        Self { name, status: Status::Limited, detail: detail.into(), hint }
    }

    pub(crate) fn missing(name: &'static str, detail: impl Into<String>, hint: Option<String>) -> Self {
        Self { name, status: Status::Missing, detail: detail.into(), hint }
    }
}

/// What somebody wants to record.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wanted {
    /// A timeline trace.
    pub trace: bool,
    /// Metrics.
    pub metrics: bool,
    /// The memory of the process (snapshots, dumps).
    pub memory: bool,
    /// Where the recording is to be written; `None`: not checked.
    pub output: Option<PathBuf>,
    /// Bytes the recording will need at most, where that is known; otherwise a small minimum is asked for.
    pub output_bytes: Option<u64>,
}

/// Everything about this machine and this account.
#[must_use]
pub fn doctor() -> Vec<Check> {
    let root = ProcRoot::live();
    let facts = Facts::read(&root);
    let mut checks = machine::all(&facts);
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    checks.push(storage::check_folder(&here, None));
    checks
}

/// What stands in the way of recording this process: the checks that are not `Ok`, and those that concern the
/// process itself. `Missing` of the first named means: do not begin.
#[must_use]
pub fn preflight(pid: Pid, wanted: &Wanted) -> Vec<Check> {
    let root = ProcRoot::live();
    preflight_in(&root, &Facts::read(&root), pid, wanted)
}

/// As [`preflight`], with facts that were gathered before.
#[must_use]
pub fn preflight_in(root: &ProcRoot, facts: &Facts, pid: Pid, wanted: &Wanted) -> Vec<Check> {
    let mut checks = target::checks(root, facts, pid, wanted);
    checks.extend(machine::wanted(facts, wanted).into_iter().filter(|check| check.status != Status::Ok));
    if let Some(output) = &wanted.output {
        checks.push(storage::check_output(output, wanted.output_bytes));
    }
    checks
}

#[cfg(test)]
mod tests;
