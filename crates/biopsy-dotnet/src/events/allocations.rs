//! Allocated bytes by type and place, as the runtime samples them.

use super::limits::Limits;
use super::runtime::Allocation;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{AllocationGroup, AllocationSampling, RuntimeStack};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Allocations by group.
#[derive(Debug)]
pub(super) struct Allocations {
    groups: Vec<AllocationGroup>,
    by_hash: FxHashMap<u64, usize>,
    limits: Limits,
    other: Option<usize>,
    /// Of what: randomly taken samples replace ticks where both come, as they are the better estimate.
    sampling: AllocationSampling,
}

impl Allocations {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            groups: Vec::new(),
            by_hash: FxHashMap::default(),
            limits: *limits,
            other: None,
            sampling: AllocationSampling::default(),
        }
    }

    pub(super) fn add(
        &mut self,
        event: &Allocation<'_>,
        stack: Option<RuntimeStack>,
        sampling: &AllocationSampling,
    ) {
        if self.sampling != *sampling {
            if self.sampling == AllocationSampling::Random {
                return;
            }
            self.sampling = sampling.clone();
            self.groups.clear();
            self.by_hash.clear();
            self.other = None;
        }
        let large = event.kind == 1;
        let mut hasher = FxHasher::default();
        (stack, large, event.type_name.bytes()).hash(&mut hasher);
        let hash = hasher.finish();
        let index = match self.by_hash.get(&hash).copied().or(self.other) {
            Some(index) => index,
            None => {
                let full = self.groups.len() >= self.limits.groups;
                self.groups.push(AllocationGroup {
                    type_name: if full {
                        "(others)".to_owned()
                    } else {
                        event.type_name.to_string_of(self.limits.text)
                    },
                    stack: if full { None } else { stack },
                    bytes: 0,
                    samples: 0,
                    large: large && !full,
                });
                let index = self.groups.len() - 1;
                if full {
                    self.other = Some(index);
                } else {
                    self.by_hash.insert(hash, index);
                }
                index
            }
        };
        if let Some(group) = self.groups.get_mut(index) {
            group.bytes = group.bytes.saturating_add(event.bytes);
            group.samples += 1;
        }
    }

    pub(super) fn finish(self) -> (Vec<AllocationGroup>, AllocationSampling) {
        let mut groups = self.groups;
        groups.order_by_key(|group| std::cmp::Reverse(group.bytes));
        (groups, self.sampling)
    }
}
