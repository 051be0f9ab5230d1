//! Dominators: who alone keeps an object alive. What an object dominates goes when it goes, so the bytes of that are what it retains.
//!
//! ```text
//! Graph ─► Walk (numbers, parents) ─┬─► Predecessors ─► semidominators ─► direct dominators ─► retained bytes
//! ```
//!
//! O(references · log objects) for any graph, cycles and chains of 10^7 among them, without recursion. Words on stacks may be left over, and
//! come and go: they count as roots only of what nothing else leads to. Nodes of lists that are linked both ways are held by the list's
//! owner, and not by each other; what hangs on several words of one variable is the variable's. All tables are arrays of 32-bit numbers: at most 28 bytes for each object and 12 for each
//! reference while it works, 20 for each object afterwards.

mod before;
mod immediate;
mod lists;
mod roots;
mod variables;
mod walk;

use std::io;

use biopsy_dotnet::graph::{Graph, ObjectIndex, Root};

use before::Predecessors;
use immediate::{STEPS, immediate, semidominators};
pub(super) use lists::Held as HeldInList;
use lists::Lists;
use roots::{NONE, is_on_stack};
use rustc_hash::FxHashMap;
use variables::Variables;
use walk::Walk;

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
    /// Lists whose owners hold their nodes.
    lists: Lists,
    /// From this number on nothing but words on stacks leads to objects.
    uncertain: u32,
    /// What a variable holds by several words together, by number.
    of_variables: Vec<(u32, Root)>,
}

impl Dominators {
    /// Of all objects that roots lead to.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn of(graph: &Graph) -> io::Result<Self> {
        Self::with_steps(graph, STEPS)
    }

    /// `steps`: for each object, after which shortcuts are taken.
    fn with_steps(graph: &Graph, steps: u64) -> io::Result<Self> {
        let first = graph.first_kept();
        let (certain, stacks) =
            first.split_at(first.partition_point(|(_, root)| !is_on_stack(root.as_ref())));
        let lists = Lists::of(graph)?;
        let variables = Variables::of(graph);
        let [of_data, of_stacks] = variables.by_certainty();
        let mut walk = Walk::new(graph, &lists, &variables);
        walk.start_at_variables(of_data)?;
        walk.start_at(certain)?;
        let certain = walk.objects.len() as u32;
        walk.start_at_variables(of_stacks)?;
        walk.start_at(stacks)?;
        let Walk { objects, numbers, parents, of_variables, .. } = walk;
        let places = (variables, of_variables);
        let before = Predecessors::of(graph, &lists, &first, &places, &numbers, certain)?;
        let semi = semidominators(&parents, &objects, &before);
        drop(before);
        let dominators = immediate(parents, &semi, steps);
        drop(semi);
        let mut retained = vec![0_u64; objects.len()];
        for (object, number) in numbers.iter().enumerate().filter(|(_, number)| **number != 0) {
            let of = graph.type_and_size(ObjectIndex(object as u32));
            retained[*number as usize] = of.map_or(0, |(_, size)| size);
        }
        for number in (1..retained.len()).rev() {
            let own = retained[number];
            let above = &mut retained[dominators[number] as usize];
            *above = above.saturating_add(own);
        }
        let mut found = Self {
            objects,
            numbers,
            dominators,
            retained,
            lists,
            uncertain: certain,
            of_variables: Vec::new(),
        };
        found.take_out(&places.0, &places.1);
        Ok(found)
    }

    /// Takes the numbers of variables out again: what they hold is held by a root, of which it is known which.
    fn take_out(&mut self, variables: &Variables, numbers: &[u32]) {
        if numbers.is_empty() {
            return;
        }
        let by_number: FxHashMap<u32, usize> =
            numbers.iter().enumerate().map(|(variable, number)| (*number, variable)).collect();
        let mut new = Vec::with_capacity(self.objects.len());
        let mut left = 0_u32;
        for number in 0..self.objects.len() as u32 {
            new.push(left);
            left += u32::from(!by_number.contains_key(&number));
        }
        self.uncertain = new.get(self.uncertain as usize).copied().unwrap_or(left);
        for number in 1..self.objects.len() {
            let (to, above) = (new[number] as usize, self.dominators[number]);
            if by_number.contains_key(&(number as u32)) {
                continue;
            }
            let variable = by_number.get(&above).and_then(|variable| variables.root(*variable));
            self.of_variables.extend(variable.map(|root| (to as u32, root)));
            self.dominators[to] = if variable.is_some() { 0 } else { new[above as usize] };
            self.objects[to] = self.objects[number];
            self.retained[to] = self.retained[number];
        }
        self.objects.truncate(left as usize);
        self.dominators.truncate(left as usize);
        self.retained.truncate(left as usize);
        for number in &mut self.numbers {
            *number = new[*number as usize];
        }
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

    /// Whether nothing but words on stacks leads to the object of a number.
    pub(super) fn is_uncertain(&self, number: u32) -> bool {
        number >= self.uncertain
    }

    /// What variables hold by several words together, by number.
    pub(super) fn held_by_variables(&self) -> &[(u32, Root)] {
        &self.of_variables
    }

    /// Nodes of lists that their owners hold, by owner.
    pub(super) fn held_in_lists(&self) -> &[HeldInList] {
        self.lists.held()
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

#[cfg(test)]
mod tests;
