//! Made-up heaps, sick and well: a type with what is noted of it, objects with sizes, references and numbers.

use biopsy_dotnet::graph::{
    Graph, GraphBuilder, HeapType, Node, ObjectIndex, Root, RootKind, TypeIndex, mark,
};
use biopsy_model::Avma;
use biopsy_model::heap::{SAME_TEXT, TypeFamily};

use super::*;

/// A heap that grows by one object a call.
#[derive(Default)]
struct Made {
    types: Vec<HeapType>,
    objects: Vec<(usize, u64, Vec<usize>, Vec<u32>)>,
    roots: Vec<(RootKind, usize)>,
}

const SIZE: u64 = 0x1_0000;
/// No reference.
const NULL: usize = usize::MAX;

impl Made {
    fn of(&mut self, of: HeapType) -> usize {
        let known = self.types.iter().position(|one| one.name == of.name);
        known.unwrap_or_else(|| {
            self.types.push(of);
            self.types.len() - 1
        })
    }

    fn plain(&mut self, name: &str, fields: &[&str]) -> usize {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        self.of(HeapType { name: name.to_owned(), fields, ..HeapType::default() })
    }

    fn noted(&mut self, name: &str, fields: &[&str], noted: &[&str], family: TypeFamily) -> usize {
        let own = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (fields, noted) = (own(fields), own(noted));
        self.of(HeapType { name: name.to_owned(), fields, noted, family, ..HeapType::default() })
    }

    fn array(&mut self, name: &str, element_bytes: u32) -> usize {
        self.of(HeapType { name: name.to_owned(), element_bytes, ..HeapType::default() })
    }

    fn put(&mut self, of: usize, size: u64, edges: &[usize], numbers: &[u32]) -> usize {
        let edges = edges.iter().copied().filter(|edge| *edge != NULL).collect();
        self.objects.push((of, size, edges, numbers.to_vec()));
        self.objects.len() - 1
    }

    fn root(&mut self, kind: RootKind, object: usize) {
        self.roots.push((kind, object));
    }

    fn graph(self) -> Graph {
        let mut builder = GraphBuilder::new();
        for of in self.types {
            builder.push_type(of);
        }
        let address = |number: usize| Avma(0x10_0000 + number as u64 * SIZE);
        for (number, (of, size, edges, numbers)) in self.objects.into_iter().enumerate() {
            let count = edges.len() as u32;
            builder.push(Node { address: address(number), of: TypeIndex(of as u32), size, edges: count });
            edges.into_iter().for_each(|edge| builder.push_edge(address(edge)));
            builder.note(address(number), numbers);
        }
        let (mut graph, ..) = builder.finish().expect("nothing is spilled");
        let root = |(kind, object): (RootKind, usize)| Root {
            kind,
            address: Avma(0),
            object: ObjectIndex(object as u32),
            is_interior: false,
            thread: 0,
        };
        graph.set_roots(self.roots.into_iter().map(root).collect(), Vec::new());
        let live = mark(&graph).expect("nothing is spilled");
        graph.set_live(live);
        graph
    }

    fn inspected(self, kind: InspectionKind) -> Option<Inspection> {
        let graph = self.graph();
        let dominators = Dominators::of(&graph).expect("nothing is spilled");
        let all = inspect(&graph, &dominators).expect("nothing is spilled");
        all.into_iter().find(|one| one.kind == kind)
    }
}

fn shown(found: Option<&Inspection>) -> Vec<(&str, u64, u64)> {
    let rows = found.map_or(&[][..], |one| one.rows.as_slice());
    rows.iter().map(|row| (row.what.as_str(), row.objects, row.bytes)).collect()
}

/// Orders with a string each, of which each has the number that is given.
fn orders(texts: &[u32]) -> Made {
    let mut made = Made::default();
    let string = made.noted("System.String", &[], &[SAME_TEXT], TypeFamily::Unknown);
    let order = made.plain("App.Order", &["Country"]);
    for text in texts {
        let text = made.put(string, 40, &[], &[*text]);
        let order = made.put(order, 24, &[text], &[]);
        made.root(RootKind::StrongHandle, order);
    }
    made
}

#[test]
fn equal_strings_are_told_by_the_field_that_holds_them() {
    let found = orders(&[1, 1, 1, 1, 2, 2, 0, 0]).inspected(InspectionKind::DuplicateStrings);
    // Three of four and one of two could go.
    assert_eq!(shown(found.as_ref()), [("App.Order.Country", 4, 160)]);
    assert!(orders(&[0, 0, 0]).inspected(InspectionKind::DuplicateStrings).is_none());
    let mut garbage = orders(&[1, 1]);
    garbage.roots.truncate(1);
    assert!(garbage.inspected(InspectionKind::DuplicateStrings).is_none(), "one of them is garbage");
}

