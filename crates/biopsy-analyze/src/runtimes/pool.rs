//! The thread pool: how many threads, why their number was changed, and when it starved.

use biopsy_model::MonoNanos;
use biopsy_model::runtime_trace::{RuntimeTrace, ThreadPoolChange};

/// The pool in brief.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolSummary {
    /// Changes and findings, all.
    pub total: u64,
    /// Adjustments by reason, in the runtime's words, most first.
    pub reasons: Vec<(String, u64)>,
    /// Threads reported first and last, smallest and largest.
    pub threads: Option<[u32; 4]>,
    /// Adjustments because work waited and no thread got to it.
    pub starved: u64,
    /// Adjustments because threads of the pool block on tasks.
    pub blocked: u64,
    /// First and last of these two.
    pub starving: Option<(MonoNanos, MonoNanos)>,
}

impl PoolSummary {
    pub(super) fn new(trace: &RuntimeTrace) -> PoolSummary {
        let items = &trace.thread_pool.items;
        let mut summary =
            PoolSummary { total: trace.thread_pool.total.max(items.len() as u64), ..PoolSummary::default() };
        for item in items {
            if let Some(now) = item.threads {
                let known = summary.threads.get_or_insert([now; 4]);
                *known = [known[0], now, known[2].min(now), known[3].max(now)];
            }
            let ThreadPoolChange::Adjusted { reason, .. } = &item.kind else { continue };
            let starved = is(reason, "Starvation");
            let blocked = is(reason, "CooperativeBlocking");
            summary.starved += u64::from(starved);
            summary.blocked += u64::from(blocked);
            if starved || blocked {
                let (from, to) = summary.starving.unwrap_or((item.time, item.time));
                summary.starving = Some((from.min(item.time), to.max(item.time)));
            }
            super::bounded::count_word(&mut summary.reasons, super::bounded::cut(reason));
        }
        super::bounded::most_first(&mut summary.reasons);
        summary
    }
}

fn is(reason: &str, word: &str) -> bool {
    reason.eq_ignore_ascii_case(word)
}

/// An adjustment that says that threads were missing.
pub(crate) fn starves(kind: &ThreadPoolChange) -> bool {
    match kind {
        ThreadPoolChange::Adjusted { reason, .. } => {
            is(reason, "Starvation") || is(reason, "CooperativeBlocking")
        }
        ThreadPoolChange::Workers | ThreadPoolChange::Minimum => false,
    }
}
