//! One thread, goroutine or thread of a language stands alone at a condition, a semaphore or a channel, without a limit, and nothing else
//! was found.
//!
//! Several that stand in one place are most often a pool that waits for work, and silent. One is a hint, and no more: it never says
//! more than an information.

use std::collections::BTreeMap;

use crate::dump::strands::{RuntimeKind, Strand, StrandKind, StrandRuntime, StrandState, WaitKind};
use crate::dump::{DumpAnalysis, DumpThread, LockKind, Movement};
use crate::findings::dump::NAMED;
use crate::findings::evidence::steps;
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity};
use biopsy_model::Tid;

use super::super::stuck_wait::{self, is_known, native_threads};

/// Before what all threads do.
const IMPACT: f64 = 0.52;

/// Who waits: by place.
struct Waiter {
    who: String,
    what: String,
    tid: Option<Tid>,
}

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() || stuck_wait::find(analysis).is_some() {
        return None;
    }
    let mut places: BTreeMap<String, Vec<Waiter>> = BTreeMap::new();
    for thread in native_threads(analysis) {
        if let Some((place, waiter)) = of_thread(analysis, thread) {
            places.entry(place).or_default().push(waiter);
        }
    }
    for runtime in &analysis.strands {
        for (place, waiter) in runtime.runtime.strands.iter().filter_map(|strand| of_strand(runtime, strand))
        {
            places.entry(place).or_default().push(waiter);
        }
    }
    let alone: Vec<(&String, &Waiter)> = places
        .iter()
        .filter_map(|(place, waiters)| match waiters.as_slice() {
            [one] => Some((place, one)),
            _ => None,
        })
        .collect();
    let (place, first) = alone.first()?;
    let evidence = alone.iter().take(NAMED).map(|(place, waiter)| Evidence {
        text: format!("{} waits in {place} for {}", waiter.who, waiter.what),
        reference: waiter.tid.map_or(Reference::Recording, Reference::Thread),
        value: None,
    });
    let pid = analysis.identity.pid;
    Some(Finding {
        id: FindingId::StuckWait,
        severity: Severity::Info,
        impact: IMPACT,
        title: format!(
            "{} waits in {place} for {}, without a limit; who would end that is not determined",
            first.who, first.what
        ),
        explanation: "It stands there alone, as nobody of a pool does, and nothing else was found. It may be idle; if the program hangs, it is \
                      where to look first: a signal that came before it was waited for, or an answer that an error kept from coming, leaves \
                      exactly this."
            .to_owned(),
        evidence: evidence.collect(),
        next_steps: steps(&[
            &format!("`biopsy stacks {pid} --looks 3 --every 2s` determines whether it still stands there"),
            "Look at who should give it what it waits for, on the way of errors too, and whether that may have been before it waited",
        ]),
    })
}

/// A thread of native or .NET code.
fn of_thread(analysis: &DumpAnalysis, thread: &DumpThread) -> Option<(String, Waiter)> {
    let lock = thread.lock.as_ref().filter(|lock| !lock.timed && lock.thread().is_none())?;
    let is_main = thread.tid.0 == analysis.identity.pid.0;
    let is_signal = matches!(lock.kind, LockKind::Condition | LockKind::Semaphore | LockKind::Pulse);
    if is_main || !is_signal || thread.state.wait().is_none() || thread.movement == Some(Movement::Moved) {
        return None;
    }
    let place = analysis.place(thread.tid).filter(|place| place.own)?;
    let rows = analysis.groups.get(thread.group)?.frames.iter();
    if rows.filter_map(|row| row.function.as_deref()).any(is_known) {
        return None;
    }
    let what = lock.kind.words().to_owned();
    Some((place.name(), Waiter { who: thread.label(), what, tid: Some(thread.tid) }))
}

/// A strand of another language.
fn of_strand(runtime: &StrandRuntime, strand: &Strand) -> Option<(String, Waiter)> {
    let wait = strand.wait.as_ref().filter(|wait| !wait.ends_by_itself && wait.nobody.is_none())?;
    let is_signal = match runtime.runtime.kind {
        RuntimeKind::Go => matches!(wait.kind, WaitKind::Condition | WaitKind::ChannelReceive),
        _ => matches!(wait.kind, WaitKind::Condition | WaitKind::Semaphore),
    };
    let is_main =
        strand.name.as_deref() == Some("main") || strand.kind == StrandKind::Goroutine && strand.id.0 == 1;
    let owned = runtime.owners(strand).next().is_some();
    if strand.of_runtime || strand.state == StrandState::Running || owned || is_main || !is_signal {
        return None;
    }
    if strand.frames.iter().any(|frame| is_known(&frame.function)) {
        return None;
    }
    let place = runtime.place(strand)?;
    Some((place, Waiter { who: runtime.label(strand), what: wait.kind.words().to_owned(), tid: strand.tid }))
}