/// A basket with a list: room for so many numbers, of which so many are used.
fn basket(used: u32, room: u64, is_shared: bool) -> Made {
    let mut made = Made::default();
    let list = made.noted(
        "System.Collections.Generic.List<System.Int32>",
        &["_items"],
        &["_size"],
        TypeFamily::Unknown,
    );
    let (items, basket) = (made.array("System.Int32[]", 4), made.plain("App.Basket", &["Lines"]));
    let array = made.put(items, 24 + room * 4, &[], &[]);
    let list = made.put(list, 32, &[array], &[used]);
    let basket = made.put(basket, 24, &[list], &[]);
    made.root(RootKind::StrongHandle, basket);
    if is_shared {
        made.root(RootKind::StrongHandle, array);
    }
    made
}

#[test]
fn collections_are_told_when_they_are_empty_or_far_too_large() {
    let text = "System.Collections.Generic.List<System.Int32> in App.Basket.Lines";
    let empty = basket(0, 10, false).inspected(InspectionKind::EmptyCollections);
    assert_eq!(shown(empty.as_ref()), [(text, 1, 32 + 64)]);
    // The array that all empty ones share is nobody's.
    assert_eq!(
        shown(basket(0, 0, true).inspected(InspectionKind::EmptyCollections).as_ref()),
        [(text, 1, 32)]
    );
    let large = basket(2, 100, false).inspected(InspectionKind::OversizedCollections);
    assert_eq!(shown(large.as_ref()), [(text, 1, 98 * 4)]);
    for (used, room) in [(50, 100), (51, 100), (4, 8), (u32::MAX, 100)] {
        let found = basket(used, room, false).inspected(InspectionKind::OversizedCollections);
        assert!(found.is_none(), "{used} of {room}");
    }
}

#[test]
fn a_dictionary_counts_what_was_taken_out() {
    let of = |count, free| {
        let mut made = Made::default();
        let name = "System.Collections.Generic.Dictionary<System.Int32, System.Int32>";
        let of = made.noted(name, &["_entries"], &["_count", "_freeCount"], TypeFamily::Unknown);
        let entries = made.array(&format!("{name}+Entry[]"), 16);
        let array = made.put(entries, 24 + 100 * 16, &[], &[]);
        let dictionary = made.put(of, 80, &[array], &[count, free]);
        made.root(RootKind::StrongHandle, dictionary);
        made.inspected(InspectionKind::OversizedCollections).map(|one| one.bytes)
    };
    assert_eq!(of(90, 80), Some(90 * 16));
    assert_eq!(of(90, 10), None);
}

#[test]
fn arrays_are_sparse_where_most_of_them_is_empty() {
    let of = |used: usize, element| {
        let mut made = Made::default();
        let (array, cell) = (made.array("System.Object[]", element), made.plain("App.Cell", &[]));
        let cell = made.put(cell, 24, &[], &[]);
        let array = made.put(array, 24 + 500 * 8, &vec![cell; used], &[]);
        let grid = made.plain("App.Grid", &["cells"]);
        let grid = made.put(grid, 24, &[array], &[]);
        made.root(RootKind::StrongHandle, grid);
        made.inspected(InspectionKind::SparseArrays).map(|one| (one.rows[0].what.clone(), one.bytes))
    };
    assert_eq!(of(5, 8), Some(("System.Object[] in App.Grid.cells".to_owned(), 495 * 8)));
    assert_eq!(of(125, 8), None, "a quarter is used");
    assert_eq!(of(0, 8), None, "these may be numbers");
    assert_eq!(of(5, 16), None, "elements are no references");
}

#[test]
fn values_in_boxes_are_told_by_who_holds_them() {
    let mut made = Made::default();
    let number = made.noted("System.Int32", &[], &[], TypeFamily::Value);
    let (cells, row) = (made.array("System.Object[]", 8), made.plain("App.Row", &["cells"]));
    let boxes: Vec<usize> = (0..3).map(|_| made.put(number, 24, &[], &[])).collect();
    let cells = made.put(cells, 48, &boxes, &[]);
    let row = made.put(row, 24, &[cells], &[]);
    made.root(RootKind::StrongHandle, row);
    let found = made.inspected(InspectionKind::BoxedValues);
    assert_eq!(shown(found.as_ref()), [("System.Int32 in App.Row.cells", 3, 72)]);
}

