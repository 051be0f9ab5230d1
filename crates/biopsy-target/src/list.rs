//! All processes, trees and threads. What vanishes while it is read is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use biopsy_model::process::{ProcessInfo, ThreadInfo};
use biopsy_model::{BootId, Pid, Tid};

use crate::preflight::Facts;
use crate::preflight::access::Access;
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL, is_gone};
use crate::process::seen::Seen;
use crate::process::stat::Stat;
use crate::process::usage::Usage;
use crate::process::users::Users;
use crate::runtime;

/// Most threads listed of one process; the kernel's own limit (`threads-max`) is below it on usual machines.
pub const MAX_THREADS: usize = 1 << 18;

/// Most processes of one tree.
pub const MAX_TREE: usize = 1 << 16;

/// What is told of a process.
pub(crate) fn info_of(seen: &Seen, boot_id: &BootId) -> ProcessInfo {
    ProcessInfo {
        key: identity::key(boot_id.clone(), seen.pid, &seen.stat),
        parent: Pid(seen.stat.parent),
        name: seen.name(),
        exe: seen.exe.clone().unwrap_or_default(),
        exe_deleted: seen.exe_deleted,
        command_line: seen.arguments.clone(),
        uid: seen.uid(),
        runtime: runtime::detect_seen(seen),
        ns_pid: seen.status.inner_pid(),
        cgroup: seen.cgroup.path.clone(),
        container_id: seen.cgroup.container_id.clone(),
        unit: seen.cgroup.unit.clone(),
    }
}

/// All processes but kernel threads and zombies, ascending by pid.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn list() -> io::Result<Vec<ProcessInfo>> {
    let root = ProcRoot::live();
    let boot_id = root.boot_id();
    let seen = root.pids()?.into_iter().filter_map(|pid| Seen::read(&root, pid));
    Ok(seen.filter(Seen::is_living).map(|process| info_of(&process, &boot_id)).collect())
}

/// A process as `biopsy ps` shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct Surveyed {
    /// What it is.
    pub info: ProcessInfo,
    /// It is a part of the kernel.
    pub is_kernel_thread: bool,
    /// It has ended, and its parent has not taken notice.
    pub is_zombie: bool,
    /// Whose it is.
    pub user: String,
    /// What it uses.
    pub usage: Usage,
    /// What may be captured of it.
    pub access: Access,
}

/// All processes with what they use and what may be captured of them, ascending by pid.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn survey(root: &ProcRoot, facts: &Facts) -> io::Result<Vec<Surveyed>> {
    let boot_id = root.boot_id();
    let users = Users::read(root);
    let seen = root.pids()?.into_iter().filter_map(|pid| Seen::read(root, pid));
    Ok(seen
        .map(|seen| Surveyed {
            info: info_of(&seen, &boot_id),
            is_kernel_thread: seen.stat.is_kernel_thread,
            is_zombie: seen.stat.is_zombie(),
            user: users.name(seen.uid()),
            usage: Usage::of(&seen),
            access: Access::of(facts, &seen),
        })
        .collect())
}

