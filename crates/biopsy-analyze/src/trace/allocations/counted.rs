//! Allocations that a program has counted one by one.

use super::{AllocationSite, AllocationSummary, FRAMES, SITES, functions, place};
use crate::trace::frames::FrameTable;
use crate::trace::function::FunctionHandle;
use biopsy_model::order::Order as _;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{AllocationCount, Timeline};
use biopsy_model::{MonoNanos, Pid};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// `None`: none has.
pub(crate) fn summary(timeline: &Timeline, frames: &FrameTable) -> Option<AllocationSummary> {
    // They are in order of time: the last one counts.
    let mut last: FxHashMap<(Pid, Option<StackHandle>), &AllocationCount> = FxHashMap::default();
    let mut before: FxHashMap<(Pid, StackHandle), u64> = FxHashMap::default();
    let from = timeline.span.map(|(from, _)| from)?;
    let to = timeline.allocation_counts.last()?.time;
    let then = near_the_middle(&timeline.allocation_counts, from, to);
    for count in &timeline.allocation_counts {
        last.insert((count.pid, count.stack), count);
        if let Some(stack) = count.stack.filter(|_| then.is_some_and(|then| count.time <= then)) {
            before.insert((count.pid, stack), count.bytes.saturating_sub(count.released_bytes));
        }
    }
    let mut summary = AllocationSummary {
        seconds: to.since(from).as_secs_f64().max(1e-5),
        watched: 1.0,
        exact: true,
        then,
        ..AllocationSummary::default()
    };
    let mut places: FxHashMap<FunctionHandle, (AllocationSite, Vec<&AllocationCount>)> = FxHashMap::default();
    for (&(pid, stack), &count) in &last {
        let (bytes, calls) = (count.bytes, count.calls);
        let kept = bytes.saturating_sub(count.released_bytes);
        let add = |to: &mut u64, more: u64| *to = to.saturating_add(more);
        let Some(stack) = stack else {
            for (to, more) in [
                (&mut summary.calls, calls),
                (&mut summary.samples, calls),
                (&mut summary.counted, bytes),
                (&mut summary.allocated, bytes),
                (&mut summary.kept, kept),
                (&mut summary.temporary, count.temporary),
                (&mut summary.peak, count.peak),
            ] {
                add(to, more);
            }
            continue;
        };
        let Some(place) = place(stack, timeline, frames) else { continue };
        let (site, counts) = places.entry(place).or_default();
        site.place = place;
        for (to, more) in [
            (&mut site.allocated, bytes),
            (&mut site.kept, kept),
            (&mut site.samples, calls),
            (&mut site.kept_samples, calls.saturating_sub(count.released)),
            (&mut site.temporary, count.temporary),
            (&mut site.then, before.get(&(pid, stack)).copied().unwrap_or_default()),
        ] {
            add(to, more);
        }
        site.peak = site.peak.max(count.peak);
        counts.push(count);
    }
    let mut sites: Vec<AllocationSite> = places
        .into_values()
        .map(|(site, counts)| {
            let kept = |count: &&&AllocationCount| count.bytes.saturating_sub(count.released_bytes);
            let most = counts
                .iter()
                .max_by_key(|count| (kept(count), count.bytes, Reverse(count.stack.map(|one| one.0))));
            let stack = most.and_then(|count| count.stack);
            let stack = stack.map(|stack| functions(stack, timeline, frames).take(FRAMES).collect());
            // Those of several stacks need not have been there at the same time; what is there at the end was.
            AllocationSite { stack: stack.unwrap_or_default(), peak: site.peak.max(site.kept), ..site }
        })
        .collect();
    sites.order_by_key(|row| (Reverse(row.kept), Reverse(row.allocated), row.place));
    sites.truncate(SITES);
    let of_all = timeline.allocation_counts.iter().filter(|count| count.stack.is_none());
    summary.live =
        of_all.map(|count| (count.time, count.bytes.saturating_sub(count.released_bytes))).collect();
    Some(AllocationSummary { sites, ..summary })
}

/// The moment nearest to the middle at which places were read, and not further from it than a quarter of all.
fn near_the_middle(counts: &[AllocationCount], from: MonoNanos, to: MonoNanos) -> Option<MonoNanos> {
    let all = to.since(from).0;
    let middle = from.0.saturating_add(all / 2);
    let moments = counts.iter().filter(|count| count.stack.is_some()).map(|count| count.time);
    moments.min_by_key(|time| time.0.abs_diff(middle)).filter(|time| time.0.abs_diff(middle) <= all / 4)
}
