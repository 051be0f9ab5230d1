//! What the bits of an extent mean, by version (`extent_structs.h`, since 5.3 `edata.h`).

/// Bytes of a page, as it is built for x86-64.
pub(super) const PAGE: u64 = 4096;

/// Where what is in the first word of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    /// The versions, for those who read.
    pub(super) versions: &'static str,
    state: Bits,
    class: Bits,
    free: Bits,
    /// In an element of the tree, what is not a pointer.
    flags: u64,
    pub(super) caches: CacheLayout,
}

/// How the cache of a thread looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CacheLayout {
    /// Bins with a count and the end of their stack (5.2).
    Counted,
    /// Bins with the head of their stack and the low bits of its end (since 5.3).
    Stacks,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Bits {
    shift: u32,
    width: u32,
}

impl Bits {
    const fn new(shift: u32, width: u32) -> Self {
        Self { shift, width }
    }

    fn of(self, word: u64) -> u64 {
        word >> self.shift & ((1 << self.width) - 1)
    }
}

/// The arena and whether it is a slab are in the same bits in all of them.
const ARENA: Bits = Bits::new(0, 12);
const SLAB: Bits = Bits::new(12, 1);

/// All that are known.
pub(super) const LAYOUTS: [Layout; 2] = [
    Layout {
        versions: "5.3",
        state: Bits::new(17, 3),
        class: Bits::new(20, 8),
        free: Bits::new(28, 10),
        flags: 0x7f,
        caches: CacheLayout::Stacks,
    },
    Layout {
        versions: "5.1 to 5.2",
        state: Bits::new(16, 2),
        class: Bits::new(18, 8),
        free: Bits::new(26, 10),
        flags: 1,
        caches: CacheLayout::Counted,
    },
];

/// What an extent is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// A slab or a block.
    Active,
    /// Given back, and still in memory: dirty, muzzy, or just being moved from one to the other.
    Free,
    /// Addresses alone: its memory was given back to the system, or never taken.
    Retained,
}

/// The arena of an extent with this first word.
pub(super) fn arena(bits: u64) -> u64 {
    ARENA.of(bits)
}

/// Whether it is a slab.
pub(super) fn is_slab(bits: u64) -> bool {
    SLAB.of(bits) == 1
}

impl Layout {
    pub(super) fn state(&self, bits: u64) -> Option<State> {
        match self.state.of(bits) {
            0 => Some(State::Active),
            1 | 2 | 4 | 5 => Some(State::Free),
            3 => Some(State::Retained),
            _ => None,
        }
    }

    /// The number of its size; of those that are not active, that of none.
    pub(super) fn class(&self, bits: u64) -> usize {
        usize::try_from(self.class.of(bits)).unwrap_or(usize::MAX)
    }

    /// Regions of a slab that are free.
    pub(super) fn free(&self, bits: u64) -> u64 {
        self.free.of(bits)
    }

    /// What an element of the tree says: the number of a size, and whether it is a slab. `None`: other bits are set.
    pub(super) fn element(&self, element: u64) -> Option<(usize, bool)> {
        let low = element & LOW & !self.flags;
        (low == 0).then(|| (usize::try_from(element >> ADDRESS_BITS).unwrap_or(usize::MAX), element & 1 == 1))
    }
}

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
/// Extents lie at multiples of 64 at least.
const LOW: u64 = 0x3f;

/// The extent that an element of the tree leads to; 0: none.
pub(super) fn extent_of(element: u64) -> u64 {
    element & ((1 << ADDRESS_BITS) - 1) & !LOW
}
