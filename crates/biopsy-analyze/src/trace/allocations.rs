//! Who allocates native memory, and what of it stays, where that was recorded.
//!
//! Samples are of the time that was watched, and stand for bytes of it. All numbers here are of the whole time: where there were pauses,
//! what was counted between them is taken for a fair part of it. What was given back in a pause was not seen, so that with pauses *kept* is
//! what was not seen to be given back.

pub(crate) mod counted;

use crate::trace::frames::FrameTable;
use crate::trace::function::FunctionHandle;
use crate::whose::{self, Whose};
use biopsy_model::MonoNanos;
use biopsy_model::order::Order as _;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{Allocation, AllocationWatch, Timeline};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Places that are listed.
const SITES: usize = 100;
/// Seconds below which nothing was watched.
const SHORTEST: f64 = 1e-6;
/// Functions of a stack that are listed.
const FRAMES: usize = 64;

/// Allocations of native code.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AllocationSummary {
    /// From the first look to the end of the recording.
    pub seconds: f64,
    /// Share of that in which allocations were watched; 1: all the time.
    pub watched: f64,
    /// Allocations that were counted while they were watched.
    pub calls: u64,
    /// Their bytes.
    pub counted: u64,
    /// Those that were looked at one by one.
    pub samples: u64,
    /// Bytes allocated in all the time, estimated where it was not watched.
    pub allocated: u64,
    /// Of these, those that were not given back.
    pub kept: u64,
    /// Each one was counted from the start of the program; nothing is estimated.
    pub exact: bool,
    /// Where each was counted: those given back before the same thread allocated anything else.
    pub temporary: u64,
    /// Where each was counted: the most bytes that were there at one time.
    pub peak: u64,
    /// By place, what is kept most first.
    pub sites: Vec<AllocationSite>,
    /// Where each was counted: bytes that were there, over time.
    pub live: Vec<(MonoNanos, u64)>,
    /// Where each was counted: the moment that [`AllocationSite::then`] is of, near the middle; `None`: places were not read then.
    pub then: Option<MonoNanos>,
}

/// What is allocated at one place.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AllocationSite {
    /// The program's innermost function; a library's where there is none.
    pub place: FunctionHandle,
    /// The stack with most of it, innermost first.
    pub stack: Vec<FunctionHandle>,
    /// Bytes.
    pub allocated: u64,
    /// Of these, not given back.
    pub kept: u64,
    /// Samples it is estimated from.
    pub samples: u64,
    /// Samples that were not given back.
    pub kept_samples: u64,
    /// Where each was counted, as [`AllocationSummary::temporary`].
    pub temporary: u64,
    /// Where each was counted: the most bytes that were there at one time from one stack of these, and the least that this was for all.
    pub peak: u64,
    /// Where each was counted: bytes that were there at [`AllocationSummary::then`].
    pub then: u64,
}

impl AllocationSummary {
    /// `None`: nobody watched.
    pub(crate) fn new(timeline: &Timeline, frames: &FrameTable) -> Option<Self> {
        let watches = &timeline.allocation_watches;
        let from = watches.iter().map(|watch| watch.from).min()?;
        let last = watches.iter().map(|watch| watch.to).max()?;
        let end = timeline.span.map_or(last, |(_, end)| end.max(last));
        let whole = end.since(from).as_secs_f64().max(1e-9);
        let watched = watches.iter().map(|watch| watch.to.since(watch.from).as_secs_f64()).sum::<f64>();
        // One that goes on to the end has no pauses, however late the last event is.
        let watched = if is_unbroken(watches) { 1.0 } else { (watched / whole).clamp(1e-6, 1.0) };
        let sum = |of: fn(&AllocationWatch) -> u64| watches.iter().map(of).fold(0, u64::saturating_add);
        let (calls, counted) = (sum(|watch| watch.calls), sum(|watch| watch.bytes));
        let weights: u64 = timeline.allocations.iter().map(|one| one.weight).fold(0, u64::saturating_add);
        // What all samples stand for is known exactly.
        let scale = counted as f64 / weights.max(1) as f64 / watched;
        let mut sites = Sites::default();
        for (allocation, kept) in timeline.allocations_kept() {
            sites.add(allocation, kept, timeline, frames);
        }
        let sites = sites.rows(scale, timeline, frames);
        Some(Self {
            seconds: whole,
            watched,
            calls,
            counted,
            samples: timeline.allocations.len() as u64,
            allocated: (counted as f64 / watched) as u64,
            kept: sites.iter().map(|site| site.kept).fold(0, u64::saturating_add),
            sites: sites.into_iter().take(SITES).collect(),
            ..Self::default()
        })
    }

