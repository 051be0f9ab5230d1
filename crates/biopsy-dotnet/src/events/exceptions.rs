//! Exceptions thrown: the first of each group, and groups by type, message and place.

use super::kept::First;
use super::limits::Limits;
use super::runtime::ExceptionThrown;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::{Exception, ExceptionGroup, Kept, RuntimeStack};
use biopsy_model::{MonoNanos, Tid};
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// Exceptions by group.
#[derive(Debug)]
pub(super) struct Exceptions {
    first: First<Exception>,
    groups: Vec<ExceptionGroup>,
    /// By a hash of type, message and stack as they come: a storm costs no text.
    by_hash: FxHashMap<u64, usize>,
    limits: Limits,
    /// Those of more groups than are kept.
    other: Option<usize>,
}

impl Exceptions {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            first: First::new(limits.items),
            groups: Vec::new(),
            by_hash: FxHashMap::default(),
            limits: *limits,
            other: None,
        }
    }

    pub(super) fn thrown(
        &mut self,
        time: MonoNanos,
        tid: Tid,
        event: &ExceptionThrown<'_>,
        stack: Option<RuntimeStack>,
        redact: &mut dyn FnMut(&str) -> String,
    ) {
        let mut hasher = FxHasher::default();
        stack.hash(&mut hasher);
        (event.type_name.bytes(), event.message.bytes()).hash(&mut hasher);
        let hash = hasher.finish();
        let index = match self.by_hash.get(&hash).copied().or(self.other) {
            Some(index) => index,
            None => {
                let full = self.groups.len() >= self.limits.groups;
                let group = ExceptionGroup {
                    type_name: if full {
                        "(others)".to_owned()
                    } else {
                        event.type_name.to_string_of(self.limits.text)
                    },
                    message: if full {
                        String::new()
                    } else {
                        redact(&event.message.to_string_of(self.limits.text))
                    },
                    stack: if full { None } else { stack },
                    count: 0,
                    first: time,
                    last: time,
                };
                self.groups.push(group);
                let index = self.groups.len() - 1;
                if full {
                    self.other = Some(index);
                } else {
                    self.by_hash.insert(hash, index);
                }
                index
            }
        };
        let Some(group) = self.groups.get_mut(index) else { return };
        group.count += 1;
        group.first = group.first.min(time);
        group.last = group.last.max(time);
        if !self.first.has_room() {
            self.first.kept.total += 1;
            return;
        }
        let other = Some(index) == self.other;
        let type_name =
            if other { event.type_name.to_string_of(self.limits.text) } else { group.type_name.clone() };
        let message =
            if other { redact(&event.message.to_string_of(self.limits.text)) } else { group.message.clone() };
        self.first.push(Exception { time, tid, type_name, message, code: event.code, stack });
    }

    pub(super) fn finish(self) -> (Kept<Exception>, Vec<ExceptionGroup>) {
        let mut kept = self.first.kept;
        kept.items.order_by_key(|exception| exception.time);
        let mut groups = self.groups;
        groups.order_by_key(|group| std::cmp::Reverse(group.count));
        (kept, groups)
    }
}