/// An event of a publisher with so many handlers.
fn event(handlers: usize) -> Made {
    let mut made = Made::default();
    let delegate =
        made.noted("System.EventHandler", &["_target", "_invocationList"], &[], TypeFamily::Delegate);
    let (list, view) = (made.array("System.Object[]", 8), made.plain("App.View", &[]));
    let all: Vec<usize> = (0..handlers)
        .map(|_| {
            let view = made.put(view, 1000, &[], &[]);
            made.put(delegate, 64, &[view], &[])
        })
        .collect();
    let list = made.put(list, 24 + handlers as u64 * 8, &all, &[]);
    // `_target` of what calls several is itself.
    let at = made.objects.len();
    let event = made.put(delegate, 64, &[at, list], &[]);
    let bus = made.plain("App.Bus", &["Changed"]);
    let bus = made.put(bus, 24, &[event], &[]);
    made.root(RootKind::StrongHandle, bus);
    made
}

#[test]
fn an_event_with_many_handlers_is_told_with_whose_they_are() {
    let found = event(100).inspected(InspectionKind::EventHandlers);
    let bytes = 100 * 1064 + 64 + 24 + 800;
    assert_eq!(shown(found.as_ref()), [("App.View in App.Bus.Changed", 100, bytes)]);
    assert!(event(15).inspected(InspectionKind::EventHandlers).is_none());
}

/// Timers that call a session each: due after so much.
fn timers(due: u32) -> Made {
    let mut made = Made::default();
    let name = "System.Threading.TimerQueueTimer";
    let timer = made.noted(name, &["_timerCallback"], &["_dueTime", "_period"], TypeFamily::Unknown);
    let delegate = made.noted("System.Threading.TimerCallback", &["_target"], &[], TypeFamily::Delegate);
    let session = made.plain("App.Session", &[]);
    for _ in 0..3 {
        let session = made.put(session, 1000, &[], &[]);
        let callback = made.put(delegate, 64, &[session], &[]);
        let timer = made.put(timer, 88, &[callback], &[due, 0]);
        made.root(RootKind::StrongHandle, timer);
    }
    made
}

#[test]
fn timers_that_are_set_are_told_by_whom_they_call() {
    let found = timers(1000).inspected(InspectionKind::Timers);
    assert_eq!(shown(found.as_ref()), [("App.Session", 3, 3000)]);
    assert!(timers(u32::MAX).inspected(InspectionKind::Timers).is_none(), "they are not set");
}

/// Callbacks of one source: so many, with a shunt that calls an action.
fn registrations(count: usize) -> Made {
    let mut made = Made::default();
    let node = "System.Threading.CancellationTokenSource+CallbackNode";
    let node = made.plain(node, &["Registrations", "Callback", "CallbackState"]);
    let all = made.plain("System.Threading.CancellationTokenSource+Registrations", &[]);
    let all = made.put(all, 40, &[], &[]);
    let action = made.noted("System.Action", &["_target"], &[], TypeFamily::Delegate);
    let (shunt, page) =
        (made.plain("System.Threading.CancellationToken+<>c", &[]), made.plain("App.Page", &[]));
    let shunt = made.put(shunt, 24, &[], &[]);
    let shunt = made.put(action, 64, &[shunt], &[]);
    for _ in 0..count {
        let page = made.put(page, 500, &[], &[]);
        let state = made.put(action, 64, &[page], &[]);
        let node = made.put(node, 80, &[all, shunt, state], &[]);
        made.root(RootKind::StrongHandle, node);
    }
    made
}

#[test]
fn callbacks_of_one_token_are_told_by_whom_they_call() {
    let found = registrations(64).inspected(InspectionKind::TokenCallbacks);
    assert_eq!(shown(found.as_ref()), [("App.Page", 64, 64 * 500)]);
    assert!(registrations(63).inspected(InspectionKind::TokenCallbacks).is_none());
}

/// State machines: flags, and whether a root leads to it.
fn machines(all: &[(u32, bool)]) -> Made {
    let mut made = Made::default();
    let name = "System.Runtime.CompilerServices.AsyncTaskMethodBuilder<System.Int32>+AsyncStateMachineBox<App.Svc+<Get>d__1>";
    let of = made.noted(name, &[], &["m_stateFlags"], TypeFamily::Task);
    for (flags, is_live) in all {
        let machine = made.put(of, 112, &[], &[*flags]);
        if *is_live {
            made.root(RootKind::StrongHandle, machine);
        }
    }
    let other = made.plain("App.Other", &[]);
    let other = made.put(other, 24, &[], &[]);
    made.root(RootKind::StrongHandle, other);
    made
}

