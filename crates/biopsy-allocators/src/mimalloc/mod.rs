//! mimalloc 2.0 to 2.4, linked statically or not, with free lists that are plain or encoded.
//!
//! ```text
//!  segments, each with the same secret in its head ─► slices ─► pages ─► blocks, less those in lists ─► lists of heaps
//! ```

mod layout;
mod lists;
mod made;
mod page;
mod segments;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, Blocks};

use self::lists::given_back;
use self::page::Page;
use self::segments::{Segment, Segments};
use crate::blocks::{Classes, add, blocks};
use crate::kept::Kept;
use crate::parts::Parts;
use crate::read::Read;
use crate::regions::{FreeBlocks, GivenBack};

/// Its name in facts and sentences.
const NAME: &str = "mimalloc";

/// Reads it; `None`: the process does not use it, or nothing of it was recognised.
pub(crate) fn read(image: &dyn Image, parts: &Parts<'_>, kept: &mut Kept) -> Option<Read> {
    let segments = match Segments::find(image, parts)? {
        Ok(segments) => segments,
        Err(why) => {
            return Some(Read {
                warnings: vec![format!("mimalloc 2: not read, because {why}")],
                ..Read::default()
            });
        }
    };
    let given_back = given_back(image, &segments);
    let mut sums = Sums {
        parts,
        kept,
        classes: Classes::default(),
        arenas: BTreeMap::new(),
        heaps: Vec::new(),
        free: FreeBlocks::new(image),
    };
    for segment in &segments.all {
        sums.add(segment, segments.pages.get(segment.pages.clone()).unwrap_or_default());
    }
    let mut read = Read::default();
    for (count, what) in [
        (segments.torn, "pages of mimalloc do not hold together and were left out"),
        (given_back.astray, "lists of mimalloc of blocks that other threads gave back lead astray"),
        (sums.free.astray, "pages of mimalloc have other free blocks than they count"),
        (segments.missing, "places where segments of mimalloc may begin could not be read"),
    ] {
        if count > 0 {
            read.warnings.push(format!("{count} {what}"));
        }
    }
    read.facts = Some(sums.finish(&given_back, read.warnings.is_empty(), &mut read.heaps));
    Some(read)
}

/// Segments added up.
struct Sums<'p, 'i, 'k> {
    parts: &'p Parts<'i>,
    kept: &'k mut Kept,
    classes: Classes,
    /// By thread; what no thread has comes first.
    arenas: BTreeMap<u64, ArenaFacts>,
    heaps: Vec<Range<u64>>,
    free: FreeBlocks<'i>,
}

impl Sums<'_, '_, '_> {
    fn add(&mut self, segment: &Segment, pages: &[Page]) {
        let arena = self.arenas.entry(segment.thread).or_default();
        arena.heaps += 1;
        arena.system = arena.system.saturating_add(segment.range.end - segment.range.start);
        arena.resident = arena.resident.saturating_add(self.parts.resident(&segment.range));
        arena.unknown = arena.unknown.saturating_add(segment.unknown);
        for range in &segment.free {
            let bytes = self.parts.resident(range);
            if bytes > 0 {
                arena.free.add(bytes);
                self.classes.free(bytes);
            }
        }
        for page in pages {
            let region = &page.region;
            let (used, free) =
                (blocks(region.used, region.size), blocks(region.blocks - region.used, region.size));
            add(&mut arena.used, used);
            add(&mut arena.free, free);
            arena.top = arena.top.saturating_add((page.reserved - region.blocks).saturating_mul(region.size));
            self.classes.add(region.size, used, free);
            if self.kept.is_wanted() && region.used > 0 {
                self.free.in_use(region, |link| page.next(link), |block| self.kept.block(block, region.size));
            }
        }
        match self.heaps.last_mut() {
            Some(last) if last.end == segment.range.start => last.end = segment.range.end,
            _ => self.heaps.push(segment.range.clone()),
        }
    }

    fn finish(mut self, given_back: &GivenBack, whole: bool, heaps: &mut Vec<Range<u64>>) -> AllocatorFacts {
        let mut cached = Blocks::default();
        for &(block, bytes) in &given_back.blocks {
            cached.add(bytes);
            self.classes.is_cached(bytes);
            self.kept.block_is_cached(block);
        }
        *heaps = self.heaps;
        AllocatorFacts {
            name: NAME.to_owned(),
            arenas: self.arenas.into_values().collect(),
            mapped: Blocks::default(),
            cached,
            classes: self.classes.into_list(),
            whole,
        }
    }
}
