//! How often which rule fired, and the log of it that goes into the recording: rules and counts, never values.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use biopsy_model::capture::RedactionCount;

/// One rule that fired.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Hit {
    /// Id of the rule.
    pub rule: String,
    /// Values masked by it.
    pub count: u64,
}

/// Counts by (member of the recording, rule). Shared by all recorders through `&self`.
#[derive(Default, Debug)]
pub struct RedactionLog {
    counts: Mutex<BTreeMap<(String, String), u64>>,
}

impl RedactionLog {
    /// An empty log.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what was found in `member`.
    pub fn add(&self, member: &str, hits: &[Hit]) {
        if hits.is_empty() {
            return;
        }
        // A recorder that panicked while it held the lock left whole counts behind: adding to them is right.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for hit in hits {
            let count = counts.entry((member.to_owned(), hit.rule.clone())).or_default();
            *count = count.saturating_add(hit.count);
        }
    }

    /// Adds what was counted before: for a recording that goes on.
    pub fn add_counts(&self, before: &[RedactionCount]) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for one in before {
            let count = counts.entry((one.member.clone(), one.rule.clone())).or_default();
            *count = count.saturating_add(one.count);
        }
    }

    /// All counts, by member and rule.
    #[must_use]
    pub fn counts(&self) -> Vec<RedactionCount> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts
            .iter()
            .map(|((member, rule), count)| RedactionCount {
                member: member.clone(),
                rule: rule.clone(),
                count: *count,
            })
            .collect()
    }
}

/// Adds the hits of one piece to those of the whole.
pub(crate) fn merge_hits(into: &mut Vec<Hit>, more: &[Hit]) {
    for hit in more {
        match into.iter_mut().find(|known| known.rule == hit.rule) {
            Some(known) => known.count = known.count.saturating_add(hit.count),
            None => into.push(hit.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_by_member_and_rule() {
        let log = RedactionLog::new();
        let hit = |rule: &str, count| Hit { rule: rule.to_owned(), count };
        log.add("logs/a", &[hit("jwt", 2), hit("cookie", 1)]);
        log.add("logs/a", &[hit("jwt", 3)]);
        log.add("logs/b", &[hit("jwt", 1)]);
        let counts: Vec<_> = log.counts().into_iter().map(|c| (c.member, c.rule, c.count)).collect();
        assert_eq!(
            counts,
            [
                ("logs/a".to_owned(), "cookie".to_owned(), 1),
                ("logs/a".to_owned(), "jwt".to_owned(), 5),
                ("logs/b".to_owned(), "jwt".to_owned(), 1),
            ]
        );
    }
}
