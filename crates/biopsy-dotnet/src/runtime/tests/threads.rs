//! Threads, their names, exceptions and room.

use biopsy_image::{GeneralRegisters, Thread};
use biopsy_model::{Avma, Tid};

use super::made::{EXPOSED, LAST_THROWN, LINK, LOCALS, Made, REFERENCE, TRACKER};
use crate::runtime::{Options, Runtime, RuntimeError};

/// A `System.Threading.Thread` with this name.
fn thread_class(made: &mut Made) -> u64 {
    let object = made.object;
    made.class("System.Threading", "Thread", object, &[("_name", REFERENCE, 8)])
}

#[test]
fn a_thread_has_its_ids_states_name_and_exceptions() {
    let mut made = Made::new();
    let class = thread_class(&mut made);
    let exception = made.exception;
    let worker = made.thread(7, 4711);
    let finalizer = made.thread(2, 4712);
    made.put32(worker + 16, 0x0100_0200);
    made.put32(worker + 20, 1);
    made.put(worker + 24, 0x5000);
    let object = made.instance(class, 32);
    let name = made.text("pool 7");
    made.put(object + 16, name);
    let handle = made.handle(object);
    made.put(worker + EXPOSED, handle);
    let thrown = made.instance(exception, 32);
    let handle = made.handle(thrown);
    made.put(worker + LAST_THROWN, handle);
    // The tracker of 9 and 10 has a handle, that of 11 the object itself.
    let tracker = made.words(&[0, handle]);
    made.put(worker + TRACKER, tracker);
    let tracker = made.words(&[0, thrown]);
    made.put(finalizer + TRACKER, tracker);
    let limits = made.words(&[0, 0, 0, 0x6000, 0x7000]);
    made.put(worker + LOCALS, limits);
    made.variable("FinalizerThread", finalizer);
    let runtime = made.open_unchecked();
    let threads = runtime.threads().expect("a list");
    let [one, other] = threads.as_slice() else { panic!("{threads:?}") };
    assert_eq!((one.address, one.id, one.os_id, one.own_os_id), (Avma(worker), 7, 4711, 4711));
    assert!(one.cooperative && one.background && one.pool_worker && !one.dead && !one.finalizer);
    assert_eq!((one.name.as_deref(), one.object), (Some("pool 7"), Some(Avma(object))));
    assert_eq!((one.last_thrown, one.current_exception), (Some(Avma(thrown)), Some(Avma(thrown))));
    assert_eq!((one.frame, one.allocation), (Avma(0x5000), (Avma(0x6000), Avma(0x7000))));
    assert!(other.finalizer && !other.cooperative && !other.background);
    assert_eq!((other.name.as_deref(), other.object, other.last_thrown), (None, None, None));
    assert_eq!((other.current_exception, other.allocation), (Some(Avma(thrown)), (Avma(0), Avma(0))));
}

#[test]
fn flags_of_state_are_those_of_the_runtime() {
    for (state, dead, background, worker) in [
        (0, false, false, false),
        (0x800, true, false, false),
        (0x0001_0000, true, false, false),
        (0x200, false, true, false),
        (0x0100_0000, false, false, true),
        (0xfeff_f5ff, true, false, false),
    ] {
        let mut made = Made::new();
        let thread = made.thread(1, 2);
        made.put32(thread + 16, state);
        let threads = made.open_unchecked().threads().expect("a list");
        let one = &threads[0];
        assert_eq!((one.dead, one.background, one.pool_worker), (dead, background, worker), "{state:#x}");
    }
}

