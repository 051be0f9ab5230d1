//! Locks in a runtime made by hand.

use biopsy_image::{Backing, GeneralRegisters, Mapping, Protection, Thread};
use biopsy_model::{Avma, Tid};

use super::*;
use crate::graph::{Graph, GraphBuilder, HeapType, Node};
use crate::runtime::tests::made::{BLOCKING, Made, NUMBER, REFERENCE, STATICS};

/// A runtime with threads of these managed ids and ids of the kernel, and where they are.
fn runtime(threads: &[(u32, u32)]) -> (Made, Vec<u64>) {
    let mut made = Made::new();
    let of_image = |(_, os_id): &(u32, u32)| Thread { tid: Tid(*os_id), ..Thread::default() };
    made.memory.threads = threads.iter().map(of_image).collect();
    let threads = threads.iter().map(|(id, os_id)| made.thread(*id, *os_id)).collect();
    (made, threads)
}

/// An object with a sync block of this index: the object and the block.
fn monitor(made: &mut Made, index: u32, state: u32, recursion: u32) -> (u64, u64) {
    let object = made.object;
    let locked = made.instance(object, 16);
    made.put32(locked - 4, 0x0800_0000 | index);
    let block = made.alloc(64);
    made.put32(block, state);
    made.put32(block + 4, recursion);
    made.put32(block + 28, 0xfc00_0000 | index);
    (locked, block)
}

/// The table of sync blocks from index 1 on.
fn table(made: &mut Made, entries: &[(u64, u64)]) {
    let words: Vec<u64> = entries.iter().flat_map(|(object, block)| [*block, *object]).collect();
    let table = made.words(&[&[0, 0][..], &words].concat());
    made.variable("SyncTableEntries", table);
    let cache = made.alloc(0x100);
    made.put32(cache + 108, entries.len() as u32 + 1);
    made.put32(cache + 120, 250);
    made.variable("SyncBlockCache", cache);
}

fn read(made: &mut Made, sources: &LockSources<'_>) -> Locks {
    let runtime = made.open();
    locks(&runtime, sources).expect("the threads are there")
}

#[test]
fn monitors_that_are_held_or_waited_for_have_an_owner_and_waiters() {
    let (mut made, threads) = runtime(&[(1, 4711), (7, 4712)]);
    let by_os_id = monitor(&mut made, 1, 1 | 2 << 6, 3);
    made.put32(by_os_id.1 + 16, 4711);
    let free = monitor(&mut made, 2, 0, 5);
    let by_thread = monitor(&mut made, 3, 1, 1);
    made.put(by_thread.1 + 8, threads[1]);
    let by_id = monitor(&mut made, 4, 1, 1);
    made.put(by_id.1 + 8, 7);
    let nobody = monitor(&mut made, 5, 1, 0);
    made.put(nobody.1 + 8, 99);
    let waited = monitor(&mut made, 6, 1 << 6, 9);
    table(&mut made, &[by_os_id, free, by_thread, by_id, nobody, waited]);
    let found = read(&mut made, &LockSources::default());
    let seen: Vec<_> = found
        .locks
        .iter()
        .map(|lock| (lock.object.0, lock.owner, lock.recursion, lock.waiters, lock.type_name.as_str()))
        .collect();
    let name = "System.Object";
    assert_eq!(
        seen,
        [
            (by_os_id.0, Some(4711), 2, 2, name),
            (by_thread.0, Some(4712), 0, 0, name),
            (by_id.0, Some(4712), 0, 0, name),
            (nobody.0, Some(0), 0, 0, name),
            (waited.0, None, 0, 1, name),
        ]
    );
    assert!(found.locks.iter().all(|lock| lock.kind == LockKind::Monitor));
    assert_eq!((found.sync_blocks, found.problems.len()), (6, 0));
}

#[test]
fn entries_that_do_not_fit_are_no_locks() {
    let (mut made, _) = runtime(&[(1, 4711)]);
    let good = monitor(&mut made, 9, 1, 1);
    let free = monitor(&mut made, 2, 1, 1);
    let hash = monitor(&mut made, 3, 1, 1);
    made.put32(hash.0 - 4, 0x0c00_0003);
    let other_block = monitor(&mut made, 4, 1, 1);
    made.put32(other_block.1 + 28, 5);
    let other_object = monitor(&mut made, 5, 1, 1);
    made.put32(other_object.0 - 4, 0x0800_0004);
    let nowhere = (0x7777_0000, 0x7777_0000);
    let no_block = monitor(&mut made, 7, 1, 1);
    let empty = (0, 0);
    table(
        &mut made,
        &[
            empty,
            (free.0 | 1, free.1),
            hash,
            other_block,
            other_object,
            nowhere,
            (no_block.0, 0),
            empty,
            good,
        ],
    );
    let found = read(&mut made, &LockSources::default());
    assert_eq!((found.sync_blocks, found.locks.len()), (1, 1));
    assert_eq!(found.locks[0].object, Avma(good.0));
}

