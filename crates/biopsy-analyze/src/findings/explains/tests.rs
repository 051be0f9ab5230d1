//! Each row of the table, by what becomes of two findings.

use super::*;
use crate::analysis::Analysis;
use crate::trace::facts::Facts;
use crate::trace::function::FunctionHandle;
use crate::trace::held::Held;
use crate::trace::wait_sites::WaitSite;
use crate::trace::waits::WaitReason;
use biopsy_model::capture::{Capture, CaptureHeader};
use biopsy_model::{Nanos, Tid};

fn capture() -> Capture {
    Capture {
        header: CaptureHeader::default(),
        processes: vec![],
        timeline: None,
        runtimes: vec![],
        looks: vec![],
        metrics: vec![],
        logs: vec![],
        context: vec![],
        warnings: vec![],
        redactions: vec![],
    }
}

/// An analysis with these threads: name, seconds on a CPU, seconds ready, started while it was recorded.
fn threads(threads: &[(&str, u64, u64, bool)]) -> Analysis {
    let mut analysis = Analysis::default();
    for (number, &(name, running, ready, born)) in threads.iter().enumerate() {
        analysis.threads.rows.push(ThreadRow {
            tid: Tid(100 + number as u32),
            name: name.to_owned(),
            running: Nanos(running * 1_000_000_000),
            ready: Nanos(ready * 1_000_000_000),
            born,
            ..ThreadRow::default()
        });
        let group = crate::ThreadGroup { name: name.to_owned(), ..crate::ThreadGroup::default() };
        analysis.threads.groups.push(group);
    }
    analysis
}

/// A runtime with so many collections, of which so many were asked for.
fn collected(total: u64, induced: u64) -> crate::RuntimeSummary {
    let collections = crate::runtimes::CollectionSummary { total, induced, ..Default::default() };
    crate::RuntimeSummary { collections, ..Default::default() }
}

#[test]
fn collections_that_nobody_asked_for_have_another_reason() {
    for (total, induced, explained) in [(4, 2, true), (5, 2, false), (0, 0, false)] {
        let mut analysis = Analysis::default();
        analysis.runtimes.push(collected(total, induced));
        let both = [(GcPauses, Severity::Critical), (GcInduced, Severity::Warning)];
        let after = settled(&analysis, &both)[0].1;
        assert_eq!(after == Severity::Notice, explained, "{induced} of {total}");
    }
}

fn finding(id: FindingId, severity: Severity) -> Finding {
    let text = String::new();
    Finding {
        id,
        severity,
        impact: 0.5,
        title: text.clone(),
        explanation: text,
        evidence: vec![],
        next_steps: vec![],
    }
}

/// A lock whose holder waited for the disk in this share of the time in its queue, and another one that is hardly waited for.
fn behind_the_disk(share: f64) -> Facts {
    let at = |reason, number| WaitSite { reason, function: Some(FunctionHandle(number)) };
    let held = |seconds: f64, share: f64| {
        let of = |share: f64| Nanos((seconds * share * 1e9) as u64);
        let waits = vec![(at(WaitReason::Disk, 9), of(share)), (at(WaitReason::Sleep, 9), of(1.0 - share))];
        Held { time: of(1.0), waits, fed: Nanos(0) }
    };
    let mut facts = Facts::default();
    facts.waits.held.insert(at(WaitReason::Lock, 1), held(10.0, share));
    facts.waits.held.insert(at(WaitReason::Lock, 2), held(0.1, 1.0 - share));
    facts
}

#[test]
fn a_queue_behind_a_flush_is_for_the_disk() {
    for (share, explained) in [(0.49, false), (0.51, true)] {
        let (capture, analysis, facts) = (capture(), Analysis::default(), behind_the_disk(share));
        let mut both = [LockConvoy, DiskBound].map(|id| finding(id, Severity::Critical)).to_vec();
        settle(&Scene::new(&capture, &analysis, &facts), &mut both);
        assert_eq!(both[0].severity == Severity::Notice, explained, "{share}");
        assert_eq!(both[1].severity, Severity::Critical);
    }
}

