//! Pages: runs of slices with blocks of one size (`mi_page_t`).

use super::layout::{Build, PageLayout, SLICE, Start, half, short, word};
use crate::regions::Region;

/// In older versions a size that does not fit 32 bits: the block is all of the page.
const HUGE: u64 = 2 << 30;
/// What a page has for the size of its blocks while it is given back.
const GOES: u64 = 1;

/// One that is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    /// Where it is described.
    at: u64,
    /// Its blocks that have been in a list at least once; in use are also those that others gave back. Lists are those of blocks to give out, and of those
    /// that its thread gave back.
    pub(super) region: Region,
    /// Blocks that there is room for.
    pub(super) reserved: u64,
    /// The list of blocks that others gave back.
    pub(super) others: u64,
    /// Whose it is; 0: nobody's.
    pub(super) heap: u64,
    keys: Option<[u64; 2]>,
}

/// What the description of a slice says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Described {
    Page(Page),
    /// Slices of no page, or of one that is made or given back just now.
    Free,
    /// A page that cannot be one.
    Torn,
}

impl Page {
    /// Reads the description at `at`, of slices from `area` on.
    pub(super) fn parse(build: &Build, bytes: &[u8], at: u64, area: u64, slices: u64) -> Described {
        let layout = &build.page;
        let room = slices.saturating_mul(SLICE);
        let size = size(layout, bytes);
        let [capacity, reserved] = [10, 12].map(|at| short(bytes, at));
        if size == 0 || (capacity == 0 && reserved == 0 && (size == GOES || size == room.min(HUGE))) {
            return Described::Free;
        }
        Self::sound(build, bytes, at, area, room).map_or(Described::Torn, Described::Page)
    }

    fn sound(build: &Build, bytes: &[u8], at: u64, area: u64, room: u64) -> Option<Self> {
        let layout = &build.page;
        let size = match (size(layout, bytes), layout.start) {
            (HUGE, Start::Fixed(_) | Start::Blocks) => room,
            (size, _) => size,
        };
        let into = match (layout.start.of(size), layout.start) {
            (None, Start::Stored(at)) => word(bytes, at).checked_sub(area)?,
            (into, _) => into?,
        };
        let [capacity, reserved] = [10, 12].map(|at| short(bytes, at));
        let used = match layout.start {
            Start::Stored(_) => short(bytes, layout.used),
            Start::Fixed(_) | Start::Blocks => half(bytes, layout.used),
        };
        // 16 bits of it are kept.
        let fits = room.checked_sub(into)?.checked_div(size)? & 0xffff == reserved;
        let is_sound = fits && size >= 8 && capacity <= reserved && used <= capacity;
        let page = Self {
            at,
            region: Region {
                start: area.checked_add(into)?,
                size,
                blocks: capacity,
                used,
                lists: [word(bytes, 16), word(bytes, layout.local)],
            },
            reserved,
            others: word(bytes, layout.others) & !3,
            heap: word(bytes, layout.heap),
            keys: layout.keys.map(|at| [word(bytes, at), word(bytes, at + 8)]),
        };
        page.region.start.checked_add(reserved.checked_mul(size)?)?;
        let leads = |list: u64| list == 0 || page.region.number(list).is_some();
        let [first, second] = page.region.lists;
        (is_sound && leads(first) && leads(second) && leads(page.others)).then_some(page)
    }

    /// What the link in a block of its lists leads to; 0: nothing.
    pub(super) fn next(&self, link: u64) -> u64 {
        decoded(self.keys, self.at, link)
    }
}

/// A link as it is, or mixed with two numbers, where the end is the address of whose list it is.
pub(super) fn decoded(keys: Option<[u64; 2]>, of: u64, link: u64) -> u64 {
    let Some([first, second]) = keys else { return link };
    let to = link.wrapping_sub(first).rotate_right((first & 63) as u32) ^ second;
    if to == of { 0 } else { to }
}

fn size(layout: &PageLayout, bytes: &[u8]) -> u64 {
    match layout.start {
        Start::Stored(_) => word(bytes, layout.size),
        Start::Fixed(_) | Start::Blocks => half(bytes, layout.size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mimalloc::layout::BUILDS;

    /// As `mi_ptr_encode` of `internal.h` does it.
    #[test]
    fn what_is_encoded_is_decoded() {
        let keys = [0x1234_5678_9abc_def1, 0xfedc_ba98_7654_3210];
        let encode = |to: u64| (to ^ keys[1]).rotate_left((keys[0] & 63) as u32).wrapping_add(keys[0]);
        for to in [8, 0x7f00_0000_1230, u64::MAX] {
            assert_eq!(decoded(Some(keys), 0x1000, encode(to)), to);
        }
        assert_eq!(decoded(Some(keys), 0x1000, encode(0x1000)), 0, "the end");
        assert_eq!(decoded(None, 0x1000, 0x2000), 0x2000);
    }

    /// As `_mi_segment_page_start` of each version says it, and as sizes, numbers and places at their ends.
    #[test]
    fn a_page_says_how_many_blocks_it_has_room_for() {
        let area = 0x7f00_0001_0000;
        for build in BUILDS.iter().filter(|build| build.page.keys.is_none()) {
            for (size, slices) in [(16_u64, 1_u64), (80, 1), (2048, 1), (114_688, 8), (40 << 20, 641)] {
                let layout = &build.page;
                let into = layout.start.of(size).unwrap_or(320);
                let room = (slices * SLICE - into) / size;
                let mut bytes = vec![0; layout.bytes];
                let mut put = |at: usize, length: usize, value: u64| {
                    bytes[at..at + length].copy_from_slice(&value.to_le_bytes()[..length]);
                };
                put(10, 2, 1);
                put(12, 2, room);
                put(layout.used, 2, 1);
                match layout.start {
                    Start::Stored(at) => {
                        put(layout.size, 8, size);
                        put(at, 8, area + into);
                    }
                    Start::Fixed(_) | Start::Blocks => put(layout.size, 4, size),
                }
                let parse = |bytes: &[u8]| Page::parse(build, bytes, 0x1000, area, slices);
                let Described::Page(page) = parse(&bytes) else { panic!("{size}: {build:?}") };
                let region = page.region;
                assert_eq!(
                    (region.start, region.size, page.reserved),
                    (area + into, size, room),
                    "{build:?}"
                );
                assert_eq!([0, size].map(|into| region.number(region.start + into)), [Some(0), None]);
                bytes[12] ^= 1;
                assert_eq!(parse(&bytes), Described::Torn, "{size}: {build:?}");
                assert_eq!(parse(&vec![0; layout.bytes]), Described::Free);
                assert_eq!(parse(&[]), Described::Free, "a description that is not there");
            }
        }
    }
}
