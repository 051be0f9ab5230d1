//! jemalloc 5.2 and 5.3 (and what is laid out like them) with pages of 4 KiB and addresses of 48 bits, linked statically or not, with any prefix.
//!
//! ```text
//!  base ─► tree ─► extents, each of which leads back ─► regions of slabs, blocks ─► caches of threads
//! ```

mod base;
mod caches;
mod classes;
mod extents;
mod layout;
mod tree;

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::Avma;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, Blocks};

use self::base::Bases;
use self::caches::Cached;
use self::extents::{Extents, Held};
use self::tree::Tree;
use crate::blocks::{Classes, add, blocks};
use crate::kept::Kept;
use crate::pages::Pages;
use crate::parts::Parts;
use crate::read::Read;

/// Its name in facts and sentences.
const NAME: &str = "jemalloc";

/// Reads it; `None`: the process does not use it, or nothing of it was recognised.
pub(crate) fn read(image: &dyn Image, parts: &Parts<'_>, kept: &mut Kept) -> Option<Read> {
    let mut pages = Pages::new(image);
    let mut bases = Bases::new();
    let tree = Tree::find(image, &mut pages, &mut bases)?;
    let extents = match Extents::read(image, &mut pages, &mut bases, &tree) {
        Ok(extents) => extents,
        Err(why) => {
            return Some(Read {
                warnings: vec![format!("jemalloc 5: not read, because {why}")],
                ..Read::default()
            });
        }
    };
    let cached = caches::read(image, &mut pages, &extents);
    let mut read = Read { books: bases.ranges(), ..Read::default() };
    if extents.unsound > 0 {
        read.warnings.push(format!(
            "{} of {} extents of jemalloc do not hold together and were left out",
            extents.unsound,
            extents.all.len()
        ));
    }
    if cached.caches == 0 {
        read.warnings
            .push("no caches of threads of jemalloc were found: what they keep counts as in use".to_owned());
    }
    if cached.astray > 0 {
        read.warnings.push(format!("{} bins of jemalloc's caches of threads lead astray", cached.astray));
    }
    let mut sums =
        Sums { parts, kept, classes: Classes::default(), arenas: BTreeMap::new(), heaps: Vec::new() };
    for extent in &extents.all {
        sums.add(&mut pages, &extents, extent);
    }
    read.facts = Some(sums.finish(&cached, read.warnings.is_empty(), &mut read.heaps));
    Some(read)
}

/// Extents added up.
struct Sums<'p, 'i, 'k> {
    parts: &'p Parts<'i>,
    kept: &'k mut Kept,
    classes: Classes,
    /// By number.
    arenas: BTreeMap<u64, ArenaFacts>,
    /// Extents side by side of one arena, with its number.
    heaps: Vec<(Range<u64>, u64)>,
}

impl Sums<'_, '_, '_> {
    fn add(&mut self, pages: &mut Pages<'_>, extents: &Extents, extent: &extents::Extent) {
        let Some(held) = extents.held(extent) else { return };
        let number = extent.arena();
        let arena = self.arenas.entry(number).or_default();
        if held != Held::Retained {
            arena.system = arena.system.saturating_add(extent.bytes);
        }
        match held {
            Held::Slab { region, regions, free } => {
                let (used, free) = (blocks(regions - free, region), blocks(free, region));
                add(&mut arena.used, used);
                add(&mut arena.free, free);
                self.classes.add(region, used, free);
                if self.kept.is_wanted() && used.count > 0 {
                    let bitmap = extent.bitmap(pages);
                    let is_free =
                        |number: u64| bitmap[(number / 64) as usize % bitmap.len()] >> (number % 64) & 1 == 1;
                    for number in (0..regions).filter(|&number| !is_free(number)) {
                        self.kept.block(extent.start + number * region, region);
                    }
                }
            }
            Held::Block { bytes } => {
                arena.used.add(bytes);
                self.classes.add(bytes, blocks(1, bytes), Blocks::default());
                self.kept.block(extent.first_byte(), bytes);
            }
            Held::Free => {
                arena.free.add(extent.bytes);
                self.classes.add(extent.bytes, Blocks::default(), blocks(1, extent.bytes));
            }
            Held::Retained => {}
        }
        match self.heaps.last_mut() {
            Some((heap, of)) if heap.end == extent.start && *of == number => heap.end = extent.end(),
            _ => self.heaps.push((extent.start..extent.end(), number)),
        }
    }

    fn finish(mut self, cached: &Cached, whole: bool, heaps: &mut Vec<Range<u64>>) -> AllocatorFacts {
        for (heap, number) in self.heaps {
            let arena = self.arenas.entry(number).or_default();
            arena.heaps += 1;
            arena.resident = arena.resident.saturating_add(self.parts.resident(&heap));
            match heaps.last_mut() {
                Some(last) if last.end == heap.start => last.end = heap.end,
                _ => heaps.push(heap),
            }
        }
        let mut of_threads = Blocks::default();
        for &(block, bytes) in &cached.blocks {
            of_threads.add(bytes);
            self.classes.is_cached(bytes);
            self.kept.block_is_cached(block);
        }
        AllocatorFacts {
            name: NAME.to_owned(),
            arenas: self.arenas.into_values().map(|arena| ArenaFacts { address: Avma(0), ..arena }).collect(),
            mapped: Blocks::default(),
            cached: of_threads,
            classes: self.classes.into_list(),
            whole,
        }
    }
}
