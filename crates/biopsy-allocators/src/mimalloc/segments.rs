//! Segments: 32 MiB (64 before 2.0.9) at multiples of that, with a head that describes what each slice of 64 KiB is for (`mi_segment_t`).
//!
//! ```text
//!  memory id, masks │ used │ cookie │ slices, of these before the first page │ kind │ thread │ description of each slice │ pages ...
//! ```
//!
//! The cookie is the segment's own address mixed with a number that all segments of a process have. What is believed besides: descriptions lead from
//! slice to slice to the last one, and of each page room, size of blocks and their number fit, as free blocks do that it leads to. The build is the
//! one for which that holds.

use std::collections::BTreeMap;
use std::ops::Range;

use biopsy_image::{Image, MemoryExt, mapping};
use biopsy_model::footprint::MemoryKind;

use super::layout::{BUILDS, Build, HEAD, SLICE, SegmentLayout, half, word};
use super::page::{Described, Page, decoded};
use crate::parts::Parts;

/// What segments lie at multiples of, in all versions.
const UNIT: u64 = 32 << 20;
/// Heads that are looked for: those of 32 TiB.
const MOST_LOOKS: usize = 1 << 20;
/// Of them, those that are found: those of 4 TiB.
const MOST_HEADS: usize = 1 << 17;
/// Pages of one process, 120 bytes each here: those of 256 GiB of small blocks.
const MOST_PAGES: usize = 1 << 22;
/// Of each build so many segments are tried.
const TRIED: usize = 32;
/// Of all pages, those that may be wrong: the moment may be in the middle of changes, one for each thread.
const TORN: usize = 64;
/// Slices before the first page: the head is less than two. Before a huge block that is aligned at more than half a segment stands a whole one.
const MOST_INFO: u64 = 3;

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub(super) range: Range<u64>,
    /// The thread that has it; 0: none any more.
    pub(super) thread: u64,
    /// Those of its pages, in the list of all.
    pub(super) pages: Range<usize>,
    /// Slices that no page has, by address.
    pub(super) free: Vec<Range<u64>>,
    /// Bytes of slices that cannot be told.
    pub(super) unknown: u64,
}

/// All of a process, by address, none overlapping.
#[derive(Debug)]
pub(super) struct Segments {
    pub(super) build: Build,
    pub(super) all: Vec<Segment>,
    /// Pages of all of them, by address.
    pub(super) pages: Vec<Page>,
    /// Pages, and ends of segments, that do not hold together.
    pub(super) torn: usize,
    /// Places where one may begin and that are not in the image.
    pub(super) missing: usize,
}

/// Why they cannot be read, as a sentence's end.
pub(super) type Why = String;

/// What may be the head of a segment.
struct Head {
    at: u64,
    bytes: [u8; HEAD],
}

/// What it says of itself.
struct Said {
    slices: u64,
    info: u64,
    entries: u64,
    is_huge: bool,
}

impl Segments {
    /// Finds and reads them; `None`: there are none.
    pub(super) fn find(image: &dyn Image, parts: &Parts<'_>) -> Option<Result<Self, Why>> {
        let (heads, missing) = heads(image, parts);
        let mut found: Vec<(Self, usize)> = Vec::new();
        for build in &BUILDS {
            let own = own(image, &build.segment, &heads);
            if !own.is_empty() {
                let some = own.iter().copied().take(TRIED);
                found.extend(Self::read(image, build, some).ok().map(|read| (read, own.len())));
            }
        }
        // Where none of them has pages the first is as good as another.
        let score = |read: &Self| (read.pages.len(), std::cmp::Reverse(read.torn + read.astray(image)));
        let (best, _) = found.into_iter().rev().max_by_key(|(read, _)| score(read))?;
        let own = own(image, &best.build.segment, &heads);
        let read = Self::read(image, &best.build, own.into_iter());
        // Heads that lead to no slices are none.
        if read.as_ref().is_ok_and(|read| read.all.is_empty()) {
            return None;
        }
        Some(read.and_then(Self::believed).map(|read| Self { missing, ..read }))
    }

    fn believed(self) -> Result<Self, Why> {
        if self.torn > TORN.min(self.pages.len() / 4).max(1) {
            let all = self.pages.len() + self.torn;
            return Err(format!("{} of {all} pages do not hold together in any known layout", self.torn));
        }
        Ok(self)
    }