/// Severities of `found` after `settle`, those left out missing.
fn settled(analysis: &Analysis, found: &[(FindingId, Severity)]) -> Vec<(FindingId, Severity)> {
    let (capture, facts) = (capture(), behind_the_disk(0.5));
    let mut findings: Vec<Finding> = found.iter().map(|&(id, severity)| finding(id, severity)).collect();
    settle(&Scene::new(&capture, analysis, &facts), &mut findings);
    findings.iter().map(|one| (one.id, one.severity)).collect()
}

fn pairs(how: How) -> Vec<(FindingId, FindingId)> {
    let each =
        rows(how).flat_map(|row| row.these.iter().flat_map(|&this| row.to.iter().map(move |&to| (this, to))));
    each.collect()
}

/// What explains what: written down a second time, so that the table does not change by accident.
const EXPLAINED: &[(FindingId, FindingId)] = &[
    (KeptAllocations, MemoryGrowth),
    (Leak, GrowingType),
    (Leak, KeptAllocations),
    (Leak, ManagedHeapGrowth),
    (Leak, MemoryGrowth),
    (Leak, TimerGrowth),
    (Leak, WaitingOperations),
    (ManagedHeapGrowth, MemoryGrowth),
    (TimerGrowth, MemoryGrowth),
    (HeapFragmentation, MemoryGrowth),
    (FinalizerBlocked, MemoryGrowth),
    (FinalizerBlocked, ManagedHeapGrowth),
    (PoolStarvation, RunawayThreads),
    (PoolStarvation, LockConvoy),
    (PoolStarvation, SlowRequests),
    (PoolStarvation, SlowDependency),
    (GcPinned, AllocationStorm),
    (AllocationStorm, GcPauses),
    (GcPinned, GcPauses),
    (GcInduced, GcPauses),
    (GcLargeHeap, GcPauses),
    (Leak, GcPauses),
    (ManagedHeapGrowth, GcPauses),
    (GrowingType, GcPauses),
    (NPlusOne, SlowRequests),
    (SlowDependency, SlowRequests),
    (BlockedOnLock, SlowRequests),
    (LockConvoy, SlowRequests),
    (DiskBound, LockConvoy),
    (DiskBound, LockContention),
    (BlockedOnLock, LockConvoy),
    (BlockedOnLock, LockContention),
    (FinalizerBlocked, LockConvoy),
    (FinalizerBlocked, LockContention),
    (FinalizerBlocked, BlockedOnLock),
    (ExceptionStorm, CpuBound),
    (ExceptionStorm, SingleThreadBottleneck),
    (ExceptionStorm, AllocatorChurn),
    (ExceptionStorm, GcPressure),
    (RegexBacktracking, CpuBound),
    (RegexBacktracking, SingleThreadBottleneck),
    (RegexBacktracking, AllocatorChurn),
    (RegexBacktracking, GcPressure),
    (ShortLivedProcesses, CpuBound),
    (ShortLivedProcesses, KernelTime),
    (ShortLivedProcesses, PageFaults),
    (ShortLivedProcesses, DiskBound),
    (Deadlock, ManyThreads),
    (Deadlock, EqualThreads),
    (LockQueue, ManyThreads),
    (LockQueue, EqualThreads),
    (AbandonedLock, ManyThreads),
    (AbandonedLock, EqualThreads),
    (OrphanedLock, ManyThreads),
    (OrphanedLock, EqualThreads),
];

/// What the CPU time goes to says more than that it is used.
const SILENCED: &[(FindingId, FindingId)] = &[
    (GcPressure, CpuBound),
    (GcPressure, KernelTime),
    (AllocatorChurn, CpuBound),
    (AllocatorChurn, KernelTime),
    (PageFaults, CpuBound),
    (PageFaults, KernelTime),
];

#[test]
fn a_cause_makes_a_notice_of_what_it_explains() {
    let mut pool = threads(&[(".NET TP Worker", 1, 0, true)]);
    pool.runtimes.push(collected(4, 2));
    assert_eq!(pairs(How::Lowers), EXPLAINED);
    for &(cause, explained) in EXPLAINED {
        for worse in [Severity::Warning, Severity::Critical] {
            let both = [(explained, Severity::Critical), (cause, worse)];
            let after = settled(&pool, &both);
            assert_eq!(after[0], (explained, Severity::Notice), "{cause} explains {explained}");
            // Nothing but the cause itself may be raised or lowered by what it explains.
            assert!(after[1].1 >= worse, "{cause}");
        }
        // A cause that is itself only worth knowing explains nothing.
        let weak = [(explained, Severity::Critical), (cause, Severity::Notice)];
        assert_eq!(settled(&pool, &weak)[0].1, Severity::Critical, "{cause} as a notice");
        // What is less than a notice stays what it is.
        let less = [(explained, Severity::Info), (cause, Severity::Critical)];
        assert_eq!(settled(&pool, &less)[0].1, Severity::Info, "{explained} as info");
    }
}

