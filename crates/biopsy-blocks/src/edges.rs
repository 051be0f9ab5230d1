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
    use biopsy_allocators::UsedBlock;
    use biopsy_model::Avma;
    use proptest::prelude::*;

    use super::*;
    use crate::made::{BASE, Pieces};

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

    /// Blocks of so many bytes one behind the other, with a gap of 16 bytes, and memory with these words in them.
    fn blocks(words: &[Vec<u64>]) -> (Pieces, Heap) {
        let (mut flat, mut at) = (Pieces::default(), BASE);
        let mut all = Vec::new();
        for words in words {
            all.push(UsedBlock { start: Avma(at), size: words.len() as u64 * 8 });
            words.iter().enumerate().for_each(|(number, word)| flat.word(at + number as u64 * 8, *word));
            at += words.len() as u64 * 8 + 16;
        }
        (flat, Heap::new(all))
    }

    fn read<'i>(flat: &'i Pieces, heap: &Heap, most: usize) -> (Edges, Kinds<'i>) {
        let mut kinds = Kinds::new(flat, &[], heap.len());
        let mut edges = Edges::new(most);
        edges.of_blocks(flat, heap, &mut kinds, None);
        (edges, kinds)
    }

    proptest! {
        #[test]
        fn words_that_lead_into_a_block_are_references_to_it(
            words in proptest::collection::vec(proptest::collection::vec((0..5_u8, any::<proptest::sample::Index>(), 0..40_u64), 1..6), 1..10),
        ) {
            // The bytes of the blocks are known before their words are.
            let starts: Vec<u64> = words.iter().scan(BASE, |at, words| {
                let start = *at;
                *at += words.len() as u64 * 8 + 16;
                Some(start)
            }).collect();
            let words: Vec<Vec<u64>> = words.iter().map(|words| words.iter().map(|(kind, to, inside)| match kind {
                0 => 0,
                1 => *inside,
                _ => starts[to.index(starts.len())] + inside,
            }).collect()).collect();
            let (flat, heap) = blocks(&words);
            let (edges, _) = read(&flat, &heap, 1000);
            for (number, own) in words.iter().enumerate() {
                let block_of = |word: &u64| starts.iter().zip(&words).position(|(start, words)| (*start..*start + words.len() as u64 * 8).contains(word));
                let mut wanted: Vec<u32> = own.iter().filter_map(block_of).map(|to| to as u32).filter(|to| *to as usize != number).collect();
                // The same twice in a row is one, also with others in between that lead nowhere.
                wanted.dedup();
                prop_assert_eq!(edges.of(number as u32), wanted);
            }
            prop_assert_eq!((edges.blocks(), edges.is_cut), (words.len(), false));
        }
    }

    #[test]
    fn blocks_behind_the_most_references_are_not_looked_at_and_said_to_be_so() {
        let other = |number: u64| BASE + number * 32;
        let words: Vec<Vec<u64>> =
            (0..6).map(|number| vec![other((number + 1) % 6), other((number + 2) % 6)]).collect();
        let (flat, heap) = blocks(&words);
        for (most, read_blocks) in [(0, 0), (1, 1), (2, 1), (3, 2), (11, 6), (12, 6), (100, 6)] {
            let (edges, kinds) = read(&flat, &heap, most);
            assert_eq!((edges.blocks(), edges.is_cut), (read_blocks, read_blocks < 6), "{most}");
            assert!((read_blocks..6).all(|number| edges.of(number as u32).is_empty()));
            let (names, of) = kinds.finish(&heap, edges.blocks());
            let not_read = of.iter().filter(|of| names[**of as usize] == "not looked at").count();
            assert_eq!((of.len(), not_read), (6, 6 - read_blocks), "{most}");
        }
    }

    #[test]
    fn blocks_look_like_their_contents_and_one_that_is_not_there_like_its_size() {
        let text = u64::from_le_bytes(*b"readable");
        let pointers: Vec<u64> = (0..40).map(|number| if number % 8 == 0 { BASE } else { 1 }).collect();
        let (mut flat, heap) = blocks(&[vec![1, 2], vec![text, 1 << 56], pointers, vec![1; 200], vec![7; 4]]);
        // The last block is not in memory.
        let bytes = &mut flat.pieces[0].1;
        bytes.truncate(bytes.len() - 32);
        let (edges, kinds) = read(&flat, &heap, 1000);
        let (names, of) = kinds.finish(&heap, edges.blocks());
        let looks: Vec<&str> = of.iter().map(|of| names[*of as usize].as_str()).collect();
        assert_eq!(
            looks,
            [
                "block of 16 bytes",
                "text",
                "array of pointers",
                "block of 1537 to 1792 bytes",
                "block of 32 bytes"
            ]
        );
    }
}
