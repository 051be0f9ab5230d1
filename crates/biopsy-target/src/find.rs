//! From what the user typed to one process, or a refusal that says what to type instead.
//!
//! Names are tried in this order, and the first step that matches anything decides:
//! 1. exactly: the name (`comm`), the file name of the executable, the file name of argument 0, the script, module,
//!    jar, main class or .NET entry assembly (with and without extension);
//! 2. the same without regard to case;
//! 3. the systemd service of that name.
//!
//! When several processes match and all descend from one of them (nginx and its workers, postgres and its
//! backends), the one at the root is meant. For a container with several trees (`docker exec` makes one) it is the
//! one whose pid is 1 inside. Everything else is ambiguous, and ambiguity is an error.

mod error;
mod names;

use std::collections::{BTreeMap, BTreeSet};

use biopsy_model::Pid;
use biopsy_model::process::ProcessInfo;

pub use error::{Candidate, FindError};

use crate::elf;
use crate::list::Seen;
use crate::preflight::namespace;
use crate::proc_root::ProcRoot;
use crate::selector::Selector;
use crate::users::Users;

/// Most suggestions made for a name that matches nothing.
const MAX_SUGGESTIONS: usize = 5;

/// The process that was named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// What it is. Its key is to be checked again ([`crate::is_same`]) after everything that took a handle by pid.
    pub info: ProcessInfo,
    /// The others that matched too and descend from it.
    pub others: Vec<Pid>,
    /// Who traces it now (a debugger), if anybody.
    pub tracer: Option<Pid>,
}

/// Finds the one process that `selector` names.
///
/// # Errors
/// [`FindError`]: none, several, or one that cannot be captured whatever the permissions.
pub fn find(selector: &Selector) -> Result<Target, FindError> {
    namespace::check_proc_is_ours()?;
    find_in(&ProcRoot::live(), selector)
}

/// As [`find`], below any root.
///
/// # Errors
/// As [`find`].
pub fn find_in(root: &ProcRoot, selector: &Selector) -> Result<Target, FindError> {
    match selector {
        Selector::Pid(pid) => by_pid(root, *pid),
        Selector::Container(prefix) => by_pattern(
            root,
            selector,
            &[&|seen| seen.cgroup.container_id.as_deref().is_some_and(|id| id.starts_with(prefix))],
            prefix,
        ),
        Selector::Unit(unit) => {
            by_pattern(root, selector, &[&|seen| seen.cgroup.unit.as_ref() == Some(unit)], unit)
        }
        Selector::Name(name) => by_pattern(root, selector, &[], name),
    }
}

/// Whether a process answers to `name`, but for case: what `--wait-for` waits for.
pub(crate) fn answers_to(seen: &Seen, name: &str) -> bool {
    names::is_loosely(seen, name)
}

/// Whether a process that is about to execute a program will answer to `wanted`. `name` is what it will be called,
/// `exe` the name of the program's file.
pub(crate) fn will_answer_to(name: &str, exe: &str, arguments: &[String], wanted: &str) -> bool {
    names::will_be(name, exe, arguments, wanted)
}

type Test<'a> = &'a dyn Fn(&Seen) -> bool;

fn by_pid(root: &ProcRoot, pid: Pid) -> Result<Target, FindError> {
    let Some(seen) = Seen::read(root, pid) else { return Err(no_such_pid(root, pid)) };
    let name = seen.name();
    if let Some(process) = seen.status.tgid.map(Pid).filter(|&process| process != pid) {
        return Err(FindError::IsThread { tid: pid, pid: process, name });
    }
    finish(root, &seen, Vec::new())
}

fn no_such_pid(root: &ProcRoot, pid: Pid) -> FindError {
    let hidden = root == &ProcRoot::live() && namespace::exists_but_is_hidden(pid);
    if hidden {
        return FindError::Hidden { pid };
    }
    let users = Users::read(root);
    let inside = all(root)
        .unwrap_or_default()
        .iter()
        .filter(|seen| seen.status.inner_pid() == Some(pid.0))
        .take(MAX_SUGGESTIONS)
        .map(|seen| Candidate::new(seen, &users))
        .collect();
    FindError::NoSuchPid { pid, inside, view: namespace::view(root) }
}

fn all(root: &ProcRoot) -> std::io::Result<Vec<Seen>> {
    Ok(root.pids()?.into_iter().filter_map(|pid| Seen::read(root, pid)).collect())
}

