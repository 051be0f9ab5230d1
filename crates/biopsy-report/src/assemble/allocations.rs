//! Who allocates native memory.

use super::assembly::{Assembly, finite};
use crate::schema::{AllocationSite, Allocations};

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
            }
        };
        Some(Allocations {
            seconds: finite(summary.seconds),
            watched_share: finite(summary.watched),
            calls: summary.calls,
            counted_bytes: summary.counted,
            samples: summary.samples,
            allocated_bytes: summary.allocated,
            kept_bytes: summary.kept,
            sites: summary.sites.iter().map(site).collect(),
        })
    }
}
