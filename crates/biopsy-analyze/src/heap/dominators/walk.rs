//! A depth-first walk from the roots, which numbers objects in the order in which they are met.

use std::io;
use std::ops::Range;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex};

use super::before::Predecessors;
use super::lists::Lists;
use super::roots::{NONE, Roots};
use super::variables::Variables;

/// What is known of an object, together: it is read out of order.
#[derive(Clone, Copy)]
struct Seen {
    /// Its number; 0: not met yet.
    number: u32,
    /// Where its references begin.
    first: u32,
}

/// What was walked so far.
pub(super) struct Walk<'g> {
    graph: &'g Graph,
    lists: &'g Lists,
    variables: &'g Variables,
    /// The number of each variable.
    pub(super) of_variables: Vec<u32>,
    /// The object of each number; of a variable, none.
    pub(super) objects: Vec<u32>,
    /// What is known of each object.
    seen: Vec<Seen>,
    /// The number that each was found from.
    pub(super) parents: Vec<u32>,
    /// Who else refers to each number.
    pub(super) before: Predecessors,
    /// References that are yet to be followed, the next one last: an object, and the number that refers to it. So what an object refers to is
    /// read once, when it is met; an object that is met before its turn comes is passed over then.
    open: Vec<(u32, u32)>,
    buffer: Vec<u32>,
}

impl<'g> Walk<'g> {
    pub(super) fn new(graph: &'g Graph, lists: &'g Lists, variables: &'g Variables) -> Self {
        let live = graph.live().map_or(graph.len(), Bits::count) + variables.len() + 1;
        let mut walk = Self {
            graph,
            lists,
            variables,
            of_variables: Vec::with_capacity(variables.len()),
            objects: Vec::with_capacity(live),
            seen: graph.reference_starts().map(|first| Seen { number: 0, first }).collect(),
            parents: Vec::with_capacity(live),
            before: Predecessors::with_capacity(live),
            open: Vec::new(),
            buffer: Vec::new(),
        };
        walk.number(NONE, 0);
        walk
    }

    /// Gives out the next number.
    fn number(&mut self, object: u32, parent: u32) -> u32 {
        let own = self.objects.len() as u32;
        self.objects.push(object);
        self.parents.push(parent);
        self.before.met(parent);
        own
    }

    pub(super) fn start_at(&mut self, roots: &Roots) -> io::Result<()> {
        for (root, _) in roots {
            if self.seen[root.0 as usize].number == 0 {
                self.open.push((root.0, 0));
                self.follow()?;
            }
        }
        Ok(())
    }

    /// Each variable has a number, and what it leads to is found from there.
    pub(super) fn start_at_variables(&mut self, which: Range<usize>) -> io::Result<()> {
        for variable in which {
            let own = self.number(NONE, 0);
            self.of_variables.push(own);
            for object in self.variables.objects(variable) {
                match self.seen[object.0 as usize].number {
                    0 => self.open.push((object.0, own)),
                    met => self.before.refers_up(own, met),
                }
            }
            self.follow()?;
        }
        Ok(())
    }

    /// The number of each object.
    pub(super) fn numbers(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.seen).into_iter().map(|seen| seen.number).collect()
    }

    fn follow(&mut self) -> io::Result<()> {
        let Self { graph, lists, objects, seen, parents, before, open, buffer, .. } = self;
        while let Some((object, parent)) = open.pop() {
            let known = &mut seen[object as usize];
            if known.number != 0 {
                before.refers_down(parent, known.number);
                continue;
            }
            let own = objects.len() as u32;
            known.number = own;
            let references = (known.first, seen.get(object as usize + 1).map_or(0, |next| next.first));
            objects.push(object);
            parents.push(parent);
            before.met(parent);
            let first = open.len();
            let refer = |target: ObjectIndex| match seen[target.0 as usize].number {
                0 => open.push((target.0, own)),
                met => before.refers_up(own, met),
            };
            let object = ObjectIndex(object);
            follow_one(graph, lists, object, references, buffer, refer)?;
            // The first reference first: what it leads to mostly lies near.
            open[first..].reverse();
        }
        Ok(())
    }
}

/// Calls `refer` with all that an object keeps alive.
#[inline]
fn follow_one(
    graph: &Graph,
    lists: &Lists,
    object: ObjectIndex,
    references: (u32, u32),
    buffer: &mut Vec<u32>,
    mut refer: impl FnMut(ObjectIndex),
) -> io::Result<()> {
    if lists.are_not_about(object.0) {
        graph.for_each_reference_from(object, references, buffer, &mut refer)?;
    } else {
        lists.for_each(graph, object, buffer, &mut refer)?;
    }
    graph.for_each_dependent(object, refer);
    Ok(())
}
