//! What managed runtimes in the image say: names and frames of their code, threads, exceptions, locks, heaps, async operations.
//!
//! Read from memory alone. A runtime that is not understood is named with the reason, and its frames stay addresses; nothing
//! else of the report suffers.

mod exceptions;
mod heap;
mod locks;
mod pool;
pub(super) mod runtimes;
pub(super) mod threads;

pub use biopsy_dotnet::tasks::{OperationGroup, Operations};
pub use exceptions::ExceptionRow;
pub use heap::{HeapRow, HeapTable};
pub use locks::ManagedLock;
pub use pool::PoolSummary;
pub use runtimes::{RuntimeRow, Runtimes};
pub use threads::ManagedThreadFacts;

pub(super) use heap::{Walked as WalkedHeap, walk_heap};
pub(super) use locks::{Found as FoundLocks, find as find_locks};

use super::facts::DumpFacts;
use super::threads::DumpThread;
use biopsy_stacks::image::ImageStacks;

/// What is known of managed code beyond single threads.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Managed {
    /// The runtimes.
    pub runtimes: Vec<RuntimeRow>,
    /// Locks that are held or waited for, those that most wait for first.
    pub locks: Vec<ManagedLock>,
    /// The thread pool, where there is one.
    pub pool: Option<PoolSummary>,
    /// Objects by type, where the heap was looked at.
    pub heap: Option<HeapTable>,
    /// Asynchronous operations under way, where the heap was looked at.
    pub operations: Option<Operations>,
    /// The garbage collector was at work at that moment: nothing could be said of the heap.
    pub collecting: bool,
    /// What could not be read, in words.
    pub problems: Vec<String>,
}

/// Everything beyond single threads. `locks`: what [`find_locks`] gave, `heap`: what [`walk_heap`] gave.
pub(super) fn analyze(
    facts: &DumpFacts<'_>,
    stacks: &ImageStacks,
    threads: &[DumpThread],
    locks: FoundLocks,
    heap: WalkedHeap,
) -> Option<Managed> {
    let runtimes = facts.managed?;
    if runtimes.rows().is_empty() {
        return None;
    }
    let heap = heap::facts(runtimes, heap);
    Some(Managed {
        runtimes: runtimes.rows().to_vec(),
        locks: locks.locks,
        pool: pool::summary(stacks, threads),
        heap: heap.table,
        operations: heap.operations,
        collecting: heap.collecting,
        problems: locks.problems.into_iter().chain(heap.problems).collect(),
    })
}
