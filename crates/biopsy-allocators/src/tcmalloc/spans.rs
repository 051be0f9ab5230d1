//! All spans of a process, each of small blocks of one size, of one block, or free.
//!
//! What is believed: each begins at the page that led to it, its last page leads to the same, and a span of small blocks has as many pages as its
//! class has, and not more blocks in use than there is room for.

use biopsy_image::{Image, mapping};

use super::classes::Sizes;
use super::pagemap::PageMap;
use super::span::{Span, span};
use crate::pages::Pages;
use crate::regions::Region;

/// Spans of one process: 72 bytes each here.
const MOST: usize = 1 << 22;
/// Of all spans, those that may be wrong: the moment may be in the middle of changes, one for each thread.
const TORN: usize = 64;

/// What a span holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Held {
    Small(Region),
    Block,
    Free,
    /// Addresses alone: its memory was given back to the system.
    Returned,
}

/// Those of a process, by address, none overlapping.
pub(super) struct Spans {
    pub(super) all: Vec<(Span, Held)>,
    /// How many do not hold together, and runs of pages that lead to no span of theirs.
    pub(super) unsound: usize,
}

impl Spans {
    /// Reads all that the map leads to.
    pub(super) fn read(
        image: &dyn Image,
        pages: &mut Pages<'_>,
        map: &PageMap,
        sizes: &Sizes,
    ) -> Result<Self, String> {
        let mut spans = Self { all: Vec::new(), unsound: 0 };
        let mut too_many = false;
        let mut astray = None;
        let is_whole = map.visit(image, &mut |page, word| {
            let Some(span) = whole(image, pages, map, page, word) else {
                // Many pages side by side may lead to one that was there before.
                spans.unsound += usize::from(astray != Some(page));
                astray = Some(page + 1);
                return Some(page + 1);
            };
            match held(&span, sizes) {
                Some(held) => spans.all.push((span, held)),
                None => spans.unsound += 1,
            }
            too_many = spans.all.len() >= MOST;
            (!too_many).then_some(span.start + span.length)
        });
        spans.unsound += usize::from(!is_whole);
        if too_many {
            return Err(format!("there are more than {MOST} spans"));
        }
        let all = spans.all.len();
        if spans.unsound > TORN.min(all / 4) {
            return Err(format!("{} of {} spans do not hold together", spans.unsound, all + spans.unsound));
        }
        if all == 0 {
            return Err("no span leads back to the page that leads to it".to_owned());
        }
        Ok(spans)
    }

    /// The region of small blocks that an address is in.
    pub(super) fn region(&self, address: u64) -> Option<Region> {
        let behind = self.all.partition_point(|(span, _)| span.address() <= address);
        match self.all.get(behind.checked_sub(1)?)? {
            (span, Held::Small(region)) if address < span.end() => Some(*region),
            _ => None,
        }
    }

    /// How many small blocks are in use, or kept by a cache.
    pub(super) fn used(&self) -> u64 {
        let used = |held: &Held| match held {
            Held::Small(region) => region.used,
            Held::Block | Held::Free | Held::Returned => 0,
        };
        self.all.iter().map(|(_, held)| used(held)).fold(0, u64::saturating_add)
    }
}

/// The span that begins with this page.
fn whole(image: &dyn Image, pages: &mut Pages<'_>, map: &PageMap, page: u64, word: u64) -> Option<Span> {
    let span = span(pages, word).filter(|span| span.start == page)?;
    let last = map.word(pages, page + span.length - 1)?;
    let is_there = |at: u64| mapping::find(image.mappings(), at).is_some_and(|one| one.protection.write);
    (last == word && is_there(span.address()) && is_there(span.end() - 1)).then_some(span)
}

fn held(span: &Span, sizes: &Sizes) -> Option<Held> {
    match (span.location, span.class) {
        (0, 0) => Some(Held::Block),
        (0, class) => {
            let size = sizes.size(class)?;
            let blocks = span.bytes() / size;
            let region =
                Region { start: span.address(), size, blocks, used: span.used, lists: [span.objects, 0] };
            let fits = sizes.pages(class) == Some(span.length) && span.used <= blocks;
            (fits && (span.objects == 0 || region.number(span.objects).is_some()))
                .then_some(Held::Small(region))
        }
        (1, _) => Some(Held::Free),
        (2, _) => Some(Held::Returned),
        _ => None,
    }
}
