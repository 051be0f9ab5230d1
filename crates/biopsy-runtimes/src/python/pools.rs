//! Pools of threads (`concurrent.futures`): who works for which, and what lies in their queues.
//!
//! ```text
//! frame of `_worker` ─► its `_queue.SimpleQueue`: 32 list (to 3.12), 40 position ─► `_WorkItem`: its future first
//! frame of `Future.result` ─► `self`: condition, state
//! ```

use rustc_hash::{FxHashMap, FxHashSet};

use super::attributes;
use super::frames::PythonFrame;
use super::reading::Reading;
use super::threads::PythonThread;

/// Frames above the call that waits, among which is that of the future.
const INNER: usize = 4;
/// Tasks of all queues of an interpreter.
const QUEUED: u64 = 1_000_000;
/// `_queue.SimpleQueue`, `list`.
const LIST: u64 = 32;
const POSITION: u64 = 40;
const LIST_SIZE: u64 = 16;
const LIST_ITEMS: u64 = 24;

/// Pools of an interpreter.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// By number of the thread.
    of_thread: FxHashMap<usize, u64>,
    /// The queue that a future's task lies in.
    queued: FxHashMap<u64, u64>,
}

impl Pools {
    /// Looks at all frames, and at the queues that they lead to.
    pub(super) fn of(reading: &Reading<'_, '_, '_>, threads: &[PythonThread]) -> Self {
        let mut pools = Self::default();
        let (mut seen, mut left) = (FxHashSet::default(), QUEUED);
        for (number, thread) in threads.iter().enumerate() {
            let worker = thread
                .frames
                .iter()
                .rev()
                .find(|frame| is_of(frame, "/concurrent/futures/thread.py", &["_worker"]));
            let Some(queue) = worker.and_then(|worker| {
                let mut variables = worker.variables(&reading.objects).into_iter();
                variables.find(|one| reading.objects.is(*one, "_queue.SimpleQueue"))
            }) else {
                continue;
            };
            pools.of_thread.insert(number, queue);
            if seen.insert(queue) {
                for future in queued(reading, queue, &mut left).unwrap_or_default() {
                    pools.queued.insert(future, queue);
                }
            }
        }
        pools
    }

    /// The pool that a thread works for.
    pub(super) fn of_thread(&self, number: usize) -> Option<u64> {
        self.of_thread.get(&number).copied()
    }

    /// The future that a thread waits for, and the pool in whose queue its task still lies.
    pub(super) fn waited_for(
        &self,
        reading: &Reading<'_, '_, '_>,
        thread: &PythonThread,
    ) -> Option<(u64, Option<u64>)> {
        let names = &["result", "exception"];
        let mut inner = thread.frames.iter().take(INNER);
        let frame = inner.rfind(|frame| is_of(frame, "/concurrent/futures/_base.py", names))?;
        let future = *frame.variables(&reading.objects).first()?;
        reading.objects.is(future, "Future").then(|| (future, self.queued.get(&future).copied()))
    }
}

fn is_of(frame: &PythonFrame, file: &str, names: &[&str]) -> bool {
    let name = frame.code.name.rsplit('.').next().unwrap_or_default();
    frame.code.file.ends_with(file) && names.contains(&name)
}

/// The futures of the tasks in a queue, of which so many may be looked at.
fn queued(reading: &Reading<'_, '_, '_>, queue: u64, left: &mut u64) -> Option<Vec<u64>> {
    let objects = &reading.objects;
    let list = objects.pointer(queue, LIST).filter(|list| objects.is(*list, "list"))?;
    let (first, size) = (objects.word(queue, POSITION)?, objects.word(list, LIST_SIZE)?);
    let items = objects.pointer(list, LIST_ITEMS)?;
    let mut futures = Vec::new();
    for index in first..size {
        let Some(less) = left.checked_sub(1) else { break };
        *left = less;
        let place = index.checked_mul(8).and_then(|offset| items.checked_add(offset));
        let Some(task) = place.and_then(|place| objects.memory.u64(place)) else { break };
        if objects.is(task, "_WorkItem") {
            futures.extend(attributes::of(objects, task).into_iter().next());
        }
    }
    Some(futures)
}
