//! What explains what: where several findings are about one thing, which one speaks, and what becomes of the others.
//!
//! All of it is in [`ROWS`]. A rule says what it sees and does not look at other rules.

use super::finding::{Finding, Reference, Severity, Value};
use super::ids::FindingId;
use super::ids::FindingId::*;
use super::scene::Scene;
use crate::managed_names::is_pool_thread;
use crate::trace::function::FunctionHandle;
use crate::trace::threads::ThreadRow;
use crate::trace::waits::WaitReason;
use biopsy_dotnet::names::{display, is_state_machine};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// What one finding does to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Both are the same thing seen twice: the first that was found speaks.
    Once,
    /// Says all that the other does, and more: the other is left out.
    Silences,
    /// Explains it: a warning or worse makes a notice of the other.
    Lowers,
    /// Knows how near the end is: where it is critical, the other, if it is a warning, is critical too.
    Raises,
    /// Is the same thing read from memory: it takes the other's place and evidence, if it is worth as much.
    Names,
    /// Is there on an idle machine too: a warning or worse stands before the other, which is about want of CPUs.
    StandsBefore,
    /// Contradicts the other even as a notice; every warning does.
    HoldsBack,
    /// Says nothing about what the process does: the other may be said beside it.
    LeavesRoomFor,
}

