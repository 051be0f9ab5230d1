//! A process that uses tcmalloc, made by hand. For tests and for fuzzing.

use super::span::{PAGE, PAGE_BITS};
use crate::fuzz::MadeImage;

/// Data of the library, and what follows it: the root of the map, sizes, central lists, where a cache is.
const DATA: u64 = 0x7f10_0000_0000;
const ROOT: u64 = DATA + 0x1040;
const SIZES: u64 = DATA + 0x11_0004;
const CENTRAL: u64 = DATA + 0x11_4000;
const FIRST_CACHE: u64 = DATA + 0x10_5000;
/// Bookkeeping: a leaf, spans, caches of two threads.
const BOOKS: u64 = 0x7f20_0000_0000;
const LEAF: u64 = BOOKS + 0x1000;
const SPANS: u64 = BOOKS + 0x20_2000;
const CACHES: [u64; 2] = [BOOKS + 0x20_4000, BOOKS + 0x20_6000];
/// Memory that is handed out.
const HEAP: u64 = 0x7f30_0000_0000;
const HEAP_PAGES: u64 = 16;
const ROOM: u64 = 128;

/// Sizes of blocks: 8, multiples of 16 to 128, then four to each power of two.
fn sizes() -> Vec<u64> {
    let mut sizes = vec![0, 8];
    sizes.extend((1..=8).map(|number| number * 16));
    let mut base = 128;
    while base < 256 << 10 {
        sizes.extend((1..=4).map(|quarter| base + base / 4 * quarter));
        base *= 2;
    }
    sizes
}

impl MadeImage {
    /// With tcmalloc of gperftools: of 128 blocks of 64 bytes 125 are used, of which a thread keeps two and the central list two; a block of two
    /// pages is used, five pages are free, and eight are addresses alone.
    #[must_use]
    pub fn of_tcmalloc() -> Self {
        let mut made = Self::default();
        made.map(DATA..DATA + 0x1000, "/lib/libtcmalloc_minimal.so.4");
        made.map(DATA + 0x1000..DATA + 0x14_0000, "");
        made.map(BOOKS..BOOKS + 0x40_0000, "");
        made.map(HEAP..HEAP + HEAP_PAGES * PAGE, "");
        made.is_in_memory(HEAP..HEAP + 8 * PAGE);
        made.tcmalloc_sizes();
        let page = HEAP >> PAGE_BITS;
        made.word(ROOT + (page >> 18) * 8, LEAF);
        let free = HEAP + 3 * 64;
        for (number, (first, length, objects, bits)) in
            (0..).zip([(0, 1, free, 5 << 16 | 125), (1, 2, 0, 0), (3, 5, 0, 1 << 24), (8, 8, 0, 2 << 24)])
        {
            let span = SPANS + number * 48;
            for (at, word) in (span..).step_by(8).zip([page + first, length, 0, 0, objects, bits]) {
                made.word(at, word);
            }
            for page in [page + first, page + first + length - 1] {
                made.word(LEAF + (page & 0x3_ffff) * 8, span);
            }
        }
        // A page in the middle of the free ones leads to what was there before.
        made.word(LEAF + ((page + 5) & 0x3_ffff) * 8, SPANS + 4 * 48);
        made.tcmalloc_list(&[3, 5, 7]);
        made.tcmalloc_caches();
        made
    }

    fn tcmalloc_sizes(&mut self) {
        for (class, size) in (0..).zip(sizes()) {
            self.part(SIZES - ROOM * 4 + class * 4, 4, if class == 0 { 0 } else { 2 });
            self.part(SIZES + class * 4, 4, size);
            self.word(SIZES + 4 + ROOM * 4 + class * 8, size.div_ceil(PAGE));
        }
        // What is behind them is there as well.
        self.word(SIZES + 4 + ROOM * 12, 0);
    }

    /// Blocks of 64 bytes, one leading to the next.
    fn tcmalloc_list(&mut self, numbers: &[u64]) -> u64 {
        let block = |number: &u64| HEAP + number * 64;
        for (position, number) in numbers.iter().enumerate() {
            self.word(block(number), numbers.get(position + 1).map_or(0, block));
        }
        numbers.first().map_or(0, block)
    }

    fn tcmalloc_caches(&mut self) {
        self.word(FIRST_CACHE, CACHES[0]);
        for (class, size) in (0..).zip(sizes()) {
            for cache in CACHES {
                self.part(cache + class * 32 + 24, 4, size);
            }
            self.word(CENTRAL + class * 1216 + 8, class);
        }
        // Behind the lists the links to each other.
        self.word(CACHES[0] + ROOM * 32 + 64, CACHES[1]);
        self.word(CACHES[1] + ROOM * 32 + 72, CACHES[0]);
        let kept = self.tcmalloc_list(&[10, 11]);
        self.word(CACHES[1] + 5 * 32, kept);
        self.part(CACHES[1] + 5 * 32 + 8, 4, 2);
        let moved = self.tcmalloc_list(&[20, 21]);
        self.word(CENTRAL + 5 * 1216 + 128, moved);
        self.part(CENTRAL + 5 * 1216 + 1152, 4, 1);
    }
}
