//! The readers of allocators, one after the other: a process may have several.

use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::footprint::AllocatorFacts;

use crate::kept::{Kept, UsedBlock};
use crate::parts::{Parts, overlap};
use crate::read::Read;
use crate::{glibc, jemalloc, musl};

/// Reads one allocator; `None`: the process does not use it, or nothing of it was recognised.
type Reader = fn(&dyn Image, &Parts<'_>, &mut Kept) -> Option<Read>;

/// Those that there are.
const READERS: [Reader; 3] = [glibc::read, jemalloc::read, musl::read];

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
