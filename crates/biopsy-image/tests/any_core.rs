//! Cores of any shape, packed in any way and cut anywhere: each byte that is read is the one that was written, and what is missing is said
//! to be missing, at the right address and for the right reason.

use std::collections::BTreeMap;

use biopsy_image::testing::{CoreBuilder, Segment, gzip, seekable_zstd, zstd_frames, zstd_stream};
use biopsy_image::{Absence, GeneralRegisters, Image, Limits, MemoryExt, ReadError, mapping, open_bytes};
use proptest::prelude::*;

/// Alignment of segments in the file; addresses are of pages.
const PAGE: u64 = 64;
const FIRST: u64 = 0x10_0000;

/// What a core holds, byte by byte.
#[derive(Debug)]
struct Model {
    core: Vec<u8>,
    /// Where the contents of segments begin in the file.
    head: usize,
    bytes: BTreeMap<u64, Byte>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Byte {
    /// This one, at this place of the file.
    There(u8, usize),
    /// Mapped, and not in the file.
    LeftOut,
}

/// Of each segment: bytes behind the one before, bytes in the file, bytes in memory more.
type Shape = (u64, u64, u64);

fn model(shapes: &[Shape]) -> Model {
    let mut builder = CoreBuilder::new().page(PAGE).thread(7, 0, &GeneralRegisters::default());
    let mut segments = Vec::new();
    let mut at = FIRST;
    for (number, (gap, filled, more)) in (1..).zip(shapes) {
        at += gap * PAGE;
        let bytes: Vec<u8> = (0..filled * PAGE).map(|byte| (byte * 7 + number * 31) as u8).collect();
        let size = (filled + more) * PAGE;
        segments.push((at, bytes.clone(), size));
        builder = builder.segment(Segment { start: at, bytes, size, flags: 6 });
        at += size;
    }
    let core = builder.build();
    let head = builder.head_size();
    let mut place = (head as u64).next_multiple_of(PAGE) as usize;
    let mut all = BTreeMap::new();
    for (start, bytes, size) in segments {
        for offset in 0..size {
            let byte = bytes.get(offset as usize).map(|byte| Byte::There(*byte, place + offset as usize));
            all.insert(start + offset, byte.unwrap_or(Byte::LeftOut));
        }
        place = (place + bytes.len()).next_multiple_of(PAGE as usize);
    }
    Model { core, head, bytes: all }
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let shape = (0..3_u64, 0..5_u64, 0..3_u64)
        .prop_filter("empty segments are none", |(_, filled, more)| filled + more > 0);
    prop::collection::vec(shape, 1..6)
}

/// Packs, or not.
fn packed(core: &[u8], how: usize, frame: usize) -> Vec<u8> {
    match how {
        0 => core.to_vec(),
        1 => seekable_zstd(core, frame, true),
        2 => seekable_zstd(core, frame, false),
        3 => zstd_frames(core, frame),
        4 => zstd_stream(core),
        _ => gzip(core),
    }
}

/// What is missing at an address, of a file of this length.
fn missing(model: &Model, address: u64, length: usize) -> Option<Absence> {
    match model.bytes.get(&address) {
        None => Some(Absence::Unmapped),
        Some(Byte::LeftOut) => Some(Absence::LeftOut),
        Some(Byte::There(_, place)) => (*place >= length).then_some(Absence::Truncated),
    }
}

fn check(
    image: &dyn Image,
    model: &Model,
    length: usize,
    address: u64,
    count: u64,
) -> Result<(), TestCaseError> {
    let first_missing =
        (address..address + count).find_map(|at| missing(model, at, length).map(|why| (at, why)));
    let mut buffer = vec![0xee; count as usize];
    let read = image.read_exact(address, &mut buffer);
    match (read, first_missing) {
        (Ok(()), None) => {}
        (Err(ReadError::Missing { address: at, why }), Some(expected)) => {
            prop_assert_eq!((at, why), expected)
        }
        (read, expected) => prop_assert!(false, "{:?}, expected {:?}", read, expected),
    }
    // What lies before is there all the same.
    let there = first_missing.map_or(count, |(at, _)| at - address) as usize;
    for (offset, byte) in (0..).zip(&buffer[..there]) {
        let expected = model.bytes.get(&(address + offset));
        prop_assert!(
            matches!(expected, Some(Byte::There(is, _)) if is == byte),
            "{:#x}: {}, {:?}",
            address + offset,
            byte,
            expected
        );
    }
    let mut again = vec![0; count as usize];
    prop_assert_eq!(image.read_available(address, &mut again), there, "at {:#x}", address);
    prop_assert_eq!(&again[..there], &buffer[..there]);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn each_byte_that_is_read_is_the_one_that_was_written(
        shapes in shapes(),
        how in 0..6_usize,
        frame in 40..900_usize,
        cut in prop::option::of(any::<prop::sample::Index>()),
        reads in prop::collection::vec((0..3000_u64, 1..700_u64), 1..12),
    ) {
        let model = model(&shapes);
        // A cut that leaves the headers; what is packed is packed after it, as of a writer that was stopped.
        let length = match cut {
            Some(cut) => model.head + cut.index(model.core.len() - model.head + 1),
            None => model.core.len(),
        };
        let bytes = packed(&model.core[..length], how, frame);
        let opened = open_bytes("core", bytes, &Limits::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let image = &*opened.image;
        for (offset, count) in reads {
            check(image, &model, length, FIRST - 100 + offset, count)?;
        }
        // It says that something is missing exactly when it was cut off.
        let last = model.bytes.values().filter_map(|byte| if let Byte::There(_, place) = byte { Some(place + 1) } else { None }).max();
        let is_cut = last.is_some_and(|last| length < last);
        let says = opened.warnings.iter().any(|warning| warning.code == "dump.truncated");
        prop_assert_eq!(says, is_cut, "{:?}", opened.warnings);
        // Each mapped byte has a mapping, and no other byte has.
        for (address, _) in model.bytes.iter().step_by(13) {
            prop_assert!(mapping::find(image.mappings(), *address).is_some(), "{:#x}", address);
        }
        let all: u64 = image.mappings().iter().map(|mapping| mapping.end - mapping.start).sum();
        prop_assert_eq!(all, model.bytes.len() as u64);
    }

    /// What was written are the parts in the file, joined where they touch, and what is missing is never said to be zero.
    #[test]
    fn what_is_in_the_file_is_what_was_written(shapes in shapes(), from in 0..2500_u64, count in 1..2000_u64) {
        let model = model(&shapes);
        let opened = open_bytes("core", model.core.clone(), &Limits::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let range = FIRST + from..FIRST + from + count;
        for mapping in opened.image.mappings() {
            let part = mapping.start.max(range.start)..mapping.end.min(range.end);
            if part.is_empty() {
                continue;
            }
            let mut runs = Vec::new();
            if opened.image.written(part.clone(), &mut runs).is_err() {
                continue;
            }
            for address in part.clone().step_by(7) {
                let is_there = matches!(model.bytes.get(&address), Some(Byte::There(..)));
                let is_run = runs.iter().any(|run| run.contains(&address));
                // What is missing may have been written: it is a run too.
                prop_assert!(is_run || !is_there, "{:#x} of {:x?} in {:x?}", address, part, runs);
                prop_assert!(is_run || image_zero(&*opened.image, address), "{:#x} is not zero, and was not written", address);
            }
        }
    }
}

/// A byte that can be read, and is zero.
fn image_zero(image: &dyn Image, address: u64) -> bool {
    let mut byte = [1];
    image.read_exact(address, &mut byte).is_ok() && byte == [0]
}
