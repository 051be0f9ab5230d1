//! How threads of a managed runtime wait: blocked on a task, in a monitor, or idle in the pool. Told from the stacks of
//! waiting threads, so it needs no word of the runtime.

use crate::limits::STACK_DEPTH;
use crate::managed_names;
use crate::trace::frames::FrameTable;
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::off_cpu::off_cpu;
use crate::whose::dotnet;
use biopsy_model::order::Order as _;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use biopsy_model::{Nanos, Tid};
use rustc_hash::FxHashMap;

/// How.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum ManagedWait {
    /// Until a task is complete: `Wait()`, `.Result`, `GetResult()`.
    Task,
    /// For a monitor or a `System.Threading.Lock`.
    Monitor,
}

/// Waiting of one thread of one kind at one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ManagedWaitSum {
    pub(crate) tid: Tid,
    pub(crate) how: ManagedWait,
    /// The application's innermost function.
    pub(crate) function: Option<FunctionHandle>,
    pub(crate) time: Nanos,
    /// Looks, or waits.
    pub(crate) count: u64,
}

type Known = FxHashMap<StackHandle, Option<(ManagedWait, Option<FunctionHandle>)>>;

/// Sums over off-CPU samples, or else over recorded waits with stacks; most time first.
pub(crate) fn sum(timeline: &Timeline, frames: &FrameTable) -> Vec<ManagedWaitSum> {
    let mut known = Known::default();
    let mut sums: FxHashMap<(Tid, ManagedWait, Option<FunctionHandle>), (Nanos, u64)> = FxHashMap::default();
    for (tid, stack, time) in off_cpu(timeline) {
        let Some(stack) = stack else { continue };
        let found = *known.entry(stack).or_insert_with(|| read(timeline, frames, stack));
        if let Some((how, function)) = found {
            let entry = sums.entry((tid, how, function)).or_default();
            *entry = (entry.0 + time, entry.1 + 1);
        }
    }
    let mut out: Vec<ManagedWaitSum> = sums
        .into_iter()
        .map(|((tid, how, function), (time, count))| ManagedWaitSum { tid, how, function, time, count })
        .collect();
    out.order_by_key(|row| (std::cmp::Reverse(row.time), row.tid, row.how, row.function));
    out
}

fn read(
    timeline: &Timeline,
    frames: &FrameTable,
    stack: StackHandle,
) -> Option<(ManagedWait, Option<FunctionHandle>)> {
    let mut how = None;
    let mut in_runtime = false;
    let mut any_managed = false;
    let mut runtime_below = false;
    for frame in timeline.frames_of(Some(stack)).take(STACK_DEPTH) {
        for &function in frames.of(frame) {
            let Some(row) = frames.row(function) else { continue };
            match row.kind {
                FunctionKind::Jit if row.named => {}
                FunctionKind::Native => {
                    in_runtime = dotnet::is_runtime_module(&row.module);
                    continue;
                }
                _ => continue,
            }
            if !any_managed {
                any_managed = true;
                // A `lock` statement goes straight into the runtime; every other wait goes through the class library.
                runtime_below = in_runtime;
            }
            if managed_names::blocks_on_task(&row.name) {
                how = Some(ManagedWait::Task);
            } else if how.is_none() && managed_names::enters_lock(&row.name) {
                how = Some(ManagedWait::Monitor);
            }
            if dotnet::is_library(&row.name) {
                runtime_below &= row.name.starts_with("System.Threading.Monitor.Enter");
                continue;
            }
            let how = how.or(runtime_below.then_some(ManagedWait::Monitor))?;
            return Some((how, Some(function)));
        }
    }
    how.map(|how| (how, None))
}

#[cfg(test)]
mod tests;
