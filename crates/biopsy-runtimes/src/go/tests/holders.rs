//! Who has the locks that goroutines wait for.

use super::program::{CALL, Code, G, Program, strand};
use crate::{Confidence, Holder, Owner, StrandId};

fn owners(found: &crate::RuntimeStrands, id: u64) -> Vec<Owner> {
    strand(found, StrandId(id)).wait.as_ref().expect("it waits").owners.clone()
}

fn names(owners: &[Owner]) -> Vec<(u64, Confidence)> {
    let id = |owner: &Owner| match owner.holder {
        Holder::Strand(id) => id.0,
        Holder::Thread(tid) => panic!("{tid:?} is no goroutine"),
    };
    owners.iter().map(|owner| (id(owner), owner.confidence)).collect()
}

/// A goroutine whose code ahead calls these functions of the standard library with the lock.
fn calls(program: &mut Program, id: u64, lock: u64, functions: &[u64]) -> G {
    let work = program.function("main.work", 0x18);
    let pc = program.code(work, |code| {
        functions.iter().fold(code, |code, function| code.rax(lock).call(*function)).ret()
    });
    let go = program.waits(id, &[pc], "sleep");
    program.goroutine(&go)
}

#[test]
fn of_several_that_let_go_of_a_mutex_none_is_sure() {
    let mut program = Program::new(24);
    let lock = program.wanted_mutex(9);
    let unlock = program.function("sync.(*Mutex).Unlock", 8);
    for id in [2, 3] {
        calls(&mut program, id, lock, &[unlock]);
    }
    assert_eq!(
        names(&owners(&program.finish().read(), 9)),
        [(2, Confidence::Possible), (3, Confidence::Possible)]
    );
}

#[test]
fn no_more_holders_are_named_than_anybody_reads() {
    let mut program = Program::new(24);
    let lock = program.wanted_mutex(99);
    let unlock = program.function("sync.(*Mutex).Unlock", 8);
    for id in 2..22 {
        calls(&mut program, id, lock, &[unlock]);
    }
    assert_eq!(owners(&program.finish().read(), 99).len(), 8);
}

#[test]
fn a_mutex_that_nobody_has_has_no_owner() {
    for (state, owners_of_it) in [(0, 0), (1, 1), (2, 0), (1 | 8, 1)] {
        let mut program = Program::new(24);
        let lock = program.wanted_mutex(9);
        let unlock = program.function("sync.(*Mutex).Unlock", 8);
        calls(&mut program, 2, lock, &[unlock]);
        program.image.half(lock, state);
        assert_eq!(owners(&program.finish().read(), 9).len(), owners_of_it, "{state}");
    }
}

/// Who waits for a lock lets go of it too, once it has it.
#[test]
fn who_waits_for_a_lock_does_not_have_it() {
    let mut program = Program::new(24);
    let lock = program.room(0x40);
    program.image.half(lock, 1);
    let unlock = program.function("sync.(*Mutex).Unlock", 8);
    for (id, name) in [(2, "main.first"), (3, "main.second")] {
        let made = program.waits_for_mutex(id, lock, name);
        let entry = program.image.word_at(made.sps[1] + 0x20) - CALL;
        program.code(entry, |code| code.rax(lock).call(unlock).ret());
    }
    let found = program.finish().read();
    assert_eq!((owners(&found, 2), owners(&found, 3)), (vec![], vec![]));
}

/// It waits for what it has already: it lets go twice.
#[test]
fn a_lock_that_is_taken_twice_is_had_by_its_waiter() {
    let mut program = Program::new(24);
    let lock = program.room(0x40);
    program.image.half(lock, 1);
    let unlock = program.function("sync.(*Mutex).Unlock", 8);
    let made = program.waits_for_mutex(2, lock, "main.again");
    let entry = program.image.word_at(made.sps[1] + 0x20) - CALL;
    program.code(entry, |code| code.rax(lock).call(unlock).rax(lock).call(unlock).ret());
    assert_eq!(names(&owners(&program.finish().read(), 2)), [(2, Confidence::VeryLikely)]);
}