#[test]
fn methods_that_wait_and_methods_that_are_lost_are_told_apart() {
    let (begun, ended) = (0x400_0000, 0x500_0000);
    let all = [(begun, true), (begun, true), (begun, false), (ended, true), (ended, false)];
    let waiting = machines(&all).inspected(InspectionKind::WaitingMethods);
    assert_eq!(shown(waiting.as_ref()), [("App.Svc+<Get>d__1", 2, 224)]);
    let lost = machines(&all).inspected(InspectionKind::LostMethods);
    assert_eq!(shown(lost.as_ref()), [("App.Svc+<Get>d__1", 1, 112)]);
    assert!(machines(&[(ended, false)]).inspected(InspectionKind::LostMethods).is_none());
}

/// A load context in a state, and whether something leads to an object of it.
fn context(state: u32, is_kept: bool) -> Made {
    let mut made = Made::default();
    let context = made.noted("App.Context", &[], &["_state"], TypeFamily::Unknown);
    let allocator = made.plain("System.Reflection.LoaderAllocator", &[]);
    let (plugin, host) = (made.plain("App.Plugin", &["allocator"]), made.plain("App.Host", &["plugin"]));
    let allocator = made.put(allocator, 48, &[], &[]);
    let plugin = made.put(plugin, 24, &[allocator], &[]);
    let host = made.put(host, 24, &[if is_kept { plugin } else { NULL }], &[]);
    let context = made.put(context, 80, &[], &[state]);
    made.root(RootKind::StrongHandle, host);
    made.root(RootKind::StrongHandle, context);
    made
}

#[test]
fn contexts_that_cannot_unload_are_told_with_what_keeps_them() {
    let found = context(1, true).inspected(InspectionKind::StuckContexts).expect("one");
    let way = "strong handle → App.Host.plugin → App.Plugin.allocator → System.Reflection.LoaderAllocator";
    assert_eq!((found.objects, found.rows[0].what.as_str()), (1, way));
    assert!(context(0, true).inspected(InspectionKind::StuckContexts).is_none(), "it is in use");
    assert!(context(1, false).inspected(InspectionKind::StuckContexts).is_none(), "it is about to go");
}

#[test]
fn what_roots_of_a_kind_keep_is_told_by_type() {
    let made = |kind| {
        let mut made = Made::default();
        let (file, buffer) = (made.plain("App.File", &["buffer"]), made.array("System.Byte[]", 1));
        let buffer = made.put(buffer, 5000, &[], &[]);
        let file = made.put(file, 24, &[buffer], &[]);
        made.root(kind, file);
        made.root(kind, file);
        made
    };
    let waiting = made(RootKind::FinalizerQueue).inspected(InspectionKind::FinalizerQueue);
    assert_eq!(shown(waiting.as_ref()), [("App.File", 1, 5024)]);
    let pinned = made(RootKind::PinnedHandle).inspected(InspectionKind::PinnedObjects);
    assert_eq!(shown(pinned.as_ref()), [("App.File", 1, 24)]);
    let statics = made(RootKind::Static).inspected(InspectionKind::Statics);
    assert_eq!(shown(statics.as_ref()), [("static (App.File)", 1, 5024)]);
    assert!(made(RootKind::Stack).inspected(InspectionKind::Statics).is_none());
}

#[test]
fn a_closure_is_told_with_the_field_that_keeps_the_most() {
    let made = |is_shared| {
        let mut made = Made::default();
        let closure = made.plain("App.Work+<>c__DisplayClass3_0", &["name", "page"]);
        let bytes = made.array("System.Byte[]", 1);
        let (name, page) = (made.put(bytes, 30, &[], &[]), made.put(bytes, 9000, &[], &[]));
        let closure = made.put(closure, 32, &[name, page], &[]);
        made.root(RootKind::StrongHandle, closure);
        if is_shared {
            made.root(RootKind::StrongHandle, page);
        }
        made.inspected(InspectionKind::Closures)
    };
    assert_eq!(shown(made(false).as_ref()), [("App.Work+<>c__DisplayClass3_0.page", 1, 9000)]);
    assert_eq!(shown(made(true).as_ref()), [("App.Work+<>c__DisplayClass3_0.name", 1, 30)]);
}

#[test]
fn holes_are_counted() {
    let mut made = Made::default();
    let free = made.of(HeapType { name: "Free".to_owned(), is_free: true, ..HeapType::default() });
    let kept = made.plain("App.A", &[]);
    made.put(free, 4000, &[], &[]);
    let kept = made.put(kept, 24, &[], &[]);
    made.root(RootKind::StrongHandle, kept);
    assert_eq!(shown(made.inspected(InspectionKind::FreeSpace).as_ref()), [("unknown", 1, 4000)]);
}
