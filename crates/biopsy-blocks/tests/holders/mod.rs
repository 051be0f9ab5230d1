//! Who holds what in a graph, in the shortest way there is.

use std::collections::VecDeque;

use biopsy_blocks::NativeHeap;
use biopsy_dotnet::graph::{ObjectIndex, RootKind};

/// For each block the one before it on the shortest way, or the name of its root.
enum Before {
    Root(String),
    Block(ObjectIndex),
}

/// Ways of all blocks, by their number: `global sessions → block of 48 bytes → Session`, equal types that follow each other once.
pub(crate) fn ways(heap: &NativeHeap) -> Vec<String> {
    let graph = &heap.graph;
    let mut before: Vec<Option<Before>> = (0..graph.len()).map(|_| None).collect();
    let mut waiting = VecDeque::new();
    // Words on stacks hold what nothing else does.
    for on_stack in [false, true] {
        for (object, root) in graph.first_kept() {
            let root = root.expect("nothing lives by itself");
            let place = &mut before[object.0 as usize];
            if (root.kind == RootKind::Stack) == on_stack && place.is_none() {
                let name = graph.static_at(root.address).map_or(root.kind.name(), |(_, name)| name);
                *place = Some(Before::Root(name.to_owned()));
                waiting.push_back(object);
            }
        }
        while let Some(object) = waiting.pop_front() {
            for target in graph.references(object).expect("nothing is spilled") {
                let place = &mut before[target.0 as usize];
                if place.is_none() {
                    *place = Some(Before::Block(object));
                    waiting.push_back(target);
                }
            }
        }
    }
    let way = |object: u32| {
        let mut steps: Vec<&str> = Vec::new();
        let mut at = ObjectIndex(object);
        loop {
            let of = graph.object(at).and_then(|one| graph.type_of(one.of)).map_or("?", |of| &of.name);
            if steps.last() != Some(&of) {
                steps.push(of);
            }
            match &before[at.0 as usize] {
                Some(Before::Block(other)) => at = *other,
                Some(Before::Root(name)) => {
                    steps.push(name);
                    break;
                }
                None => break,
            }
        }
        steps.reverse();
        steps.join(" → ")
    };
    (0..graph.len() as u32).map(way).collect()
}