/// A writer and a reader that wait for a read-write lock, and who is said to have it.
fn of_read_write_lock(holders: &[(u64, &str)]) -> [Vec<(u64, Confidence)>; 2] {
    let mut program = Program::new(24);
    let lock = program.room(0x40);
    for (id, why, function, offset) in [
        (20, "sync.RWMutex.Lock", "sync.(*RWMutex).Lock", 8),
        (21, "sync.RWMutex.RLock", "sync.(*RWMutex).RLock", 12),
    ] {
        let waits = program.function(function, 0x20);
        let go = program.waits(id, &[waits + CALL], why);
        let made = program.goroutine(&go);
        let note = program.note(&made, 0, lock + offset, 0);
        program.image.word(made.sps[0], note);
    }
    for (id, function) in holders {
        let function = program.function(function, 8);
        calls(&mut program, *id, lock, &[function]);
    }
    let found = program.finish().read();
    [20, 21].map(|id| names(&owners(&found, id)))
}

#[test]
fn readers_and_writers_of_a_lock_are_told_apart() {
    use Confidence::{AlmostCertain, Possible, VeryLikely};
    const READ: &str = "sync.(*RWMutex).RUnlock";
    const WRITE: &str = "sync.(*RWMutex).Unlock";
    // Who lets go of it, and how; owners for the writer, and for the reader.
    assert_eq!(of_read_write_lock(&[(2, WRITE)]), [vec![(2, VeryLikely)], vec![(2, VeryLikely)]]);
    // The writer waits for readers, and who would read now waits for the writer.
    assert_eq!(
        of_read_write_lock(&[(2, READ), (3, READ)]),
        [vec![(2, VeryLikely), (3, VeryLikely)], vec![(20, AlmostCertain)]]
    );
    // One of them is not what it looks like.
    assert_eq!(
        of_read_write_lock(&[(2, WRITE), (3, READ)]),
        [vec![(2, Possible), (3, Possible)], vec![(2, VeryLikely)]]
    );
    assert_eq!(of_read_write_lock(&[]), [vec![], vec![(20, AlmostCertain)]]);
}

/// Hangs calls that are deferred on a goroutine: closure, stack pointer of the frame that deferred it.
fn defers(program: &mut Program, made: &G, deferred: &[(u64, u64)]) -> Vec<u64> {
    let places: Vec<u64> = deferred.iter().map(|_| program.room(0x40)).collect();
    let next = program.layout.defer_next;
    for (number, (closure, sp)) in deferred.iter().enumerate() {
        let at = places[number];
        program.image.word(at + 8, *sp);
        program.image.word(at + 24, *closure);
        program.image.word(at + next, places.get(number + 1).copied().unwrap_or(0));
    }
    program.image.word(made.at + 40, places[0]);
    places
}

/// `defer mu.Unlock()`: a closure of the function and of the lock.
fn unlocking_closure(program: &mut Program, lock: u64) -> u64 {
    let unlock = program.function("sync.(*Mutex).Unlock", 8);
    let wrap = program.function("main.holds.deferwrap1", 8);
    // mov rax, [rdx + 8], padded to five bytes.
    program.image.put(wrap, &[0x48, 0x8b, 0x42, 0x08, 0x90]);
    program.code(wrap, |code| code.call(unlock).ret());
    let closure = program.room(16);
    program.image.word(closure, wrap);
    program.image.word(closure + 8, lock);
    closure
}

#[test]
fn deferred_calls_let_go_of_locks() {
    for minor in [19, 21, 22, 24, 26] {
        let mut program = Program::new(minor);
        let lock = program.wanted_mutex(9);
        let closure = unlocking_closure(&mut program, lock);
        let nothing = program.room(16);
        let holds = program.function("main.holds", 0x18);
        let go = program.waits(2, &[holds + CALL], "sleep");
        let made = program.goroutine(&go);
        let sp = made.sps[1];
        defers(&mut program, &made, &[(nothing, 0), (closure, sp)]);
        let found = program.finish().read();
        let [owner] = &owners(&found, 9)[..] else { panic!("1.{minor}: {found:#?}") };
        assert_eq!((owner.holder, owner.frame), (Holder::Strand(StrandId(2)), Some(1)), "1.{minor}");
    }
}

