//! Any bytes: an error or a result, never a panic, and no more memory than there are bytes for.

#![allow(clippy::disallowed_methods, reason = "tests read their own program")]

use std::cell::Cell;
use std::convert::Infallible;
use std::sync::OnceLock;

use biopsy_elf::raw::{DT_HASH, NT_GNU_BUILD_ID, PT_NOTE, SHT_PROGBITS, SectionFlags};
use biopsy_elf::testing::{ElfBuilder, Hash};
use biopsy_elf::{Dynamic, FileHeader, MappedElf, NoteHead, Source, build_id, notes, place_of, put_note};
use proptest::prelude::*;

/// Largest read that anybody asks for: memory is taken in steps of it.
const STEP: usize = 1 << 20;

/// Bytes that notice how much of them is asked for at once.
struct Watched<'a> {
    bytes: &'a [u8],
    most: Cell<usize>,
}

impl Source for Watched<'_> {
    type Error = Infallible;

    fn read(&self, at: u64, buffer: &mut [u8]) -> Result<usize, Infallible> {
        self.most.set(self.most.get().max(buffer.len()));
        self.bytes.read(at, buffer)
    }
}

/// Everything that can be read of a file, and of the same bytes as memory.
fn read_all(bytes: &[u8], start: u64) {
    let source = Watched { bytes, most: Cell::new(0) };
    if let Ok(header) = FileHeader::read(&source, 0) {
        let segments = header.read_segments(&source, 1 << 16).unwrap_or_default();
        let sections = header.read_sections(&source, 1 << 16, 1 << 20).unwrap_or_default();
        // A row of the file is at least 56 bytes.
        assert!(segments.len() * 56 <= bytes.len() && sections.len() * 64 <= bytes.len());
        for address in segments.iter().flat_map(|one| [one.address, one.address.wrapping_add(one.file_size)])
        {
            let _ = place_of(&segments, address);
        }
    }
    let _ = (build_id(bytes), notes(bytes).count(), NoteHead::of(bytes, start), Dynamic::parse(bytes));
    let read = |at: u64, buffer: &mut [u8]| source.read(at.wrapping_sub(start), buffer).unwrap_or(0);
    if let Ok(file) = MappedElf::read(&read, start, 1 << 12) {
        let _ = file.build_id();
        let dynamic = file.dynamic().unwrap_or_default();
        let _ = (file.symbol_count(&dynamic), file.symbol(&dynamic, b"main"), file.stated(start));
        let _ = dynamic.value(DT_HASH);
    }
    assert!(source.most.get() <= STEP, "{} bytes at once", source.most.get());
}

fn built() -> Vec<Vec<u8>> {
    let mut note = Vec::new();
    put_note(&mut note, b"GNU", NT_GNU_BUILD_ID, b"0123456789");
    let symbols = [("main", 0x2000, 8), ("other", 0x2010, 0)];
    let one = |hash| {
        ElfBuilder::new(0x1000)
            .segment(PT_NOTE, &note)
            .section(".text", SHT_PROGBITS, SectionFlags::default(), 0, b"code")
            .symbols(&symbols, hash, 0)
            .build()
    };
    vec![one(Hash::Gnu), one(Hash::Old), one(Hash::None)]
}

/// The beginning and the end of a real file, which is megabytes of code and debug information: where its headers are.
fn real() -> &'static [u8] {
    static REAL: OnceLock<Vec<u8>> = OnceLock::new();
    REAL.get_or_init(|| std::fs::read(std::env::current_exe().unwrap()).unwrap())
}

#[test]
fn each_word_replaced_by_the_worst_numbers() {
    for original in built() {
        for at in (0..original.len() - 8).step_by(4) {
            for worst in [u64::MAX, 0, 1 << 31, i64::MAX as u64, 0xffff_ffff_0000_0001] {
                let mut bytes = original.clone();
                bytes[at..at + 8].copy_from_slice(&worst.to_le_bytes());
                read_all(&bytes, 0x7f00_0000_0000);
            }
        }
    }
}

#[test]
fn every_truncation_of_a_file() {
    for original in built() {
        for length in 0..original.len() {
            read_all(&original[..length], 0x1000);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000), start: u64) {
        read_all(&bytes, start);
    }

    #[test]
    fn any_bytes_behind_a_header(tail in prop::collection::vec(any::<u8>(), 0..600), start: u64) {
        read_all(&[b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", &tail[..]].concat(), start);
    }

    #[test]
    fn damaged_files(
        which in 0_usize..3,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
        keep in any::<prop::sample::Index>(),
        start in prop_oneof![Just(0_u64), Just(0x7f00_0000_0000), Just(u64::MAX - 100)],
    ) {
        let mut bytes = built().swap_remove(which);
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        read_all(&bytes, start);
        bytes.truncate(keep.index(bytes.len()));
        read_all(&bytes, start);
    }

    #[test]
    fn any_truncation_of_a_real_file(keep in any::<prop::sample::Index>(), near in 0_usize..10_000) {
        let whole = real();
        for length in [keep.index(whole.len()), near.min(whole.len()), whole.len() - near.min(whole.len())] {
            let source = &whole[..length];
            let Ok(header) = FileHeader::read(source, 0) else { continue };
            let segments = header.read_segments(source, 100).unwrap_or_default();
            let sections = header.read_sections(source, 1000, 1 << 20).unwrap_or_default();
            prop_assert!(segments.len() as u64 <= header.segments.count);
            prop_assert!(sections.len() as u64 <= header.sections.count);
        }
    }
}
