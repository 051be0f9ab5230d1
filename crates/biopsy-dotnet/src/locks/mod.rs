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
mod lock;
mod lock_object;
mod on_stacks;
mod reader_writer;
mod sync_table;
#[cfg(test)]
mod tests;
mod thin;

use rustc_hash::FxHashMap;

use crate::graph::Graph;
use crate::runtime::{Runtime, RuntimeError};

pub use lock::{Lock, LockKind, Locks, Wait, WaitKind};
pub use lock_object::{InsideLock, LockClass, inside_lock};

/// What may be looked at beside the runtime's tables.
#[derive(Clone, Copy, Default, Debug)]
pub struct LockSources<'a> {
    /// All objects, for locks that nobody has ever waited for. Without them, those are found that are on the stacks of
    /// their owners, which is almost all.
    pub graph: Option<&'a Graph>,
    /// Parts of stacks that are inside of `System.Threading.Lock` or `ReaderWriterLockSlim`.
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
        if lock.owner.is_some() || !lock.readers.is_empty() || lock.waiters > 0 || waited.contains(&index) {
            moved.insert(index, kept.len());
            kept.push(lock);
        }
    }
    locks.locks = kept;
    for wait in &mut locks.waits {
        wait.lock = moved.get(&wait.lock).copied().unwrap_or(usize::MAX);
    }
}