    fn read<'h>(
        image: &dyn Image,
        build: &Build,
        heads: impl Iterator<Item = &'h Head>,
    ) -> Result<Self, Why> {
        let mut read = Self { build: *build, all: Vec::new(), pages: Vec::new(), torn: 0, missing: 0 };
        let mut given_back: Vec<Segment> = Vec::new();
        let mut behind = 0;
        for head in heads.filter(|head| head.at.is_multiple_of(build.segment.unit)) {
            let Some(said) = said(&build.segment, head) else { continue };
            // Heads in a segment are what was there before it.
            if head.at < behind {
                continue;
            }
            let Some(segment) = read.segment(image, head, &said) else { continue };
            if word(&head.bytes, build.segment.used) == 0 && segment.pages.is_empty() {
                given_back.push(segment);
                continue;
            }
            behind = segment.range.end;
            read.all.push(segment);
            if read.pages.len() > MOST_PAGES {
                return Err(format!("there are more than {MOST_PAGES} pages"));
            }
        }
        read.add_given_back(given_back);
        Ok(read)
    }

    /// Segments without pages: where others have their memory by now it is theirs.
    fn add_given_back(&mut self, given_back: Vec<Segment>) {
        for mut segment in given_back {
            let next = self.all.partition_point(|one| one.range.start <= segment.range.start);
            let before = next.checked_sub(1).and_then(|before| self.all.get(before));
            if before.is_some_and(|one| one.range.end > segment.range.start) {
                continue;
            }
            let end = self.all.get(next).map_or(u64::MAX, |one| one.range.start).min(segment.range.end);
            segment.range.end = end;
            segment.free = vec![segment.range.clone()];
            segment.unknown = 0;
            segment.thread = 0;
            self.all.insert(next, segment);
        }
    }

    /// Goes through the slices of a segment; its pages are appended to those of all.
    fn segment(&mut self, image: &dyn Image, head: &Head, said: &Said) -> Option<Segment> {
        let layout = self.build.segment;
        let range = head.at..head.at.checked_add(said.slices.checked_mul(SLICE)?)?;
        let stride = self.build.page.bytes;
        // Of a huge block what is behind its description is none of its own.
        let described = if said.is_huge { said.info + 1 } else { said.entries };
        let length = usize::try_from(described).ok()?.checked_mul(stride)?;
        let mut bytes = vec![0; length];
        let first = head.at + layout.first as u64;
        let there = image.read_available(first, &mut bytes);
        bytes.truncate(there);
        // The head itself is a run of slices.
        if half(&bytes, 0) != said.info || half(&bytes, 4) != 0 {
            return None;
        }
        let from = self.pages.len();
        let torn_before = self.torn;
        let mut segment = Segment {
            range,
            thread: word(&head.bytes, layout.thread),
            pages: from..from,
            free: Vec::new(),
            unknown: 0,
        };
        let end = if said.is_huge { said.slices } else { said.entries };
        let mut slice = said.info;
        while slice < end {
            let at = usize::try_from(slice).unwrap_or(usize::MAX).saturating_mul(stride);
            let one = bytes.get(at..at.saturating_add(stride)).unwrap_or_default();
            let (slices, back) = (half(one, 0), half(one, 4));
            if slices == 0 || back != 0 || slices > end - slice {
                self.torn += 1;
                segment.unknown += (end - slice) * SLICE;
                break;
            }
            let area = head.at + slice * SLICE;
            match Page::parse(&self.build, one, first + at as u64, area, slices) {
                Described::Page(page) => self.pages.push(page),
                Described::Free => segment.free.push(area..area + slices * SLICE),
                Described::Torn => {
                    self.torn += 1;
                    segment.unknown += slices * SLICE;
                }
            }
            slice += slices;
            if said.is_huge {
                break;
            }
        }
        segment.pages.end = self.pages.len();
        // One may be made or given back just now.
        let used = word(&head.bytes, layout.used);
        let found = (self.pages.len() - from + self.torn - torn_before) as u64;
        if found.abs_diff(used) > 1 && segment.unknown == 0 {
            self.torn += 1;
        }
        Some(segment)
    }

    /// Heaps whose list of blocks that others gave back leads to no block.
    fn astray(&self, image: &dyn Image) -> usize {
        let mut heaps: Vec<u64> = self.pages.iter().map(|page| page.heap).filter(|&heap| heap != 0).collect();
        heaps.sort_unstable();
        heaps.dedup();
        let leads = |block: u64| block == 0 || self.holding(block).is_some();
        let is_sound = |&&heap: &&u64| {
            let field = |at: u64| heap.checked_add(at).and_then(|at| image.read_u64(at).ok());
            let first = field(self.build.delayed)?;
            if first == 0 || !leads(first) {
                return Some(first == 0);
            }
            let at = self.build.delayed_keys;
            let keys = self.build.page.keys.and_then(|_| Some([field(at)?, field(at + 8)?]));
            Some(leads(decoded(keys, heap, image.read_u64(first).ok()?)))
        };
        heaps.iter().filter(|heap| is_sound(heap) != Some(true)).count()
    }

    /// The page that has a block at this address.
    pub(super) fn holding(&self, block: u64) -> Option<&Page> {
        let behind = self.pages.partition_point(|page| page.region.start <= block);
        self.pages.get(behind.checked_sub(1)?).filter(|page| page.region.number(block).is_some())
    }
}

