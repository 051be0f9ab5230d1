//! Sizes of blocks (`include/jemalloc/internal/sc.h`): multiples of the quantum up to four of them, then four to each power of two. The
//! smaller ones are regions of slabs, as large as it takes to leave nothing over.

use super::layout::PAGE;

/// From here on a block is an extent of its own.
pub(super) const LARGE: u64 = 16 << 10;
/// The smallest block, also where the quantum is larger.
const SMALLEST: u64 = 8;
/// The largest.
const LARGEST: u64 = 7 << 60;

/// Sizes of blocks of one build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SizeTable {
    sizes: Vec<u64>,
    bins: usize,
}

impl SizeTable {
    /// Of a build with this quantum, 8 or 16 bytes.
    pub(super) fn of_quantum(quantum: u64) -> Self {
        let mut sizes: Vec<u64> = (SMALLEST < quantum).then_some(SMALLEST).into_iter().collect();
        sizes.extend((1..=4).map(|number| quantum * number));
        let mut base = quantum * 4;
        while base < 1 << 63 {
            sizes.extend((1..=4).filter_map(|number| base.checked_add(base / 4 * number)));
            base <<= 1;
        }
        sizes.retain(|&size| size <= LARGEST);
        let bins = sizes.partition_point(|&size| size < LARGE);
        Self { sizes, bins }
    }

    /// How many sizes there are; it is also the number of none.
    pub(super) fn count(&self) -> usize {
        self.sizes.len()
    }

    /// How many of them are of regions in slabs.
    pub(super) fn bins(&self) -> usize {
        self.bins
    }

    /// The size with this number.
    pub(super) fn size(&self, number: usize) -> Option<u64> {
        self.sizes.get(number).copied()
    }

    /// The size before it; 0: there is none.
    pub(super) fn before(&self, number: usize) -> u64 {
        number.checked_sub(1).and_then(|before| self.size(before)).unwrap_or(0)
    }
}

/// Bytes of a slab for regions of this size, unless somebody has set `slab_sizes`.
pub(super) fn slab_bytes(region: u64) -> u64 {
    (1..=8).map(|pages| pages * PAGE).find(|bytes| bytes.is_multiple_of(region.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `mallctl` tells: `arenas.nbins`, `arenas.bin.*.size`, `arenas.bin.*.slab_size`, `arenas.lextent.*.size`.
    #[test]
    fn sizes_are_those_of_the_library() {
        let of_debian = SizeTable::of_quantum(16);
        assert_eq!((of_debian.count(), of_debian.bins()), (232, 36));
        let some: Vec<_> = [0, 1, 4, 5, 8, 35, 36, 231].map(|number| of_debian.size(number)).into();
        let sizes = [8, 16, 64, 80, 128, 14336, 16384, 7 << 60];
        assert_eq!(some, sizes.map(Some));
        let of_redis = SizeTable::of_quantum(8);
        assert_eq!((of_redis.count(), of_redis.bins()), (235, 39));
        assert_eq!([0, 2, 38, 39].map(|number| of_redis.size(number).unwrap_or(0)), [8, 24, 14336, 16384]);
        for (region, bytes) in
            [(8, 4096), (48, 12288), (80, 20480), (112, 28672), (14336, 28672), (4096, 4096)]
        {
            assert_eq!(slab_bytes(region), bytes, "{region}");
        }
    }
}