    /// It was watched while time went by; otherwise it is what another tool had summed up, nobody says since when.
    #[must_use]
    pub fn is_over_time(&self) -> bool {
        self.seconds > SHORTEST
    }

    /// It was watched all the time.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.watched >= 0.999
    }
}

fn is_unbroken(watches: &[AllocationWatch]) -> bool {
    watches.windows(2).all(|pair| matches!(pair, [one, next] if one.to == next.from))
        && watches.iter().all(|watch| watch.released_to == watch.to)
}

#[derive(Default)]
struct Site {
    allocated: u64,
    kept: u64,
    samples: u64,
    kept_samples: u64,
    /// By stack: what is kept, what is allocated.
    stacks: FxHashMap<StackHandle, (u64, u64)>,
}

#[derive(Default)]
struct Sites {
    places: FxHashMap<StackHandle, Option<FunctionHandle>>,
    sites: FxHashMap<FunctionHandle, Site>,
}

impl Sites {
    fn add(&mut self, allocation: &Allocation, kept: bool, timeline: &Timeline, frames: &FrameTable) {
        let Some(stack) = allocation.stack else { return };
        let place = *self.places.entry(stack).or_insert_with(|| place(stack, timeline, frames));
        let Some(place) = place else { return };
        let site = self.sites.entry(place).or_default();
        let weight = allocation.weight;
        site.allocated = site.allocated.saturating_add(weight);
        site.samples += 1;
        let (stays, all) = site.stacks.entry(stack).or_default();
        *all = all.saturating_add(weight);
        if kept {
            site.kept = site.kept.saturating_add(weight);
            site.kept_samples += 1;
            *stays = stays.saturating_add(weight);
        }
    }

    fn rows(self, scale: f64, timeline: &Timeline, frames: &FrameTable) -> Vec<AllocationSite> {
        let bytes = |weight: u64| (weight as f64 * scale) as u64;
        let row = |(place, site): (FunctionHandle, Site)| {
            let most = site.stacks.iter().max_by_key(|(stack, sums)| (**sums, Reverse(stack.0)));
            let stack = most.map(|(stack, _)| functions(*stack, timeline, frames).take(FRAMES).collect());
            AllocationSite {
                place,
                stack: stack.unwrap_or_default(),
                allocated: bytes(site.allocated),
                kept: bytes(site.kept),
                samples: site.samples,
                kept_samples: site.kept_samples,
                ..AllocationSite::default()
            }
        };
        let mut rows: Vec<AllocationSite> = self.sites.into_iter().map(row).collect();
        rows.order_by_key(|row| (Reverse(row.kept), Reverse(row.allocated), row.place));
        rows
    }
}

fn functions<'a>(
    stack: StackHandle,
    timeline: &'a Timeline,
    frames: &'a FrameTable,
) -> impl Iterator<Item = FunctionHandle> + 'a {
    timeline.frames_of(Some(stack)).flat_map(move |frame| frames.of(frame).iter().copied())
}

fn place(stack: StackHandle, timeline: &Timeline, frames: &FrameTable) -> Option<FunctionHandle> {
    let all: Vec<FunctionHandle> = functions(stack, timeline, frames).take(FRAMES * 4).collect();
    let whose = all.iter().map(|function| frames.row(*function).map_or(Whose::Plumbing, |row| row.whose));
    all.get(whose::place(whose)?).copied()
}

#[cfg(test)]
mod tests;
