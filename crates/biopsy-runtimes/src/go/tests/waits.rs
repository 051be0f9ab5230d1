//! What goroutines wait for: reasons, channels, semaphores of locks, descriptors.

use biopsy_model::{Avma, MonoNanos};

use super::program::{CALL, G, Go, Program, strand};
use crate::{StrandId, StrandWait, WaitKind};

/// The wait of a goroutine below these functions.
fn wait(minor: u32, why: &'static str, below: &[&str], notes: impl FnOnce(&mut Program, &G)) -> StrandWait {
    let mut program = Program::new(minor);
    let callers: Vec<u64> = below.iter().map(|name| program.function(name, 0x18) + CALL).collect();
    let go = program.waits(2, &callers, why);
    let made = program.goroutine(&go);
    notes(&mut program, &made);
    strand(&program.finish().read(), StrandId(2)).wait.clone().expect("it waits")
}

#[test]
fn each_reason_is_a_kind_of_wait() {
    use WaitKind::{
        ChannelReceive, ChannelSend, Collection, Condition, Idle, Io, Mutex, ReadLock, Select, Semaphore,
        Timer, WaitGroup, WriteLock,
    };
    let table = [
        ("GC assist marking", Collection, false, false),
        ("IO wait", Io, false, false),
        ("chan receive (nil chan)", ChannelReceive, true, false),
        ("chan send (nil chan)", ChannelSend, true, false),
        ("select", Select, false, false),
        ("select (no cases)", Select, true, false),
        ("chan receive", ChannelReceive, false, false),
        ("chan send", ChannelSend, false, false),
        ("semacquire", Semaphore, false, false),
        ("sleep", Timer, false, true),
        ("sync.Cond.Wait", Condition, false, false),
        ("sync.Mutex.Lock", Mutex, false, false),
        ("sync.RWMutex.RLock", ReadLock, false, false),
        ("sync.RWMutex.Lock", WriteLock, false, false),
        ("sync.WaitGroup.Wait", WaitGroup, false, false),
        ("finalizer wait", Idle, false, false),
        ("wait for GC cycle", Collection, false, false),
    ];
    for (why, kind, never_ends, ends_by_itself) in table {
        let wait = wait(24, why, &["main.work"], |_, _| {});
        assert_eq!((wait.kind, &*wait.reason), (kind, why));
        assert_eq!((wait.never_ends, wait.ends_by_itself), (never_ends, ends_by_itself), "{why}");
        assert_eq!((wait.address, wait.others, wait.since), (None, vec![], None), "{why}");
    }
}

#[test]
fn since_when_it_waits_is_what_the_collector_noted() {
    let mut program = Program::new(24);
    let work = program.function("main.work", 0x18);
    let go = Go { since: 1_234_567, ..program.waits(2, &[work + CALL], "chan send") };
    program.goroutine(&go);
    let since = strand(&program.finish().read(), StrandId(2)).wait.as_ref().and_then(|wait| wait.since);
    assert_eq!(since, Some(MonoNanos(1_234_567)));
}

#[test]
fn all_channels_of_a_select_are_named() {
    for minor in [19, 22, 23, 26] {
        let mut channels = Vec::new();
        let wait = wait(minor, "select", &["main.work"], |program, made| {
            channels = (0..3).map(|_| Avma(program.room(0x80))).collect();
            let mut next = 0;
            for channel in channels.iter().rev() {
                next = program.note(made, channel.0, 0, next);
            }
            program.hang(made, next);
        });
        assert_eq!((wait.address, wait.others), (Some(channels[0]), channels[1..].to_vec()), "1.{minor}");
        assert!(!wait.ends_by_itself);
    }
}

#[test]
fn a_channel_that_a_timer_feeds_ends_the_wait_from_1_23_on() {
    for (minor, ends) in [(21, false), (22, false), (23, true), (24, true), (26, true)] {
        for which in 0..2 {
            let wait = wait(minor, "select", &["main.work"], |program, made| {
                let channels = [program.room(0x80), program.room(0x80)];
                program.image.word(channels[which] + 32, 0x1234);
                let second = program.note(made, channels[1], 0, 0);
                let first = program.note(made, channels[0], 0, second);
                program.hang(made, first);
            });
            assert_eq!(wait.ends_by_itself, ends, "1.{minor}");
        }
    }
}

#[test]
fn notes_of_others_are_not_followed_and_a_circle_of_them_ends() {
    let mut channel = 0;
    let wait = wait(24, "select", &["main.work"], |program, made| {
        channel = program.room(0x80);
        let somebody = G { at: super::program::HEAP, ..made.clone() };
        let foreign = program.note(&somebody, 0x1_0000, 0, 0);
        let own = program.note(made, channel, 0, foreign);
        program.hang(made, own);
    });
    assert_eq!((wait.address, wait.others), (Some(Avma(channel)), vec![]));
    let wait = super::waits::wait(24, "select", &["main.work"], |program, made| {
        let note = program.note(made, channel, 0, 0);
        let next = program.layout.sudog_next;
        program.image.word(note + next, note);
        program.hang(made, note);
    });
    assert!(wait.others.len() < 1_024, "{}", wait.others.len());
}

