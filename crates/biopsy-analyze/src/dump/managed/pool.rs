//! The thread pool: how many workers, and how many of them block.

use biopsy_model::order::Order as _;
use std::cmp::Reverse;

use biopsy_model::Tid;
use biopsy_stacks::image::{ImageStacks, ThreadStack};

use crate::dump::state::ThreadState;
use crate::dump::threads::DumpThread;

/// The thread pool at the moment of the dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolSummary {
    /// Threads that run work items, or wait for some.
    pub workers: usize,
    /// Of these: waiting for work.
    pub idle: usize,
    /// Of these: blocked in the middle of a work item.
    pub blocked: Vec<Tid>,
    /// Of the blocked ones: waiting for a task to complete (sync over async).
    pub waiting_for_tasks: Vec<Tid>,
    /// Where blocked ones stand: the program's innermost method, and how many; most first.
    pub places: Vec<(String, usize)>,
}

/// Functions in which a worker waits for work.
const IDLE: &[&str] = &[
    "System.Threading.LowLevelLifoSemaphore.",
    "System.Threading.PortableThreadPool.WaitThread.",
    "System.Threading.PortableThreadPool.GateThread.",
];
/// Functions in which a thread blocks until a task completes.
const TASK: &[&str] = &[
    "System.Threading.Tasks.Task.SpinThenBlockingWait",
    "System.Threading.Tasks.Task.InternalWait",
    "System.Threading.Tasks.Task.WaitAllBlockingCore",
    "System.Threading.Tasks.Task.WaitAnyCore",
    "System.Runtime.CompilerServices.TaskAwaiter.HandleNonSuccessAndDebuggerNotification",
];

pub(super) fn summary(stacks: &ImageStacks, threads: &[DumpThread]) -> Option<PoolSummary> {
    let mut pool = PoolSummary::default();
    for thread in threads.iter().filter(|thread| thread.managed.as_ref().is_some_and(|one| one.pool_worker)) {
        pool.workers += 1;
        let Some(stack) = stacks.of(thread.tid) else { continue };
        if stands_in(stacks, stack, IDLE) {
            pool.idle += 1;
            continue;
        }
        if !matches!(thread.state, ThreadState::InSystemCall { .. }) {
            continue;
        }
        pool.blocked.push(thread.tid);
        if stands_in(stacks, stack, TASK) {
            pool.waiting_for_tasks.push(thread.tid);
        }
        let place = own_method(stacks, stack).unwrap_or_else(|| "(not known)".to_owned());
        match pool.places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, count)) => *count += 1,
            None => pool.places.push((place, 1)),
        }
    }
    pool.places.order_by_key(|(_, count)| Reverse(*count));
    (pool.workers > 0).then_some(pool)
}

fn stands_in(stacks: &ImageStacks, stack: &ThreadStack, names: &[&str]) -> bool {
    /// Frames that are looked at: below them is what it was called by.
    const FRAMES: usize = 40;
    let places = stack.frames.iter().take(FRAMES).filter_map(|frame| stacks.place(frame.place));
    places
        .flat_map(|place| &place.functions)
        .any(|function| names.iter().any(|name| function.name.starts_with(name)))
}

/// The innermost method that is not the framework's.
fn own_method(stacks: &ImageStacks, stack: &ThreadStack) -> Option<String> {
    let places = stack.frames.iter().filter_map(|frame| stacks.place(frame.place));
    let own = |place: &&biopsy_stacks::image::Place| {
        place.compiled.as_ref().is_some_and(|compiled| {
            compiled.is_method && !crate::whose::dotnet::is_framework(&compiled.module)
        })
    };
    places.into_iter().find(own)?.functions.first().map(|function| function.name.clone())
}
