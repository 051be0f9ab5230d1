//! A process that uses mimalloc 3, made by hand. For tests and for fuzzing.

use super::layout::{BUILDS, Build, SLICE, Start};
use crate::fuzz::MadeImage;

const DATA: u64 = 0x5510_0000_0000;
/// The upper map, right behind it the lowest one, and two others.
const UPPER: u64 = 0x7f20_0000_0000;
const LOWEST: u64 = UPPER + (2 << 20);
const MAPS: [u64; 2] = [UPPER + (3 << 20), UPPER + (4 << 20)];
/// An arena with pages, and a block from the system.
const ARENA: u64 = 0x7f60_0000_0000;
const ARENA_SLICES: u64 = 32;
const BLOCK: u64 = 0x7f62_0000_0000;
const BLOCK_SLICES: u64 = 16;
/// Where pages are described.
const PAGES: u64 = ARENA + 0x4000;
const THREAD: u64 = 0x7f40_0000_0740;
const KEYS: [u64; 2] = [0x1357_9bdf_0246_8ace, 0x0123_4567_89ab_cdef];

/// What the description of a page says.
#[derive(Default)]
struct Made {
    number: u64,
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
    /// How many layouts of mimalloc 3 there are.
    pub const MIMALLOC_3: usize = BUILDS.len();

    /// With mimalloc 3 in one of its layouts: of blocks of 64 bytes 17 are used, of which another thread has given back two, and three are free;
    /// four of 2,048 are used; one of 114,688 is used and one is free; one of a megabyte is used.
    #[must_use]
    pub fn of_mimalloc_3(layout: usize) -> Self {
        let build = &BUILDS[layout % BUILDS.len()];
        let mut made = Self::default();
        made.map(DATA..DATA + 0x1000, "/bin/server");
        made.map(UPPER..UPPER + (5 << 20), "");
        made.map(ARENA..ARENA + ARENA_SLICES * SLICE, "");
        made.map(BLOCK..BLOCK + BLOCK_SLICES * SLICE, "");
        made.is_in_memory(ARENA..ARENA + 4 * SLICE);
        made.word(DATA + 0x120, UPPER);
        made.word(UPPER, LOWEST);
        for (address, map) in [ARENA, BLOCK].into_iter().zip(MAPS) {
            made.word(UPPER + (address >> 29) * 8, map);
        }
        made.word(ARENA + build.slices, ARENA_SLICES);
        let small = Made {
            slice: 1,
            slices: 1,
            size: 64,
            capacity: 20,
            used: 17,
            free: &[3, 5],
            local: &[7],
            others: &[9, 11],
            ..Made::default()
        };
        made.mimalloc_3_page(build, &small);
        let medium =
            Made { number: 1, slice: 2, slices: 1, size: 2048, capacity: 4, used: 4, ..Made::default() };
        made.mimalloc_3_page(build, &medium);
        let large =
            Made { number: 2, slice: 3, slices: 8, size: 114_688, capacity: 2, used: 1, ..Made::default() };
        made.mimalloc_3_page(build, &Made { free: &[1], ..large });
        let slices = BLOCK_SLICES;
        let block = Made { number: 3, slices, size: 1 << 20, capacity: 1, used: 1, ..Made::default() };
        made.mimalloc_3_page(build, &block);
        made
    }

    fn mimalloc_3_page(&mut self, build: &Build, made: &Made) {
        let at = PAGES + made.number * 256;
        let is_of_arena = made.slice > 0;
        let (from, map) = if is_of_arena { (ARENA, MAPS[0]) } else { (BLOCK, MAPS[1]) };
        for slice in made.slice..made.slice + made.slices {
            self.word(map + slice * 8, at);
        }
        let from = from + made.slice * SLICE;
        let start = from + if is_of_arena { 0x80 } else { 0 };
        let reserved = (from + made.slices * SLICE - start) / made.size;
        let block = |number: &u64| start + number * made.size;
        let first = |numbers: &[u64]| numbers.first().map_or(0, block);
        let place = match build.start {
            Start::Address => start,
            Start::Words => (start - at) / 8,
        };
        self.word(at, THREAD | 2);
        self.word(at + 8, first(made.free));
        self.word(at + 16, made.used | made.capacity << 16 | reserved << 32);
        self.word(at + 24, first(made.local));
        self.word(at + 32, first(made.others) | 1);
        self.word(at + 40, made.size);
        self.word(at + 48, place);
        if let Some(keys) = build.keys {
            self.word(at + keys as u64 * 8, KEYS[0]);
            self.word(at + keys as u64 * 8 + 8, KEYS[1]);
        }
        let memory = match is_of_arena {
            true => [ARENA, made.slice | made.slices << 32, 7],
            false => [from, made.slices * SLICE, 4],
        };
        for (at, word) in (at + build.memory as u64 * 8..).step_by(8).zip(memory) {
            self.word(at, word);
        }
        for numbers in [made.free, made.local, made.others] {
            for (position, number) in numbers.iter().enumerate() {
                let to = numbers.get(position + 1).map_or(0, block);
                self.word(block(number), link(build, at, to));
            }
        }
    }
}

/// As it stands in a block, of a list of what is at `of`.
fn link(build: &Build, of: u64, to: u64) -> u64 {
    if build.keys.is_none() {
        return to;
    }
    let to = if to == 0 { of } else { to };
    (to ^ KEYS[1]).rotate_left((KEYS[0] & 63) as u32).wrapping_add(KEYS[0])
}
