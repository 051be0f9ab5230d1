//! Rules on dumps, over analyses made by hand: both sides of each threshold, and what must not be said.

mod beside;
mod recursion;
mod standing;

use crate::dump::managed::{
    ExceptionRow, Managed, ManagedThreadFacts, OperationGroup, Operations, PoolSummary,
};
use crate::dump::{
    Access, AddressKind, Crash, DumpAnalysis, DumpThread, FrameRow, LockKind, LockOwner, LockWait,
    MemoryClass, MemoryRow, ModuleRow, StackGroup, StackPlace, SymbolStatus, ThreadState, WaitGraph,
    WaitKind,
};
use crate::findings::finding::Severity::{self, Critical, Info, Notice, Warning};
use crate::findings::finding::{Finding, FindingId};
use crate::findings::of_dump;
use biopsy_dotnet::tasks::FULL_CHANNEL;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, Svma, Tid};
use biopsy_stacks::unwind::FoundBy;

fn finding(analysis: &DumpAnalysis, id: FindingId) -> Option<Finding> {
    of_dump(analysis).into_iter().find(|finding| finding.id == id)
}

fn severity(analysis: &DumpAnalysis, id: FindingId) -> Option<Severity> {
    finding(analysis, id).map(|finding| finding.severity)
}

/// Checks what is said of each value; `make` makes the analysis from it.
fn check<V: std::fmt::Debug + Copy>(
    id: FindingId,
    table: &[(V, Option<Severity>)],
    make: impl Fn(V) -> DumpAnalysis,
) {
    for &(value, expected) in table {
        assert_eq!(severity(&make(value), id), expected, "{id} at {value:?}");
    }
}

fn thread(tid: u32) -> DumpThread {
    DumpThread { tid: Tid(tid), name: format!("thread {tid}"), ..DumpThread::default() }
}

/// In a system call that waits for this.
fn waits(wait: WaitKind) -> ThreadState {
    ThreadState::InSystemCall { number: None, name: "a call".to_owned(), wait, words: "waits".to_owned() }
}

pub(super) fn frame(function: &str, managed: bool) -> FrameRow {
    FrameRow {
        function: Some(function.to_owned()),
        inlined: false,
        managed,
        whose: crate::whose::Whose::Program,
        module: if managed { "Shop.dll".to_owned() } else { "server".to_owned() },
        offset: Svma(0),
        start: None,
        address: Avma(0),
        source: None,
        found: FoundBy::UnwindInfo,
        repeats: (1, 1),
        skipped: 0,
    }
}

/// Threads `members` in one place, so many frames deep.
pub(super) fn group(members: std::ops::Range<usize>, depth: usize) -> StackGroup {
    StackGroup {
        members: members.collect(),
        frames: vec![frame("Shop.Orders.List", true)],
        depth,
        end: StackEnd::Root,
        cut: false,
        crashed: false,
        in_cycle: false,
        running: 0,
        doing: "waits for events".to_owned(),
    }
}

fn dump(threads: Vec<DumpThread>) -> DumpAnalysis {
    let waits = WaitGraph::new(&threads);
    DumpAnalysis { threads, waits, ..DumpAnalysis::default() }
}

/// So many threads that wait for nothing that is known.
fn crowd(count: usize) -> DumpAnalysis {
    dump((0..count).map(|tid| thread(tid as u32 + 1)).collect())
}

/// Each pair: who waits, and for whom.
fn waiting(count: u32, pairs: &[(u32, LockOwner)], kind: LockKind) -> DumpAnalysis {
    let mut threads: Vec<DumpThread> = (1..=count).map(thread).collect();
    for (waiter, owner) in pairs {
        let lock = match owner {
            LockOwner::Thread(tid) | LockOwner::Elsewhere(tid) => u64::from(tid.0) << 12,
            LockOwner::Readers | LockOwner::NotKnown => 1,
        };
        threads[*waiter as usize - 1].lock = Some(LockWait {
            futex: lock,
            lock,
            kind,
            owner: *owner,
            object: None,
            proof: "by hand".to_owned(),
            ..LockWait::default()
        });
    }
    dump(threads)
}

