//! Words of locks around a futex: what each is told from, and that words which contradict it make it something else.

use biopsy_analyze::analyze_dump;
use biopsy_analyze::dump::{DumpFacts, LockKind, LockOwner, LockWait};
use biopsy_image::testing::CoreBuilder;
use biopsy_image::{GeneralRegisters, Limits, open_bytes};
use biopsy_model::Tid;
use biopsy_stacks::image::ImageStacks;

const HEAP: u64 = 0x55_0000_0000;
const STACK: u64 = 0x7f00_0000_0000;
const READ_WRITE: u32 = 6;

const WAIT: u64 = 128;
const WAIT_BITSET: u64 = 128 | 9;
const SHARED_WAIT: u64 = 0;

/// A wait: what is in memory from `HEAP` on, in words of 32 bits; where the futex is; how, and for which value to change.
struct Case<'a> {
    words: &'a [(u64, u32)],
    futex: u64,
    how: u64,
    expected: u32,
}

fn found(case: &Case<'_>) -> LockWait {
    found_with(case, &[])
}

/// `stack`: words of 64 bits from the stack pointer on.
fn found_with(case: &Case<'_>, stack: &[u64]) -> LockWait {
    let mut heap = vec![0; 4096];
    for (offset, word) in case.words {
        let at = *offset as usize;
        heap[at..at + 4].copy_from_slice(&word.to_le_bytes());
    }
    let mut on_stack = vec![0; 4096];
    for (index, word) in stack.iter().enumerate() {
        on_stack[index * 8..index * 8 + 8].copy_from_slice(&word.to_le_bytes());
    }
    let registers = GeneralRegisters {
        orig_rax: 202,
        rax: (-512_i64).cast_unsigned(),
        rdi: HEAP + case.futex,
        rsi: case.how,
        rdx: case.expected.into(),
        rip: 0x40_1000,
        rsp: STACK,
        ..GeneralRegisters::default()
    };
    let runs = GeneralRegisters { orig_rax: u64::MAX, rip: 0x40_1000, rsp: STACK, ..Default::default() };
    let core = CoreBuilder::new()
        .process(10, "patient", "")
        .thread(11, 0, &registers)
        .thread(12, 0, &runs)
        .memory(HEAP, READ_WRITE, heap)
        .memory(STACK, READ_WRITE, on_stack);
    let opened = open_bytes("test", core.build(), &Limits::default()).expect("a core");
    let analysis = analyze_dump(&*opened.image, &ImageStacks::default(), &DumpFacts::of(&opened));
    analysis.threads[0].lock.clone().expect("it waits at a futex")
}

fn kind(case: &Case<'_>) -> (LockKind, u64) {
    let found = found(case);
    (found.kind, found.lock.wrapping_sub(HEAP))
}

const NOTHING: LockKind = LockKind::Futex;

#[test]
fn a_mutex_of_rust_is_two_with_a_byte_that_is_zero_or_one_behind() {
    let mutex = |words: &[(u64, u32)], how, expected| kind(&Case { words, futex: 0x100, how, expected });
    assert_eq!(mutex(&[(0x100, 2)], WAIT_BITSET, 2), (LockKind::Mutex, 0x100));
    assert_eq!(mutex(&[(0x100, 2), (0x104, 0x5501)], WAIT_BITSET, 2), (LockKind::Mutex, 0x100), "poisoned");
    assert_eq!(mutex(&[(0x100, 2), (0x104, 2)], WAIT_BITSET, 2).0, NOTHING);
    assert_eq!(mutex(&[(0x100, 1)], WAIT_BITSET, 2).0, NOTHING, "it was given back");
    assert_eq!(mutex(&[(0x100, 2)], 9, 2).0, NOTHING, "a lock of Rust is private");
}

