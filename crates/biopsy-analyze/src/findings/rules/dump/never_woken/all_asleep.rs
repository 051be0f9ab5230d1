//! All threads of a process wait for each other: nobody is left who would wake one.

use crate::dump::{DumpAnalysis, DumpThread, LockKind, WaitKind};
use crate::findings::dump::{NAMED, label};
use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use biopsy_model::Tid;
use biopsy_model::order::Order as _;
use std::collections::BTreeMap;

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    // What is proven says more; a program whose stacks do not belong to its threads (Go) has its own rule.
    let known = !analysis.waits.cycles.is_empty() || !analysis.stuck.is_empty() || analysis.crash.is_some();
    let goroutines = crate::findings::dump::has_goroutines(analysis);
    if known || goroutines || analysis.orphaned.is_some() || analysis.threads.is_empty() {
        return None;
    }
    if !analysis.threads.iter().all(|thread| is_left_to_others(analysis, thread)) {
        return None;
    }
    let mut places: BTreeMap<String, Vec<Tid>> = BTreeMap::new();
    for thread in &analysis.threads {
        if let Some(place) = analysis.place(thread.tid).filter(|place| place.own) {
            places.entry(place.name()).or_default().push(thread.tid);
        }
    }
    let mut named: Vec<(&String, &Vec<Tid>)> = places.iter().collect();
    // Who waits for the end of a thread, or for data, waits for the others.
    let waits_for_others = |tid: &Tid| {
        let thread = analysis.thread(*tid);
        let joins = thread.and_then(|one| one.lock.as_ref()).is_some_and(|lock| lock.kind == LockKind::Join);
        joins || thread.is_some_and(|one| one.state.wait() != Some(WaitKind::Futex))
    };
    named.order_by_key(|(_, tids)| (tids.iter().all(waits_for_others), std::cmp::Reverse(tids.len())));
    let inside = match named.as_slice() {
        [] => return None,
        [(one, _)] => (*one).clone(),
        [(one, _), (other, _), ..] => format!("{one} and {other}"),
    };
    let count = analysis.threads.len();
    let who =
        if count == 1 { "its only thread waits".to_owned() } else { format!("all {count} threads wait") };
    let mut evidence: Vec<Evidence> = named
        .iter()
        .take(NAMED)
        .filter_map(|(place, tids)| {
            let first = analysis.thread(*tids.first()?)?;
            let more = if tids.len() > 1 { format!(" and {} more", tids.len() - 1) } else { String::new() };
            let text = format!("{}{more} in {place}: {}", label(analysis, first.tid), words(analysis, first));
            Some(at(Reference::Thread(first.tid), text, Some(Value::Count(tids.len() as f64))))
        })
        .collect();
    evidence
        .push(fact("no thread runs, sleeps for a time, or waits for anything outside of the process", None));
    Some(Finding {
        id: FindingId::NeverWoken,
        severity: Severity::Notice,
        impact: 0.4,
        title: format!("The process waits for itself: {who} for what only another of its threads could give, in {inside}"),
        explanation: "Each thread waits without a limit at memory or at a pipe or connection that only this process has, and none of what they wait \
                      for has come. Nobody is left to do it, but the handler of a signal. A program that has nothing to do any more, and waits for a \
                      signal to end, looks the same; limits that a socket itself has cannot be seen."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look at who should have given it what it waits for: has that thread ended, does it wait here too, or did the signal come before the wait began?",
            "They do not go on by themselves",
        ]),
    })
}

/// It waits, without a limit, for what only its own process could give.
fn is_left_to_others(analysis: &DumpAnalysis, thread: &DumpThread) -> bool {
    let asleep = thread.asleep && thread.state.wait() == Some(WaitKind::Futex);
    let own_end =
        || analysis.across.iter().flat_map(|across| &across.own_ends).any(|end| end.tid == thread.tid);
    let ends_by_itself = || {
        let strands = analysis.strands.iter().flat_map(|one| &one.runtime.strands);
        strands
            .filter(|strand| strand.tid == Some(thread.tid))
            .any(|strand| strand.wait.as_ref().is_some_and(|wait| wait.ends_by_itself))
    };
    (asleep || own_end()) && !ends_by_itself()
}

fn words(analysis: &DumpAnalysis, thread: &DumpThread) -> String {
    let end = analysis.across.iter().flat_map(|across| &across.own_ends).find(|end| end.tid == thread.tid);
    end.map_or_else(
        || thread.words(),
        |end| format!("waits for {}, whose other end is in this process", end.what),
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::{frame, group};
    use super::*;
    use crate::dump::{Across, LockWait, OwnEnd, StackGroup, ThreadState};
    use biopsy_model::peers::PeerObject;

    fn thread(tid: u32, asleep: bool) -> DumpThread {
        let wait = if asleep { WaitKind::Futex } else { WaitKind::Input };
        let state = ThreadState::InSystemCall {
            number: Some(202),
            name: "futex".into(),
            wait,
            words: "waits".into(),
        };
        let lock = asleep.then(LockWait::default);
        DumpThread { tid: Tid(tid), asleep, state, lock, ..DumpThread::default() }
    }

    fn said(threads: Vec<DumpThread>, own: &[u32]) -> Option<(Severity, String)> {
        let end = |tid: &u32| OwnEnd { tid: Tid(*tid), object: PeerObject::Socket, what: "data".into() };
        let across = Across { own_ends: own.iter().map(end).collect(), ..Across::default() };
        let groups = vec![StackGroup { frames: vec![frame("serve", false)], ..group(0..1, 1) }];
        let found = find(&DumpAnalysis { threads, groups, across: Some(across), ..DumpAnalysis::default() })?;
        Some((found.severity, found.title))
    }

    #[test]
    fn a_process_waits_for_itself_only_if_each_of_its_threads_does() {
        let (severity, title) = said(vec![thread(1, true), thread(2, true)], &[]).expect("nobody is left");
        assert_eq!(severity, Severity::Notice);
        assert!(title.contains("all 2 threads wait") && title.ends_with("in `serve`"), "{title}");
        assert!(said(vec![thread(1, true), thread(2, false)], &[2]).is_some(), "at a connection of its own");
        assert_eq!(said(vec![thread(1, true), thread(2, false)], &[]), None, "data may come from outside");
        assert_eq!(
            said(vec![thread(1, true), DumpThread { asleep: false, ..thread(2, true) }], &[]),
            None,
            "it was woken"
        );
        assert_eq!(said(Vec::new(), &[]), None);
    }
}
