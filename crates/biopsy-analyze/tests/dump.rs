//! What is said of dumps that are made byte by byte: locks, states, crashes, and what must not be said.

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{
    AddressKind, DumpAnalysis, DumpFacts, LockKind, LockOwner, MemoryClass, Missing, MissingReason,
    ThreadState, WaitGraph, WaitKind,
};
use biopsy_image::testing::{CoreBuilder, Segment};
use biopsy_image::vendor::{LEFT_OUT, MissingRange, Reason, encode_left_out};
use biopsy_image::{GeneralRegisters, Limits, open_bytes};
use biopsy_model::Tid;
use biopsy_model::stack::StackEnd;
use biopsy_stacks::image::{ImageStacks, ThreadStack};
use proptest::prelude::{ProptestConfig, any, prop, prop_assert, proptest};

const HEAP: u64 = 0x55_0000_0000;
const STACK: u64 = 0x7f00_0000_0000;
const READ_WRITE: u32 = 6;

/// Registers of a thread that the kernel interrupted in a system call.
fn in_call(number: u64, arguments: [u64; 4]) -> GeneralRegisters {
    let [rdi, rsi, rdx, r10] = arguments;
    GeneralRegisters {
        orig_rax: number,
        rax: (-512_i64).cast_unsigned(),
        rip: 0x40_1000,
        rsp: STACK + 0x800,
        rdi,
        rsi,
        rdx,
        r10,
        ..Default::default()
    }
}

/// `futex(address, FUTEX_WAIT_PRIVATE, value)`.
fn at_futex(address: u64, value: u64) -> GeneralRegisters {
    in_call(202, [address, 128, value, 0])
}

fn running() -> GeneralRegisters {
    GeneralRegisters { orig_rax: u64::MAX, rip: 0x40_1000, rsp: STACK + 0x800, ..Default::default() }
}

/// Words of 32 bits in a page at `HEAP`.
fn words(words: &[(usize, u32)]) -> Vec<u8> {
    let mut page = vec![0; 4096];
    for (offset, word) in words {
        page[*offset..offset + 4].copy_from_slice(&word.to_le_bytes());
    }
    page
}

/// A mutex of glibc at `offset`: locked with waiters, owner, one user, kind 0.
fn mutex(offset: usize, owner: u32) -> [(usize, u32); 3] {
    [(offset, 2), (offset + 8, owner), (offset + 12, 1)]
}

fn analyze(core: &CoreBuilder, stacks: &ImageStacks) -> DumpAnalysis {
    let opened = open_bytes("test", core.build(), &Limits::default()).expect("a core");
    analyze_dump(&*opened.image, stacks, &DumpFacts::of(&opened))
}

fn core(threads: &[(u32, GeneralRegisters)], heap: Vec<u8>) -> CoreBuilder {
    let start = CoreBuilder::new().process(10, "patient", "patient --secret hunter2").files(&[(
        0x40_0000,
        0x40_2000,
        0,
        b"/usr/bin/patient",
    )]);
    let with = threads.iter().fold(start, |core, (tid, registers)| core.thread(*tid, 0, registers));
    with.memory(HEAP, READ_WRITE, heap).memory(STACK, READ_WRITE, vec![0; 4096])
}

fn ids(analysis: &DumpAnalysis) -> Vec<&str> {
    analysis.findings.iter().map(|finding| finding.id.as_str()).collect()
}

#[test]
fn two_mutexes_in_opposite_order_are_a_deadlock_without_any_symbols() {
    let heap = words(&[mutex(0x100, 12), mutex(0x200, 11)].concat());
    let threads = [
        (11, at_futex(HEAP + 0x100, 2)),
        (12, at_futex(HEAP + 0x200, 2)),
        (13, at_futex(HEAP + 0x200, 2)),
        (10, running()),
    ];
    let analysis = analyze(&core(&threads, heap), &ImageStacks::default());
    assert_eq!(analysis.waits.cycles, [vec![Tid(11), Tid(12)]]);
    assert_eq!(WaitGraph::behind(&analysis.waits.waiters(), &[Tid(11), Tid(12)]), [Tid(13)]);
    let first = &analysis.findings[0];
    assert_eq!(first.id.as_str(), "deadlock");
    assert!(first.evidence.iter().any(|evidence| evidence.text.contains("1 thread more wait")), "{first:#?}");
}

