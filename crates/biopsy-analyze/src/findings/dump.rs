//! What rules on dumps share.

use crate::dump::{DumpAnalysis, DumpThread};
use crate::findings::finding::{Evidence, Reference};
use biopsy_model::Tid;

pub(super) fn label(analysis: &DumpAnalysis, tid: Tid) -> String {
    analysis.thread(tid).map_or_else(|| format!("thread {tid}"), DumpThread::label)
}

/// Where the thread waits: the innermost function outside of the C library and of frameworks, and who called it.
pub(super) fn place(analysis: &DumpAnalysis, tid: Tid) -> Option<String> {
    analysis.groups.get(analysis.thread(tid)?.group)?.place()
}

/// Threads that are named one by one.
pub(super) const NAMED: usize = 5;

pub(super) fn own(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<String> {
    let group = analysis.groups.get(thread.group)?;
    group.own_frame().filter(|row| row.managed).map(|row| row.label())
}

pub(super) fn at(reference: Reference, text: String) -> Evidence {
    Evidence { text, reference, value: None }
}

/// Share of all threads.
pub(super) fn share(analysis: &DumpAnalysis, count: usize) -> f64 {
    count as f64 / analysis.threads.len().max(1) as f64
}
