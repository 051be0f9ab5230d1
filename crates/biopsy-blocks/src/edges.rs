//! Who refers to whom: words in blocks that lead into blocks.

use biopsy_image::Image;
use rustc_hash::FxHashSet;

use crate::heap::{BlockNumber, Heap};
use crate::kinds::Kinds;
use crate::looks::Look;
use crate::python::objects::Owners;
use crate::python::statics::Statics;
use crate::words::InOrder;

/// Bytes of its beginning that a block has.
fn first_bytes(size: u64) -> usize {
    usize::try_from(size).unwrap_or(64).min(64)
}

/// References of all blocks, in their order.
pub(crate) struct Edges {
    /// Where those of each block begin; one more at the end.
    firsts: Vec<u32>,
    targets: Vec<BlockNumber>,
    /// Blocks whose references are left out, because somebody tells them with names.
    left_out: FxHashSet<BlockNumber>,
    most: usize,
    pub(crate) is_cut: bool,
}

/// Bytes that are looked at at once: larger blocks are read in pieces.
const PIECE: u64 = 1 << 20;

impl Edges {
    pub(crate) fn new(most: usize) -> Self {
        Self { firsts: vec![0], targets: Vec::new(), left_out: FxHashSet::default(), most, is_cut: false }
    }

    /// Blocks whose references were read.
    pub(crate) fn blocks(&self) -> usize {
        self.firsts.len() - 1
    }

    /// What a block refers to.
    pub(crate) fn of(&self, number: BlockNumber) -> &[BlockNumber] {
        let at = number as usize;
        let range = self.firsts.get(at).zip(self.firsts.get(at + 1));
        let Some((from, to)) = range.filter(|_| !self.left_out.contains(&number)) else { return &[] };
        self.targets.get(*from as usize..*to as usize).unwrap_or_default()
    }

    /// Reads all blocks, once, in the order of their addresses.
    pub(crate) fn of_blocks(
        &mut self,
        image: &dyn Image,
        heap: &Heap,
        kinds: &mut Kinds<'_>,
        mut statics: Option<&mut Statics>,
    ) {
        let mut memory = InOrder::new(image);
        for number in 0..heap.len() as u32 {
            let Some((start, size)) = heap.start(number).zip(heap.size(number)) else { break };
            if self.targets.len() >= self.most {
                self.is_cut = true;
                return;
            }
            let (mut words, mut pointers) = (0, 0);
            let mut beginning = [0; 64];
            let mut at = start;
            let mut skipped = 0..0;
            while at < start + size {
                let length = (start + size - at).min(PIECE);
                let bytes = memory.get(at, length);
                if bytes.is_empty() {
                    break;
                }
                if at == start {
                    let first = bytes.len().min(beginning.len());
                    beginning[..first].copy_from_slice(&bytes[..first]);
                    let object = statics.as_deref_mut().and_then(|statics| {
                        kinds.python.object(number, bytes, heap, &mut kinds.names, statics)
                    });
                    match object {
                        Some(object) => skipped = object,
                        None => kinds.by_table(number, bytes),
                    }
                }
                let chunks = bytes.as_chunks::<8>().0;
                for (index, word) in chunks.iter().enumerate() {
                    let value = u64::from_le_bytes(*word);
                    if value == 0 {
                        continue;
                    }
                    words += 1;
                    if skipped.contains(&(at - start + index as u64 * 8)) {
                        continue;
                    }
                    let Some(target) = heap.find(value) else { continue };
                    pointers += 1;
                    if let Some(next) = chunks.get(index + 1) {
                        kinds.by_pair(target, value, u64::from_le_bytes(*next), heap);
                    }
                    let own = self.targets.get(self.firsts.last().copied().unwrap_or(0) as usize..);
                    let is_new = target != number && own.is_none_or(|own| own.last() != Some(&target));
                    if is_new {
                        self.targets.push(target);
                    }
                }
                let read = bytes.len() as u64;
                at = at.saturating_add(read.max(8));
                if read < length {
                    break;
                }
            }
            kinds.look(
                number,
                Look::of(size, beginning.get(..first_bytes(size)).unwrap_or_default(), words, pointers),
            );
            self.firsts.push(u32::try_from(self.targets.len()).unwrap_or(u32::MAX));
        }
    }

    /// Of blocks that belong to one object each, keeps the references of that object alone, and of its other blocks.
    pub(crate) fn keep_owners(&mut self, owners: &Owners) {
        if owners.is_empty() {
            return;
        }
        let (mut kept, mut from) = (0, 0);
        for number in 0..self.blocks() {
            let to = self.firsts.get(number + 1).map_or(from, |to| *to as usize);
            for at in from..to {
                let Some(target) = self.targets.get(at).copied() else { break };
                let of_family =
                    |owner: &u32| *owner as usize == number || owners.get(&(number as u32)) == Some(owner);
                if owners.get(&target).is_none_or(of_family) {
                    self.targets[kept] = target;
                    kept += 1;
                }
            }
            from = to;
            self.firsts[number + 1] = u32::try_from(kept).unwrap_or(u32::MAX);
        }
        self.targets.truncate(kept);
    }

    /// Leaves out what a block refers to.
    pub(crate) fn leave_out(&mut self, number: BlockNumber) {
        self.left_out.insert(number);
    }

    /// Of a test.
    #[cfg(test)]
    pub(crate) fn made(blocks: &[&[u32]]) -> Self {
        let mut edges = Self::new(1000);
        for targets in blocks {
            edges.targets.extend_from_slice(targets);
            edges.firsts.push(edges.targets.len() as u32);
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_one_is_held_by_nobody_else() {
        // 0 owns 3, 1 and 4 have words that lead there too.
        let mut edges = Edges::made(&[&[1, 3], &[3, 2, 3], &[], &[4], &[3]]);
        edges.keep_owners(&Owners::default());
        assert_eq!((edges.of(1), edges.of(4)), (&[3, 2, 3][..], &[3][..]));
        edges.keep_owners(&[(3, 0)].into_iter().collect());
        let all: Vec<&[u32]> = (0..5).map(|number| edges.of(number)).collect();
        assert_eq!(all, [&[1, 3][..], &[2], &[], &[4], &[]]);
        assert_eq!(edges.blocks(), 5);
    }

    #[test]
    fn blocks_of_one_owner_may_hold_each_other() {
        // 0 owns 1, 2 and 3, which are linked; 4 was one of them once.
        let mut edges = Edges::made(&[&[1, 3], &[2], &[1, 3], &[2], &[2]]);
        edges.keep_owners(&[(1, 0), (2, 0), (3, 0)].into_iter().collect());
        let all: Vec<&[u32]> = (0..5).map(|number| edges.of(number)).collect();
        assert_eq!(all, [&[1, 3][..], &[2], &[1, 3], &[2], &[]]);
    }
}