#[test]
fn a_lock_that_was_given_back_meanwhile_has_no_owner() {
    // The word is 1 already: the waiter has not noticed yet.
    let mut heap = words(&mutex(0x100, 12));
    heap[0x100] = 1;
    let threads = [(11, at_futex(HEAP + 0x100, 2)), (12, running())];
    let analysis = analyze(&core(&threads, heap), &ImageStacks::default());
    assert!(analysis.waits.edges.is_empty());
    assert_eq!(analysis.threads[0].lock.as_ref().map(|lock| lock.owner), Some(LockOwner::NotKnown));
}

#[test]
fn a_condition_beside_a_number_that_is_a_thread_is_no_mutex() {
    // 2 in the word, as a futex of a runtime may have, and a thread id where a mutex has its owner; but no users.
    let heap = words(&[(0x100, 2), (0x108, 12), (0x10c, 0)]);
    let threads = [(11, at_futex(HEAP + 0x100, 2)), (12, running())];
    assert!(analyze(&core(&threads, heap), &ImageStacks::default()).waits.edges.is_empty());
    // And one whose kind is none.
    let heap = words(&[(0x100, 2), (0x108, 12), (0x10c, 1), (0x110, 0xffff)]);
    let threads = [(11, at_futex(HEAP + 0x100, 2)), (12, running())];
    assert!(analyze(&core(&threads, heap), &ImageStacks::default()).waits.edges.is_empty());
}

#[test]
fn writers_of_read_write_locks_are_known_to_readers_and_writers() {
    // The lock at 0x100: readers 3 (a writer has it), write phase 3, writers 3, current writer 12.
    let heap = words(&[(0x100, 3), (0x108, 3), (0x10c, 3), (0x118, 12)]);
    let threads = [(11, at_futex(HEAP + 0x108, 3)), (12, running()), (13, at_futex(HEAP + 0x10c, 3))];
    let analysis = analyze(&core(&threads, heap), &ImageStacks::default());
    assert_eq!(analysis.waits.edges, [(Tid(11), Tid(12)), (Tid(13), Tid(12))]);
    let kinds: Vec<LockKind> =
        analysis.threads.iter().filter_map(|thread| Some(thread.lock.as_ref()?.kind)).collect();
    assert_eq!(kinds, [LockKind::RwLockRead, LockKind::RwLockWrite]);
    assert_eq!(analysis.waits.queues.len(), 1, "both wait for one lock");
}

#[test]
fn mutexes_of_musl_and_with_priority_inheritance_are_their_owners() {
    let heap = words(&[(0x100, 1), (0x104, 12 | 1 << 31), (0x200, 12 | 1 << 31)]);
    let word = u64::from(12_u32 | 1 << 31);
    let threads =
        [(11, at_futex(HEAP + 0x104, word)), (12, running()), (13, in_call(202, [HEAP + 0x200, 134, 0, 0]))];
    let analysis = analyze(&core(&threads, heap), &ImageStacks::default());
    assert_eq!(analysis.waits.edges, [(Tid(11), Tid(12)), (Tid(13), Tid(12))]);
}

#[test]
fn a_join_waits_for_the_thread_in_the_futex() {
    let heap = words(&[(0x100, 12)]);
    // FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, shared.
    let threads = [(11, in_call(202, [HEAP + 0x100, 265, 12, 0])), (12, running())];
    let analysis = analyze(&core(&threads, heap), &ImageStacks::default());
    assert_eq!(analysis.threads[0].words(), "waits for the end of thread 12");
}

#[test]
fn system_calls_are_told_with_their_arguments() {
    let mut heap = words(&[(0x100, 7), (0x108, 9)]);
    heap[0x200..0x208].copy_from_slice(&2_u64.to_le_bytes());
    heap[0x208..0x210].copy_from_slice(&500_000_000_u64.to_le_bytes());
    let threads = [
        (10, in_call(232, [5, HEAP, 64, 1500])),
        (11, in_call(7, [HEAP + 0x100, 2, (-1_i64).cast_unsigned(), 0])),
        (12, in_call(35, [HEAP + 0x200, 0, 0, 0])),
        (13, in_call(0, [3, 0, 0, 0])),
        (14, in_call(61, [4711, 0, 0, 0])),
        (15, in_call(9999, [0; 4])),
        (16, running()),
    ];
    let analysis = analyze(&core(&threads, heap), &ImageStacks::default());
    let words: Vec<&str> = analysis.threads.iter().map(|thread| thread.state.words()).collect();
    assert_eq!(
        words,
        [
            "waits for events on descriptor 5, for at most 1.5 s",
            "waits for one of the descriptors 7, 9",
            "sleeps for 2.5 s",
            "reads from descriptor 3",
            "waits for the end of child process 4711",
            "runs its own code",
            "runs its own code",
        ]
    );
    assert_eq!(analysis.threads[0].state.wait(), Some(WaitKind::Events));
}