/// One row of the table: each of `these` does this to each of `to`.
struct Row {
    these: &'static [FindingId],
    how: How,
    to: &'static [FindingId],
    /// Only where this holds of the recording.
    when: fn(&Scene<'_>) -> bool,
}

const fn row(these: &'static [FindingId], how: How, to: &'static [FindingId]) -> Row {
    Row { these, how, to, when: |_| true }
}

/// In this order: what an earlier row has lowered to a notice explains nothing in a later one.
const ROWS: &[Row] = &[
    // The same lock, once by the runtime's events and once by the scheduler's.
    row(&[LockConvoy], How::Once, &[LockConvoy]),
    // A limit that is near is known to the one that reads the process's memory.
    row(&[MemoryGrowth], How::Raises, &[ManagedHeapGrowth]),
    // Who allocates it says more than that there is more of it.
    row(&[KeptAllocations], How::Lowers, &[MemoryGrowth]),
    // Who holds what became more says more than of which type it is.
    row(
        &[Leak],
        How::Lowers,
        &[GrowingType, KeptAllocations, ManagedHeapGrowth, MemoryGrowth, TimerGrowth, WaitingOperations],
    ),
    row(&[ManagedHeapGrowth, TimerGrowth, HeapFragmentation, FinalizerBlocked], How::Lowers, &[MemoryGrowth]),
    // What is left after collections grows because nothing is finalized any more.
    row(&[FinalizerBlocked], How::Lowers, &[ManagedHeapGrowth]),
    // A pool that starves starts threads.
    Row { these: &[PoolStarvation], how: How::Lowers, to: &[RunawayThreads], when: born_in_pool },
    // The answers of a dependency may have come long before a thread was there to take them.
    row(&[PoolStarvation], How::Lowers, &[LockConvoy, SlowRequests, SlowDependency]),
    row(&[GcPinned], How::Lowers, &[AllocationStorm]),
    row(&[AllocationStorm, GcPinned], How::Lowers, &[GcPauses]),
    // Whoever asks for collections is the reason of their pauses.
    Row { these: &[GcInduced], how: How::Lowers, to: &[GcPauses], when: mostly_asked_for },
    // What collections go through says more than that they take long; of what grows there is more each time.
    row(&[GcLargeHeap, Leak, ManagedHeapGrowth, GrowingType], How::Lowers, &[GcPauses]),
    row(&[NPlusOne, SlowDependency, BlockedOnLock, LockConvoy], How::Lowers, &[SlowRequests]),
    // A lock that is held through a flush is waited for because of the disk.
    Row {
        these: &[DiskBound],
        how: How::Lowers,
        to: &[LockConvoy, LockContention],
        when: held_through_the_disk,
    },
    // Threads that wait for one lock for ever are no queue that moves on.
    row(&[BlockedOnLock, FinalizerBlocked], How::Lowers, &[LockConvoy, LockContention]),
    row(&[FinalizerBlocked], How::Lowers, &[BlockedOnLock]),
    // The same, once by the runtime's events and once by the functions that run.
    row(&[ExceptionStorm], How::Once, &[ExceptionStorm]),
    row(&[RegexBacktracking], How::Once, &[RegexBacktracking]),
    // What the CPU time goes to says more than that it is used.
    row(&[GcPressure, AllocatorChurn, PageFaults], How::Silences, &[CpuBound, KernelTime]),
    row(
        &[ExceptionStorm, RegexBacktracking],
        How::Lowers,
        &[CpuBound, SingleThreadBottleneck, AllocatorChurn, GcPressure],
    ),
    row(&[ShortLivedProcesses], How::Lowers, &[CpuBound, KernelTime, PageFaults, DiskBound]),
    // A runtime that aborts because of an exception: that its thread sent the signal tells nothing more.
    row(&[UnhandledException], How::Silences, &[Abort]),
    // Who is waited for says more than that somebody waits.
    row(&[Deadlock, LockQueue, AbandonedLock, OrphanedLock], How::Silences, &[NoProgress]),
    row(
        &[
            Deadlock,
            StrandDeadlock,
            LockQueue,
            AbandonedLock,
            OrphanedLock,
            NeverWoken,
            SilentPeer,
            WaitsForProcess,
            PoolStarvation,
            StrandsWait,
            WaitingOperations,
            FullChannel,
            FinalizerBlocked,
            HeldUp,
        ],
        How::Silences,
        &[StuckWait],
    ),
    row(&[HeldUp], How::Silences, &[EqualThreads]),
    row(&[Deadlock, LockQueue, AbandonedLock, OrphanedLock, NeverWoken], How::Silences, &[HeldUp]),
    // Threads that are started for each request pile up behind what is held.
    row(&[Deadlock, LockQueue, AbandonedLock, OrphanedLock], How::Lowers, &[ManyThreads, EqualThreads]),
    // Time says that and since when threads wait, memory says for whom.
    row(
        &[Deadlock, OrphanedLock, AbandonedLock, NeverWoken],
        How::Names,
        &[BlockedOnLock, LockConvoy, LockContention],
    ),
    row(&[LockQueue], How::Names, &[LockConvoy]),
    row(&[FinalizerBlocked], How::Names, &[FinalizerBlocked]),
    row(&[PoolStarvation], How::Names, &[PoolStarvation]),
    // What want of CPUs makes no program do. What may be the doing of others (queues, slow requests) is not here.
    row(
        &[
            AcceptQueue,
            AllocationStorm,
            BlockedOnLock,
            CgroupThrottled,
            DescriptorGrowth,
            DiskBound,
            ExceptionStorm,
            FinalizerBlocked,
            GcInduced,
            GcPinned,
            HeapFragmentation,
            KeptAllocations,
            Leak,
            ManagedHeapGrowth,
            MemoryGrowth,
            MemoryPressure,
            NPlusOne,
            RegexBacktracking,
            RequestsUnanswered,
            RunawayThreads,
            SleepLoop,
            TargetEnded,
            TimerGrowth,
        ],
        How::StandsBefore,
        &[CpuSaturatedByOthers],
    ),
    Row { these: &[CpuBound], how: How::StandsBefore, to: &[CpuSaturatedByOthers], when: gets_the_cpu },
    // Idle means that nothing holds the process back.
    row(
        &[
            LockConvoy,
            LockContention,
            DiskBound,
            SlowPeer,
            MemoryPressure,
            PoolStarvation,
            SlowDependency,
            SlowRequests,
            RequestsUnanswered,
        ],
        How::HoldsBack,
        &[Idle],
    ),
    row(
        &[RecordingIncomplete, RuntimeEventsIncomplete, LogErrors, LoggedErrors],
        How::LeavesRoomFor,
        &[NoBottleneck],
    ),
];

/// At least half of the threads that were started are of the pool.
fn born_in_pool(scene: &Scene<'_>) -> bool {
    let table = &scene.analysis.threads;
    let born: Vec<&ThreadRow> = table.rows.iter().filter(|row| row.born).collect();
    let of_pool = born.iter().filter(|row| is_pool_thread(&row.name)).count();
    table.groups.iter().any(|group| is_pool_thread(&group.name)) && of_pool * 2 >= born.len()
}

/// At least half of the collections were asked for by the program.
fn mostly_asked_for(scene: &Scene<'_>) -> bool {
    let summaries = scene.analysis.runtimes.iter().map(|runtime| &runtime.collections);
    summaries.max_by_key(|one| one.total).is_some_and(|one| one.induced * 2 >= one.total.max(1))
}

/// Share of the time for which the most wanted lock is held while others wait that its holder waits for the disk.
const THROUGH_THE_DISK: f64 = 0.5;

/// Most of what is waited for at locks is the disk.
fn held_through_the_disk(scene: &Scene<'_>) -> bool {
    let held = scene.facts.waits.held.values();
    let most = held.max_by(|a, b| a.time.cmp(&b.time).then(b.waits.len().cmp(&a.waits.len())));
    most.is_some_and(|held| held.share(|reason| reason == WaitReason::Disk) >= THROUGH_THE_DISK)
}

/// The thread that wants to run most gets what it wants for the most part.
fn gets_the_cpu(scene: &Scene<'_>) -> bool {
    let rows = &scene.analysis.threads.rows;
    let busiest = rows.iter().max_by_key(|row| (row.running + row.ready, Reverse(row.tid)));
    busiest.is_some_and(|row| row.running >= row.ready)
}

fn rows(how: How) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| row.how == how)
}

