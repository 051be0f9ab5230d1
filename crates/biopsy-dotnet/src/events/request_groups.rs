//! Requests by method and route.

use super::group_text::path_group;
use super::limits::Limits;
use biopsy_model::Nanos;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::RequestGroup;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Groups of requests; the last one takes what is too many.
#[derive(Debug)]
pub(super) struct RequestGroups {
    groups: Vec<RequestGroup>,
    by_name: FxHashMap<(String, String), usize>,
    /// By a hash of method and path as they come, so that most requests cost no text. Forgotten when it is full: paths with ids
    /// in them are without end.
    remembered: FxHashMap<u64, usize>,
    limits: Limits,
}

impl RequestGroups {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            groups: Vec::new(),
            by_name: FxHashMap::default(),
            remembered: FxHashMap::default(),
            limits: *limits,
        }
    }

    /// The group of a request; `route` where the application named it, else the path with ids replaced.
    pub(super) fn of(
        &mut self,
        method: &str,
        path: &str,
        route: Option<&str>,
        redact: &mut dyn FnMut(&str) -> String,
    ) -> usize {
        let mut hasher = FxHasher::default();
        (method, path, route).hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(index) = self.remembered.get(&hash) {
            return *index;
        }
        let name = route.map_or_else(|| path_group(path), str::to_owned);
        let index = self.named(method, redact(&name));
        if self.remembered.len() >= self.limits.remembered {
            self.remembered.clear();
        }
        self.remembered.insert(hash, index);
        index
    }

    fn named(&mut self, method: &str, route: String) -> usize {
        let mut key = (method.to_owned(), route);
        if let Some(index) = self.by_name.get(&key) {
            return *index;
        }
        if self.groups.len() >= self.limits.groups {
            key = (String::new(), "(others)".to_owned());
            if let Some(index) = self.by_name.get(&key) {
                return *index;
            }
        }
        self.groups.push(RequestGroup {
            method: key.0.clone(),
            route: key.1.clone(),
            count: 0,
            unanswered: 0,
            failed: 0,
            total: Nanos(0),
            longest: Nanos(0),
            durations: [0; 40],
            children: (0, 0),
        });
        self.by_name.insert(key, self.groups.len() - 1);
        self.groups.len() - 1
    }

    /// A request of the group has ended.
    pub(super) fn ended(&mut self, index: usize, duration: Nanos, status: Option<u16>, children: u32) {
        let Some(group) = self.groups.get_mut(index) else { return };
        group.count += 1;
        group.failed += u64::from(status.is_some_and(|status| status >= 500 || status == 0));
        group.total = group.total + duration;
        group.longest = group.longest.max(duration);
        let micros = duration.0 / 1_000;
        let slot = usize::try_from(u64::BITS - micros.leading_zeros()).unwrap_or(usize::MAX).min(39);
        if let Some(count) = group.durations.get_mut(slot) {
            *count = count.saturating_add(1);
        }
        group.add_children(children);
    }

    /// A request of the group has not ended when the recording did.
    pub(super) fn unanswered(&mut self, index: usize, children: u32) {
        if let Some(group) = self.groups.get_mut(index) {
            group.unanswered += 1;
            group.add_children(children);
        }
    }

    pub(super) fn finish(self) -> Vec<RequestGroup> {
        let mut groups = self.groups;
        groups.order_by_key(|group| std::cmp::Reverse(group.total));
        groups
    }
}

trait AddChildren {
    fn add_children(&mut self, children: u32);
}

impl AddChildren for RequestGroup {
    fn add_children(&mut self, children: u32) {
        self.children.0 = self.children.0.saturating_add(children.into());
        self.children.1 = self.children.1.max(children);
    }
}
