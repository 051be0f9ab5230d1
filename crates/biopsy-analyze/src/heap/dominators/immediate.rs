//! Direct dominators from a depth-first tree: semidominators by path compression, then the nearest common ancestor (semi-NCA).
//!
//! Georgiadis, Tarjan and Werneck. The second step walks up the tree that is made; where somebody made a graph in which that takes long, it
//! goes on with shortcuts, so that no graph takes more than O(references · log objects).

use std::io;

use super::before::{Part, Predecessors};

/// So many numbers are looked at together, before they are worked on: what is needed of them comes from memory at the same time.
const BATCH: usize = 32;
/// Steps up that are looked at before.
const AHEAD: usize = 16;
/// Steps up for each object after which shortcuts are taken.
pub(super) const STEPS: u64 = 16;

/// What is known of a number, together: it jumps about.
#[derive(Clone, Copy)]
struct Vertex {
    /// The parent of the walk, and then an ancestor further up.
    ancestor: u32,
    /// The lowest semidominator on the way up to there.
    lowest: u32,
}

/// The forest of what was linked so far: all numbers from some number on.
struct Forest {
    vertices: Vec<Vertex>,
    path: Vec<u32>,
}

impl Forest {
    /// Brings what lies on the ways up from these numbers from memory, a step of all of them at the same time.
    #[inline]
    fn look_up(&self, ahead: &mut Vec<u32>, linked: u32) {
        for _ in 0..AHEAD {
            if ahead.is_empty() {
                return;
            }
            let mut left = 0;
            for at in 0..ahead.len() {
                let ancestor = self.vertices[ahead[at] as usize].ancestor;
                ahead[left] = ancestor;
                left += usize::from(ancestor >= linked);
            }
            ahead.truncate(left);
        }
    }

    /// The lowest semidominator on the way from a linked number up.
    #[inline]
    fn best(&mut self, number: u32, linked: u32) -> u32 {
        let vertex = self.vertices[number as usize];
        if vertex.ancestor < linked {
            return vertex.lowest;
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
            below.lowest = below.lowest.min(above.lowest);
            below.ancestor = above.ancestor;
            above = *below;
        }
        above.lowest
    }
}

/// The semidominator of each number.
///
/// # Errors
/// There are more references than can be numbered.
pub(super) fn semidominators(parents: &[u32], mut before: Predecessors) -> io::Result<Vec<u32>> {
    let vertex = |(number, parent): (usize, &u32)| Vertex { ancestor: *parent, lowest: number as u32 };
    let vertices = parents.iter().enumerate().map(vertex).collect();
    let mut forest = Forest { vertices, path: Vec::new() };
    let mut semi = vec![0_u32; parents.len()];
    let mut part = Part::default();
    let (mut end, mut first_of_part) = (parents.len(), parents.len());
    let mut ahead = Vec::new();
    while end > 1 {
        if end == first_of_part {
            first_of_part = before.take_part(end, &mut part)?;
        }
        let first = end.saturating_sub(BATCH).max(first_of_part);
        // Reads that wait for nothing of each other.
        ahead.clear();
        ahead.extend(part.before(first, end).iter().take(BATCH * BATCH));
        forest.look_up(&mut ahead, end as u32);
        for number in (first..end).rev() {
            let mut lowest = before.lowest(number);
            for from in part.before(number, number + 1) {
                lowest = lowest.min(forest.best(*from, number as u32 + 1));
            }
            forest.vertices[number].lowest = lowest;
            semi[number] = lowest;
        }
        end = first;
    }
    Ok(semi)
}

/// Shortcuts up a tree: from each node one to an ancestor, so that any is reached in steps of the logarithm of the depth.
#[derive(Default)]
struct Shortcuts {
    depths: Vec<u32>,
    far: Vec<u32>,
}

impl Shortcuts {
    /// Adds the next number, below one that was added.
    fn push(&mut self, above: u32) {
        let depth = |number: u32| self.depths[number as usize];
        if self.far.is_empty() {
            self.depths.push(0);
            self.far.push(0);
            return;
        }
        let middle = self.far[above as usize];
        let top = self.far[middle as usize];
        let is_even = depth(above) - depth(middle) == depth(middle) - depth(top);
        let own = depth(above) + 1;
        self.far.push(if is_even { top } else { above });
        self.depths.push(own);
    }
}

/// The direct dominator of each number: going up from its parent, the first that is no deeper than its semidominator.
pub(super) fn immediate(parents: Vec<u32>, semi: &[u32], steps: u64) -> Vec<u32> {
    let mut dominators = parents;
    let mut left = (dominators.len() as u64).saturating_mul(steps);
    let mut number = 1;
    while number < dominators.len() && left > 0 {
        let mut at = dominators[number];
        while at > semi[number] {
            at = dominators[at as usize];
            left = left.saturating_sub(1);
        }
        dominators[number] = at;
        number += 1;
    }
    if number >= dominators.len() {
        return dominators;
    }
    let mut shortcuts = Shortcuts::default();
    dominators[..number].iter().for_each(|above| shortcuts.push(*above));
    for number in number..dominators.len() {
        let mut at = dominators[number];
        while at > semi[number] {
            let far = shortcuts.far[at as usize];
            at = if far > semi[number] { far } else { dominators[at as usize] };
        }
        dominators[number] = at;
        shortcuts.push(at);
    }
    dominators
}
