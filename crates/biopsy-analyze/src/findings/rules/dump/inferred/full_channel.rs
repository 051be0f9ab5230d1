//! Threads put into channels that are full, and nobody is left who takes: each waits for the other.
//!
//! Memory keeps no note of who reads a channel. It is inferred from who is left: where all threads of the program put, or wait for those
//! who do, none of them takes. One that does anything else may be the one that takes, and then nothing is said.

use std::collections::BTreeSet;

use crate::dump::strands::StrandState;
use crate::dump::{DumpAnalysis, DumpThread, WaitKind};
use crate::findings::dump::{NAMED, at, in_functions, place};
use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity};
use biopsy_model::Tid;

use super::super::stuck_wait::{Group, groups};

/// What [`groups`] says of those who put.
const ROOM: &str = "room in ";
/// Who waits for the end of a thread takes from no channel.
pub(super) const JOINS: &str = "the end of a thread";

pub(crate) fn find(analysis: &DumpAnalysis) -> Option<Finding> {
    if analysis.crash.is_some() {
        return None;
    }
    let all = groups(analysis);
    let putting: Vec<(&str, &Group)> = all
        .iter()
        .filter(|((what, _), group)| what.starts_with(ROOM) && !group.tids.is_empty())
        .map(|((_, place), group)| (place.as_str(), group))
        .collect();
    let places: BTreeSet<&str> = putting.iter().map(|(place, _)| *place).collect();
    // One place alone is most often many writers and a slow reader.
    if places.len() < 2 {
        return None;
    }
    let tids: Vec<Tid> = putting.iter().flat_map(|(_, group)| group.tids.iter().copied()).collect();
    let joining = |tid: &Tid| all.iter().any(|((what, _), group)| what == JOINS && group.tids.contains(tid));
    let may_take = |thread: &DumpThread| {
        !tids.contains(&thread.tid) && !joining(&thread.tid) && may_act(analysis, thread)
    };
    if analysis.threads.iter().any(may_take) || strands_may_take(analysis, &tids) {
        return None;
    }
    let mut evidence: Vec<_> = tids
        .iter()
        .take(NAMED)
        .filter_map(|tid| {
            let label = analysis.thread(*tid)?.label();
            let text = format!("{label} puts into a channel that is full, in {}", place(analysis, *tid)?);
            Some(at(Reference::Thread(*tid), text))
        })
        .collect();
    evidence.push(fact("no other thread of the program does anything that could take from them", None));
    Some(Finding {
        id: FindingId::FullChannel,
        severity: Severity::Warning,
        impact: 0.8,
        title: format!(
            "{} threads put into full channels and none takes: they send to each other, likely a deadlock{}",
            tids.len(),
            in_functions(analysis, &tids)
        ),
        explanation: "A bounded channel makes its writers wait while it is full. Here all who could read are writing themselves: each \
                      waits until the other takes what it was sent, and nobody does."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look whether one of them reads the channel that the other writes: it must not write without a limit before it reads again",
            "Send with a limit or without waiting, or read and write in threads of their own",
        ]),
    })
}

/// A thread of the program that may do anything for others: not the main one that sleeps, as that of many servers does.
pub(super) fn may_act(analysis: &DumpAnalysis, thread: &DumpThread) -> bool {
    let own = analysis.place(thread.tid).is_some_and(|place| place.own);
    let is_main = thread.tid.0 == analysis.identity.pid.0;
    let sleeps = thread.state.wait() == Some(WaitKind::Time);
    own && !(is_main && sleeps)
}

/// The same of threads of languages; those on `tids` put.
fn strands_may_take(analysis: &DumpAnalysis, tids: &[Tid]) -> bool {
    analysis.strands.iter().flat_map(|one| &one.runtime.strands).any(|strand| {
        let puts = strand.tid.is_some_and(|tid| tids.contains(&tid));
        let is_main = strand.tid.is_some_and(|tid| tid.0 == analysis.identity.pid.0)
            || strand.name.as_deref() == Some("main");
        let sleeps = strand.wait.as_ref().is_some_and(|wait| wait.ends_by_itself);
        let idle = strand.state != StrandState::Running && strand.frames.is_empty();
        !(strand.of_runtime || puts || idle || is_main && sleeps)
    })
}