#[test]
fn a_table_whose_length_is_not_said_ends_where_nothing_fits_any_more() {
    let (mut made, _) = runtime(&[(1, 4711)]);
    let near = monitor(&mut made, 200, 1, 1);
    let far = monitor(&mut made, 200 + 300, 1, 1);
    let mut entries = vec![(0, 0); 700];
    entries[199] = near;
    entries[499] = far;
    table(&mut made, &entries);
    let objects = |made: &mut Made| -> Vec<Avma> {
        read(made, &LockSources::default()).locks.iter().map(|lock| lock.object).collect()
    };
    assert_eq!(objects(&mut made), [Avma(near.0), Avma(far.0)]);
    made.offset("SyncBlockCache", "FreeSyncTableIndex", 8);
    assert_eq!(objects(&mut made), [Avma(near.0)], "300 entries in a row that do not fit");
}

#[test]
fn what_cannot_be_read_is_a_problem_and_not_the_end() {
    let (mut made, _) = runtime(&[(1, 4711)]);
    let found = read(&mut made, &LockSources::default());
    let wanted = "monitors: the layout of this runtime does not describe the global `SyncTableEntries`";
    assert_eq!(found.problems, [wanted]);
    made.global("SyncTableEntries", 0x7777_0000);
    let found = read(&mut made, &LockSources::default());
    assert!(found.problems[0].starts_with("monitors: memory at 0x77770000"), "{:?}", found.problems);
}

/// The runtime's note of what a thread waits for.
fn waits_for(made: &mut Made, thread: u64, block: u64, kind: u32, timeout: u32) -> u64 {
    let note = made.words(&[block, 0, u64::from(timeout) << 32 | u64::from(kind), 0]);
    made.put(thread + BLOCKING, note);
    note
}

#[test]
fn threads_that_wait_are_told_by_the_notes_of_the_runtime() {
    let (mut made, threads) = runtime(&[(1, 11), (2, 12), (3, 13), (4, 14), (5, 15)]);
    let one = monitor(&mut made, 1, 1 | 1 << 6, 1);
    made.put32(one.1 + 16, 12);
    let other = monitor(&mut made, 2, 1 | 1 << 6, 1);
    made.put32(other.1 + 16, 11);
    // Nobody holds it, and nobody waits to enter: somebody waits for a pulse.
    let pulsed = monitor(&mut made, 3, 0, 0);
    table(&mut made, &[one, other, pulsed]);
    waits_for(&mut made, threads[0], one.1, 0, u32::MAX);
    waits_for(&mut made, threads[1], other.1, 0, 5000);
    waits_for(&mut made, threads[2], pulsed.1, 1, u32::MAX);
    // Of a kind that is none, and with a pointer in place of the timeout.
    waits_for(&mut made, threads[3], one.1, 2, u32::MAX);
    waits_for(&mut made, threads[4], one.1, 0, 0x8000_0000);
    let waits = |made: &mut Made| -> Vec<_> {
        let found = read(made, &LockSources::default());
        assert_eq!(found.cycles(), [vec![11, 12]]);
        let lock = |wait: &Wait| found.locks[wait.lock].object.0;
        found.waits.iter().map(|wait| (wait.os_id, lock(wait), wait.kind, wait.timeout)).collect()
    };
    let wanted = [
        (11, one.0, WaitKind::Enter, None),
        (12, other.0, WaitKind::Enter, Some(5000)),
        (13, pulsed.0, WaitKind::Pulse, None),
    ];
    // Found by where most threads have one; then as the layout says.
    assert_eq!(waits(&mut made), wanted);
    made.offset("Thread", "DebugBlockingItem", BLOCKING as u32);
    assert_eq!(waits(&mut made), wanted);
    // Threads that have ended wait for nothing.
    made.put32(threads[2] + 16, 0x800);
    assert_eq!(waits(&mut made), wanted[..2]);
}

/// A `System.Threading.Lock`.
fn lock_object(made: &mut Made, class: u64, state: u32, owner: u32) -> u64 {
    let lock = made.instance(class, 32);
    made.put32(lock + 8, state);
    made.put32(lock + 16, owner);
    made.put32(lock + 24, 4);
    lock
}

fn lock_class(made: &mut Made) -> u64 {
    let object = made.object;
    let fields = [("_state", NUMBER, 0), ("_owningThreadId", NUMBER, 8), ("_recursionCount", NUMBER, 16)];
    made.class("System.Threading", "Lock", object, &fields)
}