fn is_said(findings: &[Finding], id: FindingId, at_least: Severity) -> bool {
    findings.iter().any(|finding| finding.id == id && finding.severity >= at_least)
}

/// Among findings of one recording: leaves out what is said twice, lowers what another one explains.
pub(super) fn settle(scene: &Scene<'_>, findings: &mut Vec<Finding>) {
    for row in ROWS {
        let least = if row.how == How::Raises { Severity::Critical } else { Severity::Warning };
        let speaks = |findings: &[Finding]| row.these.iter().any(|&id| is_said(findings, id, least));
        match row.how {
            How::Once => {
                let mut seen = false;
                findings.retain(|one| !row.to.contains(&one.id) || !std::mem::replace(&mut seen, true));
            }
            How::Lowers if speaks(findings) && (row.when)(scene) => {
                for one in findings.iter_mut().filter(|one| row.to.contains(&one.id)) {
                    one.severity = one.severity.min(Severity::Notice);
                }
            }
            How::Raises if speaks(findings) => {
                let to = |one: &&mut Finding| row.to.contains(&one.id) && one.severity >= Severity::Warning;
                findings.iter_mut().filter(to).for_each(|one| one.severity = Severity::Critical);
            }
            How::Silences => {
                if row.these.iter().any(|&id| is_said(findings, id, Severity::Info)) {
                    findings.retain(|one| !row.to.contains(&one.id));
                }
            }
            How::Lowers
            | How::Raises
            | How::Names
            | How::StandsBefore
            | How::HoldsBack
            | How::LeavesRoomFor => {}
        }
    }
}

/// The share of another one's bytes from which a finding over all evidence explains it: garbage grows beside a leak.
const OF_BYTES: f64 = 0.25;

/// Functions that a finding rests on.
fn functions_of(finding: &Finding) -> impl Iterator<Item = FunctionHandle> {
    finding.evidence.iter().filter_map(|one| match one.reference {
        Reference::Function(function) => Some(function),
        _ => None,
    })
}

/// What a sentence has in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Methods whose state machines a leak is of.
fn operations_of(leak: &Finding) -> BTreeSet<String> {
    let machines = quoted(&leak.title).filter(|of| is_state_machine(of, "MoveNext"));
    machines.map(|of| display(of, "MoveNext").trim_end_matches(" (async)").to_owned()).collect()
}

