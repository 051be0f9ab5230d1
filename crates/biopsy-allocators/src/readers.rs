//! The readers of allocators, one after the other: a process may have several.

use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::footprint::AllocatorFacts;

use crate::kept::{Kept, UsedBlock};
use crate::parts::{Parts, overlap};
use crate::read::Read;
use crate::{glibc, jemalloc, mimalloc, mimalloc3, musl, tcmalloc};

/// Reads one allocator; `None`: the process does not use it, or nothing of it was recognised.
type Reader = fn(&dyn Image, &Parts<'_>, &mut Kept) -> Option<Read>;

/// Those that there are.
const READERS: [Reader; 6] =
    [glibc::read, jemalloc::read, mimalloc::read, mimalloc3::read, musl::read, tcmalloc::read];

/// What all of them read.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) allocators: Vec<AllocatorFacts>,
    /// Memory of arenas, by address.
    pub(crate) heaps: Vec<Range<u64>>,
    /// Blocks with a mapping of their own, by address.
    pub(crate) mapped: Vec<Range<u64>>,
    /// Bookkeeping that leads to free blocks, by address.
    pub(crate) books: Vec<Range<u64>>,
    /// The blocks in use, by address, where they were asked for and not too many.
    pub(crate) blocks: Option<Vec<UsedBlock>>,
    pub(crate) warnings: Vec<String>,
}

impl Found {
    pub(crate) fn in_image(image: &dyn Image, parts: &Parts<'_>, mut kept: Kept) -> Self {
        let mut found = Self::default();
        let mut fit = true;
        for reader in READERS {
            let Some(read) = reader(image, parts, &mut kept) else { continue };
            fit &= found.add(read);
        }
        if fit && !found.allocators.is_empty() {
            found.blocks = kept.finish();
        }
        found
    }

    /// Adds one; whether it fits beside the others.
    fn add(&mut self, read: Read) -> bool {
        let overlaps =
            |ranges: &[Range<u64>]| overlap(&self.heaps, ranges) + overlap(&self.mapped, ranges) > 0;
        if let Some(facts) = read.facts {
            // One of them is wrong: what was read first stays, and blocks that only the other one has are not told.
            if overlaps(&read.heaps) || overlaps(&read.mapped) {
                self.warnings
                    .push(format!("{} was left out: it has memory of another allocator", facts.name));
                return false;
            }
            self.allocators.push(facts);
        }
        for (all, more) in
            [(&mut self.heaps, read.heaps), (&mut self.mapped, read.mapped), (&mut self.books, read.books)]
        {
            all.extend(more);
            all.sort_unstable_by_key(|range| range.start);
        }
        self.warnings.extend(read.warnings);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, heaps: &[Range<u64>], mapped: &[Range<u64>]) -> Read {
        let facts = AllocatorFacts { name: name.to_owned(), ..AllocatorFacts::default() };
        Read { facts: Some(facts), heaps: heaps.to_vec(), mapped: mapped.to_vec(), ..Read::default() }
    }

    fn names(found: &Found) -> Vec<&str> {
        found.allocators.iter().map(|facts| facts.name.as_str()).collect()
    }

    const ONE: Range<u64> = 0x1000..0x3000;
    const OTHER: Range<u64> = 0x8000..0x9000;

    /// What was read first stays: each line is what the second says to have.
    #[test]
    fn memory_of_one_allocator_is_given_to_no_other() {
        for (what, heaps, mapped, fits) in [
            ("memory of its own", vec![0x5000..0x6000; 1], vec![0x7000..0x8000; 1], true),
            ("memory right before and behind", vec![0..0x1000, 0x3000..0x8000], vec![], true),
            ("nothing", vec![], vec![], true),
            ("a heap in a heap", vec![0x1800..0x1900; 1], vec![], false),
            ("a heap around a heap", vec![0..0x4000; 1], vec![], false),
            ("a heap that has a block", vec![0x8fff..0x9001; 1], vec![], false),
            ("a block in a heap", vec![], vec![0x2fff..0x4000; 1], false),
            ("the same block", vec![], vec![OTHER; 1], false),
        ] {
            let mut found = Found::default();
            assert!(found.add(read("first", &[ONE], &[OTHER])), "{what}");
            assert_eq!(found.add(read("second", &heaps, &mapped)), fits, "{what}");
            assert_eq!(names(&found), if fits { vec!["first", "second"] } else { vec!["first"] }, "{what}");
            let said = found.warnings.iter().any(|one| one.contains("second was left out"));
            assert_eq!(said, !fits, "{what}: {:?}", found.warnings);
            for all in [&found.heaps, &found.mapped] {
                assert!(all.windows(2).all(|pair| pair[0].end <= pair[1].start), "{what}: {all:x?}");
            }
        }
    }

    /// It is there and was not understood: it has no memory that could be another's, and what it says is kept.
    #[test]
    fn an_allocator_that_was_not_understood_stands_beside_any() {
        let mut found = Found::default();
        assert!(found.add(read("first", &[ONE], &[])));
        assert!(found.add(Read { warnings: vec!["not read".to_owned()], ..Read::default() }));
        assert_eq!((names(&found), found.warnings.as_slice()), (vec!["first"], &["not read".to_owned()][..]));
    }
}
