//! Whatever is done to a good dump, it opens or says why not, keeps what an image promises, and never panics.

use biopsy_image::fuzz::{check_image, fuzz_dump};
use biopsy_image::testing::{
    self, CoreBuilder, Segment, gzip, seekable_zstd, small_core, small_minidump, zstd_frames, zstd_stream,
};
use biopsy_image::{Limits, MemoryExt, open_bytes};
use proptest::prelude::*;

fn samples() -> Vec<Vec<u8>> {
    testing::samples().into_iter().map(|(_, _, bytes)| bytes).collect()
}

#[test]
fn the_samples_themselves_open() {
    for sample in samples() {
        let opened = open_bytes("sample", sample, &Limits::small()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!opened.image.threads().is_empty() && !opened.image.mappings().is_empty());
        check_image(&*opened.image);
    }
}

#[test]
fn a_core_cut_anywhere_in_its_headers_and_notes_opens_or_says_why_not() {
    let core = small_core();
    let bytes = core.build();
    for length in 0..=core.head_size() + 300 {
        fuzz_dump(&bytes[..length.min(bytes.len())]);
    }
    let minidump = small_minidump(true);
    for length in 0..minidump.len() {
        fuzz_dump(&minidump[..length]);
    }
    // From where the program headers are whole, it opens.
    for length in (64 + 4 * 56..bytes.len()).step_by(7) {
        let opened = open_bytes("cut", &bytes[..length], &Limits::small());
        assert!(opened.is_ok_and(|opened| !opened.warnings.is_empty()), "cut at {length}");
    }
}

#[test]
fn every_single_bit_of_the_headers_may_be_wrong() {
    let core = small_core();
    let mut bytes = core.build();
    for at in 0..core.head_size() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            fuzz_dump(&bytes);
            bytes[at] ^= 1 << bit;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_and_cuts_of_any_packing(
        which in 0usize..7,
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..6),
        words in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 0..2),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = samples().swap_remove(which);
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        for (at, word) in words {
            let at = at.index(bytes.len());
            for (byte, value) in bytes[at..].iter_mut().zip(word.to_le_bytes()) {
                *byte = value;
            }
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fuzz_dump(&bytes);
    }

    /// What a core was built of is what is read, wherever segments lie and however they are packed.
    #[test]
    fn memory_reads_back(
        segments in proptest::collection::vec((0u64..64, 1usize..3000, 0u64..2), 1..20),
        packing in 0u8..5,
        frame in 200usize..5000,
    ) {
        let mut at = 0x1000u64;
        let mut core = CoreBuilder::new().page(512).process(1, "a", "a");
        let mut expected = Vec::new();
        for (gap, length, tail) in segments {
            at += gap * 0x1000;
            let bytes: Vec<u8> = (0..length).map(|index| (index as u64 ^ at >> 12) as u8).collect();
            let size = (length as u64 + tail * 0x1000).next_multiple_of(0x1000);
            core = core.segment(Segment { start: at, bytes: bytes.clone(), size, flags: 6 });
            expected.push((at, bytes));
            at += size;
        }
        let core = core.build();
        let packed = match packing {
            0 => core,
            1 => seekable_zstd(&core, frame, frame % 2 == 0),
            2 => zstd_frames(&core, frame),
            3 => zstd_stream(&core),
            _ => gzip(&core),
        };
        let opened = open_bytes("core", packed, &Limits::default()).unwrap();
        prop_assert!(opened.warnings.is_empty(), "{:?}", opened.warnings);
        check_image(&*opened.image);
        for (at, bytes) in expected {
            prop_assert_eq!(opened.image.read_up_to(at, bytes.len() + 1).unwrap(), bytes);
        }
    }
}