fn on(tid: u32) -> LockOwner {
    LockOwner::Thread(Tid(tid))
}

#[test]
fn deadlock() {
    /// Who waits for whom, and what is said of it.
    type Case<'a> = (&'a [(u32, LockOwner)], Option<&'a str>);
    let table: &[Case<'_>] = &[
        (&[], None),
        (&[(1, on(2))], None),
        (&[(1, on(2)), (2, on(3)), (3, on(4))], None),
        (&[(1, on(1))], Some("waits for a lock that it holds itself")),
        (&[(1, on(2)), (2, on(1))], Some("thread 1 and thread 2 wait for each other")),
        (&[(1, on(2)), (2, on(3)), (3, on(1))], Some("3 threads wait for each other in a circle")),
        (&[(1, on(2)), (2, on(1)), (3, on(4)), (4, on(3))], Some("2 deadlocks: 4 threads")),
        // Who left no name, or is gone, closes no circle.
        (&[(1, on(2)), (2, LockOwner::Readers)], None),
        (&[(1, on(2)), (2, LockOwner::Elsewhere(Tid(1)))], None),
    ];
    for (pairs, title) in table {
        let found = finding(&waiting(6, pairs, LockKind::Mutex), FindingId::Deadlock);
        match (found, title) {
            (Some(found), Some(title)) => {
                assert!(found.title.contains(title), "{pairs:?}: {}", found.title);
                assert_eq!(found.severity, Critical);
            }
            (found, title) => {
                assert_eq!(found.map(|found| found.title), title.map(str::to_owned), "{pairs:?}")
            }
        }
    }
}

#[test]
fn who_waits_behind_a_deadlock_is_counted_and_no_queue() {
    let analysis = waiting(6, &[(1, on(2)), (2, on(1)), (3, on(1)), (4, on(3)), (5, on(4))], LockKind::Mutex);
    let found = finding(&analysis, FindingId::Deadlock).expect("two wait for each other");
    assert!(
        found.evidence.iter().any(|one| one.text.starts_with("3 threads more wait behind them")),
        "{found:#?}"
    );
    assert!((found.impact - 5.0 / 6.0).abs() < 1e-9, "{}", found.impact);
    assert_eq!(severity(&analysis, FindingId::LockQueue), None);
}

#[test]
fn the_advice_fits_the_kind_of_circle() {
    let advice = |pairs: &[(u32, LockOwner)], kind| {
        let found = finding(&waiting(3, pairs, kind), FindingId::Deadlock).expect("a circle");
        found.next_steps[0].clone()
    };
    let two = [(1, on(2)), (2, on(1))];
    assert!(advice(&two, LockKind::Mutex).starts_with("Take these locks in the same order"));
    assert!(advice(&two, LockKind::Join).starts_with("Do not wait for a thread's end"));
    assert!(advice(&[(1, on(1))], LockKind::Mutex).starts_with("Do not lock it again"));
}

#[test]
fn lock_queue() {
    let behind_one = |waiters: u32| {
        let pairs: Vec<(u32, LockOwner)> = (2..2 + waiters).map(|tid| (tid, on(1))).collect();
        waiting(20, &pairs, LockKind::Mutex)
    };
    let table =
        [(0, None), (1, None), (2, Some(Notice)), (4, Some(Notice)), (5, Some(Warning)), (19, Some(Warning))];
    check(FindingId::LockQueue, &table, behind_one);
    // Through others they wait for the first one all the same; a thread's end is no lock.
    let chain = [(2, on(1)), (3, on(2)), (4, on(3)), (5, on(4)), (6, on(5))];
    assert_eq!(severity(&waiting(6, &chain, LockKind::Mutex), FindingId::LockQueue), Some(Warning));
    assert_eq!(severity(&waiting(6, &chain, LockKind::Join), FindingId::LockQueue), None);
    // Who has the lock waits for the end of another one: it is with that one, and what it does is told.
    let mut joins = waiting(6, &[(1, on(6)), (2, on(1)), (3, on(1)), (4, on(1))], LockKind::Mutex);
    joins.threads[0].lock =
        Some(LockWait { kind: LockKind::Join, lock: 77, owner: on(6), ..LockWait::default() });
    joins.waits = WaitGraph::new(&joins.threads);
    let found = finding(&joins, FindingId::LockQueue).expect("three wait for one that joins");
    assert_eq!(found.severity, Notice);
    assert!(found.title.starts_with("3 threads wait for thread 1"), "{}", found.title);
    assert!(found.evidence[1].text.starts_with("thread 6, which it waits for,"), "{:?}", found.evidence);
}

