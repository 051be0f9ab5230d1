//! Lists that are linked both ways, of which something else holds a node in the middle.

use biopsy_dotnet::graph::{Graph, ObjectIndex, RootKind};

use super::super::Dominators;
use crate::heap::{HolderTree, made_up, text_of};

/// Names and fields of .NET 8 to 10.
const TIMERS: &[(&str, &[&str])] = &[
    ("System.Threading.TimerQueue", &["_shortTimers", "_longTimers"]),
    ("System.Threading.TimerQueueTimer", &["_associatedTimerQueue", "_next", "_prev", "_timerCallback"]),
    ("App.Session", &[]),
    ("App.Socket", &["timeout"]),
    ("System.Threading.TimerQueue[]", &[]),
];
const COUNT: usize = 100;
/// The first timer, and the first session.
const FIRST: usize = 2;
const SESSIONS: usize = FIRST + COUNT;

/// A queue (0) with so many timers, each with a session; a socket (1) that holds the timer in the middle. An empty place of a field is left
/// out in made-up heaps, so both ends refer to themselves.
fn timers(types: &[(&str, &[&str])], is_owned: impl Fn(usize) -> bool) -> Graph {
    let mut objects = vec![(0, 64, vec![FIRST, FIRST]), (3, 32, vec![FIRST + COUNT / 2])];
    for at in 0..COUNT {
        let owner = if is_owned(at) { 0 } else { 1 };
        let next = FIRST + (at + 1).min(COUNT - 1);
        objects.push((1, 80, vec![owner, next, FIRST + at.saturating_sub(1), SESSIONS + at]));
    }
    objects.extend((0..COUNT).map(|_| (2, 1000, vec![])));
    made_up::graph(types, &objects, &[(RootKind::Static, 0), (RootKind::StrongHandle, 1)])
}

#[test]
fn the_queue_holds_its_timers_and_one_timer_holds_none_of_the_others() {
    let graph = timers(TIMERS, |_| true);
    let dominators = Dominators::of(&graph).expect("in memory");
    let above = |object: usize| {
        let number = dominators.number(ObjectIndex(object as u32)).expect("it is reachable");
        dominators.dominator(number)
    };
    let queue = dominators.number(ObjectIndex(0)).expect("it is reachable");
    for at in 0..COUNT {
        // The socket holds one of them as well.
        let expected = if at == COUNT / 2 { 0 } else { queue };
        assert_eq!(above(FIRST + at), expected, "timer {at}");
    }
    assert_eq!(dominators.retained(queue), 64 + (COUNT as u64 - 1) * 1080);
    let tree = HolderTree::of(&graph, &dominators).expect("in memory");
    let way = |node: u32| text_of(&tree.way(node));
    let of_queue = tree.below(1).first().copied().expect("timers");
    let held = "static System.Threading.TimerQueue.All → System.Threading.TimerQueue._shortTimers → \
                System.Threading.TimerQueueTimer";
    assert_eq!(way(of_queue), held);
    assert_eq!(tree.nodes[of_queue as usize].objects, COUNT as u64 - 1);
}

#[test]
fn an_owner_that_only_its_nodes_lead_to_is_reachable_by_them() {
    // As a `LinkedList` of which somebody kept a node. No root leads to the queue.
    let mut graph = timers(TIMERS, |_| true);
    let roots = graph.roots().iter().filter(|root| root.kind == RootKind::StrongHandle).copied().collect();
    graph.set_roots(roots, Vec::new());
    let dominators = Dominators::of(&graph).expect("in memory");
    assert_eq!(dominators.held_in_lists().len(), COUNT);
    assert_eq!(dominators.len(), 1 + graph.len(), "all is reachable");
}

#[test]
fn a_timer_that_is_not_set_is_no_holder_of_its_queue() {
    // The last one is in no list, and the socket holds it.
    let mut objects = vec![(0, 64, vec![2, 2]), (3, 32, vec![3])];
    objects.push((1, 80, vec![0, 2, 2, 4]));
    objects.push((1, 80, vec![0, 3, 3, 4]));
    objects.push((2, 1000, vec![]));
    objects.push((4, 32, vec![0]));
    let graph = made_up::graph(TIMERS, &objects, &[(RootKind::Static, 5), (RootKind::StrongHandle, 1)]);
    let dominators = Dominators::of(&graph).expect("in memory");
    let number = |object: u32| dominators.number(ObjectIndex(object)).expect("it is reachable");
    assert_eq!(dominators.held_in_lists().len(), 1);
    assert_eq!(dominators.dominator(number(0)), number(5), "the array of queues holds it");
    assert_eq!(dominators.dominator(number(2)), number(0));
}

#[test]
fn a_word_on_a_stack_that_is_the_queue_changes_nothing() {
    let mut graph = timers(TIMERS, |_| true);
    let retained = |graph: &Graph| {
        let dominators = Dominators::of(graph).expect("in memory");
        let queue = dominators.number(ObjectIndex(0)).expect("it is reachable");
        (dominators.dominator(queue), dominators.retained(queue))
    };
    let before = retained(&graph);
    let mut roots = graph.roots().to_vec();
    let mut word = roots[0];
    word.kind = RootKind::Stack;
    roots.push(word);
    graph.set_roots(roots, Vec::new());
    assert_eq!(retained(&graph), before);
}

#[test]
fn other_types_of_such_a_shape_are_taken_as_they_stand() {
    let renamed = |(name, fields): &(&'static str, &'static [&'static str])| {
        let name = if *name == "System.Threading.TimerQueueTimer" { "App.Node" } else { *name };
        (name, *fields)
    };
    let types: Vec<_> = TIMERS.iter().map(renamed).collect();
    let dominators = Dominators::of(&timers(&types, |_| true)).expect("in memory");
    let number = dominators.number(ObjectIndex(FIRST as u32)).expect("it is reachable");
    assert_eq!(dominators.dominator(number), 0);
    assert!(dominators.held_in_lists().is_empty());
}

#[test]
fn a_list_ends_at_what_does_not_belong_to_it_and_the_same_is_reachable() {
    // From the 20th on they say that they belong to somebody else, as in a heap that was torn.
    let graph = timers(TIMERS, |at| at < 20);
    let dominators = Dominators::of(&graph).expect("in memory");
    assert_eq!(dominators.held_in_lists().len(), 20);
    assert_eq!(dominators.len(), 1 + graph.len());
    let all: u64 = graph.objects().map(|object| object.size).sum();
    assert_eq!(dominators.retained(0), all);
}