/// A stack of a thread with these words, as the image has it.
fn stack(made: &mut Made, tid: u32, words: &[u64], registers: GeneralRegisters) -> (u64, u64) {
    // Pages of its own: nothing else lies in the mapping.
    let start = (made.alloc(0x3000) + 0xfff) & !0xfff;
    for (number, word) in words.iter().enumerate() {
        made.put(start + 0x800 + 8 * number as u64, *word);
    }
    let (from, end) = (start + 0x800, start + 0x1000);
    made.memory.mappings.push(Mapping {
        start,
        end,
        protection: Protection { read: true, write: true, execute: false },
        shared: false,
        backing: Backing::Anonymous { label: "[stack]".to_owned() },
        not_frozen: false,
    });
    let thread = made.memory.threads.iter_mut().find(|thread| thread.tid == Tid(tid)).expect("a thread");
    thread.registers = Some(GeneralRegisters { rsp: from, ..registers });
    (from, from + 8 * words.len() as u64)
}

#[test]
fn who_waits_for_a_lock_object_has_it_on_the_stack_and_another_holds_it() {
    let (mut made, _) = runtime(&[(1, 11), (2, 12)]);
    let class = lock_class(&mut made);
    let own = lock_object(&mut made, class, 1, 11);
    let free = lock_object(&mut made, class, 0, 12);
    let held = lock_object(&mut made, class, 1, 12);
    let in_register = lock_object(&mut made, class, 1, 2);
    let words = [0, 7, own, free, 0x7777_0000, held, u64::MAX];
    let (from, to) = stack(&mut made, 11, &words, GeneralRegisters::default());
    stack(&mut made, 12, &[], GeneralRegisters::default());
    let inside = |class| [InsideLock { class, os_id: 11, from: Avma(from), to: Avma(to) }];
    let of_lock = inside(LockClass::Lock);
    let find = |made: &mut Made| {
        let found = read(made, &LockSources { graph: None, inside: &of_lock });
        let one = found.waits.first().map(|wait| (wait.os_id, found.locks[wait.lock].clone()));
        (found.waits.len(), one)
    };
    let (waits, one) = find(&mut made);
    let (waiter, lock) = one.expect("one waits");
    assert_eq!((waits, waiter, lock.object, lock.kind), (1, 11, Avma(held), LockKind::Lock));
    assert_eq!((lock.owner, lock.recursion, lock.waiters), (Some(12), 4, 1));
    // A register is looked at before the stack; the owner may be named by its managed id.
    if let Some(registers) = made.memory.threads[0].registers.as_mut() {
        registers.r12 = in_register;
    }
    let lock = find(&mut made).1.expect("one waits").1;
    assert_eq!((lock.object, lock.owner), (Avma(in_register), Some(12)));
    // Nothing is known of the stack.
    made.memory.mappings.clear();
    assert_eq!(find(&mut made).0, 0);
}

/// A lock for readers and a writer, and the counts of those who read.
fn reader_writer(made: &mut Made) -> (u64, u64) {
    let object = made.object;
    let lock = made.class(
        "System.Threading",
        "ReaderWriterLockSlim",
        object,
        &[
            ("_owners", NUMBER, 0),
            ("_writeLockOwnerId", NUMBER, 4),
            ("_upgradeLockOwnerId", NUMBER, 8),
            ("_lockID", NUMBER, 16),
        ],
    );
    let count = made.class(
        "System.Threading",
        "ReaderWriterCount",
        object,
        &[("lockID", NUMBER, 0), ("readercount", NUMBER, 8), ("next", REFERENCE, 16)],
    );
    let lock = made.instance(lock, 32);
    made.put32(lock + 12, u32::MAX);
    made.put32(lock + 16, u32::MAX);
    made.put(lock + 24, 77);
    (lock, count)
}

/// Thread statics of a thread: an array of an array of these objects.
fn statics(made: &mut Made, thread: u64, array: u64, objects: &[u64]) {
    let of_type = made.instance(array, 8 + 8 * objects.len() as u64);
    made.put32(of_type + 8, objects.len() as u32);
    objects.iter().enumerate().for_each(|(at, one)| made.put(of_type + 16 + 8 * at as u64, *one));
    let of_thread = made.instance(array, 24);
    made.put32(of_thread + 8, 2);
    made.put(of_thread + 24, of_type);
    let data = made.words(&[0, of_thread]);
    made.put(thread + STATICS, data);
}

