//! Dominators: who alone keeps an object alive. What an object dominates goes when it goes, so the bytes of that are what it retains.
//!
//! ```text
//! Graph ─► Walk ─► numbers, parents, Predecessors ─► semidominators ─► direct dominators ─► retained bytes
//! ```
//!
//! O(references · log objects) for any graph, cycles and chains of 10^7 among them, without recursion. Words on stacks may be left over, and
//! come and go: they count as roots only of what nothing else leads to. Nodes of lists that are linked both ways are held by the list's
//! owner, and not by each other; what hangs on several words of one variable is the variable's. All tables are arrays of 32-bit numbers: at most 28 bytes for each object and 16 for each
//! reference while it works, 28 for each object afterwards.

mod before;
mod immediate;
mod lists;
mod roots;
mod variables;
mod walk;

use std::io;

use biopsy_dotnet::graph::{Bits, Graph, ObjectIndex, Root, TypeIndex};

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
    /// Type and size of each, by number.
    owns: Vec<Own>,
    /// Lists whose owners hold their nodes.
    lists: Lists,
    /// From this number on nothing but words on stacks leads to objects.
    uncertain: u32,
    /// What a variable holds by several words together, by number.
    of_variables: Vec<(u32, Root)>,
}

/// What an object is by itself.
#[derive(Clone, Copy, Debug)]
struct Own {
    of: TypeIndex,
    size: u32,
}

/// The size is asked of the graph.
const LARGE: u32 = u32::MAX;

impl Default for Own {
    fn default() -> Self {
        Self { of: TypeIndex(u32::MAX), size: 0 }
    }
}

impl Own {
    #[inline]
    fn size(self, graph: &Graph, object: u32) -> u64 {
        match self.size {
            LARGE => graph.type_and_size(ObjectIndex(object)).map_or(0, |(_, size)| size),
            size => size.into(),
        }
    }
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
        walk.before.uncertain_from_here();
        walk.start_at_variables(of_stacks)?;
        walk.start_at(stacks)?;
        let numbers = walk.numbers();
        let Walk { objects, parents, of_variables, mut before, .. } = walk;
        before.add_roots(graph, &first, &variables, &numbers);
        drop(first);
        let uncertain = before.uncertain();
        let semi = semidominators(&parents, before)?;
        let dominators = immediate(parents, &semi, steps);
        drop(semi);
        // In the order of objects: on the way through numbers types and sizes would be looked for out of order.
        let mut owns = vec![Own::default(); objects.len()];
        for ((of, size), number) in graph.types_and_sizes().zip(&numbers).filter(|(_, number)| **number != 0)
        {
            owns[*number as usize] = Own { of, size: u32::try_from(size).unwrap_or(LARGE) };
        }
        let mut retained: Vec<u64> = Vec::with_capacity(objects.len());
        retained.extend(owns.iter().zip(&objects).map(|(own, object)| own.size(graph, *object)));
        for number in (1..retained.len()).rev() {
            let own = retained[number];
            let above = &mut retained[dominators[number] as usize];
            *above = above.saturating_add(own);
        }
        let mut found =
            Self { objects, numbers, dominators, retained, owns, lists, uncertain, of_variables: Vec::new() };
        found.take_out(&variables, &of_variables);
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
            self.owns[to] = self.owns[number];
        }
        self.objects.truncate(left as usize);
        self.dominators.truncate(left as usize);
        self.retained.truncate(left as usize);
        self.owns.truncate(left as usize);
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

    /// The type of the object of a number.
    #[inline]
    pub(super) fn type_of(&self, number: u32) -> TypeIndex {
        self.owns.get(number as usize).map_or(TypeIndex(u32::MAX), |own| own.of)
    }

    /// Its size, without what it dominates.
    #[inline]
    pub(super) fn own_bytes(&self, graph: &Graph, number: u32) -> u64 {
        let own = self.owns.get(number as usize).copied().unwrap_or_default();
        own.size(graph, self.objects.get(number as usize).copied().unwrap_or(NONE))
    }

    /// Which numbers dominate others.
    pub(super) fn that_dominate(&self) -> Bits {
        let mut found = Bits::new(self.dominators.len());
        for above in self.dominators.iter().skip(1) {
            found.insert(*above as usize);
        }
        found
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
