//! Who refers to each number, as far as it matters for dominators.
//!
//! In a depth-first walk what has a lower number and refers to an object is above it in the tree: of these only the lowest matters. All others
//! refer to what was met before: the walk knows both numbers when it sees the reference. They are kept by part of the numbers that are
//! referred to, and put in order part by part, so that neither leaves the cache.

use std::io;

use biopsy_dotnet::graph::{Graph, ObjectIndex};

use super::roots::{NONE, Roots, is_on_stack};
use super::variables::Variables;

/// Numbers of a part, as a power of two; small enough in tests that their graphs have several.
const PART: u32 = if cfg!(test) { 3 } else { 16 };

/// Who refers to each number.
pub(super) struct Predecessors {
    /// The lowest number that refers to each; 0: a root.
    lowest: Vec<u32>,
    /// To which number, from which higher one: by part of the former.
    higher: Vec<Vec<(u32, u32)>>,
    /// From this number on nothing but words on stacks leads to objects: they hold none of the others.
    uncertain: u32,
}

/// Who refers to the numbers of one part from higher ones.
#[derive(Default)]
pub(super) struct Part {
    /// Where those of each begin; they end where those of the next do.
    starts: Vec<u32>,
    all: Vec<u32>,
}

impl Part {
    /// Those that refer to numbers of the part from this one to before that one.
    #[inline]
    pub(super) fn before(&self, first: usize, end: usize) -> &[u32] {
        const MASK: usize = (1 << PART) - 1;
        let last = (end - 1) & MASK;
        &self.all[self.starts[first & MASK] as usize..self.starts[last + 1] as usize]
    }
}

impl Predecessors {
    /// Room for so many numbers.
    pub(super) fn with_capacity(numbers: usize) -> Self {
        Self { lowest: Vec::with_capacity(numbers), higher: Vec::new(), uncertain: NONE }
    }

    /// The next number, which was found from this one.
    #[inline]
    pub(super) fn met(&mut self, parent: u32) {
        if self.lowest.len().is_multiple_of(1 << PART) {
            self.higher.push(Vec::new());
        }
        self.lowest.push(parent);
    }

    /// From the next number on nothing but words on stacks leads to objects.
    pub(super) fn uncertain_from_here(&mut self) {
        self.uncertain = self.lowest.len() as u32;
    }

    /// From this number on nothing but words on stacks leads to objects.
    pub(super) fn uncertain(&self) -> u32 {
        self.uncertain
    }

    /// A number refers to a higher one.
    #[inline]
    pub(super) fn refers_down(&mut self, from: u32, to: u32) {
        let lowest = &mut self.lowest[to as usize];
        *lowest = from.min(*lowest);
    }

    /// A number refers to a lower one, or to itself.
    #[inline]
    pub(super) fn refers_up(&mut self, from: u32, to: u32) {
        if to != from && (from < self.uncertain || to >= self.uncertain) {
            self.higher[(to >> PART) as usize].push((to, from));
        }
    }

    /// Roots refer to objects, too.
    pub(super) fn add_roots(&mut self, graph: &Graph, first: &Roots, variables: &Variables, numbers: &[u32]) {
        let number = |object: ObjectIndex| numbers.get(object.0 as usize).copied().unwrap_or(0);
        let frozen = first.iter().filter(|(_, root)| root.is_none()).map(|(object, _)| number(*object));
        let alone = graph.roots().iter().filter(|root| !variables.has(root)).filter_map(|root| {
            let number = number(root.object);
            (!is_on_stack(Some(root)) || number >= self.uncertain).then_some(number)
        });
        for number in frozen.chain(alone).collect::<Vec<_>>() {
            self.lowest[number as usize] = 0;
        }
    }

    /// The first number of the part in which the last number before `end` is, and who refers to that part: it is forgotten here.
    pub(super) fn take_part(&mut self, end: usize, part: &mut Part) -> io::Result<usize> {
        let at = (end - 1) >> PART;
        let higher = std::mem::take(&mut self.higher[at]);
        if higher.len() as u64 >= u64::from(NONE) {
            return Err(io::Error::other("more references than can be numbered"));
        }
        let first = (at as u32) << PART;
        part.starts.clear();
        part.starts.resize((1 << PART) + 1, 0);
        for (to, _) in &higher {
            part.starts[(to - first) as usize] += 1;
        }
        // Ends first; filling moves each back to its beginning.
        let mut sum = 0;
        for start in &mut part.starts {
            sum += *start;
            *start = sum;
        }
        part.all.clear();
        part.all.resize(higher.len(), 0);
        for (to, from) in higher {
            let start = &mut part.starts[(to - first) as usize];
            *start -= 1;
            part.all[*start as usize] = from;
        }
        Ok((first as usize).max(1))
    }

    /// The lowest number that refers to this one.
    #[inline]
    pub(super) fn lowest(&self, number: usize) -> u32 {
        self.lowest[number]
    }
}