#[test]
fn readers_and_writers_of_a_lock_for_both_are_told_apart() {
    let (mut made, threads) = runtime(&[(1, 11), (2, 12), (3, 13)]);
    let (lock, count) = reader_writer(&mut made);
    let object = made.object;
    let array = made.array(object, None);
    // The second count of the thread is of this lock.
    let (first, second) = (made.instance(count, 24), made.instance(count, 24));
    made.put(first + 8, 5);
    made.put(first + 24, second);
    made.put(second + 8, 77);
    made.put32(second + 16, 1);
    statics(&mut made, threads[1], array, &[lock, first]);
    let (from, to) = stack(&mut made, 11, &[lock], GeneralRegisters::default());
    let inside = |to_read| InsideLock {
        class: LockClass::ReaderWriter { to_read },
        os_id: 11,
        from: Avma(from),
        to: Avma(to),
    };
    let find = |made: &mut Made, to_read| {
        let found = read(made, &LockSources { graph: None, inside: &[inside(to_read)] });
        let lock = found.locks[0].clone();
        (found.waits[0].kind, lock.owner, lock.readers)
    };
    made.put32(lock + 8, 2);
    assert_eq!(find(&mut made, false), (WaitKind::Enter, None, vec![12]));
    // One may upgrade: the lock names it.
    made.put32(lock + 16, 3);
    assert_eq!(find(&mut made, false), (WaitKind::Enter, None, vec![12, 13]));
    // A writer has it; then nobody reads.
    made.put32(lock + 8, 1 << 31);
    made.put32(lock + 12, 2);
    assert_eq!(find(&mut made, true), (WaitKind::Read, Some(12), vec![]));
    made.put32(lock + 12, 99);
    assert_eq!(find(&mut made, true), (WaitKind::Read, Some(0), vec![]), "nobody that runs");
    // Counts that lead to each other: it ends, and the thread does not read.
    made.put32(lock + 8, 2);
    made.put32(lock + 16, u32::MAX);
    made.put32(second + 16, 0);
    made.put(second + 24, first);
    assert!(find(&mut made, false).2.is_empty());
    made.put32(second + 16, 1);
    made.put32(threads[1] + 16, 0x800);
    assert!(find(&mut made, false).2.is_empty(), "it has ended");
}

/// A graph of objects with their types.
fn graph(types: &[&str], objects: &[(u64, u32)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let types: Vec<_> = types
        .iter()
        .map(|name| builder.push_type(HeapType { name: (*name).to_owned(), ..HeapType::default() }))
        .collect();
    for (address, of) in objects {
        builder.push(Node { address: Avma(*address), of: types[*of as usize], size: 24, edges: 0 });
    }
    builder.finish().expect("nothing is spilled").0
}

#[test]
fn locks_that_nobody_waits_for_are_found_among_all_objects() {
    let (mut made, threads) = runtime(&[(1, 11), (2, 12)]);
    table(&mut made, &[]);
    let object = made.object;
    let class = lock_class(&mut made);
    let thin = made.instance(object, 16);
    made.put32(thin - 4, 0x0003_0002);
    let of_nobody = made.instance(object, 16);
    made.put32(of_nobody - 4, 9);
    let hash = made.instance(object, 16);
    made.put32(hash - 4, 0x0c00_0002);
    let held = lock_object(&mut made, class, 1, 11);
    let free = lock_object(&mut made, class, 0, 0);
    let all = [(thin, 0), (of_nobody, 0), (hash, 0), (held, 1), (free, 1)];
    let graph = graph(&["App.Feed", "System.Threading.Lock"], &all);
    let sources = LockSources { graph: Some(&graph), inside: &[] };
    let find = |made: &mut Made| -> Vec<_> {
        let found = read(made, &sources);
        found.locks.iter().map(|lock| (lock.object.0, lock.kind, lock.owner, lock.recursion)).collect()
    };
    let of_thin = (thin, LockKind::ThinMonitor, Some(12), 3);
    assert_eq!(find(&mut made), [of_thin, (held, LockKind::Lock, Some(11), 4)]);
    made.put32(threads[0] + 16, 0x800);
    assert_eq!(find(&mut made), [of_thin, (held, LockKind::Lock, Some(0), 4)], "its owner has ended");
}

#[test]
fn locks_that_nobody_waits_for_are_on_the_stacks_of_their_owners() {
    let (mut made, _) = runtime(&[(1, 11), (2, 12)]);
    table(&mut made, &[]);
    let object = made.object;
    let class = lock_class(&mut made);
    let thin = made.instance(object, 16);
    made.put32(thin - 4, 1);
    let of_other = made.instance(object, 16);
    made.put32(of_other - 4, 2);
    let no_object = made.alloc(64) + 16;
    made.put32(no_object - 4, 1);
    let held = lock_object(&mut made, class, 1, 11);
    let of_other_too = lock_object(&mut made, class, 1, 12);
    let words = [thin, of_other, thin, no_object, of_other_too, 0x7777_0000];
    stack(&mut made, 11, &words, GeneralRegisters { rbx: held, ..GeneralRegisters::default() });
    let found = read(&mut made, &LockSources::default());
    let seen: Vec<_> = found.locks.iter().map(|lock| (lock.object.0, lock.kind, lock.owner)).collect();
    assert_eq!(seen, [(held, LockKind::Lock, Some(11)), (thin, LockKind::ThinMonitor, Some(11))]);
}
