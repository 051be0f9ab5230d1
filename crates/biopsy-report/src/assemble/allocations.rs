//! Who allocates native memory.

use super::assembly::{Assembly, finite};
use crate::schema::{AllocationSite, Allocations, LiveBytes};
use biopsy_model::MonoNanos;

impl Assembly<'_> {
    pub(super) fn allocations(&self) -> Option<Allocations> {
        let summary = self.analysis.allocations.as_ref()?;
        let site = |site: &biopsy_analyze::AllocationSite| {
            let row = self.analysis.function(site.place);
            AllocationSite {
                function: row.map(|row| row.name.clone()).unwrap_or_default(),
                module: row.map(|row| row.module.clone()).unwrap_or_default(),
                stack: site.stack.iter().filter_map(|function| self.function_name(Some(*function))).collect(),
                allocated_bytes: site.allocated,
                kept_bytes: site.kept,
                samples: site.samples,
                kept_samples: site.kept_samples,
                temporary_calls: site.temporary,
                peak_bytes: site.peak,
                then_bytes: summary.then.map(|_| site.then),
            }
        };
        let end = summary.live.last().map(|(time, _)| *time);
        // The last look is at the end of what was watched.
        let seconds =
            |time| finite(summary.seconds - end.map_or(0.0, |end: MonoNanos| end.since(time).as_secs_f64()));
        let live = |&(time, bytes): &(MonoNanos, u64)| LiveBytes { seconds: seconds(time), bytes };
        Some(Allocations {
            seconds: finite(summary.seconds),
            watched_share: finite(summary.watched),
            calls: summary.calls,
            counted_bytes: summary.counted,
            samples: summary.samples,
            allocated_bytes: summary.allocated,
            kept_bytes: summary.kept,
            exact: summary.exact,
            temporary_calls: summary.temporary,
            peak_bytes: summary.peak,
            then_seconds: summary.then.map(seconds),
            live: summary.live.iter().map(live).collect(),
            sites: summary.sites.iter().map(site).collect(),
        })
    }
}