/// What a finding on memory says more exactly than another one.
const SAID_ONCE: &[(FindingId, FindingId)] = &[
    (UnhandledException, Abort),
    (Deadlock, NoProgress),
    (LockQueue, NoProgress),
    (AbandonedLock, NoProgress),
    (OrphanedLock, NoProgress),
    (Deadlock, StuckWait),
    (StrandDeadlock, StuckWait),
    (LockQueue, StuckWait),
    (AbandonedLock, StuckWait),
    (OrphanedLock, StuckWait),
    (NeverWoken, StuckWait),
    (SilentPeer, StuckWait),
    (WaitsForProcess, StuckWait),
    (PoolStarvation, StuckWait),
    (StrandsWait, StuckWait),
    (WaitingOperations, StuckWait),
    (FullChannel, StuckWait),
    (FinalizerBlocked, StuckWait),
    (HeldUp, StuckWait),
    (HeldUp, EqualThreads),
    (Deadlock, HeldUp),
    (LockQueue, HeldUp),
    (AbandonedLock, HeldUp),
    (OrphanedLock, HeldUp),
    (NeverWoken, HeldUp),
];

#[test]
fn nothing_else_is_lowered_by_anything() {
    let pool = threads(&[(".NET TP Worker", 1, 0, true)]);
    for &one in FindingId::ALL {
        for &other in FindingId::ALL.iter().filter(|&&other| other != one) {
            let known =
                |pair| EXPLAINED.contains(&pair) || SILENCED.contains(&pair) || SAID_ONCE.contains(&pair);
            if known((one, other)) || known((other, one)) {
                continue;
            }
            let before = [(one, Severity::Warning), (other, Severity::Critical)];
            assert_eq!(settled(&pool, &before), before, "{one} and {other}");
        }
    }
}

#[test]
fn a_leak_explains_growth_that_is_not_much_larger() {
    let of = |id, severity, bytes| {
        let evidence = super::super::evidence::fact("it grew", Some(Value::Bytes(bytes)));
        Finding { evidence: vec![evidence], impact: 0.1, ..finding(id, severity) }
    };
    let beside = |leak, grown| {
        let mut all = [of(GrowingType, Severity::Warning, grown), leak];
        let mut recorded =
            [of(MemoryGrowth, Severity::Critical, grown), of(CpuBound, Severity::Warning, 1.0)];
        settle_all(&mut all, &mut recorded);
        [all[0].severity, all[1].severity, recorded[0].severity, recorded[1].severity]
    };
    use Severity::{Critical, Notice, Warning};
    assert_eq!(beside(of(Leak, Warning, 20e6), 60e6), [Notice, Warning, Notice, Warning]);
    assert_eq!(
        beside(of(Leak, Warning, 20e6), 100e6),
        [Warning, Warning, Critical, Warning],
        "most is not it"
    );
    // A quarter of what is alive is enough beside a type, however much memory grew.
    let much = Finding { impact: 0.4, ..of(Leak, Warning, 20e6) };
    assert_eq!(beside(much, 100e6), [Notice, Warning, Critical, Warning]);
    let timers = |way: &str| {
        let evidence = super::super::evidence::fact(way, Some(Value::Bytes(20e6)));
        let mut all = [Finding { evidence: vec![evidence], ..finding(Leak, Warning) }];
        let mut recorded = [finding(TimerGrowth, Warning)];
        settle_all(&mut all, &mut recorded);
        recorded[0].severity
    };
    assert_eq!(timers("`static System.Threading.TimerQueue.Instances`"), Notice);
    assert_eq!(timers("`static App.Journal.Bookings`"), Warning, "it is not about timers");
    assert_eq!(beside(of(Leak, Notice, 20e6), 20e6), [Warning, Notice, Critical, Warning]);
    assert_eq!(beside(of(Idle, Warning, 20e6), 20e6), [Warning, Warning, Critical, Warning]);
}

