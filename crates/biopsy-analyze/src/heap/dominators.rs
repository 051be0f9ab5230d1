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
        let (certain, stacks) = first.split_at(first.partition_point(|(_, root)| !is_on_stack(root.as_ref())));
        let mut walk = Walk::new(graph);
        walk.from(certain)?;
        let certain = walk.objects.len() as u32;
        walk.from(stacks)?;
        let Walk { objects, numbers, parents, .. } = walk;
        let before = Predecessors::of(graph, &first, &objects, &numbers, certain)?;
        let dominators = immediate(parents, &before);
        drop(before);
        let mut retained: Vec<u64> = std::iter::once(0)
            .chain(objects.iter().skip(1).map(|index| {
                graph.object(ObjectIndex(*index)).map_or(0, |object| object.size)
            }))
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
    pub fn visit<S>(&self, state: &mut S, mut enter: impl FnMut(&mut S, u32), mut leave: impl FnMut(&mut S, u32)) {
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

/// Who refers to each, by number; roots are 0.
struct Predecessors {
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Predecessors {
    /// Numbers from `uncertain` on are of objects that only words on stacks lead to: they hold none of the others.
    fn of(
        graph: &Graph,
        first: &Roots,
        objects: &[u32],
        numbers: &[u32],
        uncertain: u32,
    ) -> io::Result<Self> {
        let mut buffer = Vec::new();
        let mut for_each = |each: &mut dyn FnMut(u32, u32)| -> io::Result<()> {
            let each = &mut |from: u32, to: u32| {
                if from < uncertain || to >= uncertain {
                    each(from, to);
                }
            };
            for (root, kind) in first {
                let number = numbers[root.0 as usize];
                if !is_on_stack(kind.as_ref()) || number >= uncertain {
                    each(0, number);
                }
            }
            for (number, object) in objects.iter().enumerate().skip(1) {
                let object = ObjectIndex(*object);
                graph.for_each_reference(object, &mut buffer, |target| {
                    each(number as u32, numbers[target.0 as usize]);
                })?;
                graph.for_each_dependent(object, |target| each(number as u32, numbers[target.0 as usize]));
            }
            Ok(())
        };
        let mut starts = vec![0_u32; objects.len() + 1];
        let mut total = 0_u64;
        for_each(&mut |_, to| {
            starts[to as usize] += 1;
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
            let start = &mut starts[to as usize];
            *start -= 1;
            all[*start as usize] = from;
        })?;
        Ok(Self { starts, all })
    }

    #[inline]
    fn before(&self, number: u32) -> &[u32] {
        let (first, end) = (self.starts[number as usize], self.starts[number as usize + 1]);
        &self.all[first as usize..end as usize]
    }
}

/// The forest of what was linked so far, with the best label on the way up.
struct Forest {
    /// The parent of the walk, and then an ancestor further up.
    ancestors: Vec<u32>,
    labels: Vec<u32>,
    semi: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    /// The one with the lowest semidominator on the way from `number` up. Linked are all numbers from `linked` on.
    #[inline]
    fn best(&mut self, number: u32, linked: u32) -> u32 {
        if number < linked {
            return number;
        }
        let mut at = number;
        while self.ancestors[at as usize] >= linked {
            self.path.push(at);
            at = self.ancestors[at as usize];
        }
        while let Some(below) = self.path.pop() {
            let above = self.ancestors[below as usize];
            let (label, higher) = (self.labels[below as usize], self.labels[above as usize]);
            if self.semi[higher as usize] < self.semi[label as usize] {
                self.labels[below as usize] = higher;
            }
            self.ancestors[below as usize] = self.ancestors[above as usize];
        }
        self.labels[number as usize]
    }
}

/// The direct dominator of each number.
fn immediate(parents: Vec<u32>, before: &Predecessors) -> Vec<u32> {
    let count = parents.len();
    let own: Vec<u32> = (0..count as u32).collect();
    let mut forest = Forest { ancestors: parents, labels: own.clone(), semi: own, path: Vec::new() };
    // What waits for the dominator of each is a list: its head here, the links where the answers will be.
    let mut waiting = vec![NONE; count];
    let mut dominators = vec![0_u32; count];
    for number in (1..count as u32).rev() {
        let parent = forest.ancestors[number as usize];
        let mut lowest = number;
        for from in before.before(number) {
            let best = forest.best(*from, number + 1);
            lowest = lowest.min(forest.semi[best as usize]);
        }
        forest.semi[number as usize] = lowest;
        dominators[number as usize] = waiting[lowest as usize];
        waiting[lowest as usize] = number;
        // Linked from here on: its parent is below every number that is.
        let mut at = std::mem::replace(&mut waiting[parent as usize], NONE);
        while at != NONE {
            let next = dominators[at as usize];
            let best = forest.best(at, number);
            let is_lower = forest.semi[best as usize] < forest.semi[at as usize];
            dominators[at as usize] = if is_lower { best } else { parent };
            at = next;
        }
    }
    for number in 1..count {
        if dominators[number] != forest.semi[number] {
            dominators[number] = dominators[dominators[number] as usize];
        }
    }
    dominators
}

#[cfg(test)]
mod tests;
