//! Dominators against a definition that is slow and plain: what cannot be reached without a node is dominated by it.

use biopsy_dotnet::graph::{Graph, ObjectIndex, Root, RootKind};
use biopsy_model::Avma;
use proptest::prelude::*;

use super::Dominators;
use crate::heap::made_up;

/// What roots lead to without one object.
fn reached(graph: &Graph, without: Option<u32>) -> Vec<bool> {
    let mut reached = vec![false; graph.len()];
    let mut open: Vec<u32> = graph.roots().iter().map(|root| root.object.0).collect();
    open.extend(graph.dependents().iter().filter(|_| false).map(|(key, _)| key.0));
    while let Some(at) = open.pop() {
        if Some(at) == without || std::mem::replace(&mut reached[at as usize], true) {
            continue;
        }
        open.extend(graph.references(ObjectIndex(at)).expect("in memory").iter().map(|target| target.0));
        graph.for_each_dependent(ObjectIndex(at), |target| open.push(target.0));
    }
    reached
}

/// With and without shortcuts.
fn check(graph: &Graph) {
    for steps in [0, super::STEPS] {
        check_one(graph, &Dominators::with_steps(graph, steps).expect("in memory"));
    }
}

/// Slow, and plainly right: an object retains what nothing leads to without it.
fn check_one(graph: &Graph, dominators: &Dominators) {
    let all = reached(graph, None);
    for object in 0..graph.len() as u32 {
        let Some(number) = dominators.number(ObjectIndex(object)) else {
            assert!(!all[object as usize], "{object} is reachable");
            continue;
        };
        assert_eq!(dominators.object(number), ObjectIndex(object));
        let without = reached(graph, Some(object));
        let gone = (0..graph.len()).filter(|one| all[*one] && !without[*one]);
        let bytes: u64 =
            gone.map(|one| graph.object(ObjectIndex(one as u32)).expect("it is there").size).sum();
        assert_eq!(dominators.retained(number), bytes, "object {object}");
        // The direct one is dominated by all others.
        let above = dominators.dominator(number);
        assert!(above < number);
        for other in 0..graph.len() as u32 {
            let dominates = |of: u32| all[of as usize] && !reached(graph, Some(other))[of as usize];
            if other != object && all[other as usize] && dominates(object) {
                assert!(above != 0, "{other} dominates {object}");
                let above = dominators.object(above).0;
                assert!(other == above || dominates(above), "{other} is between {object} and {above}");
            }
        }
    }
    let mut seen = (Vec::new(), Vec::new());
    dominators.visit(
        &mut seen,
        |(open, entered), number| {
            assert_eq!(open.last().copied().unwrap_or(0), dominators.dominator(number));
            open.push(number);
            entered.push(number);
        },
        |(open, _), number| assert_eq!(open.pop(), Some(number)),
    );
    assert!(seen.0.is_empty());
    seen.1.sort_unstable();
    assert_eq!(seen.1, (1..dominators.len() as u32).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn objects_retain_what_nothing_else_leads_to(
        edges in prop::collection::vec(prop::collection::vec(0_usize..12, 0..4), 12),
        roots in prop::collection::vec(0_usize..12, 1..3),
        dependents in prop::collection::vec((0_u32..12, 0_u32..12), 0..3),
    ) {
        let objects: Vec<_> = edges.into_iter().enumerate().map(|(at, edges)| (0, 24 + at as u64 * 8, edges)).collect();
        let roots: Vec<_> = roots.into_iter().map(|root| (RootKind::StrongHandle, root)).collect();
        let mut graph = made_up::graph(&[("T", &[])], &objects, &roots);
        let dependents = dependents.into_iter().map(|(key, value)| (ObjectIndex(key), ObjectIndex(value))).collect();
        graph.set_roots(graph.roots().to_vec(), dependents);
        check(&graph);
    }
}

#[test]
fn a_long_circle_and_nothing_at_all() {
    let count = 200_000;
    // Each refers to the next, and back: no recursion, and no quadratic time.
    let objects: Vec<_> =
        (0..count).map(|at| (0, 24, vec![(at + 1) % count, (at + count - 1) % count])).collect();
    let graph = made_up::graph(&[("T", &["next", "previous"])], &objects, &[(RootKind::Static, 0)]);
    let dominators = Dominators::of(&graph).expect("in memory");
    assert_eq!(dominators.retained(0), 24 * count as u64);
    let first = dominators.number(ObjectIndex(0)).expect("a root leads to it");
    assert_eq!(dominators.retained(first), 24 * count as u64);
    let empty = Dominators::of(&made_up::graph(&[], &[], &[])).expect("in memory");
    assert!(empty.is_empty() && empty.retained(0) == 0);
}

/// Below a long chain there are many that a root leads to, too: going up to their dominator takes as many steps as the chain has links.
#[test]
fn a_graph_with_long_ways_up_takes_shortcuts() {
    const LINKS: usize = 100_000;
    let mut objects: Vec<(usize, u64, Vec<usize>)> =
        (0..LINKS).map(|link| (0, 24, if link + 1 < LINKS { vec![link + 1] } else { Vec::new() })).collect();
    objects[LINKS - 1].2 = (LINKS..2 * LINKS).collect();
    objects.extend((0..LINKS).map(|_| (0, 32, Vec::new())));
    // The chain first, so that the walk comes to them through it.
    let roots: Vec<(RootKind, usize)> =
        std::iter::once(0).chain(LINKS..2 * LINKS).map(|object| (RootKind::StrongHandle, object)).collect();
    let graph = made_up::graph(&[("App.Link", &[])], &objects, &roots);
    let dominators = Dominators::of(&graph).expect("in memory");
    for object in LINKS..2 * LINKS {
        let number = dominators.number(ObjectIndex(object as u32)).expect("reachable");
        assert_eq!(dominators.dominator(number), 0);
    }
    assert_eq!(dominators.retained(1), 24 * LINKS as u64);
}

/// Who dominates each object and what it retains, and whether a variable holds it by several words together.
fn told(graph: &Graph, count: u32) -> Vec<Option<(u32, u64, bool)>> {
    let dominators = Dominators::of(graph).expect("in memory");
    let of = |object| {
        let number = dominators.number(ObjectIndex(object))?;
        let above = dominators.dominator(number);
        let is_of_variable = dominators.held_by_variables().iter().any(|(held, _)| *held == number);
        let above = if above == 0 { u32::MAX } else { dominators.object(above).0 };
        Some((above, dominators.retained(number), is_of_variable))
    };
    (0..count).map(of).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_variable_holds_what_an_object_in_its_place_would(
        edges in prop::collection::vec(prop::collection::vec(0_usize..12, 0..4), 12),
        words in prop::collection::btree_set(0_usize..12, 2..5),
        others in prop::collection::vec((any::<bool>(), 0_usize..12), 0..3),
        on_stack in any::<bool>(),
    ) {
        let mut objects: Vec<_> = edges.into_iter().enumerate().map(|(at, edges)| (0, 24 + at as u64 * 8, edges)).collect();
        let kind = if on_stack { RootKind::Stack } else { RootKind::ThreadStatic };
        let others: Vec<_> =
            others.iter().map(|(on_stack, object)| (if *on_stack { RootKind::Stack } else { RootKind::StrongHandle }, *object)).collect();
        let mut variable = made_up::graph(&[("T", &[])], &objects, &others);
        let mut roots = variable.roots().to_vec();
        roots.extend(words.iter().map(|object| Root {
            kind,
            address: Avma(made_up::STATIC),
            object: ObjectIndex(*object as u32),
            is_interior: false,
            thread: 0,
        }));
        variable.set_roots(roots, Vec::new());
        objects.push((0, 24, words.into_iter().collect()));
        let others: Vec<_> = others.into_iter().chain([(kind, 12)]).collect();
        let object = made_up::graph(&[("T", &[])], &objects, &others);
        let expected = told(&object, 12).into_iter().map(|one| {
            one.map(|(above, retained, _)| if above == 12 { (u32::MAX, retained, true) } else { (above, retained, false) })
        });
        prop_assert_eq!(told(&variable, 12), expected.collect::<Vec<_>>());
    }
}
