//! Roots outside of the heap: words on stacks, thread statics, and memory that is not all there.

use biopsy_image::{Backing, GeneralRegisters, Mapping, Protection, Thread};
use biopsy_model::Tid;

use super::*;
use crate::graph::{GraphBuilder, HeapType, Node, RootKind};
use crate::heap::found_roots::{Found, words};
use crate::heap::{stacks, thread_statics};
use crate::made_up::MadeUp;
use crate::runtime::ManagedThread;
use crate::runtime::tests::made::{Made, STATICS};

/// Objects of 32 bytes at these addresses; the last is a gap.
fn graph_of(addresses: &[u64]) -> Graph {
    let mut builder = GraphBuilder::new();
    let of = builder.push_type(HeapType::default());
    let free = builder.push_type(HeapType { is_free: true, ..HeapType::default() });
    for (number, address) in addresses.iter().enumerate() {
        let of = if number + 1 == addresses.len() { free } else { of };
        builder.push(Node { address: Avma(*address), of, size: 32, edges: 0 });
    }
    builder.finish().expect("nothing is spilled").0
}

/// Address, object, whether it points inside, thread.
fn seen(found: &Found) -> Vec<(RootKind, u64, u32, bool, u32)> {
    let root =
        |root: &crate::graph::Root| (root.kind, root.address.0, root.object.0, root.is_interior, root.thread);
    found.roots.iter().map(root).collect()
}

fn with_id(os_id: u32) -> ManagedThread {
    ManagedThread { os_id, ..thread() }
}

#[test]
fn words_are_read_up_to_the_end_past_pages_that_are_missing() {
    let page = |first: u64| (0..512u64).flat_map(|word| (first + word).to_le_bytes()).collect::<Vec<u8>>();
    let image = MadeUp::new(vec![
        (0x1000, page(0)),
        (0x4000, page(1000)),
        (u64::MAX - 0xfff, page(5000)[..4095].to_vec()),
    ]);
    let read = |start: u64, bytes: u64| {
        let mut all = Vec::new();
        words(&image, start, bytes, |address, value| all.push((address, value)));
        all
    };
    assert_eq!(read(0x1ff0, 16), [(0x1ff0, 510), (0x1ff8, 511)]);
    assert_eq!(read(0x1ff0, 15), [(0x1ff0, 510)], "half a word is none");
    assert!(read(0x1000, 0).is_empty() && read(0x2000, 0x2000).is_empty());
    // Two pages are missing in between.
    let far = read(0x1ff8, 0x2010);
    assert_eq!(far, [(0x1ff8, 511), (0x4000, 1000)]);
    assert_eq!(read(0x1000, 0x1_0000).len(), 1024);
    // The end of all addresses is the end.
    assert_eq!(read(u64::MAX - 15, u64::MAX).len(), 1);
    let nothing = MadeUp::default();
    words(&nothing, u64::MAX - 0x2fff, u64::MAX, |_, _| panic!("nothing is there"));
}

#[test]
fn each_word_of_a_stack_and_its_registers_may_hold_an_object() {
    let graph = graph_of(&[0x5000, 0x5020, 0x5040, 0x5060]);
    let mut image = MadeUp::new(vec![(0x7000, vec![0; 0x1000])]);
    image.mappings = vec![Mapping {
        start: 0x7000,
        end: 0x8000,
        protection: Protection { read: true, write: true, execute: false },
        shared: false,
        backing: Backing::Anonymous { label: "[stack]".to_owned() },
        not_frozen: false,
    }];
    let registers = GeneralRegisters { rsp: 0x7100, rbx: 0x5000, ..GeneralRegisters::default() };
    let of_image = |tid: u32, registers| Thread { tid: Tid(tid), registers, ..Thread::default() };
    let nowhere = GeneralRegisters { rsp: 0x9000, r15: 0x5020, ..GeneralRegisters::default() };
    image.threads = vec![of_image(1, Some(registers)), of_image(2, Some(nowhere)), of_image(3, None)];
    // The room below the stack pointer that a leaf function may use, but nothing below it.
    image.put(0x7100 - 136, 0x5020);
    image.put(0x7100 - 128, 0x5030);
    image.put(0x7100, 0x5040);
    // A gap, the end of an object, and what is not whole.
    image.put(0x7108, 0x5060);
    image.put(0x7110, 0x5080);
    image.put(0x7ff8, 0x505f);
    let mut found = Found::default();
    let dead = ManagedThread { dead: true, ..with_id(1) };
    // Of a thread that the image does not have nothing is known; one without an id has not begun.
    let threads = [with_id(1), with_id(2), with_id(3), with_id(4), with_id(0), dead];
    stacks::find(&image, &threads, &graph, &mut found);
    assert_eq!(
        seen(&found),
        [
            (RootKind::Stack, 0, 0, false, 1),
            (RootKind::Stack, 0x7100 - 128, 1, true, 1),
            (RootKind::Stack, 0x7100, 2, false, 1),
            (RootKind::Stack, 0x7ff8, 2, true, 1),
            (RootKind::Stack, 0, 1, false, 2),
        ]
    );
    let said = "2 threads have no registers: what only their stacks hold may count as garbage";
    assert_eq!(found.problems.missing, [said]);
}

#[test]
fn thread_statics_lie_in_an_array_of_each_thread_and_in_a_list() {
    let mut made = Made::new();
    made.offset("ThreadLocalData", "InFlightData", 16);
    made.offset("InFlightTLSData", "Next", 0);
    made.offset("InFlightTLSData", "TLSData", 8);
    let objects: Vec<u64> = (0..4).map(|_| made.instance(made.object, 16)).collect();
    let mut threads = Vec::new();
    // Thread 1: an array and a list of two; 2: data of another thread; 3: none; 4: the list of 1 a second time, and in a circle.
    let list = made.words(&[0, objects[2]]);
    let first = made.words(&[list, objects[1]]);
    let circle = made.words(&[0, objects[3]]);
    made.put(circle, circle);
    for (id, data) in [(1, [objects[0], first]), (2, [objects[0], 0]), (3, [0, 0]), (4, [0, circle])] {
        let at = made.thread(id, 100 + id);
        if id != 3 {
            let owner = if id == 2 { at + 8 } else { at };
            let data = made.words(&[0, data[0], data[1], owner]);
            made.put(at + STATICS, data);
        }
        threads.push(ManagedThread { address: Avma(at), ..with_id(100 + id) });
    }
    let runtime = made.open_unchecked();
    let mut sorted = objects.clone();
    sorted.push(objects[3] + 0x1000);
    let graph = graph_of(&sorted);
    let mut found = Found::default();
    thread_statics::find(&runtime, &threads, &graph, &mut found);
    let roots: Vec<_> = seen(&found)
        .into_iter()
        .map(|(kind, _, object, inside, thread)| (kind, object, inside, thread))
        .collect();
    assert_eq!(
        roots,
        [
            (RootKind::ThreadStatic, 0, false, 101),
            (RootKind::ThreadStatic, 1, false, 101),
            (RootKind::ThreadStatic, 2, false, 101),
            // Once, although its list never ends.
            (RootKind::ThreadStatic, 3, false, 104),
        ]
    );
    assert_eq!(found.problems.missing, ["thread statics of 1 threads are not where they were expected"]);
}
