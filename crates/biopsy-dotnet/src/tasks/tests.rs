//! Asynchronous operations in a runtime made by hand.

use biopsy_model::Avma;

use super::*;
use crate::graph::{GraphBuilder, HeapType, Node};
use crate::runtime::tests::made::{Made, NUMBER, REFERENCE, VALUE};

/// Objects of a heap in the making: type, and address.
#[derive(Default)]
struct Objects(Vec<(u64, String, u64)>);

impl Objects {
    fn add(&mut self, made: &mut Made, table: u64, name: &str, bytes: u64) -> u64 {
        let at = made.instance(table, bytes);
        self.0.push((table, name.to_owned(), at));
        at
    }

    fn graph(&self) -> Graph {
        let mut builder = GraphBuilder::new();
        for (table, name, at) in &self.0 {
            let of = HeapType { name: name.clone(), method_table: Avma(*table), ..HeapType::default() };
            let of = builder.push_type(of);
            builder.push(Node { address: Avma(*at), of, size: 24, edges: 0 });
        }
        builder.finish().expect("nothing is spilled").0
    }
}

fn found(made: &mut Made, objects: &Objects) -> Operations {
    let graph = objects.graph();
    operations(&made.open(), &graph)
}

/// A box of the state machine of this method of `App.Feed`: its method table and name. `debug`: the machine is a class.
fn machine(made: &mut Made, method: &str, debug: bool) -> (u64, String) {
    let object = made.object;
    let outer = made.core.of_type("App", "Feed");
    let inner = made.core.of_type("", &format!("<{method}>d__5"));
    made.core.nested(inner, outer);
    let machine = made.method_table(inner, if debug { 0 } else { VALUE }, 40, object);
    let fields = [("<>1__state", NUMBER, 0, 0), ("<>u__1", REFERENCE, 8, 0), ("<>u__2", REFERENCE, 16, 0)];
    made.fields(machine, &fields);
    let fields = [("m_stateFlags", NUMBER, 0), ("StateMachine", 0x11, 8)];
    let table = made.class("System.Runtime.CompilerServices", "AsyncStateMachineBox`1", object, &fields);
    made.arguments(table, &[machine]);
    let name = format!("System.Runtime.CompilerServices.AsyncStateMachineBox<App.Feed+<{method}>d__5>");
    (table, name)
}

/// A box whose machine is in this state, and awaits this.
fn boxed(made: &mut Made, objects: &mut Objects, of: &(u64, String), state: i32, awaits: u64) -> u64 {
    let at = objects.add(made, of.0, &of.1, 48);
    made.put32(at + 16, state.cast_unsigned());
    made.put(at + 24, awaits);
    at
}

#[test]
fn chains_of_operations_that_await_each_other_are_rows_with_counts() {
    let mut made = Made::new();
    let object = made.object;
    let task_row = made.core.of_type("System.Threading.Tasks", "Task");
    let promise_row = made.core.of_type("", "DelayPromise");
    made.core.nested(promise_row, task_row);
    let promise = made.method_table(promise_row, 0, 32, object);
    let (get, main) = (machine(&mut made, "GetAsync", false), machine(&mut made, "MainAsync", false));
    let mut objects = Objects::default();
    let shared = made.instance(promise, 16);
    for _ in 0..3 {
        let inner = boxed(&mut made, &mut objects, &get, 0, shared);
        boxed(&mut made, &mut objects, &main, 2, inner);
    }
    let own = made.instance(promise, 16);
    boxed(&mut made, &mut objects, &get, 1, own);
    let found = found(&mut made, &objects);
    let rows: Vec<_> = found
        .groups
        .iter()
        .map(|row| (row.count, row.methods.join(" < "), row.awaits.as_str(), row.object.clone()))
        .collect();
    let name = "System.Threading.Tasks.Task.DelayPromise".to_owned();
    assert_eq!(
        rows,
        [
            (
                3,
                "App.Feed.GetAsync < App.Feed.MainAsync".to_owned(),
                "a delay",
                Some((Avma(shared), name.clone()))
            ),
            (1, "App.Feed.GetAsync".to_owned(), "a delay", Some((Avma(own), name))),
        ]
    );
    assert_eq!((found.pending, found.running, found.completed), (7, 0, 0));
    assert!(found.rings.is_empty() && found.problems.is_empty());
}

