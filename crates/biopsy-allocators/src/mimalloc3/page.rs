//! Pages: runs of slices with blocks of one size (`mi_page_t`).
//!
//! ```text
//!  0 thread │ 8 list │ 16 used, had, room: 2 bytes each │ 24 list of what its thread gave back │ 32 of others │ 40 size │ 48 first block │ ...
//!  memory: arena │ slice, slices: 4 bytes each │ kind
//! ```
//!
//! What is believed: the slice that leads to it is its first one, as its arena says as well, its last slice leads to the same, its blocks fit into its
//! slices, and its lists lead to blocks.

use std::collections::BTreeSet;
use std::ops::Range;

use biopsy_image::{Image, mapping};

use super::layout::{Build, SLICE, Start, WORDS};
use super::map::{Map, is_there, slice};
use crate::pages::Pages;
use crate::regions::Region;

/// From an arena, and not from the system.
const OF_ARENA: u64 = 7;
/// Who frees from a page of the thread needs no more: whose it is, in a link of the list of others.
const FLAGS: u64 = 7;
/// A map knows of a large page not more than this, and one slice less.
const KNOWN: u64 = 4 << 20;
/// Pages of one process, 150 bytes each here.
const MOST: usize = 1 << 22;
/// Of all pages, those that may be wrong: the moment may be in the middle of changes, one for each thread.
const TORN: usize = 64;

/// One of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    at: u64,
    /// Its memory.
    pub(super) from: u64,
    pub(super) to: u64,
    /// The arena that it is of; 0: the system's.
    pub(super) arena: u64,
    /// The thread that has it; 0: none any more.
    pub(super) thread: u64,
    pub(super) region: Region,
    /// Blocks that there is room for.
    pub(super) reserved: u64,
    /// The list of blocks that others gave back.
    pub(super) others: u64,
    keys: Option<[u64; 2]>,
}

impl Page {
    /// What the link in a block of its lists leads to; 0: nothing.
    pub(super) fn next(&self, link: u64) -> u64 {
        let Some([first, second]) = self.keys else { return link };
        let to = link.wrapping_sub(first).rotate_right((first & 63) as u32) ^ second;
        if to == self.at { 0 } else { to }
    }
}

/// All of a process, by address, none overlapping.
#[derive(Debug)]
pub(super) struct AllPages {
    pub(super) all: Vec<Page>,
    /// Memory of arenas, by address.
    pub(super) arenas: Vec<Range<u64>>,
    /// Arenas that do not hold their pages.
    pub(super) lost: usize,
    /// How many do not hold together.
    pub(super) torn: usize,
    /// Pages whose links lead to blocks, less those that do not: as it is in another layout.
    links: i64,
}

impl AllPages {
    /// Reads all that the map leads to, in the layout in which most holds together.
    pub(super) fn read(image: &dyn Image, pages: &mut Pages<'_>, map: &Map) -> Result<Self, String> {
        let builds = super::layout::BUILDS;
        let all = builds.iter().map(|build| Self::of_build(image, pages, map, build));
        let score = |read: &Self| (read.all.len(), read.links, read.arenas.len());
        // Of those that are alike the first.
        let best = all.rev().max_by_key(score).filter(|read| !read.all.is_empty());
        let best = best.ok_or("no page leads back to the slice that leads to it in any known layout")?;
        let count = best.all.len();
        if count >= MOST {
            return Err(format!("there are more than {MOST} pages"));
        }
        if best.torn > TORN.min(count / 4).max(1) {
            return Err(format!("{} of {} pages do not hold together", best.torn, count + best.torn));
        }
        Ok(best)
    }

    fn of_build(image: &dyn Image, pages: &mut Pages<'_>, map: &Map, build: &Build) -> Self {
        let mut read = Self { all: Vec::new(), arenas: Vec::new(), lost: 0, torn: 0, links: 0 };
        let mut torn_at = 0;
        let is_whole = map.visit(image, &mut |slice, at| {
            let page = page(image, pages, map, build, slice, at);
            let Some(page) = page.filter(|_| read.all.len() < MOST) else {
                // All slices of one are torn once.
                read.torn += usize::from(torn_at != at);
                torn_at = at;
                return slice + 1;
            };
            read.links += links(pages, &page);
            read.all.push(page);
            page.to.div_ceil(SLICE)
        });
        read.torn += usize::from(!is_whole || map.is_cut);
        (read.arenas, read.lost) = arenas(image, pages, build, &read.all);
        read
    }

