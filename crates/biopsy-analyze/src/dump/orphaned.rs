//! Locks that were copied by fork while another thread held them.
//!
//! The child of a program with threads has one thread, and all of its parent's locks as they were. A lock that the child waits for is
//! an orphan for certain when its owner is a thread of the parent; and when it has no owner in it, because nobody else is there: one
//! thread, a lock that is not shared with other processes, no time limit, and the thread does not hold it itself.

use biopsy_image::Image;
use biopsy_model::Tid;

use super::locks::{LockKind, LockOwner};
use super::threads::DumpThread;
use super::waits::WaitGraph;

/// FUTEX_PRIVATE_FLAG.
const PRIVATE: u64 = 128;

/// A lock that nobody can give back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrphanedLock {
    /// Who waits.
    pub waiter: Tid,
    /// The thread of the parent that held it, where the lock says so.
    pub owner: Option<Tid>,
    /// What it rests on, in words.
    pub proof: String,
}

pub(super) fn find(image: &dyn Image, threads: &[DumpThread], waits: &WaitGraph) -> Option<OrphanedLock> {
    let ([thread], [of_image]) = (threads, image.threads()) else { return None };
    let lock = thread.lock.as_ref().filter(|lock| !lock.timed && waits.cycles.is_empty())?;
    let private = of_image.registers.as_ref().is_some_and(|registers| registers.rsi & PRIVATE != 0);
    let native = matches!(lock.kind, LockKind::Mutex | LockKind::RwLockRead | LockKind::RwLockWrite);
    if !native || !private {
        return None;
    }
    let parent = image.process().parent.filter(|parent| parent.0 > 1);
    match lock.owner {
        LockOwner::Elsewhere(owner) => {
            let whose = match parent {
                Some(parent) if parent.0 == owner.0 => {
                    format!("its owner, {owner}, is the main thread of the parent process")
                }
                Some(parent) => {
                    format!("its owner, {owner}, is no thread of this process, whose parent is {parent}")
                }
                None => format!("its owner, {owner}, is no thread of this process"),
            };
            let proof = format!("{}; {whose}; the lock is private to this process", lock.proof);
            Some(OrphanedLock { waiter: thread.tid, owner: Some(owner), proof })
        }
        // A lock without an owner in it, or readers that are not there.
        LockOwner::NotKnown | LockOwner::Readers if lock.held_by.is_some() => {
            let held = lock.holders.iter().any(|holder| holder.thread == thread.tid);
            let proof = format!("{}; the process has one thread, and the lock is private to it", lock.proof);
            (!held).then_some(OrphanedLock { waiter: thread.tid, owner: None, proof })
        }
        LockOwner::NotKnown | LockOwner::Readers | LockOwner::Thread(_) => None,
    }
}
