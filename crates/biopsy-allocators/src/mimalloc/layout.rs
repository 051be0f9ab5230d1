//! Where what is in segments and pages, by version (`include/mimalloc/types.h`), and with free lists that are plain or encoded (`MI_SECURE`).

/// What segments are divided into (`MI_SEGMENT_SLICE_SIZE`).
pub(super) const SLICE: u64 = 64 << 10;
/// Bytes of a segment's head, up to its slices, in all layouts.
pub(super) const HEAD: usize = 368;

/// Of a segment (`mi_segment_t`): where each field is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentLayout {
    /// What it lies at a multiple of, and how large it is unless it is of one huge block.
    pub(super) unit: u64,
    /// How many pages of it are used.
    pub(super) used: usize,
    pub(super) cookie: usize,
    /// How many slices it has.
    pub(super) slices: usize,
    /// How many of them are before the first page.
    pub(super) info: usize,
    pub(super) kind: usize,
    /// How many slices are described.
    pub(super) entries: usize,
    pub(super) thread: usize,
    /// The description of the first slice.
    pub(super) first: usize,
}

/// Of a page, which is the description of its first slice (`mi_page_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageLayout {
    pub(super) bytes: usize,
    /// Half a word where it is the older one, two bytes where it is the newer one.
    pub(super) used: usize,
    /// Of its blocks: half a word, or a word.
    pub(super) size: usize,
    /// The list of blocks that its thread gave back.
    pub(super) local: usize,
    /// That of blocks that others gave back.
    pub(super) others: usize,
    pub(super) heap: usize,
    /// Two numbers that links of its lists are mixed with; `None`: they are plain.
    pub(super) keys: Option<usize>,
    pub(super) start: Start,
}

/// How far into its slices the first block of a page is (`_mi_segment_page_start`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Start {
    /// So many bytes, of blocks of 8 to 1,024.
    Fixed(u64),
    /// Three blocks to 64 bytes, one to 512.
    Blocks,
    /// It is in the page, at this place, and sizes of blocks are words.
    Stored(usize),
}

impl Start {
    /// Bytes from the first slice to the first block; `None`: the page says it.
    pub(super) fn of(self, size: u64) -> Option<u64> {
        match self {
            Self::Fixed(bytes) if (8..=1024).contains(&size) => Some(bytes),
            Self::Blocks if (8..=64).contains(&size) => Some(3 * size),
            Self::Blocks if (65..=512).contains(&size) => Some(size),
            Self::Fixed(_) | Self::Blocks => Some(0),
            Self::Stored(_) => None,
        }
    }
}

/// A version, built in one way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Build {
    pub(super) segment: SegmentLayout,
    pub(super) page: PageLayout,
    /// In a heap (`mi_heap_t`), the list of blocks that others gave back whose pages were full, and the two numbers for its links.
    pub(super) delayed: u64,
    pub(super) delayed_keys: u64,
}

/// 2.0.3 to 2.0.7.
const OLDEST: SegmentLayout = SegmentLayout {
    unit: 64 << 20,
    used: 312,
    cookie: 320,
    slices: 328,
    info: 336,
    kind: 344,
    entries: 360,
    thread: 352,
    first: 368,
};
/// 2.0.9 to 2.1.7.
const MIDDLE: SegmentLayout = SegmentLayout {
    unit: 32 << 20,
    used: 208,
    cookie: 216,
    slices: 224,
    info: 232,
    kind: 240,
    entries: 248,
    thread: 256,
    first: 264,
};
/// 2.1.9 and newer.
const NEWEST: SegmentLayout = SegmentLayout {
    unit: 32 << 20,
    used: 216,
    cookie: 224,
    slices: 248,
    info: 256,
    kind: 264,
    entries: 272,
    thread: 280,
    first: 288,
};

/// To 2.1.2.
const PLAIN: PageLayout = PageLayout {
    bytes: 80,
    used: 24,
    size: 28,
    local: 32,
    others: 40,
    heap: 48,
    keys: None,
    start: Start::Fixed(128),
};
/// The same, encoded, to 2.0.7.
const EARLY_KEYS: PageLayout =
    PageLayout { bytes: 96, used: 40, size: 44, local: 48, others: 56, heap: 64, keys: Some(24), ..PLAIN };
/// The same, encoded, since 2.0.9.
const LATE_KEYS: PageLayout = PageLayout { bytes: 96, others: 56, heap: 64, keys: Some(40), ..PLAIN };
/// Since 2.1.4.
const WORDS: PageLayout = PageLayout {
    bytes: 96,
    used: 32,
    size: 40,
    local: 24,
    others: 56,
    heap: 64,
    keys: None,
    start: Start::Stored(48),
};
const WORDS_KEYS: PageLayout = PageLayout { bytes: 112, others: 72, heap: 80, keys: Some(56), ..WORDS };

const fn build(segment: SegmentLayout, page: PageLayout, delayed: u64, delayed_keys: u64) -> Build {
    Build { segment, page, delayed, delayed_keys }
}

const fn starting(page: PageLayout, start: Start) -> PageLayout {
    PageLayout { start, ..page }
}

/// All that are known.
pub(super) const BUILDS: [Build; 13] = [
    build(NEWEST, WORDS, 8, 40),
    build(NEWEST, WORDS_KEYS, 8, 40),
    // 2.1.4 to 2.1.7.
    build(MIDDLE, WORDS, 8, 40),
    build(MIDDLE, WORDS_KEYS, 8, 40),
    // 2.1.2.
    build(MIDDLE, starting(PLAIN, Start::Blocks), 2848, 2880),
    build(MIDDLE, starting(LATE_KEYS, Start::Blocks), 2848, 2880),
    // 2.1.0 and 2.1.1.
    build(MIDDLE, starting(PLAIN, Start::Blocks), 2840, 2872),
    build(MIDDLE, starting(LATE_KEYS, Start::Blocks), 2840, 2872),
    // 2.0.9.
    build(MIDDLE, starting(PLAIN, Start::Fixed(384)), 2840, 2872),
    build(MIDDLE, starting(LATE_KEYS, Start::Fixed(384)), 2840, 2872),
    // 2.0.7, and with links that are plain also what was before it.
    build(OLDEST, PLAIN, 2840, 2872),
    build(OLDEST, EARLY_KEYS, 2840, 2872),
    // 2.0.3 to 2.0.6.
    build(OLDEST, EARLY_KEYS, 2840, 2864),
];

/// The word at this place; 0 behind the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let held = at.checked_add(8).and_then(|end| bytes.get(at..end));
    held.and_then(|held| held.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Half a word.
pub(super) fn half(bytes: &[u8], at: usize) -> u64 {
    let held = at.checked_add(4).and_then(|end| bytes.get(at..end));
    held.and_then(|held| held.try_into().ok()).map_or(0, u32::from_le_bytes).into()
}

/// Two bytes.
pub(super) fn short(bytes: &[u8], at: usize) -> u64 {
    let held = at.checked_add(2).and_then(|end| bytes.get(at..end));
    held.and_then(|held| held.try_into().ok()).map_or(0, u16::from_le_bytes).into()
}
