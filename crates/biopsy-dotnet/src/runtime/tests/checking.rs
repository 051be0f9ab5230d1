//! Checks at load time: each of them notices what it is for.

use biopsy_image::{Mapping, Protection, Thread};
use biopsy_model::Tid;

use super::made::{EXPOSED, LAST_THROWN, LINK, LOCALS, Made};
use crate::runtime::{CheckResult, RuntimeError};

/// A runtime whose checks all have something to look at.
fn whole() -> (Made, u64) {
    let mut made = Made::new();
    let (object, exception) = (made.object, made.exception);
    let class = made.class("System.Threading", "Thread", object, &[]);
    let thread = made.thread(1, 4711);
    made.thread(2, 4712);
    for tid in [4711, 4712] {
        made.memory.threads.push(Thread { tid: Tid(tid), ..Thread::default() });
    }
    let own = made.instance(class, 16);
    let handle = made.handle(own);
    made.put(thread + EXPOSED, handle);
    let thrown = made.instance(exception, 16);
    let handle = made.handle(thrown);
    made.put(thread + LAST_THROWN, handle);
    let room = made.alloc(0x100);
    let locals = made.words(&[0, 0, 0, room, room + 0x100]);
    made.put(thread + LOCALS, locals);
    locks(&mut made);
    (made, thread)
}

/// A lock: entry 1 of the table is its block and its object.
fn locks(made: &mut Made) {
    let object = made.object;
    let locked = made.instance(object, 16);
    made.put32(locked - 4, 0x0800_0001);
    let block = made.alloc(64);
    made.put32(block + 28, 1);
    let table = made.words(&[0, 0, block, locked]);
    made.variable("SyncTableEntries", table);
    let cache = made.alloc(0x100);
    made.put32(cache + 108, 2);
    made.put32(cache + 120, 250);
    made.variable("SyncBlockCache", cache);
}