#[test]
fn a_leak_explains_what_the_same_function_allocates() {
    use super::super::evidence::{at, fact};
    let beside = |function| {
        let rests_on =
            |bytes| at(Reference::Function(FunctionHandle(function)), "kept", Some(Value::Bytes(bytes)));
        let held = fact("held", Some(Value::Bytes(15e6)));
        let leaks = at(Reference::Function(FunctionHandle(3)), "allocated there", Some(Value::Bytes(64e6)));
        let mut of_all = [Finding { evidence: vec![held, leaks], ..finding(Leak, Severity::Warning) }];
        let mut recorded =
            [Finding { evidence: vec![rests_on(64e6)], ..finding(KeptAllocations, Severity::Warning) }];
        settle_all(&mut of_all, &mut recorded);
        recorded[0].severity
    };
    assert_eq!(beside(3), Severity::Notice);
    assert_eq!(beside(4), Severity::Warning, "somebody else's");
}

#[test]
fn a_leak_of_operations_explains_that_they_wait() {
    use super::super::evidence::fact;
    let beside = |of: &str| {
        let title =
            format!("Ever more `{of}` by `System.Action` are held by `static Customs.Cleared`: 5 MB more");
        let mut of_all = [Finding { title, ..finding(Leak, Severity::Warning) }];
        let text = "`Parcels.Deliver`, awaited by `Parcels.Run` awaits a task that something completes";
        let waits =
            Finding { evidence: vec![fact(text, None)], ..finding(WaitingOperations, Severity::Critical) };
        let mut recorded = [waits];
        settle_all(&mut of_all, &mut recorded);
        recorded[0].severity
    };
    assert_eq!(beside("Parcels+<Deliver>d__1"), Severity::Notice);
    assert_eq!(beside("Parcels+<Collect>d__2"), Severity::Critical, "others than those that wait");
    assert_eq!(beside("Parcels.Deliver"), Severity::Critical, "a type of that name");
}

#[test]
fn a_leak_stands_before_what_others_take_of_the_machine() {
    use Severity::{Critical, Notice, Warning};
    let first = |of_all: Finding, others: Severity| {
        let of_all = Finding { impact: 0.1, ..of_all };
        let mut recorded = [Finding { impact: 0.9, ..finding(CpuSaturatedByOthers, others) }];
        let mut of_all = [of_all];
        settle_all(&mut of_all, &mut recorded);
        let [of_all] = of_all;
        let [others] = recorded;
        let mut both = [others, of_all];
        both.sort_by(super::super::by_importance);
        (both[0].id, both[1].severity)
    };
    assert_eq!(first(finding(Leak, Warning), Critical), (Leak, Warning));
    assert_eq!(first(finding(Leak, Warning), Notice), (Leak, Notice));
    assert_eq!(first(finding(Leak, Notice), Critical), (CpuSaturatedByOthers, Notice));
    assert_eq!(first(finding(GrowingType, Warning), Critical), (CpuSaturatedByOthers, Warning));
}

#[test]
fn a_starving_pool_explains_new_threads_only_if_they_are_its_own() {
    let both = [(RunawayThreads, Severity::Critical), (PoolStarvation, Severity::Warning)];
    for (rows, lowered) in [
        (&[(".NET TP Worker", 1, 0, true), ("mine", 1, 0, true)][..], true),
        (&[(".NET TP Worker", 1, 0, true), ("mine", 1, 0, true), ("mine", 1, 0, true)], false),
        (&[("mine", 1, 0, true)], false),
        (&[(".NET TP Worker", 1, 0, false), ("mine", 1, 0, false)], true),
    ] {
        let severity = settled(&threads(rows), &both)[0].1;
        assert_eq!(severity == Severity::Notice, lowered, "{rows:?}");
    }
}

