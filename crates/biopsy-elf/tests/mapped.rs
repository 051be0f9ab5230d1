//! Files as a process has mapped them.

use std::cell::Cell;

use biopsy_elf::raw::{DT_RELA, NT_GNU_BUILD_ID, PT_DYNAMIC, PT_LOAD, PT_NOTE};
use biopsy_elf::testing::{ElfBuilder, Hash};
use biopsy_elf::{MappedElf, Problem, Source, put_note};

/// Where it is mapped.
const START: u64 = 0x7f00_0000_0000;
/// What it states to be.
const BASE: u64 = 0x40_0000;
const SYMBOLS: [(&str, u64, u64); 3] = [
    ("g_dacTable", BASE + 0x100, 8),
    ("main", BASE + 0x200, 16),
    ("DotNetRuntimeContractDescriptor", BASE, 40),
];

fn file(hash: Hash, relocated: bool) -> Vec<u8> {
    let mut note = Vec::new();
    put_note(&mut note, b"GNU", NT_GNU_BUILD_ID, b"0123456789");
    let shift = if relocated { START - BASE } else { 0 };
    ElfBuilder::new(BASE).segment(PT_NOTE, &note).symbols(&SYMBOLS, hash, shift).build()
}

/// The memory of a process that maps these bytes.
fn memory(bytes: &[u8]) -> impl Fn(u64, &mut [u8]) -> usize {
    |address, buffer: &mut [u8]| bytes.read(address.wrapping_sub(START), buffer).unwrap()
}

#[test]
fn symbols_are_found_whatever_they_are_found_by() {
    for (hash, relocated) in
        [(Hash::Gnu, true), (Hash::Gnu, false), (Hash::Old, true), (Hash::Old, false), (Hash::None, true)]
    {
        let bytes = file(hash, relocated);
        let read = memory(&bytes);
        let file = MappedElf::read(&read, START, 100).unwrap();
        assert!(file.is_whole());
        assert_eq!(file.bias, Some(START - BASE));
        assert_eq!(file.build_id().unwrap(), b"0123456789");
        let dynamic = file.dynamic().unwrap();
        for (name, stated, size) in SYMBOLS {
            let found = file.symbol(&dynamic, name.as_bytes());
            assert_eq!(found, Some((stated - BASE + START, size)), "{name} {hash:?} {relocated}");
        }
        for name in ["g_dacTabl", "g_dacTable2", "", "ain"] {
            assert_eq!(file.symbol(&dynamic, name.as_bytes()), None, "{name} {hash:?}");
        }
        assert_eq!(file.symbol(&dynamic, &[b'x'; 5000]), None);
        let count = (hash != Hash::None).then_some(4);
        assert_eq!(file.symbol_count(&dynamic), count, "{hash:?}");
    }
}

#[test]
fn one_symbol_takes_a_handful_of_small_reads() {
    let bytes = file(Hash::Gnu, true);
    let (reads, most) = (Cell::new(0), Cell::new(0));
    let read = |address, buffer: &mut [u8]| {
        reads.set(reads.get() + 1);
        most.set(most.get().max(buffer.len()));
        memory(&bytes)(address, buffer)
    };
    let file = MappedElf::read(&read, START, 100).unwrap();
    let dynamic = file.dynamic().unwrap();
    reads.set(0);
    assert!(file.symbol(&dynamic, b"g_dacTable").is_some());
    assert!(reads.get() <= 6 && most.get() <= 1024, "{} reads of up to {} bytes", reads.get(), most.get());
}

#[test]
fn addresses_of_the_dynamic_section_are_told_from_those_of_the_file() {
    let bytes = ElfBuilder::new(BASE).dynamic(&[(DT_RELA, BASE + 0x10)]).build();
    let read = memory(&bytes);
    let file = MappedElf::read(&read, START, 100).unwrap();
    assert_eq!(file.stated(BASE + 0x10), Some(BASE + 0x10), "as the file has it");
    assert_eq!(file.stated(START + 0x10), Some(BASE + 0x10), "as glibc made it");
    assert_eq!(file.stated(5), None);
    assert_eq!(file.actual(BASE + 0x10), START + 0x10);
    assert_eq!(file.bytes(BASE, 4), b"\x7fELF");
    assert_eq!(file.bytes(BASE + bytes.len() as u64 - 2, 100).len(), 2, "no further than the file has it");
    assert!(file.bytes(5, 4).is_empty());
    assert_eq!(file.of(PT_DYNAMIC).count(), 1);
    assert_eq!(file.build_id(), None);
}

/// A dump may lack any page: what is on the others is still found.
#[test]
fn holes_in_memory_hide_what_is_in_them_only() {
    let bytes = file(Hash::Gnu, true);
    let whole = memory(&bytes);
    let mut found = 0;
    for hole in (64..bytes.len() as u64).step_by(16) {
        let read = |address: u64, buffer: &mut [u8]| {
            let (at, hole) = (address.wrapping_sub(START), hole..hole + 16);
            let room = if at < hole.start { hole.start - at } else { u64::MAX };
            let count = if hole.contains(&at) { 0 } else { buffer.len().min(room as usize) };
            whole(address, &mut buffer[..count])
        };
        let file = MappedElf::read(&read, START, 9).unwrap();
        let dynamic = file.dynamic().unwrap_or_default();
        let symbol = file.symbol(&dynamic, b"main");
        assert!(symbol.is_none_or(|symbol| symbol == (START + 0x200, 16)), "{hole:#x}: {symbol:x?}");
        let id = file.build_id();
        assert!(id.as_ref().is_none_or(|id| id == b"0123456789"), "{hole:#x}: {id:?}");
        found += u64::from(symbol.is_some()) + u64::from(id.is_some());
    }
    assert!(found > bytes.len() as u64 / 16, "most holes are elsewhere");
}

#[test]
fn a_file_whose_beginning_is_in_no_segment_is_taken_to_begin_at_zero() {
    let mut bytes = file(Hash::Gnu, false);
    // `p_offset` of the segment that is loaded.
    bytes[64 + 8..64 + 16].copy_from_slice(&0x2000_u64.to_le_bytes());
    let read = memory(&bytes);
    let file = MappedElf::read(&read, START, 9).unwrap();
    assert_eq!((file.bias, file.actual(5)), (None, START + 5));
}

#[test]
fn what_is_not_in_memory_is_missing() {
    let bytes = file(Hash::Gnu, true);
    let nothing = |_, _: &mut [u8]| 0;
    assert!(matches!(MappedElf::read(&nothing, START, 9), Err(Problem::NotElf)));
    // The header, and nothing more: how many program headers there should be is known.
    let read = memory(&bytes[..64]);
    let file = MappedElf::read(&read, START, 9).unwrap();
    assert!(!file.is_whole() && file.segments.is_empty());
    assert_eq!((file.bias, file.build_id(), file.dynamic()), (None, None, None));
    // Fewer than there are.
    let read = memory(&bytes);
    let file = MappedElf::read(&read, START, 1).unwrap();
    assert!(!file.is_whole());
    assert_eq!(file.of(PT_LOAD).count(), 1);
    for length in 0..bytes.len() {
        let read = memory(&bytes[..length]);
        let Ok(file) = MappedElf::read(&read, START, 9) else { continue };
        let dynamic = file.dynamic().unwrap_or_default();
        let _ = (file.symbol(&dynamic, b"main"), file.symbol_count(&dynamic), file.build_id());
    }
}
