//! Extents: runs of pages, each described by a structure (`extent_t`, since 5.3 `edata_t`) that the tree leads to.
//!
//! ```text
//!  0 bits │ 8 address │ 16 bytes, and a number below them │ links │ 64 which regions of a slab are free, or profiling
//! ```
//!
//! What is believed: each leads back to the page that led to it; last pages lead to the same; numbers of sizes fit bytes; a slab says as many free
//! regions as its bitmap has; what is not active has the size of none. The version and the quantum are those for which that holds.

use biopsy_image::Image;

use super::base::Bases;
use super::classes::{LARGE, SizeTable, slab_bytes};
use super::layout::{self, LAYOUTS, Layout, PAGE, State, extent_of};
use super::tree::Tree;
use crate::pages::Pages;

/// From an extent to the bitmap of a slab, in all layouts.
const BITMAP: u64 = 64;
/// Words of it.
const BITMAP_WORDS: usize = 8;
/// Extents of one process: 40 bytes each here.
const MOST: usize = 1 << 22;
/// What builds of large blocks begin at a place in their first page, not at its start: they have a page more (`cache_oblivious`).
const PAD: u64 = PAGE;
/// Of all extents, those that may be wrong: the moment may be in the middle of changes, one for each thread.
const TORN: usize = 64;

/// One, as it is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extent {
    /// The first page.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Of a block, from its first page to its first byte.
    into: u16,
    /// Of a slab: the builds in which its bitmap has as many free regions as it says, a bit for each.
    counts: u8,
    bits: u64,
    /// Where it is described.
    at: u64,
    /// What the tree says of the first page.
    element: u64,
}

impl Extent {
    pub(super) fn end(&self) -> u64 {
        self.start + self.bytes
    }

    /// Of a block, its first byte.
    pub(super) fn first_byte(&self) -> u64 {
        self.start + u64::from(self.into)
    }

    pub(super) fn arena(&self) -> u64 {
        layout::arena(self.bits)
    }

    /// Whether this region of a slab is free.
    pub(super) fn is_free(&self, pages: &mut Pages<'_>, region: u64) -> bool {
        pages
            .word(self.at.wrapping_add(BITMAP + region / 64 * 8))
            .is_none_or(|word| word >> (region % 64) & 1 == 1)
    }

    /// Which regions of a slab are free: a bit is set.
    pub(super) fn bitmap(&self, pages: &mut Pages<'_>) -> [u64; BITMAP_WORDS] {
        pages.words(self.at.wrapping_add(BITMAP)).unwrap_or([u64::MAX; BITMAP_WORDS])
    }
}

/// What an extent holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    /// So many regions of this size, and how many of them are free.
    Slab {
        region: u64,
        regions: u64,
        free: u64,
    },
    /// One block.
    Block {
        bytes: u64,
    },
    Free,
    Retained,
}

/// A way to build it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Build {
    pub(super) layout: Layout,
    pub(super) sizes: SizeTable,
    /// Its bit in what an extent says of builds.
    bit: u8,
}

impl Build {
    /// All that are known: each version with a quantum of 16 bytes, as it is, and of 8, as redis builds its own.
    fn all() -> Vec<Self> {
        let of = |layout| [16, 8].map(|quantum| (layout, SizeTable::of_quantum(quantum)));
        let builds = LAYOUTS.into_iter().flat_map(of);
        (0..).zip(builds).map(|(number, (layout, sizes))| Self { layout, sizes, bit: 1 << number }).collect()
    }

    /// Size and number of the regions of a slab.
    fn regions(&self, bits: u64, bytes: u64) -> Option<(u64, u64)> {
        let size = Some(self.layout.class(bits)).filter(|&class| class < self.sizes.bins());
        let size = size.and_then(|class| self.sizes.size(class))?;
        let regions = bytes / size;
        (bytes.is_multiple_of(size) && regions <= 64 * BITMAP_WORDS as u64).then_some((size, regions))
    }

    /// Whether the bitmap of a slab has as many free regions as it says, and none behind the last. Words that it does not need are others'.
    fn counts(&self, bits: u64, bytes: u64, bitmap: &[u64; BITMAP_WORDS]) -> bool {
        let Some((_, regions)) = self.regions(bits, bytes) else { return false };
        let mut free = 0;
        for (first, word) in (0..regions).step_by(64).zip(bitmap) {
            let here = (regions - first).min(64);
            if here < 64 && word >> here != 0 {
                return false;
            }
            free += u64::from(word.count_ones());
        }
        free == self.layout.free(bits)
    }
}

/// Those of a process, by address, none overlapping.
pub(super) struct Extents {
    pub(super) all: Vec<Extent>,
    pub(super) build: Build,
    /// Large blocks have a page more than they need.
    padded: bool,
    /// How many do not hold together: counted as nothing.
    pub(super) unsound: usize,
}

/// What cannot be said of extents, in a sentence's end.
pub(super) type Why = String;

