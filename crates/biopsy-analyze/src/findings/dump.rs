//! What rules on dumps share.

use crate::dump::strands::{RuntimeKind, Strand, StrandRuntime, WaitKind};
use crate::dump::{DumpAnalysis, DumpThread, SIGNATURE_VERSION};
use crate::findings::evidence::fact;
use crate::findings::finding::{Evidence, Reference};
use biopsy_model::{Confidence, Tid};

pub(super) fn label(analysis: &DumpAnalysis, tid: Tid) -> String {
    analysis.thread(tid).map_or_else(|| format!("thread {tid}"), DumpThread::label)
}

/// Where the thread is: the innermost function of the program, the way from there through libraries, and who called it. A thread of a
/// language is where its program is, and not where the interpreter is.
pub(super) fn place(analysis: &DumpAnalysis, tid: Tid) -> Option<String> {
    Some(analysis.place(tid)?.words())
}

/// Functions that a title names.
const IN_TITLE: usize = 3;

/// Where in the program these threads are, for a title: `` , in `ship` and `pack` ``; empty where that is not known.
pub(super) fn in_functions(analysis: &DumpAnalysis, tids: &[Tid]) -> String {
    let mut names: Vec<String> = Vec::new();
    for name in tids.iter().filter_map(|tid| Some(analysis.place(*tid)?.name())) {
        if !names.contains(&name) && names.len() < IN_TITLE {
            names.push(name);
        }
    }
    match names.split_last() {
        None => String::new(),
        Some((last, [])) => format!(", in {last}"),
        Some((last, rest)) => format!(", in {} and {last}", rest.join(", ")),
    }
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
            WaitKind::ChannelSend => format!(", from which {}{gap}{sure} takes", runtime.label(holder)),
            WaitKind::ChannelReceive => format!(", to which {}{gap}{sure} sends", runtime.label(holder)),
            WaitKind::Select => format!(", which {}{gap}{sure} uses", runtime.label(holder)),
            WaitKind::WaitGroup => format!(", which {}{gap}{sure} counts down", runtime.label(holder)),
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

/// The signature of what ended the process, and how it was made.
pub(super) fn signature(analysis: &DumpAnalysis) -> Option<Evidence> {
    let signature = analysis.signature.as_ref()?;
    let coarse =
        if signature.is_coarse() { "; crashes in functions without names have the same" } else { "" };
    let text = format!(
        "signature `{}`, the same for crashes like this one (version {SIGNATURE_VERSION}, {}{coarse})",
        signature.text,
        signature.how()
    );
    Some(fact(text, None))
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
