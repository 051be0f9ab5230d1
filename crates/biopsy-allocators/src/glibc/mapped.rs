//! Large blocks with a mapping of their own, and what the allocator says of them (`malloc_par`, malloc/malloc.c).

use biopsy_image::{Image, Mapping, MemoryExt, PAGE_SIZE, mapping};
use biopsy_model::footprint::Blocks;

use super::chunk::{Header, SMALLEST};
use crate::parts::Piece;
use crate::window::Window;

/// `n_mmaps_max` unless somebody has set it.
const MOST_BY_DEFAULT: u32 = 65536;
/// Bytes of data that are searched for `malloc_par`.
const MOST_SEARCHED: u64 = 64 << 20;

/// What the allocator says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Parameters {
    /// Blocks with a mapping of their own.
    pub(super) mapped: Blocks,
    /// Where the data segment began to grow; `None`: it has not.
    pub(super) start: Option<u64>,
}

/// Finds it in the data of the module: how many mappings there are, may be and have been, and whether their size adapts; then
/// their bytes, the most bytes, and where the data segment began to grow. Since 2.35 a flag stands before the four numbers.
pub(super) fn parameters(image: &dyn Image, data: &Mapping) -> Option<Parameters> {
    let length = usize::try_from(data.size().min(MOST_SEARCHED)).ok()?;
    let mut bytes = vec![0; length];
    let read = image.read_available(data.start, &mut bytes);
    let words: Vec<u64> =
        bytes.get(..read)?.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.windows(6).find_map(|window| {
        let [first, second, third, fourth, fifth, sixth] = *window else { return None };
        match [halves(first), halves(second), halves(third)] {
            [[count, MOST_BY_DEFAULT], [most_ever, 0 | 1], _] => {
                sound(image, [count, most_ever], [third, fourth], fifth)
            }
            [[_, count], [MOST_BY_DEFAULT, most_ever], [0 | 1, _]] => {
                sound(image, [count, most_ever], [fourth, fifth], sixth)
            }
            _ => None,
        }
    })
}

fn halves(word: u64) -> [u32; 2] {
    #[expect(clippy::cast_possible_truncation, reason = "the two halves")]
    [word as u32, (word >> 32) as u32]
}

fn sound(image: &dyn Image, [count, most_ever]: [u32; 2], bytes: [u64; 2], start: u64) -> Option<Parameters> {
    let pages = bytes.iter().all(|bytes| bytes % PAGE_SIZE == 0);
    let [bytes, most_bytes] = bytes;
    let ordered = count <= most_ever && most_ever <= MOST_BY_DEFAULT && bytes <= most_bytes;
    let grows = start == 0 || mapping::find(image.mappings(), start).is_some();
    let mapped = Blocks { count: count.into(), bytes };
    (ordered && pages && grows).then_some(Parameters { mapped, start: (start != 0).then_some(start) })
}

/// Looks for them in anonymous memory: each begins on a page with its header. Appends address and size.
pub(super) fn find(window: &mut Window<'_>, piece: &Piece, found: &mut Vec<(u64, u64)>) {
    let mut behind = piece.range.start;
    for run in &piece.runs {
        let mut at = run.start.max(behind);
        while at < run.end {
            let Some(header) = Header::read(window, at) else { break };
            let size = header.size;
            let ends = at.checked_add(size).filter(|&end| end <= piece.range.end);
            let is_one = header.is_mapped
                && !header.previous_in_use
                && size >= SMALLEST
                && size % PAGE_SIZE == 0
                && window.word(at).is_some_and(|before| before == 0);
            match ends.filter(|_| is_one) {
                Some(end) => {
                    found.push((at, size));
                    at = end;
                    behind = end;
                }
                // A dump may have memory in the last page of all.
                None => at = at.saturating_add(PAGE_SIZE),
            }
        }
    }
}