    /// Whether an arena has this memory.
    pub(super) fn is_of_arena(&self, range: &Range<u64>) -> bool {
        let behind = self.arenas.partition_point(|arena| arena.start <= range.start);
        let arena = behind.checked_sub(1).and_then(|before| self.arenas.get(before));
        arena.is_some_and(|arena| range.end <= arena.end)
    }
}

fn page(
    image: &dyn Image,
    pages: &mut Pages<'_>,
    map: &Map,
    build: &Build,
    first: u64,
    at: u64,
) -> Option<Page> {
    let at = Some(at).filter(|at| at.is_multiple_of(8))?;
    let words: [u64; WORDS] = pages.words(at)?;
    let word = |number: usize| words.get(number).copied().unwrap_or_default();
    let short = |number: u32| word(2) >> (16 * number) & 0xffff;
    let (used, capacity, reserved, size) = (short(0), short(1), short(2), word(5));
    let start = match build.start {
        Start::Address => word(6),
        Start::Words => at.checked_add((word(6) & 0xffff_ffff) * 8)?,
    };
    let end = start.checked_add(reserved.checked_mul(size)?)?;
    let [memory, slices, kind] = [0, 1, 2].map(|number| word(build.memory + number));
    let from = first * SLICE;
    let (to, arena) = if kind & 0xffff_ffff == OF_ARENA {
        let own = memory.checked_add((slices & 0xffff_ffff) * SLICE)?;
        (own == from).then_some((from.checked_add((slices >> 32) * SLICE)?, memory))?
    } else {
        let to = memory.checked_add(slices)?;
        (memory <= from).then_some((to, 0))?
    };
    let region = Region { start, size, blocks: capacity, used, lists: [word(1), word(3)] };
    let page = Page {
        at,
        from,
        to,
        arena,
        thread: word(0) & !FLAGS,
        region,
        reserved,
        others: word(4) & !1,
        keys: build.keys.map(|keys| [word(keys), word(keys + 1)]),
    };
    let counts = size >= 8 && reserved > 0 && capacity <= reserved && used <= capacity;
    let is_whole = is_there(image, from) && end.checked_sub(1).is_some_and(|last| is_there(image, last));
    let fits = from <= start && end <= to && is_whole;
    let leads = |list: u64| list == 0 || region.number(list).is_some();
    let lists = region.lists.into_iter().all(leads) && leads(page.others);
    if !(counts && fits && lists) {
        return None;
    }
    // What is before the first block is not counted where a map says how far a page goes.
    let slices =
        Some(end - start).filter(|&bytes| bytes < KNOWN - SLICE).map_or(1, |bytes| bytes.div_ceil(SLICE));
    let last = slice(start) + slices - 1;
    (map.word(pages, last)? == at).then_some(page)
}

/// Whether the first link of a page leads to a block: 1, or -1; 0: it has none.
fn links(pages: &mut Pages<'_>, page: &Page) -> i64 {
    let [first, second] = page.region.lists;
    let Some(list) = [first, second].into_iter().find(|&list| list != 0) else { return 0 };
    let to = pages.word(list).map(|link| page.next(link));
    let is_block = to.is_some_and(|to| to == 0 || page.region.number(to).is_some());
    if is_block { 1 } else { -1 }
}

/// Arenas that pages say to be of, where they hold the last one of them, and how many do not.
fn arenas(image: &dyn Image, pages: &mut Pages<'_>, build: &Build, all: &[Page]) -> (Vec<Range<u64>>, usize) {
    let starts: BTreeSet<u64> = all.iter().map(|page| page.arena).filter(|&arena| arena != 0).collect();
    let mut arenas: Vec<Range<u64>> = Vec::new();
    for &start in &starts {
        let slices = start.checked_add(build.slices).and_then(|at| pages.word(at));
        let end =
            slices.and_then(|slices| slices.checked_mul(SLICE)).and_then(|bytes| start.checked_add(bytes));
        let Some(end) = end.filter(|&end| end > start) else { continue };
        let behind = all.partition_point(|page| page.from < end);
        let last = behind.checked_sub(1).and_then(|last| all.get(last));
        let holds = last.is_some_and(|last| last.arena == start && last.to <= end);
        let apart = arenas.last().is_none_or(|before| before.end <= start);
        if holds && apart && is_there(image, start) && mapping::find(image.mappings(), end - 1).is_some() {
            arenas.push(start..end);
        }
    }
    let lost = starts.len() - arenas.len();
    (arenas, lost)
}
