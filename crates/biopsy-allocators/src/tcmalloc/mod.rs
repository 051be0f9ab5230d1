//! tcmalloc of gperftools, with pages of 8 KiB and addresses of 48 bits, linked statically or not. Google's newer tcmalloc is laid out differently.
//!
//! ```text
//!  map of pages ─► spans, each of which leads back ─► blocks of their class's size ─► caches of threads, central lists
//! ```

mod caches;
mod classes;
mod made;
mod pagemap;
mod span;
mod spans;
#[cfg(test)]
mod tests;

use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, Blocks};

use self::caches::Cached;
use self::classes::Sizes;
use self::pagemap::{LEAF_BYTES, PageMap, ROOT_BYTES};
use self::span::Span;
use self::spans::{Held, Spans};
use crate::blocks::{Classes, add, blocks};
use crate::kept::Kept;
use crate::pages::Pages;
use crate::parts::{Parts, merged};
use crate::read::Read;
use crate::regions::FreeBlocks;
use crate::words::MOST_SEARCHED;

/// Its name in facts and sentences.
const NAME: &str = "tcmalloc";

/// Reads it; `None`: the process does not use it, or nothing of it was recognised.
pub(crate) fn read(image: &dyn Image, parts: &Parts<'_>, kept: &mut Kept) -> Option<Read> {
    let mut pages = Pages::new(image);
    let map = PageMap::find(image, &mut pages)?;
    let mut budget = MOST_SEARCHED;
    let sizes =
        Sizes::find(image, &mut budget).ok_or_else(|| "its sizes of blocks were not found".to_owned());
    let spans = sizes.and_then(|sizes| Ok((Spans::read(image, &mut pages, &map, &sizes)?, sizes)));
    let (spans, sizes) = match spans {
        Ok(both) => both,
        Err(why) => {
            return Some(Read {
                warnings: vec![format!("tcmalloc of gperftools: not read, because {why}")],
                ..Read::default()
            });
        }
    };
    let mut budget = MOST_SEARCHED;
    let cached = caches::read(image, &mut pages, &spans, &sizes, &mut budget);
    let mut free = FreeBlocks::new(image);
    let mut sums = Sums { kept, classes: Classes::default(), arena: ArenaFacts::default() };
    for (span, held) in &spans.all {
        sums.add(span, held, &mut free);
    }
    let mut read = Read { books: books(&map, &cached), ..Read::default() };
    for (count, what) in [
        (spans.unsound, "spans of tcmalloc do not hold together and were left out"),
        (cached.given_back.astray, "lists of tcmalloc's caches lead astray"),
        (cached.missing, "caches of threads of tcmalloc could not be read"),
        (free.astray, "spans of tcmalloc have other free blocks than they count"),
    ] {
        if count > 0 {
            read.warnings.push(format!("{count} {what}"));
        }
    }
    for (is_missing, what) in
        [(cached.caches.is_empty(), "caches of threads"), (!cached.central, "central lists")]
    {
        if is_missing {
            read.warnings.push(format!("no {what} of tcmalloc were found: what they keep counts as in use"));
        }
    }
    // Spans lie side by side where they were taken from the system at once.
    read.heaps = merged(spans.all.iter().map(|(span, _)| span.address()..span.end()).collect());
    let resident = read.heaps.iter().map(|heap| parts.resident(heap)).fold(0, u64::saturating_add);
    let known = ArenaFacts {
        address: Avma(map.root),
        heaps: read.heaps.len() as u64,
        resident,
        ..ArenaFacts::default()
    };
    read.facts = Some(sums.finish(&cached, known, read.warnings.is_empty()));
    Some(read)
}

/// The map, and caches of threads, by address.
fn books(map: &PageMap, cached: &Cached) -> Vec<Range<u64>> {
    let leaves = map.leaves.iter().map(|&(_, leaf)| leaf..leaf.saturating_add(LEAF_BYTES));
    let caches = cached.caches.iter().map(|&cache| cache..cache.saturating_add(cached.bytes));
    let root = map.root..map.root.saturating_add(ROOT_BYTES);
    merged(leaves.chain(caches).chain([root]).collect())
}

/// Spans added up.
struct Sums<'k> {
    kept: &'k mut Kept,
    classes: Classes,
    arena: ArenaFacts,
}

impl Sums<'_> {
    fn add(&mut self, span: &Span, held: &Held, free: &mut FreeBlocks<'_>) {
        let arena = &mut self.arena;
        let bytes = span.bytes();
        if *held != Held::Returned {
            arena.system = arena.system.saturating_add(bytes);
        }
        match held {
            Held::Small(region) => {
                let (in_use, left) =
                    (blocks(region.used, region.size), blocks(region.blocks - region.used, region.size));
                add(&mut arena.used, in_use);
                add(&mut arena.free, left);
                self.classes.add(region.size, in_use, left);
                if self.kept.is_wanted() && region.used > 0 {
                    free.in_use(region, |link| link, |block| self.kept.block(block, region.size));
                }
            }
            Held::Block => {
                arena.used.add(bytes);
                self.classes.used(bytes);
                self.kept.block(span.address(), bytes);
            }
            Held::Free => {
                arena.free.add(bytes);
                self.classes.free(bytes);
            }
            Held::Returned => {}
        }
    }

    fn finish(mut self, cached: &Cached, known: ArenaFacts, whole: bool) -> AllocatorFacts {
        let mut of_caches = Blocks::default();
        for &(block, bytes) in &cached.given_back.blocks {
            of_caches.add(bytes);
            self.classes.is_cached(bytes);
            self.kept.block_is_cached(block);
        }
        let ArenaFacts { system, used, free, .. } = self.arena;
        AllocatorFacts {
            name: NAME.to_owned(),
            arenas: vec![ArenaFacts { system, used, free, ..known }],
            mapped: Blocks::default(),
            cached: of_caches,
            classes: self.classes.into_list(),
            whole,
        }
    }
}