#[test]
fn abandoned_lock() {
    let gone = LockOwner::Elsewhere(Tid(99));
    let found = finding(&waiting(3, &[(1, gone), (2, gone)], LockKind::Mutex), FindingId::AbandonedLock);
    assert!(
        found.expect("its owner is gone").title.contains("whose owner, thread 99, is not there any more")
    );
    for owner in [on(3), LockOwner::Readers, LockOwner::NotKnown] {
        assert_eq!(
            severity(&waiting(3, &[(1, owner), (2, owner)], LockKind::Mutex), FindingId::AbandonedLock),
            None
        );
    }
}

#[test]
fn equal_threads() {
    let id = FindingId::EqualThreads;
    let same = |count: usize| DumpAnalysis { groups: vec![group(0..count, 8)], ..crowd(count.max(1)) };
    check(id, &[(1, None), (19, None), (20, Some(Notice)), (199, Some(Notice)), (200, Some(Warning))], same);
    // Roots that everybody shares, the crash and a circle are something else.
    check(id, &[(2, None), (3, Some(Notice))], |depth| DumpAnalysis {
        groups: vec![group(0..50, depth)],
        ..crowd(50)
    });
    for (crashed, in_cycle) in [(true, false), (false, true)] {
        let groups = vec![StackGroup { crashed, in_cycle, ..group(0..50, 8) }];
        assert_eq!(severity(&DumpAnalysis { groups, ..crowd(50) }, id), None, "{crashed} {in_cycle}");
    }
}

#[test]
fn threads_that_are_held_up_in_the_middle_of_their_work() {
    let id = FindingId::HeldUp;
    let piled = |count: usize, functions: usize, wait: WaitKind| {
        let mut analysis = crowd(count + 2);
        analysis.threads.iter_mut().take(count).for_each(|thread| thread.state = waits(wait));
        analysis.threads[count].group = 1;
        let frames = |innermost: &str| -> Vec<FrameRow> {
            let way = (1..functions).map(|at| frame(&format!("step_{at}"), false));
            std::iter::once(frame(innermost, false)).chain(way).collect()
        };
        let waiting = StackGroup { frames: frames("lock_wait"), ..group(0..count, functions) };
        let other = StackGroup { frames: frames("sleep_for_user"), ..group(count..count + 1, functions) };
        let idle = group(count + 1..count + 2, 3);
        DumpAnalysis { groups: vec![waiting, other, idle], ..analysis }
    };
    check(id, &[(3, None), (4, Some(Notice)), (12, Some(Notice))], |count| piled(count, 9, WaitKind::Futex));
    check(id, &[(7, None), (8, Some(Notice))], |functions| piled(12, functions, WaitKind::Futex));
    check(id, &[(WaitKind::Input, None), (WaitKind::Events, None)], |wait| piled(12, 9, wait));
    let found = finding(&piled(12, 9, WaitKind::Futex), id).expect("they pile up");
    assert_eq!(
        found.title,
        "12 threads of 14 are held up in the middle of their work in `lock_wait`; what they wait for may be with \
         thread 13 in `sleep_for_user`"
    );
    let evidence: Vec<&str> = found.evidence.iter().map(|one| one.text.as_str()).collect();
    assert!(evidence.iter().any(|text| text.contains("`lock_wait` ← `step_1` ← `step_2`")), "{evidence:?}");
    let may_have = evidence.iter().filter(|text| text.contains("also in the middle of its work")).count();
    assert_eq!(may_have, 1, "the one at work, not the idle one: {evidence:?}");
}

#[test]
fn many_threads() {
    let table = [(499, None), (500, Some(Notice)), (1_999, Some(Notice)), (2_000, Some(Warning))];
    check(FindingId::ManyThreads, &table, crowd);
}