#[test]
fn machines_stand_at_an_await_run_or_have_ended() {
    let mut made = Made::new();
    let get = machine(&mut made, "GetAsync", false);
    let mut objects = Objects::default();
    boxed(&mut made, &mut objects, &get, 0, 0);
    boxed(&mut made, &mut objects, &get, -1, 0);
    boxed(&mut made, &mut objects, &get, -3, 0);
    boxed(&mut made, &mut objects, &get, -2, 0);
    for flag in [0x20_0000, 0x40_0000, 0x100_0000] {
        // A machine that has ended is cleared, and looks as if it stood at its first `await`.
        let at = boxed(&mut made, &mut objects, &get, 0, 0x2_0000);
        made.put32(at + 8, flag);
    }
    let found = found(&mut made, &objects);
    assert_eq!((found.pending, found.running, found.completed), (1, 2, 4));
    assert_eq!(found.groups[0].awaits, "not known");
    assert_eq!(found.groups[0].object, None);
}

#[test]
fn the_first_awaiter_that_is_in_use_is_what_is_awaited() {
    let mut made = Made::new();
    let string = made.string;
    let get = machine(&mut made, "GetAsync", false);
    let mut objects = Objects::default();
    let text = made.instance(string, 16);
    // A small number and an odd one are no references.
    for (first, second) in [(0, text), (0xffff, text), (text + 1, text), (text, 0)] {
        let at = boxed(&mut made, &mut objects, &get, 0, first);
        made.put(at + 32, second);
    }
    let found = found(&mut made, &objects);
    assert_eq!((found.groups.len(), found.groups[0].count), (1, 4));
    assert_eq!(found.groups[0].object, Some((Avma(text), "System.String".to_owned())));
}

#[test]
fn machines_of_debug_builds_are_objects_of_their_own() {
    let mut made = Made::new();
    let string = made.string;
    let get = machine(&mut made, "GetAsync", true);
    let mut objects = Objects::default();
    let at = objects.add(&mut made, get.0, &get.1, 48);
    let text = made.instance(string, 16);
    // Its fields are behind the word with its type.
    let machine = made.words(&[0x55, 3, text]);
    made.put(at + 16, machine);
    let found = found(&mut made, &objects);
    assert_eq!((found.pending, found.groups[0].awaits.as_str()), (1, "System.String"));
}

#[test]
fn operations_that_await_each_other_in_a_circle_are_a_ring() {
    let mut made = Made::new();
    let (get, put) = (machine(&mut made, "GetAsync", false), machine(&mut made, "PutAsync", false));
    let mut objects = Objects::default();
    let one = boxed(&mut made, &mut objects, &get, 0, 0);
    let other = boxed(&mut made, &mut objects, &put, 0, one);
    made.put(one + 24, other);
    // Who awaits one of them is in no circle.
    boxed(&mut made, &mut objects, &get, 0, one);
    let found = found(&mut made, &objects);
    assert_eq!(found.rings, [["App.Feed.GetAsync", "App.Feed.PutAsync"]]);
    assert!(found.groups.is_empty(), "no chain of them ends");
}

