//! Data of modules, word by word.

use std::ops::Range;

use biopsy_image::{Backing, Image, Mapping, MemoryExt};

/// Bytes of data of modules that are searched.
pub(crate) const MOST_SEARCHED: u64 = 128 << 20;
/// Of one mapping: other memory may follow a module's data without a gap.
const MOST_OF_ONE: u64 = 64 << 20;
/// What a module's data has less than a variable that begins in its last page that is mapped from the file.
const LESS: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// Bytes read at once.
pub(crate) const PIECE: u64 = 256 << 10;

/// Data of modules in which a variable of so many bytes has room: what is mapped from a file and may be written, and memory that follows it without
/// a gap.
pub(crate) fn data(mappings: &[Mapping], bytes: u64) -> Vec<Range<u64>> {
    let mut found: Vec<Range<u64>> = Vec::new();
    let mut behind = None;
    for one in mappings {
        let is_data = match &one.backing {
            Backing::File { .. } => true,
            Backing::Anonymous { label } => behind == Some(one.start) && !label.starts_with('['),
            Backing::Kernel { .. } | Backing::Unknown => false,
        };
        behind = is_data.then_some(one.end);
        if behind.is_some() && one.protection.write && !one.shared && one.size() + LESS >= bytes {
            found.push(one.start..one.end.min(one.start.saturating_add(MOST_OF_ONE)));
        }
    }
    found
}

/// Each word of a range that was written to, with its address, until `visit` says no or so many bytes are read. Gives whether all that was to be
/// read is in the image.
pub(crate) fn each_word(
    image: &dyn Image,
    range: Range<u64>,
    budget: &mut u64,
    visit: &mut dyn FnMut(u64, u64) -> bool,
) -> bool {
    let mut runs = Vec::new();
    let pages = range.start / PAGE * PAGE..range.end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
    if image.written(pages, &mut runs).is_err() {
        return false;
    }
    let mut whole = true;
    let mut bytes = Vec::new();
    for run in runs {
        let end = run.end.min(range.end);
        let mut at = run.start.max(range.start).next_multiple_of(8);
        while at < end {
            let length = (end - at).min(PIECE);
            let Some(left) = budget.checked_sub(length) else { return false };
            *budget = left;
            bytes.resize(usize::try_from(length).unwrap_or(0), 0);
            let there = image.read_available(at, &mut bytes);
            whole &= there == bytes.len();
            let words = bytes.get(..there).unwrap_or_default().as_chunks::<8>().0;
            for (at, word) in (at..).step_by(8).zip(words) {
                if !visit(at, u64::from_le_bytes(*word)) {
                    return whole;
                }
            }
            at += length;
        }
    }
    whole
}
