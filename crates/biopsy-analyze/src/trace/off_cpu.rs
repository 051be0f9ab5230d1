//! Waiting time with stacks.

use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{Timeline, WaitState};
use biopsy_model::{Nanos, Tid};

/// Off-CPU samples, or else recorded waits that have a stack. To be without a CPU is no wait.
pub(super) fn off_cpu(timeline: &Timeline) -> impl Iterator<Item = (Tid, Option<StackHandle>, Nanos)> + '_ {
    let from_waits = timeline.wait_samples.is_empty();
    let waits = timeline
        .waits
        .iter()
        .filter(move |wait| from_waits && wait.stack.is_some() && wait.state != WaitState::Preempted)
        .map(|wait| (wait.tid, wait.stack, wait.end.since(wait.start)));
    let samples = timeline.wait_samples.iter().filter(|sample| sample.state != WaitState::Preempted);
    samples.map(|sample| (sample.tid, sample.stack, sample.weight)).chain(waits)
}
