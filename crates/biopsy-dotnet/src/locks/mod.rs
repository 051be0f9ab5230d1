//! Locks of managed code: who holds them, who waits, and who waits for whom in a circle.
//!
//! ```text
//! object header ─┬─ thin lock: id of the owner, recursion                         (nobody waits)
//!                └─ index ─► sync table ─► SyncBlock: state, waiters, recursion, owner
//! Thread ─► DebugBlockingItem ─► SyncBlock that it waits for                        (lock, Monitor.Wait)
//! stack inside of System.Threading.Lock ─► that Lock: state, owner                  (.NET 9 and later)
//! ```
//!
//! Locks that nobody has ever waited for are found among all objects, or on the stacks of those who hold them.
//!
//! Everything is read from memory. What a thread waits for is said by the runtime's own note for debuggers; for
//! `System.Threading.Lock`, an object like any other, it is found on the stack of the thread, and only believed when the lock is
//! held by another thread.

mod blocking;
mod lock_object;
mod on_stacks;
mod sync_table;
mod thin;

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use crate::graph::Graph;
use crate::runtime::{ManagedThread, Runtime, RuntimeError};

pub use lock_object::{InsideLock, inside_lock};

/// What kind of lock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LockKind {
    /// `lock` on an object (`Monitor`) that somebody has waited for.
    Monitor,
    /// `lock` on an object (`Monitor`), for which nobody has ever waited.
    ThinMonitor,
    /// `System.Threading.Lock`.
    Lock,
}

/// A lock that somebody holds or waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lock {
    /// Address of the object that was locked.
    pub object: Avma,
    /// Its type.
    pub type_name: String,
    /// What kind of lock.
    pub kind: LockKind,
    /// Who holds it: kernel's id; `None`: nobody. 0 where the owner is no thread that runs.
    pub owner: Option<u32>,
    /// How often it was entered again by its owner.
    pub recursion: u32,
    /// How many wait to enter, as the lock itself counts.
    pub waiters: u32,
    /// Address of the sync block; 0 for the other kinds.
    pub sync_block: Avma,
}

/// How a thread waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WaitKind {
    /// To enter.
    Enter,
    /// For a pulse (`Monitor.Wait`): it has given the lock up meanwhile.
    Pulse,
}

/// A thread that waits for a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wait {
    /// The thread: kernel's id.
    pub os_id: u32,
    /// What for: index into [`Locks::locks`].
    pub lock: usize,
    /// How.
    pub kind: WaitKind,
    /// How long at most, in milliseconds; `None`: for ever, or not known.
    pub timeout: Option<u32>,
}

/// The locks of a runtime at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Locks {
    /// Held, or waited for.
    pub locks: Vec<Lock>,
    /// Who waits.
    pub waits: Vec<Wait>,
    /// Sync blocks that are in use, those of locks and others (hash codes, COM).
    pub sync_blocks: u32,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

impl Locks {
    /// Threads that wait for each other in circles: kernel's ids, each waits for the next, the last for the first.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<u32>> {
        let mut next: FxHashMap<u32, u32> = FxHashMap::default();
        for wait in self.waits.iter().filter(|wait| wait.kind == WaitKind::Enter) {
            if let Some(owner) = self.locks.get(wait.lock).and_then(|lock| lock.owner) {
                next.insert(wait.os_id, owner);
            }
        }
        let mut starts: Vec<u32> = next.keys().copied().collect();
        starts.sort_unstable();
        let mut seen: FxHashMap<u32, u32> = FxHashMap::default();
        let mut cycles = Vec::new();
        for start in starts {
            let mut path = Vec::new();
            let mut at = start;
            while !seen.contains_key(&at) {
                seen.insert(at, start);
                path.push(at);
                let Some(owner) = next.get(&at) else { break };
                at = *owner;
            }
            // Ran into its own path, not into one that was followed before.
            if seen.get(&at) == Some(&start)
                && next.contains_key(&at)
                && let Some(first) = path.iter().position(|one| *one == at)
            {
                cycles.push(path.split_off(first));
            }
        }
        cycles
    }

    fn index_of(&self, object: Avma) -> Option<usize> {
        self.locks.iter().position(|lock| lock.object == object)
    }
}