#[test]
fn code_before_the_instruction_pointer_that_is_no_system_call_counts_more() {
    let mut stacks = ImageStacks::default();
    stacks.threads.push(ThreadStack { code_before: Some([0x90, 0x90]), ..stack(10, &[]) });
    let analysis = analyze(&core(&[(10, in_call(0, [3, 0, 0, 0]))], words(&[])), &stacks);
    assert_eq!(
        analysis.threads[0].state,
        ThreadState::Running,
        "a minidump has zeros where a core has the number"
    );
}

fn stack(tid: u32, code: &[u8]) -> ThreadStack {
    ThreadStack {
        tid: Tid(tid),
        frames: Vec::new(),
        end: StackEnd::Root,
        cut: false,
        code: code.to_vec(),
        code_before: None,
    }
}

fn crash(registers: &GeneralRegisters, signal: (i32, i32, u64), code: &[u8]) -> DumpAnalysis {
    let (number, si_code, address) = signal;
    let core = CoreBuilder::new()
        .process(10, "patient", "")
        .thread(10, number.unsigned_abs() as u16, registers)
        .signal(number, si_code, address)
        .memory(0x40_0000, 5, vec![0x90; 4096])
        .memory(HEAP, READ_WRITE, vec![0; 4096])
        .segment(Segment { start: STACK - 0x1000, bytes: Vec::new(), size: 0x1000, flags: 0 })
        .memory(STACK, READ_WRITE, vec![0; 0x40000]);
    let stacks = ImageStacks { threads: vec![stack(10, code)], ..ImageStacks::default() };
    analyze(&core, &stacks)
}

/// `mov rax, [rax+0x18]`
const READS_FIELD: [u8; 4] = [0x48, 0x8b, 0x40, 0x18];

#[test]
fn addresses_of_faults_are_told_apart() {
    let kind = |registers: &GeneralRegisters, signal, code: &[u8]| {
        crash(registers, signal, code).crash.expect("a crash").address_kind.expect("an address")
    };
    let at = |rax| GeneralRegisters { rax, ..running() };
    assert_eq!(kind(&at(0), (11, 1, 0x18), &READS_FIELD), AddressKind::Null { offset: 0x18 });
    assert_eq!(kind(&at(0x1234_5000), (11, 1, 0x1234_5018), &READS_FIELD), AddressKind::Unmapped);
    let freed = kind(&at(0xdddd_dddd_dddd_dddd), (11, 0x80, 0), &READS_FIELD);
    assert!(matches!(freed, AddressKind::Poison { .. }), "{freed:?}");
    assert_eq!(kind(&at(0x9876_0000_0000_0000), (11, 0x80, 0), &READS_FIELD), AddressKind::NonCanonical);
    let executed = GeneralRegisters { rip: HEAP + 8, ..running() };
    assert_eq!(kind(&executed, (11, 2, HEAP + 8), &[0xc3]), AddressKind::NotExecutable);
    // mov byte ptr [rax], 1
    assert_eq!(kind(&at(0x40_0010), (11, 2, 0x40_0010), &[0xc6, 0x00, 0x01]), AddressKind::Protected);
    // call: writes below the stack pointer, which is at the stack's end.
    let deep = GeneralRegisters { rsp: STACK, ..running() };
    let overflow = kind(&deep, (11, 2, STACK - 8), &[0xe8, 0, 0, 0, 0]);
    assert_eq!(overflow, AddressKind::StackOverflow { stack: 0x40000 });
    let high = GeneralRegisters { rax: STACK - 0x800, rsp: STACK + 0x38000, ..running() };
    let guard = kind(&high, (11, 2, STACK - 0x800 + 0x18), &READS_FIELD);
    assert_eq!(guard, AddressKind::Guard, "far from where this thread's stack pointer is");
}

#[test]
fn a_pointer_that_is_text_is_never_shown() {
    let secret = u64::from_le_bytes(*b"hunter2!");
    let analysis = crash(&GeneralRegisters { rax: secret, ..running() }, (11, 0x80, 0), &READS_FIELD);
    assert_eq!(analysis.crash.as_ref().and_then(|crash| crash.address_kind.clone()), Some(AddressKind::Text));
    let words: String = analysis
        .findings
        .iter()
        .flat_map(|finding| {
            finding.evidence.iter().map(|evidence| evidence.text.as_str()).chain([finding.title.as_str()])
        })
        .collect();
    assert!(
        !words.contains(&format!("{secret:x}")) && !words.contains(&format!("{:x}", secret + 0x18)),
        "{words}"
    );
}

