//! What rules on dumps share.

use crate::dump::strands::{RuntimeKind, Strand, StrandKind, StrandRuntime, WaitKind};
use crate::dump::{DumpAnalysis, DumpThread};
use crate::findings::finding::{Evidence, Reference};
use biopsy_model::{Confidence, Tid};

pub(super) fn label(analysis: &DumpAnalysis, tid: Tid) -> String {
    analysis.thread(tid).map_or_else(|| format!("thread {tid}"), DumpThread::label)
}

/// Where the thread waits: the innermost function outside of the C library and of frameworks, and who called it.
pub(super) fn place(analysis: &DumpAnalysis, tid: Tid) -> Option<String> {
    let strands = analysis.strands.iter().find_map(|runtime| {
        let is_it = |strand: &&Strand| strand.kind == StrandKind::Thread && strand.tid == Some(tid);
        runtime.place(runtime.runtime.strands.iter().find(is_it)?)
    });
    // A thread of a language is where its program is, and not where the interpreter is.
    strands.or_else(|| analysis.groups.get(analysis.thread(tid)?.group)?.place())
}

/// `waits for a mutex at 0xc0..., which goroutine 18 has since main.transfer (bank.go:50)`.
pub(super) fn strand_words(runtime: &StrandRuntime, strand: &Strand) -> String {
    let Some(wait) = &strand.wait else { return strand.state.words().to_owned() };
    let what = match wait.kind {
        WaitKind::Other => wait.reason.clone(),
        WaitKind::Timer => "a time".to_owned(),
        kind => kind.words().to_owned(),
    };
    let at = wait.address.map_or(String::new(), |address| format!(" at {address:#x}"));
    let owner = runtime.owners(strand).next().map_or(String::new(), |(holder, owner)| {
        let sure = if owner.confidence == Confidence::Certain { "" } else { owner.confidence.words() };
        let gap = if sure.is_empty() { "" } else { " " };
        match wait.kind {
            WaitKind::Future | WaitKind::Join => format!(", which is {}", runtime.label(holder)),
            _ => format!(", which {}{gap}{sure} holds", runtime.label(holder)),
        }
    });
    format!("waits for {what}{at}{owner}")
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

/// Goroutines were read: what their threads' own stacks and names lack, the goroutines have.
pub(super) fn has_goroutines(analysis: &DumpAnalysis) -> bool {
    analysis.strands.iter().any(|one| one.runtime.kind == RuntimeKind::Go && one.runtime.total > 0)
}

/// Share of all threads.
pub(super) fn share(analysis: &DumpAnalysis, count: usize) -> f64 {
    count as f64 / analysis.threads.len().max(1) as f64
}
