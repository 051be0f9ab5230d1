//! Pools of threads (`ThreadPoolExecutor`): who works for which, and what lies in their queues.
//!
//! ```text
//! Thread ─► target (17), holder.task (since 19) ─► ThreadPoolExecutor$Worker ─► this$0 ─► workQueue ─► head ─► next, item
//! ```

use rustc_hash::FxHashMap;

use super::threads::JavaThread;
use super::vm::Vm;

/// Tasks of one queue.
const QUEUED: usize = 100_000;

/// Pools of the process.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// In the order of threads.
    of_threads: Vec<Option<u64>>,
    /// The pool in whose queue a task lies.
    queued: FxHashMap<u64, u64>,
}

impl Pools {
    pub(super) fn of(vm: &Vm<'_>, threads: &[JavaThread]) -> Self {
        let of_threads: Vec<Option<u64>> = threads.iter().map(|thread| pool(vm, thread)).collect();
        let mut queued = FxHashMap::default();
        let mut pools: Vec<u64> = of_threads.iter().copied().flatten().collect();
        pools.sort_unstable();
        pools.dedup();
        for pool in pools {
            let mut next = vm.reference(pool, "workQueue").and_then(|queue| vm.reference(queue, "head"));
            for _ in 0..QUEUED {
                let Some(node) = next else { break };
                queued.extend(vm.reference(node, "item").map(|task| (task, pool)));
                // What was taken out refers to itself.
                next = vm.reference(node, "next").filter(|next| *next != node);
            }
        }
        Self { of_threads, queued }
    }

    /// The pool that a thread works for.
    pub(super) fn of_thread(&self, number: usize) -> Option<u64> {
        self.of_threads.get(number).copied().flatten()
    }

    /// The pool in whose queue a task lies that nobody has begun.
    pub(super) fn queue_of(&self, vm: &Vm<'_>, task: u64) -> Option<u64> {
        let begun = vm.int(task, "state") != Some(0) || vm.reference(task, "runner").is_some();
        self.queued.get(&task).copied().filter(|_| !begun)
    }
}

fn pool(vm: &Vm<'_>, thread: &JavaThread) -> Option<u64> {
    let object = thread.object?;
    let held = || vm.reference(vm.reference(object, "holder")?, "task");
    let worker = vm.reference(object, "target").or_else(held)?;
    let class = vm.class_name(vm.class_of(worker)?)?;
    (class == "java.util.concurrent.ThreadPoolExecutor$Worker")
        .then(|| vm.reference(worker, "this$0"))
        .flatten()
}
