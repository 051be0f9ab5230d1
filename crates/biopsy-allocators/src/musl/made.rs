//! A process that uses musl's malloc, made by hand. For tests and for fuzzing.

use crate::fuzz::{DATA, HEAP, MadeProcess};

const CONTEXT: u64 = DATA + 0x120;
const SECRET: u64 = 0x5ec2_e7c0_ffee_1234;
/// Pages of the heap: metas, a group with another in it, a group, a block with a mapping of its own.
const AREA: u64 = HEAP;
const OUTER: u64 = HEAP + 0x1000;
const GROUP: u64 = HEAP + 0x2000;
const MAPPED: u64 = HEAP + 0x3000;
const METAS: u64 = 101;

/// What a meta says.
struct Meta {
    start: u64,
    avail: u32,
    freed: u32,
    last: u64,
    class: u64,
    pages: u64,
}

impl MadeProcess {
    /// With musl's malloc: groups of slots of 2032, 64 (in the first of those) and 288 bytes, and a block with a mapping of its own. In use
    /// are three of 64 bytes, two of 288, and the last one.
    #[must_use]
    pub fn of_musl() -> Self {
        let mut made = Self::empty();
        let inner = OUTER + 16;
        let metas = [
            Meta { start: OUTER, avail: 0b10, freed: 0, last: 1, class: 23, pages: 1 },
            Meta { start: inner, avail: 0x7fff_fff0, freed: 0b1000, last: 30, class: 3, pages: 0 },
            Meta { start: GROUP, avail: 0b1_1110, freed: 0x1fe0, last: 13, class: 12, pages: 1 },
            Meta { start: MAPPED, avail: 0, freed: 0, last: 0, class: 63, pages: 1 },
        ];
        made.musl_context(metas.len() as u64);
        for (number, meta) in (0..).zip(&metas) {
            made.musl_meta(AREA + 24 + number * 40, meta);
        }
        made.musl_head(inner, 0, 0, 6);
        for slot in 0..3 {
            made.musl_head(inner + 16 + slot * 64, 4 * slot, slot, 2);
        }
        // The first of them begins two units further on, and has 100 bytes more than were asked for.
        made.word(GROUP + 8, 2 << 48 | 0xe0 << 40);
        made.musl_head(GROUP + 16 + 32, 2, 0, 5);
        made.word(GROUP + 16 + 280 - 4 - 4, 0);
        made.word(GROUP + 16 + 288 - 4 - 8, 100 << 32);
        made.musl_head(GROUP + 16 + 13 * 288, 13 * 18, 13, 0);
        made.musl_head(MAPPED + 16, 0, 0, 1);
        made
    }

    fn musl_context(&mut self, metas: u64) {
        self.word(CONTEXT, SECRET);
        self.word(CONTEXT + 8, 1);
        self.word(CONTEXT + 24, AREA + 24 + metas * 40);
        self.word(CONTEXT + 32, METAS - metas);
        self.word(CONTEXT + 56, AREA);
        self.word(CONTEXT + 64, AREA);
        for (class, slots) in [(3, 31), (12, 14), (23, 2)] {
            self.word(CONTEXT + 464 + class * 8, slots);
        }
        self.word(AREA, SECRET);
        self.word(AREA + 16, METAS);
    }

    fn musl_meta(&mut self, at: u64, meta: &Meta) {
        self.word(at + 16, meta.start);
        self.word(at + 24, u64::from(meta.freed) << 32 | u64::from(meta.avail));
        self.word(at + 32, meta.last | 1 << 5 | meta.class << 6 | meta.pages << 12);
        self.word(meta.start, at);
    }