#[test]
fn a_queue_that_is_seen_twice_is_said_once_by_who_was_asked_first() {
    let twice =
        [(LockConvoy, Severity::Warning), (CpuBound, Severity::Notice), (LockConvoy, Severity::Critical)];
    assert_eq!(settled(&threads(&[]), &twice), twice[..2]);
    let once = [LockConvoy, ExceptionStorm, RegexBacktracking].map(|id| (id, id));
    assert_eq!(pairs(How::Once), once);
}

#[test]
fn a_limit_that_is_near_makes_growth_of_the_heap_critical() {
    let of = |memory, heap| settled(&threads(&[]), &[(MemoryGrowth, memory), (ManagedHeapGrowth, heap)]);
    use Severity::{Critical, Notice, Warning};
    assert_eq!(of(Critical, Warning), [(MemoryGrowth, Notice), (ManagedHeapGrowth, Critical)]);
    assert_eq!(of(Warning, Warning), [(MemoryGrowth, Notice), (ManagedHeapGrowth, Warning)]);
    assert_eq!(of(Critical, Notice), [(MemoryGrowth, Critical), (ManagedHeapGrowth, Notice)]);
    assert_eq!(pairs(How::Raises), [(MemoryGrowth, ManagedHeapGrowth)]);
}

#[test]
fn what_was_lowered_explains_nothing_any_more() {
    // The pool explains the queue; it does explain slow requests by itself.
    let chain = [
        (PoolStarvation, Severity::Critical),
        (LockConvoy, Severity::Critical),
        (SlowRequests, Severity::Warning),
    ];
    let after = settled(&threads(&[]), &chain);
    assert_eq!(after[1..], [(LockConvoy, Severity::Notice), (SlowRequests, Severity::Notice)]);
    // A finalizer that waits explains the heap's growth, which then leaves memory to the finalizer alone.
    let chain = [
        (ManagedHeapGrowth, Severity::Critical),
        (FinalizerBlocked, Severity::Critical),
        (MemoryGrowth, Severity::Warning),
        (BlockedOnLock, Severity::Critical),
    ];
    let severities: Vec<Severity> = settled(&threads(&[]), &chain).iter().map(|one| one.1).collect();
    assert_eq!(severities, [Severity::Notice, Severity::Critical, Severity::Notice, Severity::Notice]);
}

#[test]
fn what_the_time_goes_to_is_said_instead_of_that_it_is_used() {
    for &(tells, told) in SILENCED {
        let both = [(told, Severity::Warning), (tells, Severity::Notice)];
        assert_eq!(settled(&threads(&[]), &both), both[1..], "{tells}");
    }
}