/// Names and reasons of the checks that do not hold, and whether the runtime is refused for the moment only.
fn failed(made: &mut Made) -> (Vec<String>, Option<bool>) {
    match made.try_open() {
        Ok(runtime) => {
            let fails = runtime.checks().iter().filter(|one| matches!(one.result, CheckResult::Fails(_)));
            (fails.map(crate::runtime::Check::failure).collect(), None)
        }
        Err(error @ RuntimeError::DoesNotFit { .. }) => {
            let moment = error.is_of_the_moment();
            let RuntimeError::DoesNotFit { failed, .. } = error else { unreachable!() };
            (failed.iter().map(crate::runtime::Check::failure).collect(), Some(moment))
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_whole_runtime_holds_and_every_check_was_asked() {
    let (mut made, _) = whole();
    let runtime = made.try_open().expect("it fits");
    let asked: Vec<_> = runtime.checks().iter().map(|one| (one.name, &one.result)).collect();
    assert_eq!(asked.len(), 12);
    for (name, result) in asked {
        let about_collector = name.contains("collect");
        assert_eq!(*result == CheckResult::Holds, !about_collector, "{name}: {result:?}");
    }
}

/// What is changed, the beginning of the failure, and whether another moment may do (`None`: it is not refused).
type Case = (fn(&mut Made, u64), &'static str, Option<bool>);

#[test]
fn each_check_notices_what_it_is_for() {
    let cases: &[Case] = &[
        (
            |made, _| made.put32(made.object + 4, 32),
            "method tables of Object, String, Exception: sizes 32",
            Some(false),
        ),
        (|made, _| made.put32(made.string, 0x8000_0001), "method tables of Object, String", Some(false)),
        (|made, _| made.put(made.exception + 16, made.string), "method tables of Object", Some(false)),
        (
            |made, _| made.put32(made.string + 8, made.read(made.exception + 8) as u32),
            "names of Object, String, Exception: `System.String` is named `System.Exception`",
            Some(false),
        ),
        (
            |made, _| made.put32(made.free + 4, 32),
            "method table of free space in the heap: size 32",
            Some(false),
        ),
        (
            |made, _| made.put32(made.store, 3),
            "the list of threads is as long as the counter says: 3",
            Some(true),
        ),
        (|made, thread| made.put32(thread, 2), "managed ids of threads are distinct: {2}", Some(true)),
        (|made, thread| made.put32(thread, 1 << 20), "managed ids of threads are distinct", Some(true)),
        (
            |made, thread| made.put(thread + 8, 999),
            "threads of the runtime are threads of the process: 1 of 2",
            Some(true),
        ),
        (
            |made, thread| {
                let text = made.text("no thread");
                let handle = made.handle(text);
                made.put(thread + EXPOSED, handle);
            },
            "thread objects are of System.Threading.Thread: thread 1 has a `System.String`",
            Some(true),
        ),
        (
            |made, thread| made.put(thread + EXPOSED, 0x7777_0000),
            "thread objects are of System.Threading.Thread: thread 1 has the handle 0x77770000",
            Some(true),
        ),
        (
            |made, thread| {
                let text = made.text("no exception");
                let handle = made.handle(text);
                made.put(thread + LAST_THROWN, handle);
            },
            "last thrown objects are exceptions: thread 1 holds a `System.String`",
            Some(true),
        ),
        (
            |made, thread| made.put(thread + LAST_THROWN, 0x1234_5671),
            "last thrown objects are exceptions: thread 1 has the handle",
            Some(true),
        ),
        (
            |made, thread| made.put(made.read(thread + LOCALS) + 32, 8),
            "allocation contexts are ranges of writable memory: thread 1",
            Some(true),
        ),
        (
            |made, thread| made.put(made.read(thread + LOCALS) + 24, 0x1001),
            "allocation contexts are ranges of writable memory",
            Some(true),
        ),
        (
            |made, thread| made.put(made.read(thread + LOCALS) + 32, 1 << 60),
            "allocation contexts are ranges of writable memory",
            Some(true),
        ),
    ];
    for (change, wanted, moment) in cases {
        let (mut made, thread) = whole();
        change(&mut made, thread);
        let (failures, refused) = failed(&mut made);
        assert!(failures.iter().any(|one| one.starts_with(wanted)), "{wanted}: {failures:?}");
        assert_eq!(refused, *moment, "{wanted}: {failures:?}");
    }
}

#[test]
fn locks_that_do_not_fit_are_said_and_cost_nothing() {
    let change = |at: fn(&Made) -> u64, value: u32| {
        let (mut made, _) = whole();
        let at = at(&made);
        made.put32(at, value);
        let (failures, refused) = failed(&mut made);
        // There are no variables of the collector, which is said first.
        (failures[1..].to_vec(), refused)
    };
    let name = "locks know their objects, and objects their locks";
    let used = change(|made| made.read(made.global_at("SyncBlockCache")) + 108, 251);
    assert_eq!(used, (vec![format!("{name}: 251 of 250 entries are used")], None));
    let size = change(|made| made.read(made.global_at("SyncBlockCache")) + 120, 99);
    assert_eq!(size, (vec![format!("{name}: 2 of 99 entries are used")], None));
    let index = change(|made| made.read(made.read(made.global_at("SyncTableEntries")) + 16) + 28, 5);
    assert_eq!(index, (vec![format!("{name}: entry 1 has index 5, header 0x8000001")], None));
    let header = change(|made| made.read(made.read(made.global_at("SyncTableEntries")) + 24) - 4, 7);
    assert_eq!(header, (vec![format!("{name}: entry 1 has index 1, header 0x7")], None));
}

#[test]
fn ids_of_another_namespace_prove_nothing() {
    let (mut made, thread) = whole();
    let other = made.read(thread + LINK) - LINK;
    made.put(thread + 8, 1);
    made.put(other + 8, 17);
    let runtime = made.try_open().expect("it fits");
    let asked = runtime.checks().iter().find(|one| one.name.starts_with("threads of the runtime"));
    let wanted = CheckResult::NotApplicable("thread ids are of another namespace");
    assert_eq!(asked.map(|one| &one.result), Some(&wanted));
    // One of them in common: then the other is a stranger.
    let (mut made, thread) = whole();
    let other = made.read(thread + LINK) - LINK;
    made.put(other + 8, 17);
    assert!(failed(&mut made).0[0].contains("1 of 2 are not threads of the process"));
}

#[test]
fn room_must_be_where_something_may_be_written_or_is_there() {
    let room = |write: bool, read: bool| {
        let (mut made, thread) = whole();
        let at = made.read(made.read(thread + LOCALS) + 24);
        made.memory.mappings.push(Mapping {
            start: at & !0xfff,
            end: (at & !0xfff) + 0x2000,
            protection: Protection { read, write, execute: false },
            shared: false,
            backing: biopsy_image::Backing::Anonymous { label: String::new() },
            not_frozen: false,
        });
        failed(&mut made).0.iter().all(|one| !one.starts_with("allocation contexts"))
    };
    assert!(room(true, true) && !room(false, true), "only read");
    assert!(room(false, false), "committed since the mappings were listed");
}

#[test]
fn an_excerpt_may_lack_what_other_dumps_must_have() {
    let (mut made, thread) = whole();
    let handle = made.handle(0x7777_0000);
    made.put(thread + LAST_THROWN, handle);
    assert_eq!(failed(&mut made).1, Some(true));
    made.memory.facts.writer = Some("createdump".to_owned());
    let runtime = made.try_open().expect("it fits");
    let asked = runtime.checks().iter().find(|one| one.name.starts_with("last thrown")).expect("asked");
    assert!(matches!(asked.result, CheckResult::NotApplicable(_)), "{asked:?}");
}