    /// What stands before a block: units from the first slot, the number of the slot, bytes reserved behind it.
    fn musl_head(&mut self, block: u64, units: u64, slot: u64, reserved: u64) {
        self.word(block - 8, units << 48 | (slot | reserved << 5) << 40);
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::footprint::{Blocks, Footprint, MemoryKind};

    use super::*;
    use crate::{footprint, with_blocks};

    #[test]
    fn a_made_process_of_musl_is_counted() {
        let read = with_blocks(&MadeProcess::of_musl(), &[], 100);
        let [musl] = read.footprint.allocators.as_slice() else { panic!("{read:#?}") };
        assert!(musl.whole && read.footprint.warnings.is_empty(), "{read:#?}");
        let [arena] = musl.arenas.as_slice() else { panic!("{musl:#?}") };
        assert_eq!(arena.used, Blocks { count: 5, bytes: 3 * 64 + 2 * 288 });
        assert_eq!(arena.free, Blocks { count: 28 + 12 + 1, bytes: 28 * 64 + 12 * 288 + 2032 });
        assert_eq!((arena.system, arena.unknown), (0x3000, 0));
        assert_eq!(musl.mapped, Blocks { count: 1, bytes: 0x1000 });
        let blocks: Vec<_> =
            read.blocks.unwrap_or_default().iter().map(|block| (block.start.0, block.size)).collect();
        let inner = OUTER + 32;
        assert_eq!(
            blocks,
            [
                (inner, 58),
                (inner + 64, 58),
                (inner + 128, 58),
                (GROUP + 48, 288 - 4 - 32 - 100),
                (GROUP + 16 + 13 * 288, 284),
                (MAPPED + 16, 0x1000 - 16 - 4 - 1),
            ]
        );
        assert_eq!(read.footprint.resident(&MemoryKind::Allocated), 3 * 64 + 2 * 288 + 0x1000);
    }

    fn broken(address: u64, word: u64) -> Footprint {
        let mut made = MadeProcess::of_musl();
        made.word(address, word);
        footprint(&made, &[])
    }

    /// Each line breaks one thing; what is told is less, and says so.
    #[test]
    fn what_is_broken_of_musl_is_said() {
        // No group leads back to its meta; a class that musl does not have; slots that are taken and free at once; one that no slot has.
        let meta = |number: u64| AREA + 24 + number * 40;
        for (address, word) in [
            (GROUP, meta(1)),
            (meta(2) + 32, 13 | 1 << 5 | 50 << 6 | 1 << 12),
            (meta(2) + 24, 0x1fe0 << 32 | 0x1ffe),
            (meta(2) + 16, OUTER + 1),
            // The inner group is said to be somewhere else, or in a slot of which nobody knows.
            (OUTER + 16, meta(3)),
        ] {
            let found = broken(address, word);
            assert!(!found.warnings.is_empty() && !found.allocators[0].whole, "{address:#x}: {found:#?}");
            let sums: u64 = found.parts.iter().map(|part| part.resident).sum();
            assert_eq!(sums, 0x6000, "{address:#x}");
        }
        // The heads of a block: its bytes are unknown. Of one thread that may be.
        let torn = broken(OUTER + 16 + 8 + 64, 0);
        assert!(torn.allocators[0].arenas[0].unknown == 64, "{torn:#?}");
        // No area begins with the secret, or the list of areas is a circle.
        assert!(broken(AREA, 1).allocators.is_empty());
        assert!(broken(AREA + 8, AREA).allocators.is_empty());
    }

    /// Of one with a mapping of its own the size is known without its head, though not where it begins.
    #[test]
    fn a_large_block_whose_head_is_broken_is_counted_by_its_size_and_not_listed() {
        let mut made = MadeProcess::of_musl();
        made.word(MAPPED + 8, u64::MAX);
        let read = with_blocks(&made, &[], 100);
        let musl = &read.footprint.allocators[0];
        assert_eq!(musl.mapped, Blocks { count: 1, bytes: 0x1000 });
        let by_size = musl.classes.iter().find(|class| class.up_to == 0x1000).map(|class| class.used);
        assert_eq!(by_size, Some(musl.mapped), "{musl:#?}");
        assert_eq!(read.blocks.map(|blocks| blocks.len()), Some(5));
    }

    #[test]
    fn where_no_group_holds_nothing_is_read_and_that_is_said() {
        let mut made = MadeProcess::of_musl();
        for start in [OUTER, OUTER + 16, GROUP, MAPPED] {
            made.word(start, 0);
        }
        let found = footprint(&made, &[]);
        assert!(found.allocators.is_empty() && found.warnings[0].contains("is not read"), "{found:#?}");
    }
}
