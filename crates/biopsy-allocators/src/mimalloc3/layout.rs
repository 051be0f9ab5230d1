//! Where what is in pages and arenas of mimalloc 3, by version, and with free lists that are plain or encoded (`include/mimalloc/types.h`).

/// What memory is given out in (`MI_ARENA_SLICE_SIZE`).
pub(super) const SLICE: u64 = 64 << 10;
/// Words of the description of a page that are read, in all layouts.
pub(super) const WORDS: usize = 17;

/// A version, built in one way. What differs is where things are in the description of a page (`mi_page_t`), in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Build {
    pub(super) start: Start,
    /// Two numbers that links of its lists are mixed with; `None`: they are plain.
    pub(super) keys: Option<usize>,
    /// From whom it has its memory (`mi_memid_t`).
    pub(super) memory: usize,
    /// In the description of an arena (`mi_arena_t`), in bytes: how many slices it has.
    pub(super) slices: u64,
}

/// How the description of a page says where its first block is, in the word behind their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    Address,
    /// So many words behind the description, in half of it.
    Words,
}

const fn build(start: Start, keys: Option<usize>, memory: usize, slices: u64) -> Build {
    Build { start, keys, memory, slices }
}

/// All that are known.
pub(super) const BUILDS: [Build; 6] = [
    // 3.4.
    build(Start::Words, None, 11, 40),
    build(Start::Words, Some(7), 13, 40),
    // 3.2 and 3.3.
    build(Start::Address, None, 12, 40),
    build(Start::Address, Some(7), 14, 40),
    // 3.1.
    build(Start::Address, None, 12, 32),
    build(Start::Address, Some(8), 14, 32),
];