fn by_pattern(
    root: &ProcRoot,
    selector: &Selector,
    first: &[Test<'_>],
    text: &str,
) -> Result<Target, FindError> {
    let service = format!("{text}.service");
    let exactly = |seen: &Seen| names::is_exactly(seen, text);
    let loosely = |seen: &Seen| names::is_loosely(seen, text);
    let as_service = |seen: &Seen| seen.cgroup.unit.as_ref() == Some(&service);
    let mut steps: Vec<Test<'_>> = first.to_vec();
    steps.extend([&exactly as Test<'_>, &loosely, &as_service]);

    let processes = all(root).map_err(|error| FindError::NotListed { why: error.to_string() })?;
    let myself = Pid(std::process::id());
    for step in steps {
        let matching: Vec<&Seen> = processes.iter().filter(|seen| step(seen)).collect();
        let living: Vec<&Seen> =
            matching.iter().copied().filter(|seen| !is_beyond_capture(seen) && seen.pid != myself).collect();
        match root_of(&living, &processes, matches!(selector, Selector::Container(_))) {
            Some(chosen) => {
                let others = living.iter().map(|seen| seen.pid).filter(|&pid| pid != chosen.pid).collect();
                return finish(root, chosen, others);
            }
            None if !living.is_empty() => {
                let users = Users::read(root);
                let candidates = living.iter().map(|seen| Candidate::new(seen, &users)).collect();
                return Err(FindError::Ambiguous { selector: selector.to_string(), candidates });
            }
            // Only such as cannot be captured matched: say why, for the first of them.
            None => {
                if let Some(seen) = matching.first() {
                    return finish(root, seen, Vec::new());
                }
            }
        }
    }
    let users = Users::read(root);
    let near = names::suggestions(&processes, text, MAX_SUGGESTIONS)
        .into_iter()
        .map(|(name, seen)| (name, Candidate::new(seen, &users)))
        .collect();
    Err(FindError::NotFound { selector: selector.to_string(), near, view: namespace::view(root) })
}

fn is_beyond_capture(seen: &Seen) -> bool {
    seen.stat.is_kernel_thread || seen.stat.is_zombie()
}

/// The one process from which all matching ones descend.
fn root_of<'a>(matching: &[&'a Seen], all: &[Seen], prefer_init: bool) -> Option<&'a Seen> {
    let pids: BTreeSet<Pid> = matching.iter().map(|seen| seen.pid).collect();
    let parents: BTreeMap<Pid, Pid> = all.iter().map(|seen| (seen.pid, Pid(seen.stat.parent))).collect();
    let descends = |pid: Pid| {
        let mut at = pid;
        // No chain of parents is longer than there are processes; contradicting readings may form a circle.
        for _ in 0..parents.len() {
            match parents.get(&at) {
                Some(&parent) if parent == at => return false,
                Some(parent) if pids.contains(parent) => return true,
                Some(&parent) => at = parent,
                None => return false,
            }
        }
        true
    };
    let roots: Vec<&Seen> = matching.iter().copied().filter(|seen| !descends(seen.pid)).collect();
    if let [only] = roots.as_slice() {
        return Some(only);
    }
    let mut inits = roots.iter().filter(|seen| prefer_init && seen.status.inner_pid() == Some(1));
    match (inits.next(), inits.next()) {
        (Some(init), None) => Some(init),
        _ => None,
    }
}

/// The checks that no permission can help with.
fn finish(root: &ProcRoot, seen: &Seen, others: Vec<Pid>) -> Result<Target, FindError> {
    let (pid, name) = (seen.pid, seen.name());
    if pid.0 == std::process::id() {
        return Err(FindError::Myself { pid });
    }
    if seen.stat.is_kernel_thread {
        return Err(FindError::KernelThread { pid, name });
    }
    if seen.stat.is_zombie() {
        let living_threads = seen.stat.threads.saturating_sub(1);
        return Err(FindError::Zombie { pid, name, parent: Pid(seen.stat.parent), living_threads });
    }
    if let Ok(exe) = seen.dir.file("exe")
        && elf::is_32_bit(&exe)
    {
        return Err(FindError::Not64Bit { pid, name });
    }
    let tracer = Some(seen.status.tracer).filter(|&tracer| tracer != 0).map(Pid);
    Ok(Target { info: seen.info(&root.boot_id()), others, tracer })
}

#[cfg(test)]
mod tests;
