//! Locks of managed code, as the rest of the report has locks.

use biopsy_dotnet::locks::{self, InsideLock, LockSources, inside_lock};
use biopsy_model::order::Order as _;
use biopsy_model::{Confidence, Tid};
use biopsy_stacks::image::ImageStacks;
use rustc_hash::FxHashMap;

use super::heap::Walked;
use crate::dump::facts::DumpFacts;
use crate::dump::locks::{Holder, LockKind, LockOwner, LockWait};

/// Locks in the report at most.
const ROWS: usize = 10_000;

/// A lock that is held or waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManagedLock {
    /// Address of the object.
    pub object: u64,
    /// Its type.
    pub type_name: String,
    /// What kind.
    pub kind: LockKind,
    /// Who holds it.
    pub owner: Option<Tid>,
    /// How often its owner entered it again.
    pub recursion: u32,
    /// Who waits to enter.
    pub waiters: Vec<Tid>,
    /// Who has given it up and waits for a pulse.
    pub pulse_waiters: Vec<Tid>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) locks: Vec<ManagedLock>,
    /// What each thread waits for.
    pub(crate) waits: FxHashMap<Tid, LockWait>,
    pub(crate) problems: Vec<String>,
}

pub(crate) fn find(facts: &DumpFacts<'_>, stacks: &ImageStacks, heap: &Walked) -> Found {
    let mut found = Found::default();
    let runtimes = facts.managed.iter().flat_map(|runtimes| runtimes.opened());
    for (index, runtime) in runtimes.enumerate() {
        let inside: Vec<InsideLock> =
            stacks.threads.iter().filter_map(|stack| inside_lock(stacks, stack)).collect();
        match locks::locks(runtime, &LockSources { graph: heap.graph_of(index), inside: &inside }) {
            Ok(locks) => found.add(&locks),
            Err(error) => found.problems.push(format!("locks of managed code: {error}")),
        }
    }
    found.locks.order_by_key(|lock| (std::cmp::Reverse(lock.waiters.len()), lock.object));
    found.locks.truncate(ROWS);
    found
}

impl Found {
    fn add(&mut self, locks: &locks::Locks) {
        self.problems.extend(locks.problems.iter().cloned());
        for (index, lock) in locks.locks.iter().enumerate() {
            let waits = || locks.waits.iter().filter(move |wait| wait.lock == index);
            let of = |kind| waits().filter(move |wait| wait.kind == kind).map(|wait| Tid(wait.os_id));
            let kind = match lock.kind {
                locks::LockKind::Monitor | locks::LockKind::ThinMonitor => LockKind::Monitor,
                locks::LockKind::Lock => LockKind::SystemLock,
                locks::LockKind::ReaderWriter => LockKind::RwLockWrite,
            };
            let owner = lock.owner.filter(|owner| *owner != 0).map(Tid);
            let row = ManagedLock {
                object: lock.object.0,
                type_name: lock.type_name.clone(),
                kind,
                owner,
                recursion: lock.recursion,
                waiters: of(locks::WaitKind::Enter).chain(of(locks::WaitKind::Read)).collect(),
                pulse_waiters: of(locks::WaitKind::Pulse).collect(),
            };
            for waiter in of(locks::WaitKind::Enter) {
                self.waits.insert(waiter, wait(&row, kind, lock));
            }
            for waiter in of(locks::WaitKind::Read) {
                self.waits.insert(waiter, wait(&row, LockKind::RwLockRead, lock));
            }
            for waiter in &row.pulse_waiters {
                self.waits.insert(*waiter, wait(&row, LockKind::Pulse, lock));
            }
            self.locks.push(row);
        }
    }
}

fn reads(thread: u32) -> Holder {
    Holder { thread: Tid(thread), confidence: Confidence::Certain, site: None, shared: true }
}

fn wait(lock: &ManagedLock, kind: LockKind, read: &locks::Lock) -> LockWait {
    let sync_block = read.sync_block;
    let owner = match (kind, lock.owner) {
        (LockKind::RwLockRead | LockKind::RwLockWrite, None) if !read.readers.is_empty() => {
            LockOwner::Readers
        }
        // Who holds the lock is not who gives the pulse.
        (LockKind::Pulse, _) | (_, None) => LockOwner::NotKnown,
        (_, Some(owner)) => LockOwner::Thread(owner),
    };
    let proof = match (kind, lock.owner) {
        (LockKind::Pulse, _) => "the runtime notes for debuggers that it waits for a pulse".to_owned(),
        (LockKind::SystemLock, Some(owner)) => {
            format!("the lock is on the thread's stack, and its fields say that thread {owner} holds it")
        }
        (LockKind::RwLockRead | LockKind::RwLockWrite, Some(owner)) => {
            format!(
                "the `ReaderWriterLockSlim` is on the thread's stack, and its fields say that thread {owner} writes"
            )
        }
        (LockKind::RwLockRead | LockKind::RwLockWrite, None) => {
            "the `ReaderWriterLockSlim` is on the thread's stack; who has it to read, \
                                                                 each thread counts for itself"
                .to_owned()
        }
        (_, Some(owner)) => format!(
            "the runtime notes for debuggers that the thread enters it; its sync block at {sync_block} says that thread {owner} \
             holds it"
        ),
        (_, None) => "the runtime notes for debuggers that the thread enters it".to_owned(),
    };
    LockWait {
        futex: lock.object,
        lock: lock.object,
        kind,
        owner,
        object: Some(lock.type_name.clone()),
        proof,
        holders: read.readers.iter().map(|reader| reads(*reader)).collect(),
        ..LockWait::default()
    }
}