#[test]
fn what_all_do_is_the_last_word() {
    let of = |states: &[ThreadState]| {
        let threads =
            states.iter().zip(1..).map(|(state, tid)| DumpThread { state: state.clone(), ..thread(tid) });
        finding(&dump(threads.collect()), FindingId::Overview).expect("always said").title
    };
    let (runs, sleeps) = (ThreadState::Running, waits(WaitKind::Time));
    let events = waits(WaitKind::Events);
    assert_eq!(of(&[]), "The dump does not tell what the threads do");
    assert_eq!(of(&[ThreadState::Unknown]), "The dump does not tell what the threads do");
    assert_eq!(of(&[runs.clone(), runs.clone()]), "All 2 threads execute code of their own");
    assert_eq!(of(&[sleeps.clone(), sleeps.clone(), events.clone()]), "Most of 3 threads sleep (67 %)");
    assert_eq!(of(&[sleeps.clone(), events.clone()]), "The 2 threads do different things");
    for (kind, words) in [
        (WaitKind::Futex, "wait at a condition, semaphore or other futex"),
        (WaitKind::Events, "wait for events of descriptors"),
        (WaitKind::Input, "wait for input or a connection"),
        (WaitKind::Connection, "wait for input or a connection"),
        (WaitKind::Output, "write, or wait for a device"),
        (WaitKind::Child, "wait for a child process"),
    ] {
        assert_eq!(of(&[waits(kind)]), format!("All 1 thread {words}"));
    }
}

#[test]
fn running_is_said_of_a_process_that_lives() {
    let mut analysis = dump(vec![DumpThread { state: ThreadState::Running, ..thread(1) }, thread(2)]);
    assert_eq!(severity(&analysis, FindingId::Running), Some(Info));
    analysis.crash = Some(crash(11, None, None));
    assert_eq!(severity(&analysis, FindingId::Running), None);
    assert_eq!(severity(&crowd(3), FindingId::Running), None);
}

fn crash(signal: i32, address_kind: Option<AddressKind>, access: Option<Access>) -> Crash {
    Crash {
        thread: Tid(1),
        signal,
        signal_name: format!("signal {signal}"),
        meaning: "a signal",
        ended_by: None,
        code: None,
        filtered: None,
        from_outside: false,
        sender: None,
        address: address_kind.as_ref().map(|_| Avma(0x10)),
        address_kind,
        access,
        instruction: None,
        place: Some(StackPlace { function: "parse".to_owned(), own: true, ..StackPlace::default() }),
        reason: None,
        thrown: None,
        message: None,
        message_withheld: false,
    }
}

