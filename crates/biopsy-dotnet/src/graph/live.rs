//! What is reachable from the roots.

use std::io;

use super::{Bits, Generation, Graph, ObjectIndex, RootKind};

/// What is reachable.
#[derive(Debug)]
pub(crate) struct Marked {
    /// By object.
    pub(crate) live: Bits,
    /// References that lead to no object, of objects that are reachable for certain.
    pub(crate) dangling: u64,
    /// The same of objects that only words on stacks lead to, which may be left over.
    pub(crate) dangling_from_stacks: u64,
}

/// Marks all objects that are reachable: from roots, and from keys of dependent handles that are reachable themselves. Objects
/// of the frozen heap count as reachable, because they are never collected.
///
/// With an explicit stack of 4 bytes per object that waits, so cycles and chains of any length are harmless.
///
/// # Errors
/// References that were spilled cannot be read.
pub fn mark(graph: &Graph) -> io::Result<Bits> {
    Ok(mark_counted(graph)?.live)
}

/// The same, and counts what leads nowhere.
pub(crate) fn mark_counted(graph: &Graph) -> io::Result<Marked> {
    let mut live = Bits::new(graph.len());
    let mut keys = Bits::new(if graph.dependents().is_empty() { 0 } else { graph.len() });
    for (key, _) in graph.dependents() {
        keys.insert(key.0 as usize);
    }
    let mut waiting: Vec<u32> = Vec::new();
    let mut buffer = Vec::new();
    let (mut dangling, mut dangling_from_stacks) = (0, 0);
    let frozen = graph.spans.iter().filter(|span| span.generation == Generation::Frozen);
    let frozen = frozen.flat_map(|span| span.first..span.first.saturating_add(span.len() as u32));
    let of_kind = |on_stack: bool| {
        graph
            .roots()
            .iter()
            .filter(move |root| (root.kind == RootKind::Stack) == on_stack)
            .map(|root| root.object.0)
    };
    // What is certain first, so that the rest is known.
    let certain = of_kind(false).chain(frozen).map(|first| (first, false));
    for (first, on_stack) in certain.chain(of_kind(true).map(|first| (first, true))) {
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
            graph.for_each_target(ObjectIndex(index), &mut buffer, |target| match target {
                Some(target) => reach(target),
                None if on_stack => dangling_from_stacks += 1,
                None => dangling += 1,
            })?;
            if keys.contains(index as usize) {
                graph.for_each_dependent(ObjectIndex(index), &mut reach);
            }
        }
    }
    Ok(Marked { live, dangling, dangling_from_stacks })
}