/// What may be heads, whatever is in memory at multiples of their size, and how many places could not be read.
fn heads(image: &dyn Image, parts: &Parts<'_>) -> (Vec<Head>, usize) {
    let mut heads = Vec::new();
    let mut missing = 0;
    let mut looks = MOST_LOOKS;
    // What follows a stack without a gap is one mapping with it.
    let may_have = |kind: &MemoryKind| matches!(kind, MemoryKind::Unaccounted | MemoryKind::Stacks);
    for run in parts.iter().filter(|part| may_have(&part.kind)).flat_map(|part| &part.runs) {
        let mut next = run.start.checked_next_multiple_of(UNIT);
        while let Some(at) = next.filter(|&at| at < run.end) {
            let Some(left) = looks.checked_sub(1).filter(|_| heads.len() < MOST_HEADS) else { break };
            looks = left;
            let mut bytes = [0; HEAD];
            let is_there = image.read_exact(at, &mut bytes).is_ok();
            missing += usize::from(!is_there);
            let head = Head { at, bytes };
            if is_there && BUILDS.iter().any(|build| said(&build.segment, &head).is_some()) {
                heads.push(head);
            }
            next = at.checked_add(UNIT);
        }
    }
    heads.sort_unstable_by_key(|head| head.at);
    heads.dedup_by_key(|head| head.at);
    (heads, missing)
}

/// Those of this layout: with the same number in their cookies as most have.
fn own<'h>(image: &dyn Image, layout: &SegmentLayout, heads: &'h [Head]) -> Vec<&'h Head> {
    let secret = |head: &Head| word(&head.bytes, layout.cookie) ^ head.at;
    let whole = |head: &&Head| {
        let end = said(layout, head).and_then(|said| head.at.checked_add(said.slices.checked_mul(SLICE)?));
        let last = end.and_then(|end| mapping::find(image.mappings(), end - 1));
        head.at.is_multiple_of(layout.unit) && last.is_some()
    };
    let mut list: Vec<&Head> = heads.iter().filter(whole).collect();
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for head in &list {
        *counts.entry(secret(head)).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|&(_, count)| count).map(|(secret, _)| secret);
    list.retain(|head| most.is_some_and(|most| most != 0 && secret(head) == most));
    list
}

/// What a head says of slices, where it can be one.
fn said(layout: &SegmentLayout, head: &Head) -> Option<Said> {
    let at = |place: usize| word(&head.bytes, place);
    let [slices, info, entries] = [at(layout.slices), at(layout.info), at(layout.entries)];
    let most = layout.unit / SLICE;
    let is_huge = match half(&head.bytes, layout.kind) {
        0 => false,
        1 => true,
        _ => return None,
    };
    // With guarded ends the last slice is not used.
    let described = slices.min(most);
    let fits = entries == described || entries.checked_add(1) == Some(described);
    let before = (1..=MOST_INFO).contains(&info) || (is_huge && info == most);
    let sizes = if is_huge { slices > info && slices < 1 << 32 } else { slices == most };
    let is_sound = fits && before && sizes && at(layout.cookie) != 0 && at(layout.used) <= entries;
    is_sound.then_some(Said { slices, info, entries, is_huge })
}