/// A semaphore is a part of what is waited for; which, say the functions of the standard library.
#[test]
fn a_semaphore_leads_to_the_lock_that_it_is_a_part_of() {
    use WaitKind::{Mutex, ReadLock, Semaphore, WaitGroup, WriteLock};
    // What the runtime noted, functions from the inside, how far before the semaphore the lock begins.
    let table: [(&str, &[&str], WaitKind, Option<u64>); 13] = [
        ("sync.Mutex.Lock", &["sync.(*Mutex).lockSlow"], Mutex, Some(4)),
        ("semacquire", &["sync.(*Mutex).lockSlow"], Mutex, Some(4)),
        ("sync.Mutex.Lock", &["internal/sync.(*Mutex).lockSlow"], Mutex, Some(4)),
        ("sync.Mutex.Lock", &["main.work"], Mutex, Some(4)),
        ("sync.RWMutex.RLock", &["sync.(*RWMutex).RLock"], ReadLock, Some(12)),
        ("semacquire", &["sync.runtime_SemacquireRWMutexR"], ReadLock, Some(12)),
        ("sync.RWMutex.RLock", &["main.work"], ReadLock, Some(12)),
        ("sync.RWMutex.Lock", &["sync.(*RWMutex).Lock"], WriteLock, Some(8)),
        ("sync.Mutex.Lock", &["sync.(*Mutex).lockSlow", "sync.(*RWMutex).Lock"], WriteLock, Some(4)),
        ("sync.RWMutex.Lock", &["main.work"], WriteLock, None),
        ("semacquire", &["sync.(*WaitGroup).Wait"], WaitGroup, Some(8)),
        ("sync.WaitGroup.Wait", &["main.work"], WaitGroup, Some(8)),
        ("semacquire", &["main.work"], Semaphore, Some(0)),
    ];
    for minor in [20, 24, 25] {
        for (why, below, kind, before) in table {
            let mut semaphore = 0;
            let wait = wait(minor, why, below, |program, made| {
                semaphore = program.room(0x40) + 0x20;
                let note = program.note(made, 0, semaphore, 0);
                if minor >= 25 {
                    program.hang(made, note);
                } else {
                    // Only the waiter's own stack knows it.
                    program.image.word(made.sps[0] + 8, note);
                }
            });
            assert_eq!(
                (wait.kind, wait.address),
                (kind, before.map(|by| Avma(semaphore - by))),
                "{why} {below:?}"
            );
            let object = match kind {
                Mutex => Some("sync.Mutex"),
                ReadLock | WriteLock => Some("sync.RWMutex"),
                WaitGroup => Some("sync.WaitGroup"),
                _ => None,
            };
            assert_eq!(wait.object.as_deref(), object, "{why} {below:?}");
        }
    }
}

#[test]
fn a_word_of_the_stack_is_a_note_only_if_it_is_the_goroutines_own() {
    let lock = |note: fn(&mut Program, &G, u64) -> u64| {
        let mut semaphore = 0;
        let wait = wait(24, "sync.Mutex.Lock", &["sync.(*Mutex).lockSlow"], |program, made| {
            semaphore = program.room(0x40) + 4;
            let note = note(program, made, semaphore);
            program.image.word(made.sps[0] + 8, note);
        });
        wait.address.map(|address| semaphore - address.0)
    };
    assert_eq!(lock(|program, made, semaphore| program.note(made, 0, semaphore, 0)), Some(4));
    let of_another = |program: &mut Program, made: &G, semaphore| {
        let other = G { at: super::program::HEAP, ..made.clone() };
        program.note(&other, 0, semaphore, 0)
    };
    assert_eq!(lock(of_another), None);
    assert_eq!(
        lock(|program, made, semaphore| program.note(made, 0x1_0000, semaphore, 0)),
        None,
        "a channel"
    );
    assert_eq!(lock(|program, made, _| program.note(made, 0, 0, 0)), None, "no semaphore");
    assert_eq!(lock(|program, made, semaphore| program.note(made, 0, semaphore, 0) + 4), None, "not aligned");
    assert_eq!(lock(|_, _, _| 0x77_0000), None, "nowhere");
}

#[test]
fn a_stack_pointer_outside_of_the_stack_leads_nowhere() {
    let wait = wait(24, "sync.Mutex.Lock", &["sync.(*Mutex).lockSlow"], |program, made| {
        let semaphore = program.room(0x40) + 4;
        let note = program.note(made, 0, semaphore, 0);
        // It is there, but the goroutine's stack is elsewhere.
        program.image.word(made.sps[0] + 8, note);
        program.image.word(made.at, made.sps[0] + 0x400);
    });
    assert_eq!(wait.address, None);
}

#[test]
fn a_descriptor_is_that_of_the_poller_that_knows_the_goroutine() {
    for minor in [19, 20, 26] {
        // As a reader, as a writer, as neither; and a descriptor that is none.
        for (place, descriptor, expected) in [
            (Some(0), 17, Some(17)),
            (Some(8), 17, Some(17)),
            (None, 17, None),
            (Some(0), u64::from(u32::MAX) + 1, None),
        ] {
            let mut poll = 0;
            let wait = wait(minor, "IO wait", &["internal/poll.runtime_pollWait"], |program, made| {
                poll = program.room(0x80);
                program.image.word(poll + 8, descriptor);
                if let Some(place) = place {
                    let reader = program.layout.poll_reader;
                    program.image.word(poll + reader + place, made.at);
                }
                program.image.word(made.sps[0] + 8, poll);
            });
            assert_eq!(wait.descriptor, expected, "1.{minor} {place:?}");
            assert_eq!(wait.address, expected.map(|_| Avma(poll)));
        }
    }
}
