//! A depth-first walk from the roots, which numbers objects in the order in which they are met.

use std::io;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex};

use super::lists::Lists;
use super::roots::{NONE, Roots};

/// What was walked so far.
pub(super) struct Walk<'g> {
    graph: &'g Graph,
    lists: &'g Lists,
    /// The object of each number.
    pub(super) objects: Vec<u32>,
    /// The number of each object.
    pub(super) numbers: Vec<u32>,
    /// The number that each was found from.
    pub(super) parents: Vec<u32>,
    /// References that are yet to be followed, the next one last: an object, and the number that refers to it. So what an object refers to is
    /// read once, when it is met; an object that is met before its turn comes is passed over then.
    open: Vec<(u32, u32)>,
    buffer: Vec<u32>,
}

impl<'g> Walk<'g> {
    pub(super) fn new(graph: &'g Graph, lists: &'g Lists) -> Self {
        let live = graph.live().map_or(graph.len(), Bits::count);
        let mut walk = Self {
            graph,
            lists,
            objects: Vec::with_capacity(live + 1),
            numbers: vec![0; graph.len()],
            parents: Vec::with_capacity(live + 1),
            open: Vec::new(),
            buffer: Vec::new(),
        };
        walk.objects.push(NONE);
        walk.parents.push(0);
        walk
    }

    pub(super) fn from(&mut self, roots: &Roots) -> io::Result<()> {
        let Self { graph, lists, objects, numbers, parents, open, buffer } = self;
        for (root, _) in roots {
            open.push((root.0, 0));
            while let Some((object, parent)) = open.pop() {
                let number = &mut numbers[object as usize];
                if *number != 0 {
                    continue;
                }
                let own = objects.len() as u32;
                *number = own;
                objects.push(object);
                parents.push(parent);
                let first = open.len();
                let mut refer = |target: ObjectIndex| {
                    if numbers[target.0 as usize] == 0 {
                        open.push((target.0, own));
                    }
                };
                lists.for_each(graph, ObjectIndex(object), buffer, &mut refer)?;
                if !graph.dependents().is_empty() {
                    graph.for_each_dependent(ObjectIndex(object), &mut refer);
                }
                // The first reference first: what it leads to mostly lies near.
                open[first..].reverse();
            }
        }
        Ok(())
    }
}