#[test]
fn an_abort_that_an_exception_caused_is_said_once() {
    let said = |found: &[FindingId]| {
        let mut findings: Vec<Finding> = found.iter().map(|&id| finding(id, Severity::Critical)).collect();
        silence(&mut findings);
        findings.iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(pairs(How::Silences), [SILENCED, SAID_ONCE].concat());
    assert_eq!(said(&[Abort, UnhandledException, Overview]), [UnhandledException, Overview]);
    assert_eq!(said(&[Abort, Overview]), [Abort, Overview]);
    assert_eq!(said(&[UnhandledException, BadPointer]), [UnhandledException, BadPointer]);
}

#[test]
fn threads_that_pile_up_behind_a_lock_stand_behind_it() {
    let severity = |cause| {
        let mut both = vec![finding(ManyThreads, Severity::Warning), finding(LockQueue, cause)];
        silence(&mut both);
        both[0].severity
    };
    assert_eq!(severity(Severity::Warning), Severity::Notice);
    assert_eq!(severity(Severity::Notice), Severity::Warning, "a few that wait do not make it thousands");
}

#[test]
fn memory_names_what_time_shows() {
    let named = [
        (Deadlock, BlockedOnLock),
        (Deadlock, LockConvoy),
        (Deadlock, LockContention),
        (OrphanedLock, BlockedOnLock),
        (OrphanedLock, LockConvoy),
        (OrphanedLock, LockContention),
        (AbandonedLock, BlockedOnLock),
        (AbandonedLock, LockConvoy),
        (AbandonedLock, LockContention),
        (NeverWoken, BlockedOnLock),
        (NeverWoken, LockConvoy),
        (NeverWoken, LockContention),
        (LockQueue, LockConvoy),
        (FinalizerBlocked, FinalizerBlocked),
        (PoolStarvation, PoolStarvation),
    ];
    assert_eq!(pairs(How::Names), named);
    for &memory in FindingId::ALL {
        for &time in FindingId::ALL {
            let place =
                named_by(memory, &[finding(NoBottleneck, Severity::Info), finding(time, Severity::Warning)]);
            assert_eq!(place, named.contains(&(memory, time)).then_some(1), "{memory} and {time}");
        }
    }
}

/// What becomes of `cpu-saturated-by-others` beside `own`: its severity and impact.
fn beside_others(
    analysis: &Analysis,
    own: FindingId,
    severity: Severity,
    others: Severity,
) -> (Severity, f64) {
    let (capture, facts) = (capture(), Facts::default());
    let mut findings = vec![finding(CpuSaturatedByOthers, others), finding(own, severity)];
    give_way(&Scene::new(&capture, analysis, &facts), &mut findings);
    (findings[0].severity, findings[0].impact)
}

#[test]
fn troubles_of_its_own_stand_before_the_load_of_others() {
    let gets = threads(&[("worker", 5, 1, false)]);
    let starves = threads(&[("worker", 1, 5, false)]);
    let own: Vec<FindingId> = pairs(How::StandsBefore).iter().map(|pair| pair.0).collect();
    for &id in FindingId::ALL.iter().filter(|&&id| id != CpuSaturatedByOthers) {
        let after = beside_others(&gets, id, Severity::Warning, Severity::Critical);
        let before =
            if own.contains(&id) { (Severity::Warning, 0.5 * 0.99) } else { (Severity::Critical, 0.5) };
        assert_eq!(after, before, "{id}");
        // A notice does not stand before anything.
        assert_eq!(
            beside_others(&gets, id, Severity::Notice, Severity::Critical).0,
            Severity::Critical,
            "{id}"
        );
    }
    // What is worse stays first without help.
    assert_eq!(
        beside_others(&gets, DiskBound, Severity::Critical, Severity::Warning),
        (Severity::Warning, 0.5)
    );
    // Who is kept from the CPU is not bound by it of its own.
    assert_eq!(
        beside_others(&starves, CpuBound, Severity::Warning, Severity::Critical),
        (Severity::Critical, 0.5)
    );
    assert_eq!(
        own.len(),
        24,
        "a finding was added to what stands before the load of others: is it there on an idle machine?"
    );
}

#[test]
fn want_of_cpu_is_explained_by_those_who_take_it() {
    let (capture, facts) = (capture(), Facts::default());
    let analysis = threads(&[("worker", 1, 5, false)]);
    let mut findings = vec![
        finding(CpuSaturatedByOthers, Severity::Critical),
        finding(CpuBound, Severity::Critical),
        finding(MemoryGrowth, Severity::Warning),
    ];
    give_way(&Scene::new(&capture, &analysis, &facts), &mut findings);
    let severities: Vec<Severity> = findings.iter().map(|one| one.severity).collect();
    assert_eq!(severities, [Severity::Warning; 3]);
    assert!(
        findings[1].impact < findings[0].impact && findings[0].impact < findings[2].impact,
        "{findings:?}"
    );
    assert!(findings[0].explanation.contains("does not explain the findings above"));
}

#[test]
fn idle_is_said_only_where_nothing_holds_back() {
    let held: Vec<FindingId> = pairs(How::HoldsBack).iter().map(|pair| pair.0).collect();
    for &id in FindingId::ALL {
        assert_eq!(is_held_back(&[finding(id, Severity::Notice)]), held.contains(&id), "{id}");
        assert!(is_held_back(&[finding(id, Severity::Warning)]), "{id}");
        assert!(!is_held_back(&[finding(id, Severity::Info)]), "{id}");
    }
    assert!(!is_held_back(&[]));
}

#[test]
fn what_is_lost_or_logged_leaves_the_word_to_others() {
    let aside: Vec<FindingId> = pairs(How::LeavesRoomFor).iter().map(|pair| pair.0).collect();
    for &id in FindingId::ALL {
        let found = [finding(LogErrors, Severity::Notice), finding(id, Severity::Info)];
        assert_eq!(leave_room(&found), aside.contains(&id), "{id}");
    }
    assert!(leave_room(&[]));
}