#[test]
fn a_crash_is_named_by_its_address() {
    use AddressKind as Kind;
    use FindingId::{Abort, BadPointer, FatalSignal, NullPointer, StackOverflow};
    let (read, write, execute) = (Some(Access::Read), Some(Access::Write), Some(Access::Execute));
    /// Signal, address, access, and what is said of it.
    type Case = (i32, Option<Kind>, Option<Access>, FindingId, &'static str);
    let table: [Case; 20] = [
        (11, Some(Kind::Null { offset: 0 }), read, NullPointer, "a null pointer was used"),
        (11, Some(Kind::Null { offset: 24 }), read, NullPointer, "a field of a null pointer was used"),
        (11, Some(Kind::Null { offset: 0 }), execute, NullPointer, "a null pointer was called"),
        (11, Some(Kind::Null { offset: 7 }), execute, NullPointer, "a small number was called as a function"),
        (11, Some(Kind::StackOverflow { stack: 8 << 20 }), write, StackOverflow, "the stack overflowed"),
        (11, Some(Kind::Unmapped), read, BadPointer, "memory that is not mapped was used"),
        (11, Some(Kind::Unmapped), execute, BadPointer, "code that is not there was called"),
        (11, Some(Kind::Guard), write, BadPointer, "a guard page was hit"),
        (11, Some(Kind::NonCanonical), read, BadPointer, "a pointer was no address at all"),
        (
            11,
            Some(Kind::Poison { pattern: "freed" }),
            read,
            BadPointer,
            "memory that was freed, or never filled",
        ),
        (11, Some(Kind::Text), read, BadPointer, "a pointer had been overwritten with text"),
        (11, Some(Kind::Kernel), read, BadPointer, "an address of the kernel was used"),
        (11, Some(Kind::NotExecutable), execute, BadPointer, "data was executed"),
        (11, Some(Kind::ReadOnly), write, BadPointer, "memory that may only be read was written"),
        (11, Some(Kind::Protected), write, BadPointer, "memory that may not be written was written"),
        (7, Some(Kind::BehindFile), read, BadPointer, "a mapped file is shorter than its mapping"),
        (6, None, None, Abort, "a signal"),
        (8, None, None, FatalSignal, "a signal"),
        (31, None, None, FatalSignal, "a signal"),
        (0, None, None, FatalSignal, "a signal"),
    ];
    for (signal, kind, access, id, words) in table {
        let analysis = DumpAnalysis { crash: Some(crash(signal, kind.clone(), access)), ..crowd(1) };
        let first = &of_dump(&analysis)[0];
        assert_eq!((first.id, first.severity), (id, Critical), "{kind:?} {access:?}");
        assert!(
            first.title.contains(&format!("in `parse`: {words}")),
            "{kind:?} {access:?}: {}",
            first.title
        );
    }
}

#[test]
fn code_that_works_on_addresses_was_given_a_wrong_one() {
    let said = |type_name: &str, called: &str| {
        let exception = ExceptionRow {
            type_name: type_name.to_owned(),
            thrown_in: vec!["Captures.CopyFrame".to_owned()],
            ..ExceptionRow::default()
        };
        let managed = ManagedThreadFacts { exception: Some(exception), ..ManagedThreadFacts::default() };
        let one = DumpThread { managed: Some(managed), ..thread(1) };
        let frames = vec![frame("raise", false), frame(called, true), frame("Captures.CopyFrame", true)];
        let groups = vec![StackGroup { frames, crashed: true, ..group(0..1, 3) }];
        let analysis = DumpAnalysis { crash: Some(crash(6, None, None)), groups, ..dump(vec![one]) };
        let found = finding(&analysis, FindingId::UnhandledException).expect("it ended the process");
        found.evidence.iter().any(|one| one.text.starts_with("the fault (SIGSEGV) was in `System."))
    };
    assert!(said("System.NullReferenceException", "System.SpanHelpers.Memmove"));
    assert!(said("System.AccessViolationException", "System.Runtime.InteropServices.Marshal.Copy"));
    assert!(!said("System.NullReferenceException", "System.String.Concat"), "of objects");
    assert!(!said("System.IndexOutOfRangeException", "System.SpanHelpers.Memmove"), "no fault");
}

#[test]
fn an_exception_that_ended_the_process_takes_the_place_of_the_abort() {
    let exception = ExceptionRow {
        type_name: "System.InvalidOperationException".to_owned(),
        thrown_in: vec!["Shop.Orders.Pay".to_owned()],
        ..ExceptionRow::default()
    };
    let managed = ManagedThreadFacts { exception: Some(exception), ..ManagedThreadFacts::default() };
    let died = |signal: i32, sender: Option<u32>, exception: bool| {
        let one = DumpThread { managed: exception.then(|| managed.clone()), ..thread(1) };
        let crash = Crash { sender, ..crash(signal, None, None) };
        let ids = of_dump(&DumpAnalysis { crash: Some(crash), ..dump(vec![one]) });
        ids.iter().map(|finding| finding.id).filter(|id| *id != FindingId::Overview).collect::<Vec<_>>()
    };
    use FindingId::{Abort, FatalSignal, UnhandledException};
    assert_eq!(died(6, None, true), [UnhandledException]);
    assert_eq!(died(6, None, false), [Abort]);
    // A fault inside of native code that an exception was thrown for: both are told.
    assert_eq!(died(11, None, true), [UnhandledException, FatalSignal]);
    // Killed from outside, or by another signal: what was thrown before has nothing to do with it.
    assert_eq!(died(6, Some(4_000), true), [Abort]);
    assert_eq!(died(8, None, true), [FatalSignal]);
}

#[test]
fn memory_split() {
    let table = [(1 << 20, None), ((64 << 20) - 1, None), (64 << 20, Some(Info)), (9 << 30, Some(Info))];
    check(FindingId::MemorySplit, &table, |bytes: u64| {
        let mut analysis = crowd(1);
        analysis.memory.in_dump = bytes;
        let row =
            |class, in_dump| MemoryRow { class, name: String::new(), mapped: in_dump, in_dump, mappings: 3 };
        // Reserved room is no memory, however large.
        analysis.memory.classes = vec![row(MemoryClass::Reserved, bytes), row(MemoryClass::Anonymous, bytes)];
        analysis
    });
}

#[test]
fn broken_stacks() {
    let with = |broken: usize, cut: bool| {
        let mut analysis = crowd(10);
        analysis.groups = vec![group(broken..10, 8), group(0..broken, 8)];
        (analysis.groups[1].end, analysis.groups[1].cut) = (StackEnd::NoUnwindInfo, cut);
        analysis
    };
    let table = [(0, None), (1, Some(Info)), (4, Some(Info)), (5, Some(Notice)), (10, Some(Notice))];
    check(FindingId::BrokenStacks, &table, |broken| with(broken, false));
    // What we cut ourselves is not broken.
    check(FindingId::BrokenStacks, &[(5, None)], |broken| with(broken, true));
}

#[test]
fn no_symbols() {
    let with = |nameless: u64, symbols: SymbolStatus| {
        let row = |frames, symbols| ModuleRow {
            path: "/opt/app".to_owned(),
            name: "app".to_owned(),
            kind: ModuleKind::Elf,
            start: Avma(0),
            end: Avma(1),
            build_id: None,
            symbols,
            words: "stripped".to_owned(),
            frames,
            deleted: false,
        };
        let modules = vec![row(100 - nameless, SymbolStatus::Debug), row(nameless, symbols)];
        DumpAnalysis { modules, ..crowd(1) }
    };
    let table =
        [(0, None), (4, None), (5, Some(Info)), (29, Some(Info)), (30, Some(Notice)), (100, Some(Notice))];
    check(FindingId::NoSymbols, &table, |nameless| with(nameless, SymbolStatus::None));
    check(FindingId::NoSymbols, &[(100, None)], |exported| with(exported, SymbolStatus::Exported));
}

#[test]
fn what_the_dump_says_of_itself() {
    assert_eq!(
        severity(&DumpAnalysis { damaged: true, ..crowd(1) }, FindingId::IncompleteDump),
        Some(Warning)
    );
    assert_eq!(severity(&crowd(1), FindingId::IncompleteDump), None);
    for (scrubbed, expected) in [(None, None), (Some(false), None), (Some(true), Some(Info))] {
        let mut analysis = crowd(1);
        analysis.identity.scrubbed = scrubbed;
        assert_eq!(severity(&analysis, FindingId::Scrubbed), expected, "{scrubbed:?}");
    }
}

mod any_waits {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        /// A circle is said if following the owners comes back, and never else; findings are in order, each once.
        #[test]
        fn are_told_by_their_circles(owners in proptest::collection::vec(proptest::option::of(1u32..13), 12)) {
            let pairs: Vec<(u32, LockOwner)> =
                owners.iter().zip(1..).filter_map(|(owner, tid)| Some((tid, on((*owner)?)))).collect();
            let comes_back = |start: u32| {
                let mut at = start;
                (0..12).any(|_| match owners[at as usize - 1] {
                    Some(next) => { at = next; at == start }
                    None => { at = start; false }
                })
            };
            let circle = (1..13).any(comes_back);
            let analysis = waiting(12, &pairs, LockKind::Mutex);
            let findings = of_dump(&analysis);
            prop_assert_eq!(findings.iter().any(|one| one.id == FindingId::Deadlock), circle);
            for pair in findings.windows(2) {
                prop_assert!(pair[0].id != pair[1].id && pair[0].severity >= pair[1].severity);
            }
            prop_assert!(findings.iter().all(|one| (0.0..=1.0).contains(&one.impact)));
        }
    }
}