#[test]
fn what_is_awaited_is_said_in_words() {
    let mut made = Made::new();
    let object = made.object;
    let get = machine(&mut made, "GetAsync", false);
    let cases = [
        ("System.Threading.Channels", "BlockedWriteAsyncOperation`1", FULL_CHANNEL),
        ("System.Threading.Channels", "Reader", "a channel (System.Threading.Channels.Reader)"),
        ("System.IO.Pipelines", "Pipe", "a pipe"),
        ("System.Threading.Tasks", "Task", "a task that something completes (TaskCompletionSource)"),
        ("App", "Awaitable", "App.Awaitable"),
    ];
    let mut objects = Objects::default();
    for (namespace, name, _) in cases {
        let table = made.class(namespace, name, object, &[]);
        let at = made.instance(table, 16);
        boxed(&mut made, &mut objects, &get, 0, at);
    }
    // A machine that has begun and stands at no `await`, and what cannot be read.
    let runs = boxed(&mut made, &mut objects, &get, -1, 0);
    boxed(&mut made, &mut objects, &get, 0, runs);
    boxed(&mut made, &mut objects, &get, 0, 0x7777_0000);
    let mut said: Vec<String> = found(&mut made, &objects).groups.into_iter().map(|row| row.awaits).collect();
    said.sort();
    let mut wanted: Vec<String> = cases.iter().map(|(_, _, words)| (*words).to_owned()).collect();
    wanted.extend(["`App.Feed.GetAsync`, which runs or is about to".to_owned(), "not known".to_owned()]);
    wanted.sort();
    assert_eq!(said, wanted);
}

#[test]
fn who_waits_for_a_semaphore_waits_for_that_one() {
    let mut made = Made::new();
    let object = made.object;
    let get = machine(&mut made, "GetAsync", false);
    let semaphore = made.class("System.Threading", "SemaphoreSlim", object, &[("m_asyncHead", REFERENCE, 0)]);
    let node = made.class("System.Threading", "TaskNode", object, &[("Next", REFERENCE, 0)]);
    let mut objects = Objects::default();
    let of = objects.add(&mut made, semaphore, "System.Threading.SemaphoreSlim", 16);
    let nodes = [0; 3].map(|_| made.instance(node, 16));
    made.put(of + 8, nodes[0]);
    made.put(nodes[0] + 8, nodes[1]);
    // The list of waiters runs in a circle: each is met once.
    made.put(nodes[1] + 8, nodes[0]);
    for one in nodes {
        boxed(&mut made, &mut objects, &get, 0, one);
    }
    let rows = found(&mut made, &objects).groups;
    // The third waits for somebody else, so that no object is common to all.
    assert_eq!((rows.len(), rows[0].count, rows[0].object.clone()), (1, 3, None));
    objects.0.pop();
    let rows = found(&mut made, &objects).groups;
    assert_eq!(rows[0].object, Some((Avma(of), "System.Threading.SemaphoreSlim".to_owned())));
}

/// A queue of the thread pool: segments with head, tail, and slots.
fn queue(made: &mut Made, segments: &[(u32, u32, u32, bool)]) -> u64 {
    let object = made.object;
    let array = made.array(object, None);
    let queue =
        made.class("System.Collections.Concurrent", "ConcurrentQueue`1", object, &[("_head", REFERENCE, 0)]);
    let segment = made.class(
        "System.Collections.Concurrent",
        "ConcurrentQueueSegment`1",
        object,
        &[
            ("_slots", REFERENCE, 0),
            ("_nextSegment", REFERENCE, 8),
            ("_frozenForEnqueues", NUMBER, 16),
            ("_headAndTail", 0x11, 24),
        ],
    );
    let queue = made.instance(queue, 16);
    let mut link = queue + 8;
    for (head, tail, slots, frozen) in segments {
        let at = made.instance(segment, 256);
        let slots_at = made.instance(array, 16);
        made.put32(slots_at + 8, *slots);
        made.put(at + 8, slots_at);
        made.put32(at + 24, u32::from(*frozen));
        made.put32(at + 32 + 64, *head);
        made.put32(at + 32 + 128, *tail);
        made.put(link, at);
        link = at + 16;
    }
    queue
}

