//! A process that uses mimalloc, made by hand. For tests and for fuzzing.

use super::layout::{BUILDS, Build, SLICE, Start};
use crate::fuzz::MadeImage;

/// Memory of a heap's own structure, and what it has from the system.
const HEAP: u64 = 0x7f50_0000_0000;
const SEGMENT: u64 = 0x7f60_0000_0000;
const HUGE_SLICES: u64 = 20;
/// Threads, by the addresses of their control blocks.
const THREAD: u64 = 0x7f40_0000_0740;
const SECRET: u64 = 0x5ec2_e7c0_ffee_1234;
const KEYS: [u64; 2] = [0x1357_9bdf_0246_8ace, 0x0123_4567_89ab_cdef];

/// What the description of a page says.
#[derive(Default)]
struct Made {
    slice: u64,
    slices: u64,
    size: u64,
    capacity: u64,
    used: u64,
    /// Numbers of blocks, for each list.
    free: &'static [u64],
    local: &'static [u64],
    others: &'static [u64],
}

impl MadeImage {
    /// How many layouts of mimalloc there are.
    pub const MIMALLOC: usize = BUILDS.len();

    /// With mimalloc in one of its layouts, a segment of a thread and one of a huge block: of blocks of 64 bytes 17 are used, of which other threads
    /// have given back two, and three are free; four of 2,048 are used; one of 114,688 is used and one is free; one of a megabyte is used.
    #[must_use]
    pub fn of_mimalloc(layout: usize) -> Self {
        let build = &BUILDS[layout % BUILDS.len()];
        let mut made = Self::default();
        let huge = SEGMENT + build.segment.unit;
        made.map(HEAP..HEAP + 0x1000, "");
        made.map(SEGMENT..huge + HUGE_SLICES * SLICE, "");
        made.is_in_memory(SEGMENT..SEGMENT + 3 * SLICE);
        let all = build.segment.unit / SLICE;
        made.mimalloc_segment(build, SEGMENT, all, 3);
        let small = Made {
            slice: 1,
            slices: 1,
            size: 64,
            capacity: 20,
            used: 17,
            free: &[3, 5],
            local: &[7],
            others: &[9],
        };
        let start = made.mimalloc_page(build, SEGMENT, &small);
        made.mimalloc_page(
            build,
            SEGMENT,
            &Made { slice: 2, slices: 1, size: 2048, capacity: 4, used: 4, ..Made::default() },
        );
        let large = Made { slice: 3, slices: 8, size: 114_688, capacity: 2, used: 1, ..Made::default() };
        made.mimalloc_page(build, SEGMENT, &Made { free: &[1], ..large });
        made.mimalloc_slices(build, SEGMENT, 11, all - 11);
        // Around the list something else stands, as it does there.
        if build.delayed > 8 {
            made.word(HEAP + 2840, 131_080);
            made.word(HEAP + 2848, THREAD);
        }
        // It is where a thread has put it whose page was full.
        made.word(HEAP + build.delayed, start + 11 * 64);
        made.word(HEAP + build.delayed_keys, KEYS[0]);
        made.word(HEAP + build.delayed_keys + 8, KEYS[1]);
        made.word(start + 11 * 64, link(build, HEAP, 0));
        made.mimalloc_segment(build, huge, HUGE_SLICES, 1);
        let slices = HUGE_SLICES - 1;
        let block = Made { slice: 1, slices, size: slices * SLICE, capacity: 1, used: 1, ..Made::default() };
        made.mimalloc_page(build, huge, &block);
        made
    }

    fn mimalloc_segment(&mut self, build: &Build, at: u64, slices: u64, used: u64) {
        let layout = build.segment;
        let is_huge = u64::from(slices == HUGE_SLICES);
        for (place, word) in [
            (layout.used, used),
            (layout.cookie, at ^ SECRET),
            (layout.slices, slices),
            (layout.info, 1),
            (layout.kind, is_huge),
            (layout.entries, slices),
            (layout.thread, THREAD),
        ] {
            self.word(at + place as u64, word);
        }
        self.mimalloc_slices(build, at, 0, 1);
    }

    /// Slices of no page; gives where they are described.
    fn mimalloc_slices(&mut self, build: &Build, segment: u64, slice: u64, slices: u64) -> u64 {
        let at = segment + build.segment.first as u64 + slice * build.page.bytes as u64;
        self.part(at, 4, slices);
        at
    }

    /// Gives the address of its first block.
    fn mimalloc_page(&mut self, build: &Build, segment: u64, made: &Made) -> u64 {
        let layout = build.page;
        let at = self.mimalloc_slices(build, segment, made.slice, made.slices);
        let area = segment + made.slice * SLICE;
        let is_huge = made.size >= 1 << 20;
        // What a page stores begins where the rule of the same time says.
        let rule = if matches!(layout.start, Start::Stored(_)) { Start::Blocks } else { layout.start };
        let start = area + if is_huge { 0 } else { rule.of(made.size).unwrap_or_default() };
        self.part(at + 10, 2, made.capacity);
        self.part(at + 12, 2, (area + made.slices * SLICE - start) / made.size);
        if let Start::Stored(place) = layout.start {
            self.part(at + layout.used as u64, 2, made.used);
            self.word(at + layout.size as u64, made.size);
            self.word(at + place as u64, start);
        } else {
            self.part(at + layout.used as u64, 4, made.used);
            self.part(at + layout.size as u64, 4, made.size);
        }
        if let Some(keys) = layout.keys {
            self.word(at + keys as u64, KEYS[0]);
            self.word(at + keys as u64 + 8, KEYS[1]);
        }
        self.word(at + layout.heap as u64, HEAP);
        let lists = [(16, made.free, 0), (layout.local, made.local, 0), (layout.others, made.others, 2)];
        for (place, numbers, flags) in lists {
            let block = |number: &u64| start + number * made.size;
            self.word(at + place as u64, numbers.first().map_or(0, block) | flags);
            for (position, number) in numbers.iter().enumerate() {
                let to = numbers.get(position + 1).map_or(0, block);
                self.word(block(number), link(build, at, to));
            }
        }
        start
    }
}

/// As it stands in a block, of a list of what is at `of`.
fn link(build: &Build, of: u64, to: u64) -> u64 {
    if build.page.keys.is_none() {
        return to;
    }
    let to = if to == 0 { of } else { to };
    (to ^ KEYS[1]).rotate_left((KEYS[0] & 63) as u32).wrapping_add(KEYS[0])
}