#[test]
fn a_read_write_lock_of_rust_counts_its_readers() {
    let lock =
        |words: &[(u64, u32)], futex, expected| found(&Case { words, futex, how: WAIT_BITSET, expected });
    let reader = lock(&[(0x100, 0x3fff_ffff | 1 << 30)], 0x100, 0x3fff_ffff | 1 << 30);
    assert_eq!(
        (reader.kind, reader.owner, reader.held_by),
        (LockKind::RwLockRead, LockOwner::NotKnown, Some(1))
    );
    // The writer waits at the second word.
    let writer = lock(&[(0x100, 3 | 1 << 31), (0x104, 7)], 0x104, 7);
    assert_eq!(
        (writer.kind, writer.owner, writer.held_by),
        (LockKind::RwLockWrite, LockOwner::Readers, Some(3))
    );
    assert_eq!(writer.lock, HEAP + 0x100);
    let nobody = lock(&[(0x100, 1 << 31), (0x104, 7)], 0x104, 7);
    assert_eq!(nobody.kind, NOTHING, "nobody has it");
    let many = lock(&[(0x100, 0x100_0000 | 1 << 31), (0x104, 7)], 0x104, 7);
    assert_eq!(many.kind, NOTHING, "no process has so many readers");
}

/// The note of a thread of parking_lot that waits, at 0x200; its futex is at 0x220.
fn parked(key: u64, token: u32, more: &[(u64, u32)]) -> LockWait {
    let key = [(0x200, key as u32), (0x204, (key >> 32) as u32)];
    let rest = [(0x218, token), (0x220, 1)];
    let words = [&key[..], &rest, more].concat();
    found(&Case { words: &words, futex: 0x220, how: WAIT, expected: 1 })
}

#[test]
fn what_waits_in_parking_lot_is_in_the_threads_note() {
    let mutex = parked(HEAP + 0x100, 0, &[(0x100, 3)]);
    assert_eq!((mutex.kind, mutex.lock), (LockKind::Mutex, HEAP + 0x100));
    assert_eq!(parked(HEAP + 0x100, 0, &[(0x100, 1)]).kind, NOTHING, "nobody waits for it, it says");
    let writer = parked(HEAP + 0x100, 8, &[(0x100, 0x21)]);
    assert_eq!(
        (writer.kind, writer.owner, writer.held_by),
        (LockKind::RwLockWrite, LockOwner::Readers, Some(2))
    );
    let reader = parked(HEAP + 0x100, 16, &[(0x100, 9)]);
    assert_eq!(
        (reader.kind, reader.owner, reader.held_by),
        (LockKind::RwLockRead, LockOwner::NotKnown, Some(1))
    );
    let last = parked(HEAP + 0x101, 0, &[(0x100, 0x1a)]);
    assert_eq!((last.kind, last.lock), (NOTHING, HEAP + 0x220), "the byte behind is no mutex");
    let condition = parked(HEAP + 0x100, 0, &[(0x100, (HEAP + 0x300) as u32), (0x104, (HEAP >> 32) as u32)]);
    assert_eq!((condition.kind, condition.mutex), (LockKind::Condition, Some(HEAP + 0x300)));
    assert_eq!(parked(0x10, 8, &[]).kind, NOTHING, "its key is nowhere");
}

#[test]
fn readers_of_a_lock_of_glibc_are_counted_without_any_name() {
    // Readers: two, and a writer waits; the writer is at the phase.
    let whole: &[(u64, u32)] = &[(0x100, 2 << 3 | 2), (0x108, 2), (0x10c, 1)];
    let writer = found(&Case { words: whole, futex: 0x108, how: WAIT_BITSET, expected: 2 });
    assert_eq!(
        (writer.kind, writer.owner, writer.held_by),
        (LockKind::RwLockWrite, LockOwner::Readers, Some(2))
    );
    assert_eq!(writer.lock, HEAP + 0x100);
    for wrong in [(0x11c, 7), (0x120, 1), (0x12c, 1), (0x130, 9)] {
        let words = [whole, &[wrong]].concat();
        let found = kind(&Case { words: &words, futex: 0x108, how: WAIT_BITSET, expected: 2 });
        assert_ne!(found.0, LockKind::RwLockWrite, "{wrong:x?}");
    }
}

