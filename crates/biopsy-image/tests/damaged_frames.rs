//! Packed dumps with damage in some of their frames: what the others hold is read, and what is damaged is never taken for memory.

use biopsy_image::testing::{CoreBuilder, seekable_zstd, zstd_frames};
use biopsy_image::{GeneralRegisters, Image, Limits, MemoryExt, ReadError, open_bytes};
use proptest::prelude::*;

const START: u64 = 0x10_0000;
const SIZE: usize = 6_000;

/// A core of one segment, and where its memory begins in the file.
fn core() -> (Vec<u8>, usize) {
    let memory: Vec<u8> = (0..SIZE).map(|byte| (byte * byte / 7) as u8).collect();
    let core =
        CoreBuilder::new().page(64).thread(7, 0, &GeneralRegisters::default()).memory(START, 6, memory);
    let head = core.head_size().next_multiple_of(64);
    let bytes = core.build();
    assert_eq!(bytes.len(), head + SIZE);
    (bytes, head)
}

/// Where the packed frames are, by the table at the end.
fn frames(packed: &[u8]) -> Vec<std::ops::Range<usize>> {
    let word = |at: usize| u32::from_le_bytes(packed[at..at + 4].try_into().expect("four bytes")) as usize;
    let count = word(packed.len() - 9);
    let table = packed.len() - 9 - count * 12;
    let mut at = 0;
    (0..count)
        .map(|number| {
            at..{
                at += word(table + number * 12);
                at
            }
        })
        .collect()
}

/// Every byte that is read is the one that was written; gives those that were.
fn read_all(image: &dyn Image, bytes: &[u8], head: usize) -> Result<Vec<bool>, TestCaseError> {
    let mut read = Vec::new();
    for offset in 0..SIZE {
        let mut byte = [0];
        match image.read_exact(START + offset as u64, &mut byte) {
            Ok(()) => {
                prop_assert_eq!(byte[0], bytes[head + offset], "at {}", offset);
                read.push(true);
            }
            Err(ReadError::Damaged { .. } | ReadError::Missing { .. }) => read.push(false),
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
    Ok(read)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn damage_stays_in_its_frame(
        frame in 600..2_500_usize,
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let (bytes, head) = core();
        let mut packed = seekable_zstd(&bytes, frame, true);
        let all = frames(&packed);
        // Headers and notes are in the first frames.
        let first = head / frame + 1;
        let which = first + which.index(all.len() - first);
        let place = all[which].start + at.index(all[which].len());
        packed[place] ^= 1 << bit;
        let opened = open_bytes("core", packed, &Limits::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let read = read_all(&*opened.image, &bytes, head)?;
        for (offset, read) in read.into_iter().enumerate() {
            let own = (head + offset) / frame;
            // A bit may be one that nothing hangs on; then its frame is whole.
            prop_assert!(read || own == which, "{} of frame {}, damaged is {}", offset, own, which);
        }
    }

    /// A table whose numbers lie is no table: frames are found by their own headers, or the file is refused.
    #[test]
    fn a_table_that_lies_is_not_believed(
        frame in 600..2_500_usize,
        at in any::<prop::sample::Index>(),
        word in prop_oneof![any::<u32>(), 0..10_u32, Just(u32::MAX)],
    ) {
        let (bytes, head) = core();
        let mut packed = seekable_zstd(&bytes, frame, true);
        let table = frames(&packed).last().map_or(0, |last| last.end);
        let at = table + at.index((packed.len() - table) / 4 - 1) * 4;
        packed[at..at + 4].copy_from_slice(&word.to_le_bytes());
        if let Ok(opened) = open_bytes("core", packed, &Limits::default()) {
            read_all(&*opened.image, &bytes, head)?;
        }
    }

    /// Files that end in a frame, with or without a table: whole frames are there.
    #[test]
    fn a_packed_file_that_is_cut_has_its_whole_frames(frame in 600..2_500_usize, cut in any::<prop::sample::Index>(), table in any::<bool>()) {
        let (bytes, head) = core();
        let packed = if table { seekable_zstd(&bytes, frame, true) } else { zstd_frames(&bytes, frame) };
        let all = frames(&seekable_zstd(&bytes, frame, true));
        let first = head / frame + 1;
        let end = all.last().map_or(0, |last| last.end);
        let length = all[first - 1].end + cut.index(end - all[first - 1].end);
        let opened = open_bytes("core", packed[..length].to_vec(), &Limits::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(opened.warnings.iter().any(|warning| warning.code == "dump.truncated"), "{:?}", opened.warnings);
        let whole = all.iter().filter(|frame| frame.end <= length).count() * frame;
        let read = read_all(&*opened.image, &bytes, head)?;
        for (offset, read) in read.into_iter().enumerate() {
            prop_assert_eq!(read, head + offset < whole, "{} of {} whole", head + offset, whole);
        }
    }
}

/// What the table says of frames that hold something else: checksums that are not theirs are damage, and sizes that are not theirs are
/// not believed, even where they add up.
#[test]
fn frames_that_are_other_than_their_table_says() {
    let (bytes, head) = core();
    for swap in [false, true] {
        let mut packed = seekable_zstd(&bytes, 1_500, true);
        let all = frames(&packed);
        let table = packed.len() - 9 - all.len() * 12;
        let last = all.len() - 2;
        match swap {
            // The checksums of two frames.
            true => {
                let (one, other) = (table + last * 12 + 8, table + (last - 1) * 12 + 8);
                (0..4).for_each(|byte| packed.swap(one + byte, other + byte));
            }
            // One byte of one is said to be of the other.
            false => {
                packed[table + last * 12 + 4] += 1;
                packed[table + (last - 1) * 12 + 4] -= 1;
            }
        }
        let opened = open_bytes("core", packed, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        let read = read_all(&*opened.image, &bytes, head).unwrap_or_else(|error| panic!("{error}"));
        let damaged = if swap { (last - 1) * 1_500..(last + 1) * 1_500 } else { 0..0 };
        for (offset, read) in read.into_iter().enumerate() {
            assert_eq!(read, !damaged.contains(&(head + offset)), "at {offset}, {swap}");
        }
    }
}

/// One frame in the middle that is said to hold nothing, less or more: what is behind it stays where it is.
#[test]
fn a_size_that_is_not_the_frames_own_moves_nothing() {
    let (bytes, head) = core();
    let all = frames(&seekable_zstd(&bytes, 1_000, true));
    for size in [0_u32, 1, 999, 1_001, u32::MAX] {
        let mut packed = seekable_zstd(&bytes, 1_000, true);
        let table = packed.len() - 9 - all.len() * 12;
        let at = table + (all.len() - 3) * 12 + 4;
        packed[at..at + 4].copy_from_slice(&size.to_le_bytes());
        let opened = open_bytes("core", packed, &Limits::default()).unwrap_or_else(|error| panic!("{error}"));
        let read = read_all(&*opened.image, &bytes, head).unwrap_or_else(|error| panic!("{error}"));
        assert!(read.iter().all(|read| *read), "{size}");
        assert!(
            opened.warnings.iter().all(|warning| warning.code != "dump.truncated"),
            "{:?}",
            opened.warnings
        );
    }
}
