//! A depth-first walk from the roots, which numbers objects in the order in which they are met.

use std::io;
use std::ops::Range;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex};

use super::lists::Lists;
use super::roots::{NONE, Roots};
use super::variables::Variables;

/// What was walked so far.
pub(super) struct Walk<'g> {
    graph: &'g Graph,
    lists: &'g Lists,
    variables: &'g Variables,
    /// The number of each variable.
    pub(super) of_variables: Vec<u32>,
    /// The object of each number; of a variable, none.
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
    pub(super) fn new(graph: &'g Graph, lists: &'g Lists, variables: &'g Variables) -> Self {
        let live = graph.live().map_or(graph.len(), Bits::count);
        let mut walk = Self {
            graph,
            lists,
            variables,
            of_variables: Vec::with_capacity(variables.len()),
            objects: Vec::with_capacity(live + variables.len() + 1),
            numbers: vec![0; graph.len()],
            parents: Vec::with_capacity(live + variables.len() + 1),
            open: Vec::new(),
            buffer: Vec::new(),
        };
        walk.objects.push(NONE);
        walk.parents.push(0);
        walk
    }

    pub(super) fn start_at(&mut self, roots: &Roots) -> io::Result<()> {
        for (root, _) in roots {
            self.open.push((root.0, 0));
            self.follow()?;
        }
        Ok(())
    }

    /// Each variable has a number, and what it leads to is found from there.
    pub(super) fn start_at_variables(&mut self, which: Range<usize>) -> io::Result<()> {
        for variable in which {
            let own = self.objects.len() as u32;
            self.of_variables.push(own);
            self.objects.push(NONE);
            self.parents.push(0);
            self.open.extend(self.variables.objects(variable).map(|object| (object.0, own)));
            self.follow()?;
        }
        Ok(())
    }

    fn follow(&mut self) -> io::Result<()> {
        let Self { graph, lists, objects, numbers, parents, open, buffer, .. } = self;
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
        Ok(())
    }
}
