//! Sizes of small blocks, as the process has them in its data (`SizeMap`, `common.h`).
//!
//! ```text
//!  blocks that are moved at once: 4 bytes for each class │ sizes: 4 bytes │ pages of a span: 8 bytes
//! ```

use std::ops::Range;

use biopsy_image::{Image, MemoryExt};

use super::span::PAGE;
use crate::words::{data, each_word};

/// Classes that there is room for: since 2.8, and before.
const ROOMS: [usize; 2] = [128, 96];
/// The largest small block.
const LARGEST: u64 = 256 << 10;
/// Fewer classes nobody has.
const FEWEST: usize = 30;
/// The first two sizes, side by side: where all sizes begin at a multiple of 8 a 0 stands before them.
const FIRST: u64 = 8;
const SECOND: u64 = 16;
/// Pages of a span of small blocks.
const MOST_PAGES: u64 = 512;

/// Those of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// By class; the first is none.
    rows: Vec<Row>,
    /// Classes that there is room for.
    pub(super) room: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Row {
    size: u64,
    pages: u64,
    /// Blocks that a cache and the central list give each other at once.
    moved: u64,
}

impl Sizes {
    /// Finds them in the data of modules.
    pub(super) fn find(image: &dyn Image, budget: &mut u64) -> Option<Self> {
        for range in data(image.mappings(), 0) {
            let mut found = None;
            each_word(image, range, budget, &mut |at, word| {
                let first = match word {
                    // Class 0 has the four bytes before, or these.
                    _ if word == FIRST | SECOND << 32 => at.checked_sub(4),
                    _ if word == FIRST << 32 => Some(at),
                    _ => None,
                };
                found = first.and_then(|first| ROOMS.iter().find_map(|&room| Self::at(image, first, room)));
                found.is_none()
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// With sizes from this address on.
    fn at(image: &dyn Image, first: u64, room: usize) -> Option<Self> {
        let halves = |from: u64| numbers::<4>(image, from..from.checked_add(room as u64 * 4)?);
        let sizes = halves(first)?;
        let moved = halves(first.checked_sub(room as u64 * 4)?)?;
        let behind = first.checked_add(room as u64 * 4)?.checked_next_multiple_of(8)?;
        let pages = numbers::<8>(image, behind..behind.checked_add(room as u64 * 8)?)?;
        let count = sizes.iter().position(|&size| size == LARGEST)? + 1;
        let rows: Vec<Row> = sizes
            .iter()
            .zip(&pages)
            .zip(&moved)
            .map(|((&size, &pages), &moved)| Row { size, pages, moved })
            .collect();
        let (rows, rest) = rows.split_at_checked(count)?;
        let none = Row { size: 0, pages: 0, moved: 0 };
        let fits = |row: &Row| {
            (1..=MOST_PAGES).contains(&row.pages) && row.pages >= row.size.div_ceil(PAGE) && row.moved > 0
        };
        let is_sound = count >= FEWEST
            && rows.first() == Some(&none)
            && rows.windows(2).all(|pair| matches!(pair, [one, two] if one.size < two.size))
            && rows.iter().skip(1).all(fits)
            && rest.iter().all(|row| *row == none);
        is_sound.then(|| Self { rows: rows.to_vec(), room })
    }

    /// Classes that there are, with that of none.
    pub(super) fn count(&self) -> usize {
        self.rows.len()
    }

    /// Bytes of a block of this class, which is not that of none.
    pub(super) fn size(&self, class: usize) -> Option<u64> {
        self.row(class).map(|row| row.size)
    }

    /// Pages of its spans.
    pub(super) fn pages(&self, class: usize) -> Option<u64> {
        self.row(class).map(|row| row.pages)
    }

    /// Blocks that are moved at once.
    pub(super) fn moved(&self, class: usize) -> Option<u64> {
        self.row(class).map(|row| row.moved)
    }

    fn row(&self, class: usize) -> Option<&Row> {
        self.rows.get(class).filter(|_| class > 0)
    }
}

/// Numbers of `BYTES` bytes side by side.
fn numbers<const BYTES: usize>(image: &dyn Image, range: Range<u64>) -> Option<Vec<u64>> {
    let mut bytes = vec![0; usize::try_from(range.end - range.start).ok()?];
    image.read_exact(range.start, &mut bytes).ok()?;
    let number =
        |held: &[u8; BYTES]| held.iter().rev().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    Some(bytes.as_chunks::<BYTES>().0.iter().map(number).collect())
}
