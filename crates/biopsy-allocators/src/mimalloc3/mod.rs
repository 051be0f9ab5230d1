//! mimalloc 3.1 to 3.4, linked statically or not, with free lists that are plain or encoded.
//!
//! ```text
//!  map ─► pages, each of which leads back ─► blocks, less those in lists        pages ─► arenas, of which the rest is free
//! ```

mod layout;
mod made;
mod map;
mod page;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, Blocks};

use self::map::{BYTES, Map};
use self::page::{AllPages, Page};
use crate::blocks::{Classes, add, blocks};
use crate::kept::Kept;
use crate::pages::Pages;
use crate::parts::{Parts, merged, without};
use crate::read::Read;
use crate::regions::{FreeBlocks, GivenBack, followed};
use crate::window::Window;

/// Its name in facts and sentences.
const NAME: &str = "mimalloc";

/// Reads it; `None`: the process does not use it, or nothing of it was recognised.
pub(crate) fn read(image: &dyn Image, parts: &Parts<'_>, kept: &mut Kept) -> Option<Read> {
    let mut pages = Pages::new(image);
    let map = Map::find(image, &mut pages)?;
    let all = match AllPages::read(image, &mut pages, &map) {
        Ok(all) => all,
        Err(why) => {
            return Some(Read {
                warnings: vec![format!("mimalloc 3: not read, because {why}")],
                ..Read::default()
            });
        }
    };
    let given_back = given_back(image, &all.all);
    let mut sums = Sums {
        parts,
        kept,
        classes: Classes::default(),
        arenas: BTreeMap::new(),
        free: FreeBlocks::new(image),
    };
    for page in &all.all {
        sums.add(page);
    }
    let heaps = sums.rest(&all);
    let mut read = Read { heaps, books: books(&map), ..Read::default() };
    for (count, what) in [
        (all.torn, "pages of mimalloc do not hold together and were left out"),
        (all.lost, "arenas of mimalloc were not understood: what is free in them is not accounted for"),
        (given_back.astray, "lists of mimalloc of blocks that other threads gave back lead astray"),
        (sums.free.astray, "pages of mimalloc have other free blocks than they count"),
    ] {
        if count > 0 {
            read.warnings.push(format!("{count} {what}"));
        }
    }
    read.facts = Some(sums.finish(&given_back, read.warnings.is_empty()));
    Some(read)
}

/// The maps, by address.
fn books(map: &Map) -> Vec<Range<u64>> {
    let (upper, bytes) = map.upper;
    let maps = map.maps.iter().map(|&(_, map)| map..map.saturating_add(BYTES));
    merged(maps.chain(std::iter::once(upper..upper.saturating_add(bytes))).collect())
}

/// Blocks that other threads gave back and that no thread has taken yet.
fn given_back(image: &dyn Image, all: &[Page]) -> GivenBack {
    let mut given_back = GivenBack::default();
    let mut window = Window::new(image);
    for page in all.iter().filter(|page| page.others != 0) {
        let mut list = Vec::new();
        let whole = followed(page.others, page.region.used, |block| {
            page.region.number(block)?;
            list.push((block, page.region));
            window.word(block).map(|link| page.next(link))
        });
        given_back.take(whole, &list);
    }
    given_back
}

/// Pages added up.
struct Sums<'p, 'i, 'k> {
    parts: &'p Parts<'i>,
    kept: &'k mut Kept,
    classes: Classes,
    /// By thread; what no thread has comes first.
    arenas: BTreeMap<u64, ArenaFacts>,
    free: FreeBlocks<'i>,
}

impl Sums<'_, '_, '_> {
    fn add(&mut self, page: &Page) {
        let arena = self.arenas.entry(page.thread).or_default();
        arena.heaps += 1;
        arena.system = arena.system.saturating_add(page.to - page.from);
        arena.resident = arena.resident.saturating_add(self.parts.resident(&(page.from..page.to)));
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

    /// What no page has of arenas; gives the memory of all, by address.
    fn rest(&mut self, all: &AllPages) -> Vec<Range<u64>> {
        let of_pages: Vec<Range<u64>> = merged(all.all.iter().map(|page| page.from..page.to).collect());
        for range in without(&all.arenas, &of_pages) {
            let nobody = self.arenas.entry(0).or_default();
            let bytes = self.parts.resident(&range);
            nobody.heaps += 1;
            nobody.system = nobody.system.saturating_add(range.end - range.start);
            nobody.resident = nobody.resident.saturating_add(bytes);
            // Its own description and its masks are not told from it.
            if bytes > 0 {
                nobody.free.add(bytes);
                self.classes.free(bytes);
            }
        }
        let others = of_pages.into_iter().filter(|range| !all.is_of_arena(range));
        merged(all.arenas.iter().cloned().chain(others).collect())
    }

    fn finish(mut self, given_back: &GivenBack, whole: bool) -> AllocatorFacts {
        let mut cached = Blocks::default();
        for &(block, bytes) in &given_back.blocks {
            cached.add(bytes);
            self.classes.is_cached(bytes);
            self.kept.block_is_cached(block);
        }
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