/// One process.
///
/// # Errors
/// `NotFound` when there is no such process.
pub fn process(pid: Pid) -> io::Result<ProcessInfo> {
    let root = ProcRoot::live();
    Seen::read(&root, pid)
        .map(|seen| info_of(&seen, &root.boot_id()))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A process and everything that descends from it, parents before their children; empty when it has ended.
///
/// # Errors
/// When `/proc` cannot be listed: nobody knows then what descends from it.
pub fn tree(pid: Pid) -> io::Result<Vec<ProcessInfo>> {
    tree_in(&ProcRoot::live(), pid)
}

/// As [`tree`], below any root.
///
/// # Errors
/// As [`tree`].
pub fn tree_in(root: &ProcRoot, pid: Pid) -> io::Result<Vec<ProcessInfo>> {
    let boot_id = root.boot_id();
    Ok(tree_pids(root, pid)?
        .into_iter()
        .filter_map(|pid| Seen::read(root, pid))
        .filter(|process| !process.stat.is_zombie() || process.pid == pid)
        .map(|process| info_of(&process, &boot_id))
        .collect())
}

/// Pids of a process and everything that descends from it, parents before children; empty when it has ended. Reads `stat`
/// alone: cheap enough to be asked every second.
///
/// # Errors
/// As [`tree`].
pub fn tree_pids(root: &ProcRoot, pid: Pid) -> io::Result<Vec<Pid>> {
    let parents: BTreeMap<Pid, Pid> = root
        .pids()?
        .into_iter()
        .filter_map(|pid| {
            let line = root.process(pid).ok()?.read("stat", SMALL).ok()?;
            Some((pid, Pid(Stat::parse(&line)?.parent)))
        })
        .collect();
    if !parents.contains_key(&pid) {
        return Ok(Vec::new());
    }
    Ok(descendants(&parents, pid))
}

/// `pid` and its descendants, depth first. Parents read at different moments may contradict each other: every
/// process is taken once.
pub(crate) fn descendants(parents: &BTreeMap<Pid, Pid>, pid: Pid) -> Vec<Pid> {
    let mut children: BTreeMap<Pid, Vec<Pid>> = BTreeMap::new();
    for (&child, &parent) in parents {
        children.entry(parent).or_default().push(child);
    }
    let mut seen = BTreeSet::new();
    let mut tree = Vec::new();
    let mut open = vec![pid];
    while let Some(next) = open.pop() {
        if tree.len() >= MAX_TREE || !seen.insert(next) {
            continue;
        }
        tree.push(next);
        open.extend(children.get(&next).into_iter().flatten().rev());
    }
    tree
}

/// The threads of a process that are there now, ascending by tid; empty when it has ended. One whose name cannot be read has an
/// empty name.
///
/// # Errors
/// When they cannot be listed although the process is there.
pub fn threads(pid: Pid) -> io::Result<Vec<ThreadInfo>> {
    threads_in(&ProcRoot::live(), pid)
}

/// As [`threads`], below any root.
///
/// # Errors
/// As [`threads`].
pub fn threads_in(root: &ProcRoot, pid: Pid) -> io::Result<Vec<ThreadInfo>> {
    let listed = root.process(pid).and_then(|process| Ok((process.tids(MAX_THREADS)?, process)));
    let (tids, process) = match listed {
        Ok(listed) => listed,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let named = |tid: Tid| {
        let name = match process.read(&format!("task/{tid}/comm"), SMALL) {
            Ok(name) => name,
            Err(error) if is_gone(&error) => return None,
            Err(_) => Vec::new(),
        };
        // The kernel adds a line end; the name itself may hold others.
        let name = name.strip_suffix(b"\n").unwrap_or(&name);
        Some(ThreadInfo { tid, pid, name: String::from_utf8_lossy(name).into_owned() })
    };
    Ok(tids.into_iter().filter_map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pids(numbers: &[u32]) -> Vec<Pid> {
        numbers.iter().copied().map(Pid).collect()
    }

    #[test]
    fn descendants_come_after_their_parents() {
        let parents =
            [(1, 0), (2, 1), (3, 1), (4, 2), (9, 0)].map(|(pid, parent)| (Pid(pid), Pid(parent))).into();
        assert_eq!(descendants(&parents, Pid(1)), pids(&[1, 2, 4, 3]));
        assert_eq!(descendants(&parents, Pid(9)), pids(&[9]));
    }

    #[test]
    fn contradicting_parents_do_not_loop() {
        let parents = [(2, 3), (3, 2), (4, 4)].map(|(pid, parent)| (Pid(pid), Pid(parent))).into();
        assert_eq!(descendants(&parents, Pid(2)), pids(&[2, 3]));
        assert_eq!(descendants(&parents, Pid(4)), pids(&[4]));
    }

    #[test]
    fn a_list_that_cannot_be_read_is_an_error_and_none_at_all_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::at(folder.path());
        assert!(tree_in(&root, Pid(7)).is_err(), "there is no `/proc`");
        let process = folder.path().join("proc/7");
        std::fs::create_dir_all(&process).unwrap();
        assert_eq!(threads_in(&root, Pid(8)).unwrap(), Vec::new(), "no such process");
        std::fs::write(process.join("task"), "no folder").unwrap();
        assert!(threads_in(&root, Pid(7)).is_err());
    }

    #[test]
    fn our_own_tree_and_threads() {
        let myself = Pid(std::process::id());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let tree = tree(myself).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(tree[0].key.pid, myself);
        assert!(tree.iter().any(|process| process.key.pid == Pid(child.id()) && process.parent == myself));
        assert!(!threads(myself).unwrap().is_empty());
        assert!(list().unwrap().iter().any(|process| process.key == tree[0].key));
    }
}