#[test]
fn deferred_calls_in_a_circle_end() {
    let mut program = Program::new(24);
    let lock = program.wanted_mutex(9);
    let closure = unlocking_closure(&mut program, lock);
    let holds = program.function("main.holds", 0x18);
    let go = program.waits(2, &[holds + CALL], "sleep");
    let made = program.goroutine(&go);
    let places = defers(&mut program, &made, &[(closure, 0), (closure, 0)]);
    let next = program.layout.defer_next;
    program.image.word(places[1] + next, places[0]);
    let [owner] = &owners(&program.finish().read(), 9)[..] else { panic!("one owner") };
    assert_eq!((owner.holder, owner.frame), (Holder::Strand(StrandId(2)), None), "no frame deferred it");
}

/// A condition lets go of its lock while somebody waits for it.
#[test]
fn who_waits_for_a_condition_does_not_have_its_lock() {
    for (inner, has_it) in [("sync.(*Cond).Wait", false), ("main.wait", true)] {
        let mut program = Program::new(24);
        let lock = program.wanted_mutex(9);
        let unlock = program.function("sync.(*Mutex).Unlock", 8);
        let condition = program.function(inner, 0x20);
        let holds = program.function("main.holds", 0x18);
        let pc = program.code(holds, |code: Code| code.rax(lock).call(unlock).ret());
        let go = program.waits(2, &[condition + CALL, pc], "sync.Cond.Wait");
        program.goroutine(&go);
        assert_eq!(!owners(&program.finish().read(), 9).is_empty(), has_it, "{inner}");
    }
}

/// Goroutines of the runtime, and frames of the libraries, are not walked for locks.
#[test]
fn what_libraries_do_with_a_lock_is_not_what_the_program_has() {
    for (name, start, has_it) in [
        ("main.holds", "main.start", true),
        ("sync.(*Once).doSlow", "main.start", false),
        ("time.Sleep", "main.start", false),
        ("internal/poll.(*FD).Read", "main.start", false),
        ("main.holds", "runtime.bgsweep", false),
        ("database/sql.(*DB).conn", "main.start", true),
    ] {
        let mut program = Program::new(24);
        let lock = program.wanted_mutex(9);
        let unlock = program.function("sync.(*Mutex).Unlock", 8);
        let holds = program.function(name, 0x18);
        let start = program.function(start, 0x18);
        let pc = program.code(holds, |code| code.rax(lock).call(unlock).ret());
        let go = program.waits(2, &[pc, start + CALL], "sleep");
        program.goroutine(&go);
        assert_eq!(!owners(&program.finish().read(), 9).is_empty(), has_it, "{name} {start}");
    }
}

#[test]
fn a_lock_that_no_code_ahead_lets_go_of_is_left_locked() {
    let nobody = |who: &dyn Fn(&mut Program, u64)| {
        let mut program = Program::new(24);
        let lock = program.wanted_mutex(9);
        who(&mut program, lock);
        let found = program.finish().read();
        strand(&found, StrandId(9)).wait.as_ref().expect("it waits").nobody.is_some()
    };
    let unlock = |program: &mut Program| program.function("sync.(*Mutex).Unlock", 8);
    assert!(nobody(&|program, _| drop(calls(program, 2, 0x1000, &[]))));
    assert!(
        !nobody(&|program, lock| {
            // By a function of the program that it calls.
            let unlock = unlock(program);
            let close = program.function("main.close", 8);
            program.image.put(close, &[0x90; CALL as usize]);
            program.code(close, |code| code.rax(lock).call(unlock).ret());
            calls(program, 2, 0x1000, &[close]);
        }),
        "it will be unlocked further in"
    );
    assert!(
        !nobody(&|program, _| {
            let unlock = unlock(program);
            let work = program.function("main.works", 0x18);
            let pc = program.code(work, |code| code.call(unlock).ret());
            let go = program.waits(3, &[pc], "sleep");
            program.goroutine(&go);
        }),
        "which one it unlocks is not known"
    );
    let library = |program: &mut Program, _: u64| {
        let unlock = unlock(program);
        let work = program.function("net/http.(*conn).serve", 0x18);
        let pc = program.code(work, |code| code.call(unlock).ret());
        let go = program.waits(3, &[pc], "sleep");
        program.goroutine(&go);
    };
    assert!(nobody(&library), "a library has locks of its own");
}