/// What may be looked at beside the runtime's tables.
#[derive(Clone, Copy, Default, Debug)]
pub struct LockSources<'a> {
    /// All objects, for locks that nobody has ever waited for. Without them, those are found that are on the stacks of
    /// their owners, which is almost all.
    pub graph: Option<&'a Graph>,
    /// Parts of stacks that are inside of `System.Threading.Lock`.
    pub inside: &'a [InsideLock],
}

/// Reads the locks.
///
/// # Errors
/// When the threads of the runtime cannot be read. What else is missing is a problem of the result.
pub fn locks(runtime: &Runtime<'_>, sources: &LockSources<'_>) -> Result<Locks, RuntimeError> {
    let threads = runtime.threads()?;
    let mut locks = Locks::default();
    let blocks = match sync_table::read(runtime, &threads, &mut locks) {
        Ok(blocks) => blocks,
        Err(why) => {
            locks.problems.push(format!("monitors: {why}"));
            FxHashMap::default()
        }
    };
    blocking::find(runtime, &threads, &blocks, &mut locks);
    lock_object::find(runtime, &threads, sources.inside, &mut locks);
    match sources.graph {
        Some(graph) => thin::find(runtime, &threads, graph, &mut locks),
        None => on_stacks::find(runtime, &threads, &mut locks),
    }
    let waited: Vec<usize> = locks.waits.iter().map(|wait| wait.lock).collect();
    keep_what_matters(&mut locks, &waited);
    Ok(locks)
}

/// Sync blocks that nobody holds or waits for are of no interest.
fn keep_what_matters(locks: &mut Locks, waited: &[usize]) {
    let mut moved = FxHashMap::default();
    let mut kept = Vec::new();
    for (index, lock) in std::mem::take(&mut locks.locks).into_iter().enumerate() {
        if lock.owner.is_some() || lock.waiters > 0 || waited.contains(&index) {
            moved.insert(index, kept.len());
            kept.push(lock);
        }
    }
    locks.locks = kept;
    for wait in &mut locks.waits {
        wait.lock = moved.get(&wait.lock).copied().unwrap_or(usize::MAX);
    }
}

/// Name of the type of an object, for people.
fn type_name(runtime: &Runtime<'_>, object: Avma) -> String {
    match runtime.type_of_object(object) {
        Ok(info) => crate::names::display_type(&info.name),
        Err(_) => format!("object at {object}"),
    }
}

/// The kernel's id of a thread by its managed id.
fn by_managed_id(threads: &[ManagedThread], id: u32) -> Option<u32> {
    threads.iter().find(|thread| thread.id == id && !thread.dead).map(|thread| thread.os_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locks(edges: &[(u32, u32)]) -> Locks {
        let mut locks = Locks::default();
        for (waiter, owner) in edges {
            locks.locks.push(Lock {
                object: Avma(u64::from(*waiter)),
                type_name: String::new(),
                kind: LockKind::Monitor,
                owner: Some(*owner),
                recursion: 0,
                waiters: 1,
                sync_block: Avma(1),
            });
            let lock = locks.locks.len() - 1;
            locks.waits.push(Wait { os_id: *waiter, lock, kind: WaitKind::Enter, timeout: None });
        }
        locks
    }

    #[test]
    fn circles_of_any_length_are_found_once() {
        assert_eq!(locks(&[(1, 2), (2, 1)]).cycles(), [vec![1, 2]]);
        assert_eq!(locks(&[(1, 3), (3, 5), (5, 3), (7, 3)]).cycles(), [vec![3, 5]]);
        assert!(locks(&[(1, 2), (2, 3)]).cycles().is_empty());
        let mut waits = locks(&[(1, 2), (2, 1)]);
        waits.waits[0].kind = WaitKind::Pulse;
        assert!(waits.cycles().is_empty(), "who waits for a pulse does not wait for the owner");
    }
}