#[test]
fn a_semaphore_counts_those_who_wait() {
    let semaphore = |words: &[(u64, u32)], how| kind(&Case { words, futex: 0x100, how, expected: 0 });
    assert_eq!(semaphore(&[(0x104, 1)], WAIT_BITSET), (LockKind::Semaphore, 0x100));
    assert_eq!(semaphore(&[(0x104, 2)], WAIT_BITSET).0, NOTHING, "one waits, and it counts two");
    assert_eq!(
        semaphore(&[(0x104, 1), (0x108, 128)], WAIT_BITSET).0,
        NOTHING,
        "it is shared, and the wait is not"
    );
    assert_eq!(semaphore(&[(0x104, 1), (0x108, 128)], 9), (LockKind::Semaphore, 0x100));
}

#[test]
fn a_barrier_says_how_many_have_come() {
    // One of three came in round 6.
    let barrier = |words: &[(u64, u32)]| kind(&Case { words, futex: 0x104, how: WAIT, expected: 6 });
    assert_eq!(barrier(&[(0x100, 7), (0x104, 6), (0x108, 3)]), (LockKind::Barrier, 0x100));
    assert_eq!(barrier(&[(0x100, 8), (0x104, 6), (0x108, 3)]).0, NOTHING, "two came, and one waits");
    assert_eq!(barrier(&[(0x100, 7), (0x104, 6), (0x108, 1)]).0, NOTHING);
}

#[test]
fn a_condition_is_known_by_its_waiters_note_which_has_the_mutex() {
    // Both layouts: the number of waiters at 36, signals at 40; and since 2.41 at 28, and at 32.
    for (waiters, futex) in [(0x124, 0x128), (0x11c, 0x120)] {
        let words = [(0x100, 1 << 1), (waiters, 1 << 3)];
        let case = Case { words: &words, futex, how: WAIT_BITSET, expected: 0 };
        let note = [0, 0, 1, HEAP + 0x100, HEAP + 0x300, 0];
        let found = found_with(&case, &note);
        assert_eq!(
            (found.kind, found.lock, found.mutex),
            (LockKind::Condition, HEAP + 0x100, Some(HEAP + 0x300))
        );
        assert!(found.proof.contains("nobody has signalled it"), "{}", found.proof);
        assert_ne!(
            found_with(&case, &[0; 6]).kind,
            LockKind::Condition,
            "without the note it may be anything"
        );
    }
}

#[test]
fn a_robust_mutex_is_its_owner() {
    let owner = 12 | 1 << 31;
    let whole: &[(u64, u32)] = &[(0x100, owner), (0x108, 12), (0x10c, 1), (0x110, 16)];
    let found = found(&Case { words: whole, futex: 0x100, how: WAIT, expected: owner });
    assert_eq!((found.kind, found.owner), (LockKind::Mutex, LockOwner::Thread(Tid(12))));
    let other = kind(&Case {
        words: &[(0xfc, 0x5555), (0x100, owner), (0x108, 13), (0x10c, 1), (0x110, 16)],
        futex: 0x100,
        how: WAIT,
        expected: owner,
    });
    assert_eq!(other.0, NOTHING, "its fields name another one");
}

#[test]
fn a_word_beside_nothing_is_only_a_futex() {
    for how in [WAIT, WAIT_BITSET, SHARED_WAIT] {
        for value in [0, 1, 3, 0x8000_0000, u32::MAX] {
            let found = kind(&Case { words: &[(0x100, value)], futex: 0x100, how, expected: value });
            assert_eq!(found.0, NOTHING, "{how} {value:#x}");
        }
    }
}