impl Extents {
    /// Reads all that the tree leads to.
    pub(super) fn read(
        image: &dyn Image,
        pages: &mut Pages<'_>,
        bases: &mut Bases,
        tree: &Tree,
    ) -> Result<Self, Why> {
        let builds = Build::all();
        let mut all = Vec::new();
        let (mut astray, mut too_many) = (0, false);
        tree.visit(image, &mut |page, element| {
            let at = extent_of(element);
            if at == 0 {
                return Some(page);
            }
            let Some(extent) = extent(pages, bases, tree, &builds, page, element) else {
                astray += 1;
                return Some(page + PAGE);
            };
            too_many = all.len() >= MOST;
            all.push(extent);
            (!too_many).then(|| extent.end())
        });
        if too_many {
            return Err(format!("there are more than {MOST} extents"));
        }
        if all.is_empty() {
            return Err("no extent leads back to the page that leads to it".to_owned());
        }
        let padded = all.iter().any(|one| one.into != 0);
        let wrong = |build: &Build| {
            let unsound = all.iter().filter(|one| held(one, build, padded).is_none()).count();
            (unsound, all.iter().filter(|one| is_unusual(one, build)).count())
        };
        let best = builds.into_iter().map(|build| (wrong(&build), build)).min_by_key(|(wrong, _)| *wrong);
        let ((unsound, _), build) = best.ok_or("no build is known")?;
        let wrong = unsound + astray;
        if wrong > TORN.min(all.len() / 4) {
            return Err(format!(
                "{wrong} of {} extents do not hold together in any known layout",
                all.len() + astray
            ));
        }
        Ok(Self { all, build, padded, unsound: wrong })
    }

    /// What it holds; `None`: it does not hold together.
    pub(super) fn held(&self, extent: &Extent) -> Option<Held> {
        held(extent, &self.build, self.padded)
    }

    /// How many blocks are in use, or kept by threads.
    pub(super) fn used(&self) -> u64 {
        let used = |extent| match self.held(extent) {
            Some(Held::Slab { regions, free, .. }) => regions.saturating_sub(free),
            Some(Held::Block { .. }) => 1,
            Some(Held::Free | Held::Retained) | None => 0,
        };
        self.all.iter().map(used).fold(0, u64::saturating_add)
    }

    /// The extent that an address is in.
    pub(super) fn holding(&self, address: u64) -> Option<&Extent> {
        let behind = self.all.partition_point(|one| one.start <= address);
        self.all.get(behind.checked_sub(1)?).filter(|one| address < one.end())
    }

    /// The number of the size of what it holds.
    pub(super) fn class(&self, extent: &Extent) -> usize {
        self.build.layout.class(extent.bits)
    }
}

/// The extent that begins with this page; `None`: there is none.
fn extent(
    pages: &mut Pages<'_>,
    bases: &mut Bases,
    tree: &Tree,
    builds: &[Build],
    page: u64,
    element: u64,
) -> Option<Extent> {
    let at = extent_of(element);
    bases.holding(pages, at)?;
    let [bits, address, bytes] = pages.words(at)?;
    let bytes = bytes / PAGE * PAGE;
    let end = page.checked_add(bytes).filter(|_| bytes > 0 && address / PAGE * PAGE == page)?;
    if bytes > PAGE && extent_of(tree.element(pages, end - PAGE)?) != at {
        return None;
    }
    let mut counts = 0;
    if layout::is_slab(bits) {
        let bitmap = pages.words(at.checked_add(BITMAP)?)?;
        counts = builds
            .iter()
            .filter(|build| build.counts(bits, bytes, &bitmap))
            .fold(0, |all, one| all | one.bit);
    }
    let into = (address % PAGE) as u16;
    Some(Extent { start: page, bytes, into, counts, bits, at, element })
}

fn held(extent: &Extent, build: &Build, padded: bool) -> Option<Held> {
    let Build { layout, sizes, bit } = build;
    let class = layout.class(extent.bits);
    let is_slab = layout::is_slab(extent.bits);
    match layout.state(extent.bits)? {
        State::Active => {}
        // Whether it was a slab stays.
        _ if class != sizes.count() => return None,
        State::Free => return Some(Held::Free),
        State::Retained => return Some(Held::Retained),
    }
    if layout.element(extent.element)? != (class, is_slab) {
        return None;
    }
    if is_slab {
        let (region, regions) = build.regions(extent.bits, extent.bytes)?;
        let free = layout.free(extent.bits);
        return (extent.counts & bit != 0 && extent.into == 0).then_some(Held::Slab {
            region,
            regions,
            free,
        });
    }
    let size = sizes.size(class)?;
    let usable = extent.bytes.checked_sub(if padded { PAD } else { 0 })?;
    let bytes = match class < sizes.bins() {
        // One that a profiler has sampled, as large as the smallest large block.
        true if usable == LARGE => size,
        true => return None,
        // Since 5.3.1 every number of pages is a size, unless somebody has set it differently.
        false if (sizes.before(class) + 1..=size).contains(&usable) => usable,
        false => return None,
    };
    Some(Held::Block { bytes })
}

/// A slab that has not the usual bytes: of two builds that both fit, it is the other one.
fn is_unusual(extent: &Extent, build: &Build) -> bool {
    let is_slab = layout::is_slab(extent.bits) && build.layout.state(extent.bits) == Some(State::Active);
    let regions = build.regions(extent.bits, extent.bytes);
    is_slab && regions.is_none_or(|(region, _)| slab_bytes(region) != extent.bytes)
}
