//! Dominators: who alone keeps an object alive. What an object dominates goes when it goes, so the bytes of that are what it retains.
//!
//! Lengauer and Tarjan's algorithm with path compression: O(references · log objects) for any graph, cycles and chains of 10^7 among them,
//! without recursion. Words on stacks may be left over, and come and go: they count as roots only of what nothing else leads to. Objects are renumbered by a depth-first walk, so that all tables are arrays of 32-bit numbers: 32 bytes for each
//! object and 4 for each reference while it works, 20 for each object afterwards.

use std::io;

use biopsy_dotnet::graph::{Graph, ObjectIndex, RootKind};

/// No number.
const NONE: u32 = u32::MAX;

/// Who dominates whom. Reachable objects have numbers from 1 on, in an order in which dominators come first; 0 stands for all roots.
#[derive(Debug)]
pub struct Dominators {
    /// Object of each number; what stands at 0 means nothing.
    objects: Vec<u32>,
    /// Number of each object; 0: not reachable.
    numbers: Vec<u32>,
    /// The one that dominates it directly, by number.
    dominators: Vec<u32>,
    /// Bytes that would go with it, by number.
    retained: Vec<u64>,
}

impl Dominators {
    /// Of all objects that roots lead to.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn of(graph: &Graph) -> io::Result<Self> {
        let first = graph.first_kept();
        let (certain, stacks) =
            first.split_at(first.partition_point(|(_, root)| !is_on_stack(root.as_ref())));
        let mut walk = Walk::new(graph);
        walk.from(certain)?;
        let certain = walk.objects.len() as u32;
        walk.from(stacks)?;
        let Walk { objects, numbers, parents, .. } = walk;
        let before = Predecessors::of(graph, &first, &numbers, certain)?;
        let dominators = immediate(parents, &objects, &before);
        drop(before);
        let mut retained: Vec<u64> = std::iter::once(0)
            .chain(
                objects
                    .iter()
                    .skip(1)
                    .map(|index| graph.type_and_size(ObjectIndex(*index)).map_or(0, |(_, size)| size)),
            )
            .collect();
        for number in (1..retained.len()).rev() {
            let own = retained[number];
            let above = &mut retained[dominators[number] as usize];
            *above = above.saturating_add(own);
        }
        Ok(Self { objects, numbers, dominators, retained })
    }

    /// Numbers go from 1 to before this one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing is reachable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.len() <= 1
    }

    /// The number of an object; `None`: nothing leads to it.
    #[must_use]
    pub fn number(&self, ObjectIndex(object): ObjectIndex) -> Option<u32> {
        self.numbers.get(object as usize).copied().filter(|number| *number != 0)
    }

    /// The object of a number.
    #[must_use]
    pub fn object(&self, number: u32) -> ObjectIndex {
        ObjectIndex(self.objects.get(number as usize).copied().unwrap_or(NONE))
    }

    /// The number of its direct dominator; 0: several roots or ways lead to it.
    #[must_use]
    #[inline]
    pub fn dominator(&self, number: u32) -> u32 {
        self.dominators.get(number as usize).copied().unwrap_or(0)
    }

    /// Bytes that only live because of it, itself included; of 0: of all.
    #[must_use]
    #[inline]
    pub fn retained(&self, number: u32) -> u64 {
        self.retained.get(number as usize).copied().unwrap_or(0)
    }

    /// Calls `enter` for each number behind its dominator, and `leave` behind all that it dominates.
    pub fn visit<S>(
        &self,
        state: &mut S,
        mut enter: impl FnMut(&mut S, u32),
        mut leave: impl FnMut(&mut S, u32),
    ) {
        let count = self.objects.len();
        // Heads and links of lists: what each dominates, the first numbers first.
        let (mut first, mut next) = (vec![NONE; count], vec![NONE; count]);
        for number in (1..count).rev() {
            let above = self.dominators[number] as usize;
            next[number] = first[above];
            first[above] = number as u32;
        }
        let mut at = first.first().copied().unwrap_or(NONE);
        while at != NONE {
            enter(state, at);
            if first[at as usize] != NONE {
                at = first[at as usize];
                continue;
            }
            leave(state, at);
            while at != NONE && next[at as usize] == NONE {
                at = self.dominators[at as usize];
                if at == 0 {
                    return;
                }
                leave(state, at);
            }
            at = next.get(at as usize).copied().unwrap_or(NONE);
        }
    }
}

/// Objects that live by themselves.
type Roots = [(ObjectIndex, Option<biopsy_dotnet::graph::Root>)];

fn is_on_stack(root: Option<&biopsy_dotnet::graph::Root>) -> bool {
    root.is_some_and(|root| root.kind == RootKind::Stack)
}

/// A depth-first walk.
struct Walk<'g> {
    graph: &'g Graph,
    /// The object of each number.
    objects: Vec<u32>,
    /// The number of each object.
    numbers: Vec<u32>,
    /// The number that each was found from.
    parents: Vec<u32>,
    /// On the way: the object, and the place in it where the walk goes on.
    open: Vec<(u32, u32)>,
    buffer: Vec<u32>,
}