#[test]
fn a_process_that_a_debugger_stopped_did_not_crash() {
    for (signal, code) in [(19, 0), (5, 0), (2, 0)] {
        assert_eq!(crash(&running(), (signal, code, 0), &[]).crash, None, "signal {signal}");
    }
}

#[test]
fn what_is_not_in_the_dump_is_counted_and_never_taken_for_zeros() {
    let core = core(&[(10, running())], words(&[])).segment(Segment {
        start: 0x10_0000_0000,
        bytes: vec![1; 4096],
        size: 0x10000,
        flags: READ_WRITE,
    });
    let memory = analyze(&core, &ImageStacks::default()).memory;
    let anonymous = memory.classes.iter().find(|row| row.class == MemoryClass::Anonymous).expect("a row");
    assert_eq!((anonymous.mapped, anonymous.in_dump), (0x10000 + 4096, 8192));
    assert_eq!(memory.missing.iter().map(|missing| missing.bytes).sum::<u64>(), 0x10000 - 4096 + 0x2000);
    // A lock in memory that is missing has no owner.
    let lost = core_with_lost_lock();
    assert_eq!(lost.threads[0].lock.as_ref().map(|lock| lock.owner), Some(LockOwner::NotKnown));
}

#[test]
fn memory_above_the_size_limit_or_out_of_time_is_damage_and_what_was_left_out_on_purpose_is_not() {
    let lacks = |reason| {
        let range = 0x10_0000_1000..0x10_0000_3000;
        let left_out = encode_left_out(&[MissingRange { range, reason }]);
        let core =
            core(&[(10, running())], words(&[])).note("biopsy", LEFT_OUT.0, left_out).segment(Segment {
                start: 0x10_0000_0000,
                bytes: vec![1; 4096],
                size: 0x3000,
                flags: READ_WRITE,
            });
        analyze(&core, &ImageStacks::default())
    };
    let limited = lacks(Reason::Ceiling);
    assert!(ids(&limited).contains(&"incomplete-dump"), "{:?}", limited.memory.missing);
    assert!(limited.memory.missing.contains(&Missing { reason: MissingReason::OverLimit, bytes: 0x2000 }));
    let hasty = lacks(Reason::NoTime);
    assert!(ids(&hasty).contains(&"incomplete-dump"), "{:?}", hasty.memory.missing);
    assert!(hasty.memory.missing.contains(&Missing { reason: MissingReason::NoTime, bytes: 0x2000 }));
    assert!(!ids(&lacks(Reason::Kind)).contains(&"incomplete-dump"));
}

fn core_with_lost_lock() -> DumpAnalysis {
    analyze(&core(&[(10, at_futex(0x77_0000, 2)), (11, running())], words(&[])), &ImageStacks::default())
}

#[test]
fn threads_with_equal_stacks_are_one_group_and_many_of_them_a_finding() {
    let threads: Vec<(u32, GeneralRegisters)> =
        (10..260).map(|tid| (tid, in_call(0, [3, 0, 0, 0]))).collect();
    let analysis = analyze(&core(&threads, words(&[])), &ImageStacks::default());
    assert_eq!(analysis.groups.len(), 1);
    assert_eq!(analysis.groups[0].members.len(), 250);
    assert_eq!(ids(&analysis).last(), Some(&"overview"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever registers and memory say.
    #[test]
    fn no_dump_makes_it_panic(
        threads in prop::collection::vec((0_u32..20, prop::array::uniform27(any::<u64>()), any::<bool>()), 0..12),
        heap in prop::collection::vec(any::<u8>(), 4096),
        futexes in prop::collection::vec(0_u64..4200, 12),
        signal in (0_i32..70, any::<i32>(), any::<u64>()),
        code in prop::collection::vec(any::<u8>(), 0..16),
    ) {
        let mut core = CoreBuilder::new().process(3, "p", "");
        let mut stacks = ImageStacks::default();
        for ((tid, words, futex), offset) in threads.iter().zip(futexes) {
            let mut registers = GeneralRegisters::from_words(words);
            if *futex {
                registers = GeneralRegisters { rdi: HEAP + offset, rsi: words[0] & 0x1ff, ..registers };
                registers.orig_rax = 202;
                registers.rax = (-512_i64).cast_unsigned();
            }
            core = core.thread(*tid, signal.0.unsigned_abs() as u16, &registers).signal(signal.0, signal.1, signal.2);
            stacks.threads.push(stack(*tid, &code));
        }
        let analysis = analyze(&core.memory(HEAP, READ_WRITE, heap), &stacks);
        prop_assert!(!analysis.findings.is_empty());
        for finding in &analysis.findings {
            prop_assert!(finding.impact.is_finite());
        }
    }
}
