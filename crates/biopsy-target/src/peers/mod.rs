//! What the threads of a process wait for in other processes, and what these wait for: pipes, sockets of this machine, locks on files,
//! children, semaphores of System V, locks in shared memory.
//!
//! Reads `/proc` and asks the kernel's socket diagnostics; no descriptor of anybody is opened or taken, because whoever has one
//! keeps the other side from seeing its end. A process is looked at twice where it matters: a wait counts only if the thread is
//! still in the same system call with the same arguments after everything about it was read.

mod call;
mod ends;
mod events;
mod file_locks;
mod missed;
mod shared;
mod sockets;
mod waits;

use std::collections::{BTreeSet, VecDeque};

use biopsy_model::peers::{PeerLook, PeerProcess, PeerThread};
use biopsy_model::{Pid, Tid};

use crate::process::proc_root::{ProcRoot, ProcessDir, SMALL};
use crate::process::stat::Stat;
use call::{Call, THREADS};
use waits::Waits;

/// Processes that are followed at most.
const PROCESSES: usize = 64;
/// Children of the process itself that are followed though no thread waits for one in a call that says so: runtimes are told of the end of a
/// child by a signal, and wait for that at a word of memory (.NET, Node, Python's event loop).
const CHILDREN: usize = 16;

/// Looks at a process, and at those it waits for.
#[must_use]
pub fn look(pid: Pid) -> PeerLook {
    look_in(&ProcRoot::live(), pid)
}

/// The same of several, for which the machine is read once.
#[must_use]
pub fn look_all(pids: &[Pid]) -> Vec<PeerLook> {
    let root = ProcRoot::live();
    let mut waits = Waits::new(&root);
    pids.iter().map(|pid| look_with(&root, &mut waits, *pid)).collect()
}

/// The same in another `/proc`.
#[must_use]
pub fn look_in(root: &ProcRoot, pid: Pid) -> PeerLook {
    look_with(root, &mut Waits::new(root), pid)
}

fn look_with(root: &ProcRoot, waits: &mut Waits<'_>, pid: Pid) -> PeerLook {
    let mut found = PeerLook::default();
    let mut open = VecDeque::from([pid]);
    let mut met = BTreeSet::from([pid]);
    while let Some(pid) = open.pop_front() {
        if found.processes.len() >= PROCESSES {
            break;
        }
        let Ok(dir) = root.process(pid) else { continue };
        let Some(process) = process(&dir, pid, waits) else { continue };
        for helper in
            process.threads.iter().filter_map(|thread| thread.wait.as_ref()).flat_map(|wait| &wait.helpers)
        {
            if met.insert(*helper) {
                open.push_back(*helper);
            }
        }
        found.processes.push(process);
        if found.processes.len() == 1 {
            let children = waits::children(&dir).into_iter().take(CHILDREN);
            open.extend(children.filter(|child| met.insert(*child)));
        }
    }
    found.hidden = waits.hidden();
    found
}

/// The number of the system call that a thread is in; `None`: in none, or it is not to be known.
pub(crate) fn call_of(dir: &ProcessDir, tid: Tid) -> Option<u32> {
    Some(Call::parse(&dir.read(&format!("task/{tid}/syscall"), SMALL).ok()?)?.number)
}

fn process(dir: &ProcessDir, pid: Pid, waits: &mut Waits<'_>) -> Option<PeerProcess> {
    let stat = Stat::parse(&dir.read("stat", SMALL).ok()?)?;
    let tids = dir.tids(THREADS).ok()?;
    let threads = tids.into_iter().map(|tid| {
        let call = |dir: &ProcessDir| Call::parse(&dir.read(&format!("task/{tid}/syscall"), SMALL).ok()?);
        let before = call(dir);
        let wait = before.as_ref().and_then(|call| waits.of(dir, pid, call));
        let stays = wait.is_none() || call(dir) == before;
        PeerThread {
            tid,
            call: before.as_ref().map(|call| call.number),
            argument: before.as_ref().map_or(0, |call| call.arguments[0]),
            wait: wait.filter(|_| stays),
        }
    });
    Some(PeerProcess {
        pid,
        parent: Some(Pid(stat.parent)),
        name: String::from_utf8_lossy(&stat.comm).into_owned(),
        stopped: stat.state == b'T',
        threads: threads.collect(),
    })
}
