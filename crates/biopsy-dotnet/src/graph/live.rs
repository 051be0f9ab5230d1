//! What is reachable from the roots.

use std::io;

use super::{Bits, Generation, Graph, ObjectIndex};

/// Marks all objects that are reachable: from roots, and from keys of dependent handles that are reachable themselves. Objects
/// of the frozen heap count as reachable, because they are never collected.
///
/// With an explicit stack of 4 bytes per object that waits, so cycles and chains of any length are harmless.
///
/// # Errors
/// References that were spilled cannot be read.
pub fn mark(graph: &Graph) -> io::Result<Bits> {
    let mut live = Bits::new(graph.len());
    let mut keys = Bits::new(if graph.dependents().is_empty() { 0 } else { graph.len() });
    for (key, _) in graph.dependents() {
        keys.insert(key.0 as usize);
    }
    let mut waiting: Vec<u32> = Vec::new();
    let mut buffer = Vec::new();
    let frozen = graph.spans.iter().filter(|span| span.generation == Generation::Frozen);
    let frozen = frozen.flat_map(|span| span.first..span.first.saturating_add(span.len() as u32));
    let all = graph.roots().iter().map(|root| root.object.0).chain(frozen);
    for first in all {
        if !live.insert(first as usize) {
            continue;
        }
        waiting.push(first);
        while let Some(index) = waiting.pop() {
            let mut reach = |target: ObjectIndex| {
                if live.insert(target.0 as usize) {
                    waiting.push(target.0);
                }
            };
            graph.for_each_reference(ObjectIndex(index), &mut buffer, &mut reach)?;
            if keys.contains(index as usize) {
                dependents_of(graph, ObjectIndex(index)).for_each(&mut reach);
            }
        }
    }
    Ok(live)
}

/// What the object keeps alive as the key of dependent handles.
fn dependents_of(graph: &Graph, key: ObjectIndex) -> impl Iterator<Item = ObjectIndex> + '_ {
    let first = graph.dependents().partition_point(|(of, _)| *of < key);
    graph.dependents().iter().skip(first).take_while(move |(of, _)| *of == key).map(|(_, value)| *value)
}
