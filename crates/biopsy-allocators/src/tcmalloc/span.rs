//! One span: a run of pages, as it is described (`span.h`).
//!
//! ```text
//!  0 first page │ 8 pages │ 16 next │ 24 previous │ 32 free blocks │ 40 blocks in use: 16 bits, class: 8, free: 2 ...
//! ```

use crate::pages::Pages;

/// Bytes of a page of tcmalloc, as it is built by default.
pub(super) const PAGE_BITS: u32 = 13;
pub(super) const PAGE: u64 = 1 << PAGE_BITS;
/// Pages that there are: of 48 bits of address.
pub(super) const PAGES: u64 = 1 << (48 - PAGE_BITS);

/// One, as it is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Its first page, and how many it has.
    pub(super) start: u64,
    pub(super) length: u64,
    /// Where the list of its free blocks begins; 0: there is none.
    pub(super) objects: u64,
    /// Blocks in use, or kept by caches.
    pub(super) used: u64,
    /// Of its blocks; 0: it is one block, or free.
    pub(super) class: usize,
    /// In use, free, or free and given back to the system.
    pub(super) location: u64,
}

impl Span {
    pub(super) fn address(&self) -> u64 {
        self.start << PAGE_BITS
    }

    pub(super) fn bytes(&self) -> u64 {
        self.length << PAGE_BITS
    }

    pub(super) fn end(&self) -> u64 {
        self.address() + self.bytes()
    }
}

/// What a description at this address says, where it can be one.
pub(super) fn span(pages: &mut Pages<'_>, at: u64) -> Option<Span> {
    if !at.is_multiple_of(8) {
        return None;
    }
    let [start, length, _, _, objects, bits] = pages.words(at)?;
    let fits = start > 0 && length > 0 && start.checked_add(length).is_some_and(|end| end <= PAGES);
    let (used, class, location) = (bits & 0xffff, bits >> 16 & 0xff, bits >> 24 & 3);
    let span =
        Span { start, length, objects, used, class: usize::try_from(class).unwrap_or(usize::MAX), location };
    (fits && location <= 2 && (location == 0 || class == 0)).then_some(span)
}