#[test]
fn what_hangs_on_a_thread_and_cannot_be_read_costs_that_only() {
    let mut made = Made::new();
    let class = thread_class(&mut made);
    let string = made.string;
    let thread = made.thread(1, 2);
    for place in [EXPOSED, LAST_THROWN, TRACKER] {
        made.put(thread + place, 0x7777_0000);
    }
    let threads = made.open_unchecked().threads().expect("a list");
    assert_eq!((threads[0].object, threads[0].last_thrown, threads[0].current_exception), (None, None, None));
    // A name that is no string; an exception that is none; a handle that is not set (1 while it is being made).
    let object = made.instance(class, 32);
    let other = made.instance(class, 32);
    made.put(object + 16, other);
    let handle = made.handle(object);
    made.put(thread + EXPOSED, handle);
    made.put(thread + LAST_THROWN, 1);
    let text = made.instance(string, 32);
    let tracker = made.words(&[0, text]);
    made.put(thread + TRACKER, tracker);
    let threads = made.open_unchecked().threads().expect("a list");
    let one = &threads[0];
    assert_eq!((one.object, &one.name), (Some(Avma(object)), &None));
    assert_eq!((one.last_thrown, one.current_exception), (None, None));
    // Its room is behind a pointer that leads nowhere.
    let nowhere = made.words(&[0; 4]);
    made.put(thread + LOCALS, nowhere);
    assert_eq!(made.open_unchecked().threads().expect("a list")[0].allocation, (Avma(0), Avma(0)));
}

/// As in 8: the room is in the thread itself, and the handle has another name.
#[test]
fn room_may_be_in_the_thread_itself() {
    let mut made = Made::new();
    made.offset("Thread", "AllocContext", 0xa0);
    made.offset("Thread", "GCHandle", 0x90);
    let thread = made.thread(1, 2);
    made.put(thread + 0xa0, 0x6000);
    made.put(thread + 0xa8, 0x7000);
    let object = made.object;
    let held = made.instance(object, 8);
    let handle = made.handle(held);
    made.put(thread + 0x90, handle);
    let threads = made.open_unchecked().threads().expect("a list");
    assert_eq!(threads[0].allocation, (Avma(0x6000), Avma(0x7000)));
    assert_eq!(threads[0].object, Some(Avma(held)));
}

#[test]
fn the_list_is_left_when_it_is_longer_than_any_or_leads_nowhere() {
    let mut made = Made::new();
    let first = made.thread(1, 2);
    let second = made.thread(2, 3);
    let list = |made: &mut Made, threads: usize| {
        let found = made.found();
        let options = Options { threads, ..Options::default() };
        let runtime = Runtime::open_unchecked(Box::new(&made.memory), &found, &options).expect("laid out");
        runtime.threads().map(|threads| threads.len())
    };
    assert_eq!(list(&mut made, 2).expect("a list"), 2);
    assert!(matches!(
        list(&mut made, 1),
        Err(RuntimeError::TooMany { what: "the list of threads", limit: 1 })
    ));
    made.put(second + LINK, first + LINK);
    assert!(matches!(list(&mut made, 100), Err(RuntimeError::TooMany { limit: 100, .. })), "a circle");
    made.put(second + LINK, 0x7777_0000);
    assert!(matches!(list(&mut made, 100), Err(RuntimeError::Memory(_))));
    made.put(second + LINK, 0);
    let store = made.store;
    made.put(store + 8, 0);
    assert_eq!(list(&mut made, 100).expect("a list"), 0);
}

/// In a container the kernel's ids are not those that the process knows; control blocks of the C library tell both.
#[test]
fn ids_in_a_container_are_told_apart_from_those_outside() {
    let mut made = Made::new();
    for (tid, own) in [(5001, 1), (5002, 17)] {
        let block = made.alloc(0x400);
        made.put(block, block);
        made.put(block + 0x10, block);
        made.put32(block + 0x2d0, own);
        let registers = GeneralRegisters { fs_base: block, ..GeneralRegisters::default() };
        made.memory.threads.push(Thread { tid: Tid(tid), registers: Some(registers), ..Thread::default() });
        made.thread(own + 100, own);
    }
    let threads = made.open().threads().expect("a list");
    let ids: Vec<_> = threads.iter().map(|thread| (thread.id, thread.os_id, thread.own_os_id)).collect();
    assert_eq!(ids, [(101, 5001, 1), (117, 5002, 17)]);
}