#[test]
fn work_items_that_wait_are_counted_in_all_queues() {
    let mut made = Made::new();
    let object = made.object;
    let work = made.class(
        "System.Threading",
        "ThreadPoolWorkQueue",
        object,
        &[("workItems", REFERENCE, 0), ("highPriorityWorkItems", REFERENCE, 8)],
    );
    let stealing = made.class(
        "System.Threading",
        "WorkStealingQueue",
        object,
        &[("m_headIndex", NUMBER, 0), ("m_tailIndex", NUMBER, 8)],
    );
    let mut objects = Objects::default();
    let at = objects.add(&mut made, work, "System.Threading.ThreadPoolWorkQueue", 32);
    // 5; frozen: the tail is twice the length too high, 3; positions wrap, 4; more than there is room: damage, none.
    let segments =
        [(10, 15, 32, false), (0, 3 + 64, 32, true), (u32::MAX - 1, 2, 32, false), (0, 33, 32, false)];
    let items = queue(&mut made, &segments);
    made.put(at + 8, items);
    let urgent = queue(&mut made, &[(1, 3, 8, false)]);
    made.put(at + 16, urgent);
    let name = "System.Threading.ThreadPoolWorkQueue+WorkStealingQueue";
    for (head, tail) in [(3, 10), (9, 9), (10, 3)] {
        let local = objects.add(&mut made, stealing, name, 32);
        made.put32(local + 8, head);
        made.put32(local + 16, tail);
    }
    assert_eq!(found(&mut made, &objects).queued, Some(5 + 3 + 4 + 2 + 7));
    // The list of segments leads back to its beginning: each counts once.
    let first = made.read(items + 8);
    made.put(made.read(first + 16) + 16, first);
    assert_eq!(found(&mut made, &objects).queued, Some(5 + 3 + 2 + 7));
    assert_eq!(found(&mut made, &Objects::default()).queued, None, "there is no pool");
}

#[test]
fn timers_are_counted_once_also_where_their_list_runs_in_a_circle() {
    let mut made = Made::new();
    let object = made.object;
    let queue = made.class(
        "System.Threading",
        "TimerQueue",
        object,
        &[("_shortTimers", REFERENCE, 0), ("_longTimers", REFERENCE, 8)],
    );
    let timer = made.class("System.Threading", "TimerQueueTimer", object, &[("_next", REFERENCE, 0)]);
    let mut objects = Objects::default();
    let at = objects.add(&mut made, queue, "System.Threading.TimerQueue", 32);
    let timers = [0; 4].map(|_| made.instance(timer, 16));
    made.put(at + 8, timers[0]);
    made.put(timers[0] + 8, timers[1]);
    made.put(timers[1] + 8, timers[2]);
    made.put(at + 16, timers[3]);
    assert_eq!(found(&mut made, &objects).timers, 4);
    made.put(timers[2] + 8, timers[1]);
    assert_eq!(found(&mut made, &objects).timers, 4);
    made.put(timers[3] + 8, 0x7777_0000);
    assert_eq!(found(&mut made, &objects).timers, 5, "one that cannot be read");
}

#[test]
fn requests_that_are_with_the_application_are_counted() {
    const SPACE: &str = "Microsoft.AspNetCore.Server.Kestrel.Core.Internal.";
    let mut made = Made::new();
    let object = made.object;
    let class = made.class("Kestrel", "Http1Connection", object, &[("_requestProcessingStatus", NUMBER, 0)]);
    let mut objects = Objects::default();
    for (name, status) in [
        ("Http.Http1Connection", 2),
        ("Http.Http1Connection<TContext>", 3),
        ("Http2.Http2Stream", 4),
        ("Http3.Http3Stream<TContext>", 5),
        ("Http.Http1Connection", 6),
        ("Http.Http1ConnectionContext", 3),
        ("Http.Http1Connection[]", 3),
    ] {
        let at = objects.add(&mut made, class, &format!("{SPACE}{name}"), 16);
        made.put32(at + 8, status);
    }
    assert_eq!(found(&mut made, &objects).requests, Some(3));
    assert_eq!(found(&mut made, &Objects::default()).requests, None, "Kestrel is not loaded");
}