/// Functions that take and give back a lock, with calls, a loop and a switch, in a file whose addresses are offsets.
const CODE: &str = "
static int word;
__attribute__((noinline)) void give(int *lock) { __sync_lock_release(lock); }
__attribute__((noinline)) int take(int *lock) { return __sync_bool_compare_and_swap(lock, 0, 1); }
__attribute__((noinline)) int choose(int how, int *lock) {
    switch (how) {
    case 0: give(lock); return 3;
    case 1: return take(lock);
    case 2: return __sync_lock_test_and_set(lock, 0);
    case 3: return __sync_fetch_and_sub(lock, 1);
    case 4: return choose(how - 1, lock + 1);
    default: return word;
    }
}
int loops(int *lock, int times) {
    for (int i = 0; i < times; i++) { while (!take(lock)) choose(i, lock); give(lock); }
    return word++;
}
";

mod hostile {
    use super::*;
    use biopsy_stacks::image::{Options, walk};
    use biopsy_testkit::{Privilege, compile_c, require_all};
    use proptest::prelude::{ProptestConfig, any, prop, prop_assert, proptest};
    use std::sync::OnceLock;

    const BASE: u64 = 0x7000_0000_0000;

    fn program() -> &'static [u8] {
        static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
        PROGRAM.get_or_init(|| {
            let flags = &["-O2", "-shared", "-fPIC", "-nostdlib", "-Wl,-z,noseparate-code", "-Wl,-N"];
            let mut bytes = std::fs::read(compile_c("hostile-code", CODE, flags)).expect("it was made");
            bytes.resize(bytes.len().next_multiple_of(4096), 0);
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// Whatever the code ahead of a thread is, and whatever its registers and its stack hold.
        #[test]
        fn no_code_makes_it_panic_or_run_on(
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..200),
            places in prop::collection::vec(any::<prop::sample::Index>(), 40),
            registers in prop::array::uniform27(prop::sample::select(vec![0, 1, 7, HEAP + 0x100, HEAP, STACK + 64, u64::MAX, u64::MAX - 6])),
            word in prop::sample::select(vec![(0x100_u64, 2_u32), (0x104, 5)]),
        ) {
            if !require_all(&[Privilege::Cc]) {
                return Ok(());
            }
            let mut code = program().to_vec();
            let text = 0x200..code.len();
            for (at, byte) in edits {
                let at = text.start + at.index(text.len());
                code[at] = byte;
            }
            let mut stack = vec![0; 4096];
            for (slot, place) in places.iter().enumerate() {
                let address = BASE + place.index(program().len()) as u64;
                stack[slot * 8..slot * 8 + 8].copy_from_slice(&address.to_le_bytes());
            }
            let mut heap = vec![0; 4096];
            heap[0x100..0x104].copy_from_slice(&(2_u32 | 1 << 31).to_le_bytes());
            heap[word.0 as usize..word.0 as usize + 4].copy_from_slice(&word.1.to_le_bytes());
            let at = |index: usize| BASE + places[index].index(program().len()) as u64;
            let waits = GeneralRegisters {
                orig_rax: 202, rax: (-512_i64).cast_unsigned(), rdi: HEAP + word.0, rsi: WAIT_BITSET, rdx: word.1.into(),
                rip: at(0), rsp: STACK, ..GeneralRegisters::from_words(&registers)
            };
            let runs = GeneralRegisters { orig_rax: u64::MAX, rip: at(1), rsp: STACK + 8, ..waits };
            let core = CoreBuilder::new()
                .process(10, "patient", "")
                .files(&[(BASE, BASE + code.len() as u64, 0, b"/opt/hostile")])
                .thread(11, 0, &waits)
                .thread(12, 0, &runs)
                .memory(HEAP, READ_WRITE, heap)
                .memory(BASE, 5, code)
                .memory(STACK, READ_WRITE, stack);
            let opened = open_bytes("test", core.build(), &Limits::default()).expect("a core");
            let stacks = walk(&*opened.image, &Options::default());
            let analysis = analyze_dump(&*opened.image, &stacks, &DumpFacts::of(&opened));
            prop_assert!(!analysis.findings.is_empty());
        }
    }
}
