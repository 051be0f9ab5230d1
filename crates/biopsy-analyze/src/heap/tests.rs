//! Holders, suspects and ways of made-up heaps.

use biopsy_dotnet::graph::{Graph, ObjectIndex, RootKind};

use super::{Dominators, HolderTree, Suspect, Ways, made_up, text_of};

const TYPES: &[(&str, &[&str])] = &[
    ("App.Trail", &[]),
    ("List<App.Entry>", &["_items"]),
    ("App.Entry[]", &[]),
    ("App.Entry", &["Text", "Next"]),
    ("System.String", &[]),
];

/// A static list of so many entries, each with a text; and something else that holds a little.
fn list(entries: usize) -> Graph {
    let mut objects =
        vec![(1, 32, vec![1]), (2, 24 + 8 * entries as u64, (0..entries).map(|at| 3 + 2 * at).collect())];
    objects.push((0, 24, vec![]));
    for at in 0..entries {
        objects.push((3, 32, vec![4 + 2 * at]));
        objects.push((4, 100, vec![]));
    }
    made_up::graph(TYPES, &objects, &[(RootKind::Static, 0), (RootKind::Stack, 2), (RootKind::Stack, 1)][..2])
}

fn suspects(graph: &Graph) -> Vec<Suspect> {
    let dominators = Dominators::of(graph).expect("in memory");
    Suspect::all(&HolderTree::of(graph, &dominators).expect("in memory"))
}

#[test]
fn what_piles_up_in_a_static_list_is_named_with_its_holder() {
    let graph = list(500);
    let found = suspects(&graph);
    assert_eq!(found.len(), 1);
    assert_eq!(text_of(&found[0].way), "static App.Trail.All → List<App.Entry>._items → App.Entry[]");
    let held = found[0].held.as_ref().expect("entries");
    assert_eq!((held.step.of.as_str(), held.objects), ("App.Entry", 500));
    assert_eq!(found[0].holders, 1);
    let ways = Ways::of(&graph).expect("in memory");
    let way = ways.to(ObjectIndex(4)).expect("in memory").expect("it is held");
    assert_eq!(
        text_of(&way),
        "static App.Trail.All → List<App.Entry>._items → App.Entry[] → App.Entry.Text → System.String"
    );
}

#[test]
fn a_linked_list_is_one_node_and_one_step() {
    let count = 5000;
    let mut objects: Vec<_> = (0..count).map(|at| (3, 40, vec![count, (at + 1).min(count - 1)])).collect();
    objects.push((4, 30, vec![]));
    let graph = made_up::graph(TYPES, &objects, &[(RootKind::Static, 0)]);
    let dominators = Dominators::of(&graph).expect("in memory");
    let tree = HolderTree::of(&graph, &dominators).expect("in memory");
    assert_eq!(tree.nodes.len(), 3, "{:?}", tree.nodes);
    assert_eq!((tree.nodes[1].objects, tree.nodes[1].retained), (5000, 5000 * 40 + 30));
    assert!(!tree.is_cut);
    let way =
        Ways::of(&graph).expect("in memory").to(ObjectIndex(4999)).expect("in memory").expect("it is held");
    assert_eq!(text_of(&way), "static App.Trail.All → App.Entry × 5,000");
}

#[test]
fn what_several_hold_is_said_to_be_shared() {
    // Two lists refer to the same entries: neither retains them.
    let mut objects = vec![(1, 32, vec![2]), (1, 32, vec![3]), (2, 64, vec![4, 5]), (2, 64, vec![4, 5])];
    objects.extend([(3, 1000, vec![]), (3, 1000, vec![])]);
    let graph = made_up::graph(TYPES, &objects, &[(RootKind::Static, 0), (RootKind::StrongHandle, 1)]);
    let found = suspects(&graph);
    assert_eq!(text_of(&found[0].way), "several holders → App.Entry");
    assert_eq!((found[0].holders, found[0].retained), (2, 2000));
}

#[test]
fn what_several_hold_is_so_too_while_a_thread_has_it_on_its_stack() {
    let mut objects = vec![(1, 32, vec![2]), (1, 32, vec![2]), (2, 64, vec![3]), (3, 1000, vec![])];
    objects.push((3, 5000, vec![]));
    let roots =
        [(RootKind::Static, 0), (RootKind::StrongHandle, 1), (RootKind::Stack, 2), (RootKind::Stack, 4)];
    let graph = made_up::graph(TYPES, &objects, &roots);
    let found = suspects(&graph);
    let told: Vec<_> = found.iter().map(|one| text_of(&one.way)).collect();
    // What only the stack leads to is its own; the array is what both lists hold, although a word leads to it.
    assert_eq!(told, ["stack → App.Entry", "several holders → App.Entry[] → App.Entry"]);
    let way = "static App.Trail.All → List<App.Entry>._items → App.Entry[]";
    assert_eq!(text_of(&found[1].one_way), way);
}

/// A list that is linked both ways: one variable leads to its first node and to its last one.
#[test]
fn what_hangs_on_two_words_of_one_variable_is_held_by_the_variable() {
    let objects: Vec<_> = (0..100_usize)
        .map(|at| {
            (
                3,
                1000,
                [at.checked_sub(1), Some(at + 1).filter(|next| *next < 100)].into_iter().flatten().collect(),
            )
        })
        .collect();
    let graph = made_up::graph(TYPES, &objects, &[(RootKind::Static, 0), (RootKind::Static, 99)]);
    let found = suspects(&graph);
    assert_eq!(text_of(&found[0].way), "static App.Trail.All → App.Entry");
    assert_eq!((found.len(), found[0].retained), (1, 100_000));
    // Two variables: neither holds the list.
    let graph = made_up::graph(TYPES, &objects, &[(RootKind::Static, 0), (RootKind::StrongHandle, 99)]);
    assert_eq!(text_of(&suspects(&graph)[0].way), "several holders → App.Entry");
}