/// Between findings over all evidence and those of the recording in it: lowers what one of the former explains.
pub(super) fn settle_all(of_all: &mut [Finding], recorded: &mut [Finding]) {
    let bytes = |finding: &Finding| match finding.evidence.first().and_then(|first| first.value) {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    };
    for row in rows(How::Lowers) {
        let is_cause = |one: &&Finding| row.these.contains(&one.id) && one.severity >= Severity::Warning;
        let Some(cause) = of_all.iter().find(is_cause) else { continue };
        // All timers of .NET hang there; a leak elsewhere says nothing of them.
        let of_timers = cause.evidence.first().is_some_and(|first| first.text.contains("TimerQueue"));
        // Of a type there is more in garbage, too, and a queue is held at both its ends: then the share of what is alive says it.
        let of_alive = cause.impact;
        let operations = operations_of(cause);
        let functions: Vec<FunctionHandle> = functions_of(cause).collect();
        let cause = bytes(cause);
        for one in of_all.iter_mut().chain(&mut *recorded).filter(|one| row.to.contains(&one.id)) {
            let is_much = cause.zip(bytes(one)).is_none_or(|(cause, all)| cause >= all * OF_BYTES);
            let is_explained = match one.id {
                GrowingType => is_much || of_alive >= OF_BYTES,
                // How much was not given back is an upper bound where a part of the time was watched. Of one function it is the same thing.
                KeptAllocations => is_much || functions_of(one).any(|function| functions.contains(&function)),
                TimerGrowth => is_much && of_timers,
                // They wait because they are kept, and are kept because they wait.
                WaitingOperations => one
                    .evidence
                    .first()
                    .is_some_and(|first| quoted(&first.text).any(|method| operations.contains(method))),
                _ => is_much,
            };
            if is_explained {
                one.severity = one.severity.min(Severity::Notice);
            }
        }
    }
    let own = |one: &&Finding| {
        one.severity >= Severity::Warning
            && rows(How::StandsBefore)
                .any(|row| row.to == [CpuSaturatedByOthers] && row.these.contains(&one.id))
    };
    // Of those that are as bad as the worst, it comes behind the last.
    if let Some(worst) = of_all.iter().filter(own).map(|one| one.severity).max()
        && let Some(others) =
            recorded.iter_mut().find(|one| one.id == CpuSaturatedByOthers && one.severity >= worst)
    {
        let beside = of_all.iter().filter(own).filter(|one| one.severity == worst);
        stand_behind(others, worst, beside.map(|one| one.impact).fold(1.0, f64::min));
    }
}

/// Among findings of one dump: leaves out what another one says better, lowers what another one explains.
pub(super) fn silence(findings: &mut Vec<Finding>) {
    for row in rows(How::Lowers) {
        if row.these.iter().any(|&id| is_said(findings, id, Severity::Warning)) {
            for one in findings.iter_mut().filter(|one| row.to.contains(&one.id)) {
                one.severity = one.severity.min(Severity::Notice);
            }
        }
    }
    for row in rows(How::Silences) {
        if findings.iter().any(|one| row.these.contains(&one.id)) {
            findings.retain(|one| !row.to.contains(&one.id));
        }
    }
}

/// Where the finding of the time is that memory names by `id`.
pub(super) fn named_by(id: FindingId, findings: &[Finding]) -> Option<usize> {
    let named =
        |one: &Finding| rows(How::Names).any(|row| row.these.contains(&id) && row.to.contains(&one.id));
    findings.iter().position(named)
}

/// Other programs that use the CPUs up explain that something is slow. Where the target has a trouble that they do not explain, that one
/// comes first.
pub(super) fn give_way(scene: &Scene<'_>, findings: &mut [Finding]) {
    let gets_it = gets_the_cpu(scene);
    let own = |finding: &Finding| {
        finding.severity >= Severity::Warning
            && rows(How::StandsBefore).any(|row| row.these.contains(&finding.id) && (row.when)(scene))
    };
    let Some(worst) = findings.iter().filter(|finding| own(finding)).map(|finding| finding.severity).max()
    else {
        return;
    };
    let beside = findings.iter().filter(|finding| own(finding) && finding.severity == worst);
    let least = beside.map(|finding| finding.impact).fold(1.0, f64::min);
    let Some(others) = findings.iter_mut().find(|finding| finding.id == CpuSaturatedByOthers) else {
        return;
    };
    if others.severity < worst {
        return;
    }
    stand_behind(others, worst, least);
    let (severity, impact) = (others.severity, others.impact);
    // That it wants more than it gets is what they do explain.
    for starved in findings.iter_mut().filter(|finding| finding.id == CpuBound && !gets_it) {
        starved.severity = starved.severity.min(severity);
        starved.impact = starved.impact.min(impact * 0.99);
    }
}

/// Puts the finding about other programs behind those that it does not explain.
fn stand_behind(others: &mut Finding, severity: Severity, impact: f64) {
    others.severity = severity;
    others.impact = others.impact.min(impact * 0.99);
    others.explanation =
        "It makes everything slower, but does not explain the findings above, which are the target's own."
            .to_owned();
}

/// Something holds the process back, so it is not idle.
pub(super) fn is_held_back(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| {
        finding.severity >= Severity::Warning
            || (finding.severity == Severity::Notice
                && rows(How::HoldsBack).any(|row| row.these.contains(&finding.id)))
    })
}

/// None of them says what the process does.
pub(super) fn leave_room(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| rows(How::LeavesRoomFor).any(|row| row.these.contains(&finding.id)))
}

#[cfg(test)]
mod tests;