impl<'g> Walk<'g> {
    fn new(graph: &'g Graph) -> Self {
        let live = graph.live().map_or(graph.len(), biopsy_dotnet::graph::Bits::count);
        let mut walk = Self {
            graph,
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

    fn from(&mut self, roots: &Roots) -> io::Result<()> {
        for (root, _) in roots {
            self.find(*root, 0);
            while let Some((object, from)) = self.open.last_mut() {
                let kept = self.graph.next_kept(ObjectIndex(*object), *from, &mut self.buffer)?;
                let Some((next, target)) = kept else {
                    self.open.pop();
                    continue;
                };
                *from = next;
                let parent = self.numbers[*object as usize];
                self.find(target, parent);
            }
        }
        Ok(())
    }

    /// Numbers an object that was not met before.
    #[inline]
    fn find(&mut self, object: ObjectIndex, parent: u32) {
        let number = &mut self.numbers[object.0 as usize];
        if *number == 0 {
            *number = self.objects.len() as u32;
            self.objects.push(object.0);
            self.parents.push(parent);
            self.open.push((object.0, 0));
        }
    }
}

/// Who refers to each, by number; roots are 0. Kept by object, in whose order it is made: what refers to each other mostly lies near.
struct Predecessors {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Predecessors {
    /// Numbers from `uncertain` on are of objects that only words on stacks lead to: they hold none of the others.
    fn of(graph: &Graph, first: &Roots, numbers: &[u32], uncertain: u32) -> io::Result<Self> {
        let mut buffer = Vec::new();
        let mut for_each = |each: &mut dyn FnMut(u32, usize)| -> io::Result<()> {
            for (root, kind) in first {
                if !is_on_stack(kind.as_ref()) || numbers[root.0 as usize] >= uncertain {
                    each(0, root.0 as usize);
                }
            }
            for (object, from) in numbers.iter().enumerate().filter(|(_, from)| **from != 0) {
                let mut refer = |target: ObjectIndex| {
                    let to = target.0 as usize;
                    if *from < uncertain || numbers[to] >= uncertain {
                        each(*from, to);
                    }
                };
                let object = ObjectIndex(object as u32);
                graph.for_each_reference(object, &mut buffer, &mut refer)?;
                if !graph.dependents().is_empty() {
                    graph.for_each_dependent(object, &mut refer);
                }
            }
            Ok(())
        };
        let mut starts = vec![0_u32; numbers.len() + 1];
        let mut total = 0_u64;
        for_each(&mut |_, to| {
            starts[to] += 1;
            total += 1;
        })?;
        if total >= u64::from(NONE) {
            return Err(io::Error::other("more references than can be numbered"));
        }
        // Ends first; filling moves each back to its beginning.
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut all = vec![0_u32; total as usize];
        for_each(&mut |from, to| {
            let start = &mut starts[to];
            *start -= 1;
            all[*start as usize] = from;
        })?;
        Ok(Self { starts, all })
    }

    #[inline]
    fn before(&self, object: u32) -> &[u32] {
        let (first, end) = (self.starts[object as usize], self.starts[object as usize + 1]);
        &self.all[first as usize..end as usize]
    }
}

/// What the algorithm knows of a number, together: it jumps about.
#[derive(Clone, Copy)]
struct Vertex {
    /// The parent of the walk, and then an ancestor further up.
    ancestor: u32,
    /// The one with the lowest semidominator on the way up to there.
    label: u32,
    /// The semidominator of that.
    lowest: u32,
    /// Its own.
    semi: u32,
}

/// The forest of what was linked so far: all numbers from some number on.
struct Forest {
    vertices: Vec<Vertex>,
    path: Vec<u32>,
}

impl Forest {
    /// The one with the lowest semidominator on the way from `number` up, and that.
    #[inline]
    fn best(&mut self, number: u32, linked: u32) -> (u32, u32) {
        if number < linked {
            // Not linked: nobody is above, and its semidominator is not known better than as itself.
            return (number, number);
        }
        let vertex = self.vertices[number as usize];
        if vertex.ancestor < linked {
            return (vertex.label, vertex.lowest);
        }
        let mut at = number;
        let mut ancestor = vertex.ancestor;
        while ancestor >= linked {
            self.path.push(at);
            at = ancestor;
            ancestor = self.vertices[at as usize].ancestor;
        }
        let mut above = self.vertices[at as usize];
        while let Some(below) = self.path.pop() {
            let below = &mut self.vertices[below as usize];
            if above.lowest < below.lowest {
                (below.label, below.lowest) = (above.label, above.lowest);
            }
            below.ancestor = above.ancestor;
            above = *below;
        }
        (above.label, above.lowest)
    }
}

/// The direct dominator of each number.
fn immediate(parents: Vec<u32>, objects: &[u32], before: &Predecessors) -> Vec<u32> {
    let count = parents.len();
    let vertex = |(number, parent)| {
        let number = number as u32;
        Vertex { ancestor: parent, label: number, lowest: number, semi: number }
    };
    let vertices = parents.into_iter().enumerate().map(vertex).collect();
    let mut forest = Forest { vertices, path: Vec::new() };
    // What waits for the dominator of each is a list: its head here, the links where the answers will be.
    let mut waiting = vec![NONE; count];
    let mut dominators = vec![0_u32; count];
    for number in (1..count as u32).rev() {
        let parent = forest.vertices[number as usize].ancestor;
        let mut lowest = number;
        for from in before.before(objects[number as usize]) {
            lowest = lowest.min(forest.best(*from, number + 1).1);
        }
        let vertex = &mut forest.vertices[number as usize];
        (vertex.semi, vertex.lowest) = (lowest, lowest);
        dominators[number as usize] = waiting[lowest as usize];
        waiting[lowest as usize] = number;
        // Linked from here on: its parent is below every number that is.
        let mut at = std::mem::replace(&mut waiting[parent as usize], NONE);
        while at != NONE {
            let next = dominators[at as usize];
            let (best, lowest) = forest.best(at, number);
            // All that waits here has the parent as semidominator.
            dominators[at as usize] = if lowest < parent { best } else { parent };
            at = next;
        }
    }
    for number in 1..count {
        if dominators[number] != forest.vertices[number].semi {
            dominators[number] = dominators[dominators[number] as usize];
        }
    }
    dominators
}

#[cfg(test)]
mod tests;
