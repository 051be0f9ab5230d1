//! Checks of the machine, the account and the target, each with a hint that holds here.
//!
//! What can be tried harmlessly is tried (an event on this very thread, a BPF program that is never attached); the
//! settings are then named as the reason, never taken as the proof. A hint is given only when its conditions were
//! checked: `setcap` is not proposed where `no_new_privs` or a `nosuid` mount would make it do nothing, and so on.

pub mod access;
pub mod capabilities;
mod check;
mod container;
mod facts;
pub(crate) mod hints;
mod machine;
pub mod namespace;
pub(crate) mod storage;
mod target;

use std::path::PathBuf;

use biopsy_model::Pid;

pub use check::{Check, Status, Wanted};
pub use container::Container;
pub use facts::{Facts, Trial, ring_bytes};

use crate::process::proc_root::ProcRoot;

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
