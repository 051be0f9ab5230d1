//! Headers, sections and notes of files: whole, cut off, odd.

#![allow(clippy::disallowed_methods, reason = "tests open their own program")]

use std::cell::Cell;
use std::convert::Infallible;
use std::fs::File;
use std::io;

use biopsy_elf::raw::{
    DT_NEEDED, DT_NULL, EM_X86_64, ET_DYN, NT_GNU_BUILD_ID, NT_PRSTATUS, PT_DYNAMIC, PT_LOAD, PT_NOTE,
    SHF_COMPRESSED, SHF_EXECINSTR, SHT_NOBITS, SHT_NOTE, SHT_PROGBITS, SectionFlags,
};
use biopsy_elf::testing::ElfBuilder;
use biopsy_elf::{
    Dynamic, FileHeader, Ident, LE, Memory, NoteHead, Problem, Segment, Source, Table, build_id, bytes_of,
    file_header, notes, place_of, put_note, raw, rows, segments_at,
};

fn id_note(id: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_note(&mut out, b"GNU", raw::NT_GNU_ABI_TAG, &[0, 0, 0]);
    put_note(&mut out, b"GNU", NT_GNU_BUILD_ID, id);
    out
}

fn sample() -> Vec<u8> {
    let plain = SectionFlags::default();
    ElfBuilder::new(0x1000)
        .segment(PT_NOTE, &id_note(b"\xde\xad\xbe\xef"))
        .section(".text", SHT_PROGBITS, SHF_EXECINSTR, 0, b"code")
        .section(".debug_info", SHT_PROGBITS, SHF_COMPRESSED, 0, b"packed")
        .section(".note.gnu.build-id", SHT_NOTE, plain, 0, &id_note(b"\xde\xad\xbe\xef"))
        .section(".bss", SHT_NOBITS, plain, 1, b"none")
        .build()
}

/// Replaces two bytes of the file header.
fn with_half(at: usize, value: u16) -> Vec<u8> {
    let mut bytes = sample();
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    bytes
}

#[test]
fn a_file_is_read_as_it_was_built() {
    let bytes = sample();
    let header = FileHeader::read(&*bytes, 0).unwrap();
    assert_eq!((header.kind, header.machine), (ET_DYN, EM_X86_64));
    let segments = header.read_segments(&*bytes, 10).unwrap();
    assert_eq!(segments.iter().map(|one| one.kind).collect::<Vec<_>>(), [PT_LOAD, PT_NOTE]);
    let load = segments[0];
    assert!(load.is_load() && load.is_executable());
    assert_eq!((load.offset, load.address, load.file_size), (0, 0x1000, bytes.len() as u64));
    let sections = header.read_sections(&*bytes, 10, 1000).unwrap();
    let named: Vec<_> = sections.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(named, ["", ".text", ".debug_info", ".note.gnu.build-id", ".bss", ".shstrtab"]);
    assert!(sections[1].is_executable() && sections[1].has_bytes() && !sections[1].is_compressed());
    assert!(sections[2].is_compressed() && !sections[4].has_bytes());
    assert_eq!(sections[4].link, 1);
    let text = sections[1].offset as usize;
    assert_eq!(&bytes[text..text + 4], b"code");
}

#[test]
fn headers_are_written_as_the_specification_has_them() {
    let sections = (64 + 56, 1);
    let header = file_header(raw::ET_CORE, u16::MAX, sections, 0);
    let mut expected = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0\x01\0\0\0".to_vec();
    expected.extend([0_u64, 64, 120].map(u64::to_le_bytes).concat()); // entry, program headers, section headers
    expected.extend(0_u32.to_le_bytes()); // flags
    expected.extend([64_u16, 56, 0xffff, 64, 1, 0].map(u16::to_le_bytes).concat());
    assert_eq!(bytes_of(&header), expected);
    let without = file_header(raw::ET_CORE, 2, (0, 0), 0);
    assert_eq!(bytes_of(&without)[54..], [56_u16, 2, 0, 0, 0].map(u16::to_le_bytes).concat());
    let (flags, offset, address) = (raw::PF_R | raw::PF_X, 0x1000, 0x40_0000);
    let segment =
        Segment { kind: PT_LOAD, flags, offset, address, file_size: 7, memory_size: 9, alignment: 4096 };
    let mut expected = [1_u32, 5].map(u32::to_le_bytes).concat();
    expected.extend([0x1000_u64, 0x40_0000, 0, 7, 9, 4096].map(u64::to_le_bytes).concat());
    assert_eq!(bytes_of(&segment.to_raw()), expected);
    let table = Table { at: 0, row: 56, count: 1 };
    assert_eq!(segments_at(&*expected, table, 1).unwrap(), [segment], "and read back");
}

#[test]
fn what_is_another_format_is_refused() {
    let read = |bytes: &[u8]| FileHeader::read(bytes, 0).unwrap_err();
    assert!(matches!(read(b"#!/bin/sh"), Problem::NotElf));
    assert!(matches!(read(b""), Problem::NotElf));
    assert!(matches!(read(b"\x7fELF\x02"), Problem::CutShort { found: 5, .. }));
    let narrow = read(&with_half(4, 0x0101));
    assert!(matches!(narrow, Problem::Unsupported { class: 1, encoding: 1, machine: 62 }), "{narrow}");
    let big = read(&with_half(4, 0x0202));
    assert!(matches!(big, Problem::Unsupported { class: 2, encoding: 2, .. }), "{big}");
    assert_eq!(
        read(&sample()[..63]).to_string(),
        "the file ends in the file header at 0x0: 64 bytes are needed, 63 are there"
    );
    assert_eq!(Ident::of(b"\x7fELF\x01\x01"), Some(Ident { class: 1, encoding: 1, machine: 0 }));
}

#[test]
fn rows_of_an_odd_size_are_refused_and_larger_ones_read() {
    for size in [0, 55, 257, u16::MAX] {
        let bytes = with_half(54, size);
        let header = FileHeader::read(&*bytes, 0).unwrap();
        let refused = header.read_segments(&*bytes, 10);
        assert!(matches!(refused, Err(Problem::RowSize { size: found, .. }) if found == size), "{refused:?}");
    }
    // Rows of 64 bytes, of which the first 56 are known.
    let mut table = vec![0; 64 * 3];
    for (index, row) in table.chunks_mut(64).enumerate() {
        row[16] = index as u8;
        row[56..].fill(0xff);
    }
    let table_of = |count| Table { at: 0, row: 64, count };
    let read = segments_at(&*table, table_of(3), 10).unwrap();
    assert_eq!(read.iter().map(|one| one.address).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(segments_at(&*table, table_of(3), 2).unwrap().len(), 2, "no more than are taken");
    assert_eq!(segments_at(&*table, table_of(9), 10).unwrap().len(), 3, "no more than are there");
    assert_eq!(segments_at(&*table, table_of(0), 10).unwrap(), []);
}

#[test]
fn numbers_that_do_not_fit_are_in_the_first_section() {
    let whole = sample();
    let sections_at = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
    let mut bytes = whole.clone();
    bytes[56..58].copy_from_slice(&u16::MAX.to_le_bytes()); // e_phnum
    bytes[60..62].fill(0); // e_shnum
    bytes[62..64].copy_from_slice(&u16::MAX.to_le_bytes()); // e_shstrndx
    bytes[sections_at + 32..sections_at + 40].copy_from_slice(&6_u64.to_le_bytes()); // sh_size
    bytes[sections_at + 40..sections_at + 44].copy_from_slice(&5_u32.to_le_bytes()); // sh_link
    bytes[sections_at + 44..sections_at + 48].copy_from_slice(&2_u32.to_le_bytes()); // sh_info
    let header = FileHeader::read(&*bytes, 0).unwrap();
    assert_eq!((header.segments.count, header.sections.count, header.names), (2, 6, 5));
    assert_eq!(header.read_sections(&*bytes, 10, 1000).unwrap()[1].name, ".text");
    // Without that section nobody knows how many program headers there are; without sections one can live.
    let cut = FileHeader::read(&bytes[..sections_at], 0);
    assert!(matches!(cut, Err(Problem::CutShort { what: "the first section header", .. })), "{cut:?}");
    bytes[56..58].copy_from_slice(&2_u16.to_le_bytes());
    let header = FileHeader::read(&bytes[..sections_at], 0).unwrap();
    assert_eq!((header.segments.count, header.sections.count), (2, 0));
}

#[test]
fn a_table_that_is_cut_off_gives_what_is_there() {
    let bytes = sample();
    let header = FileHeader::read(&*bytes, 0).unwrap();
    let cut = |length: usize| header.read_segments(&bytes[..length], 10);
    assert_eq!(cut(64 + 56 + 55).unwrap().len(), 1);
    assert!(matches!(cut(64 + 55), Err(Problem::CutShort { found: 55, size: 56, at: 64, .. })));
    let sections = header.read_sections(&bytes[..bytes.len() - 64], 10, 1000).unwrap();
    assert_eq!((sections.len(), sections[1].name.as_str()), (5, ""), "the names are behind the end");
}

#[test]
fn a_table_of_megabytes_is_read_in_steps() {
    const ROWS: usize = 70_000;
    let mut table = vec![0; ROWS * 64];
    for (index, row) in table.chunks_mut(64).enumerate() {
        row[8..16].copy_from_slice(&(index as u64).to_le_bytes());
    }
    let largest = Cell::new(0);
    let memory = Memory(|at, buffer: &mut [u8]| {
        largest.set(largest.get().max(buffer.len()));
        table.read(at - 0x1000, buffer).unwrap()
    });
    let read = |count, most| segments_at(&memory, Table { at: 0x1000, row: 64, count }, most).unwrap();
    let all = read(ROWS as u64, u64::MAX);
    assert!(all.iter().map(|one| one.offset).eq(0..ROWS as u64), "each row once, in order");
    assert_eq!(read(u64::MAX, u64::MAX).len(), ROWS, "a number that is a lie");
    assert_eq!(read(ROWS as u64, 20_000).len(), 20_000);
    assert!(largest.get() <= 1 << 20);
}

#[test]
fn problems_are_said_with_their_numbers() {
    let cut = Problem::<Infallible>::CutShort { what: "a table", at: 0x40, size: 56, found: 3 };
    let said = [
        (Problem::NotElf, "it is not an ELF file"),
        (
            Problem::Unsupported { class: 1, encoding: 2, machine: 3 },
            "it is ELF of class 1, data encoding 2; 64-bit little-endian is read",
        ),
        (cut, "the file ends in a table at 0x40: 56 bytes are needed, 3 are there"),
        (Problem::RowSize { what: "the program headers", size: 7 }, "the program headers of 7 bytes each"),
    ];
    for (problem, expected) in said {
        assert_eq!(problem.to_string(), expected);
        assert_eq!(problem.widen::<io::Error>().to_string(), expected, "of any source");
    }
}

#[test]
fn names_of_sections_are_bounded() {
    let long = "x".repeat(100);
    let plain = SectionFlags::default();
    let bytes = ElfBuilder::new(0)
        .section(&long, SHT_PROGBITS, plain, 0, b"")
        .section(".b", SHT_PROGBITS, plain, 0, b"")
        .build();
    let header = FileHeader::read(&*bytes, 0).unwrap();
    let names = |most| {
        header.read_sections(&*bytes, 10, most).unwrap().into_iter().map(|one| one.name).collect::<Vec<_>>()
    };
    assert_eq!(names(1000)[1..3], ["x".repeat(64), ".b".to_owned()]);
    assert_eq!(names(12)[1..3], ["x".repeat(10), String::new()]);
}

#[test]
fn addresses_are_placed_in_the_file() {
    let load = |address, offset, file_size| Segment {
        kind: PT_LOAD,
        flags: raw::PF_R,
        offset,
        address,
        file_size,
        memory_size: file_size + 0x1000,
        alignment: 1,
    };
    let segments = [load(0x1000, 0, 0x100), load(0x5000, 0x200, 0x80), load(u64::MAX - 1, u64::MAX - 1, 8)];
    assert_eq!(place_of(&segments, 0x5010), Some((0x210, 0x70)));
    assert_eq!(place_of(&segments, 0x5080), None, "in memory, not in the file");
    assert_eq!(place_of(&segments, 1), None, "no offset is as large as that");
    assert_eq!(place_of(&segments, 0), None);
    assert_eq!(place_of(&[], 0), None);
}

#[test]
fn notes_are_walked_and_lies_are_not_followed() {
    let bytes = id_note(b"\xde\xad\xbe\xef");
    let found: Vec<_> = notes(&bytes).map(|note| (note.owner, note.kind, note.contents)).collect();
    let expected =
        [(&b"GNU"[..], raw::NT_GNU_ABI_TAG, &[0, 0, 0][..]), (b"GNU", NT_GNU_BUILD_ID, b"\xde\xad\xbe\xef")];
    assert_eq!(found, expected);
    assert_eq!(build_id(&bytes), Some(&b"\xde\xad\xbe\xef"[..]));
    assert_eq!(build_id(&bytes[..bytes.len() - 1]), None, "cut off");
    assert_eq!(build_id(&[0xff; 64]), None);
    assert_eq!(build_id(&id_note(&[1; 64])), Some(&[1; 64][..]));
    assert_eq!((build_id(&id_note(&[1; 65])), build_id(&id_note(b""))), (None, None));
    let mut other = Vec::new();
    put_note(&mut other, b"Go", NT_GNU_BUILD_ID, b"1234");
    assert_eq!(build_id(&other), None, "the same number of another owner");
    // Of a single byte, and the last without its padding.
    assert_eq!(build_id(&id_note(b"\x07")), Some(&b"\x07"[..]));
    let bytes = id_note(b"\x07");
    assert_eq!(build_id(&bytes[..bytes.len() - 3]), Some(&b"\x07"[..]));
}

#[test]
fn the_beginning_of_a_note_says_where_the_rest_is() {
    let mut bytes = vec![0; 16];
    put_note(&mut bytes, b"CORE", NT_PRSTATUS, &[7; 5]);
    let head = NoteHead::of(&bytes[16..], 16).unwrap();
    assert_eq!(head, NoteHead { owner: b"CORE", kind: NT_PRSTATUS, contents_at: 36, size: 5 });
    assert_eq!(head.next(), bytes.len() as u64);
    assert_eq!(NoteHead::of(&bytes[16..16 + 12 + 2], 16).unwrap().owner, b"CO", "as much as was given");
    assert_eq!(NoteHead::of(&bytes[16..16 + 11], 16), None);
    let lie = NoteHead::of(&[0xff; 12], u64::MAX - 4).unwrap();
    assert_eq!((lie.contents_at, lie.next()), (u64::MAX, u64::MAX));
}

#[test]
fn the_dynamic_section_ends_with_its_last_entry() {
    let words = [DT_NEEDED.0 as u64, 1, 0x15, 5, DT_NEEDED.0 as u64, 2, DT_NULL.0 as u64, 0, 0x15, 9];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let dynamic = Dynamic::parse(&bytes);
    assert_eq!(dynamic.value(DT_NEEDED), Some(1), "the first of them");
    assert_eq!(dynamic.value(raw::DT_DEBUG), Some(5));
    assert_eq!(Dynamic::parse(&bytes[..31]).value(raw::DT_DEBUG), None, "cut off");
    assert_eq!(Dynamic::parse(&bytes[48..]).value(raw::DT_DEBUG), None, "behind the end");
    assert_eq!(dynamic.value(raw::DT_RELA), None);
}

#[test]
fn tables_are_rows_of_structures() {
    let rela = [0x10_u64, 3 << 32 | 7, 5].map(u64::to_le_bytes).concat();
    let table = [&rela[..], &rela, &rela[..23]].concat();
    let read = rows::<raw::Rela64<_>>(&table);
    assert_eq!(read.len(), 2);
    assert_eq!((read[1].r_sym(LE, false), read[1].r_type(LE, false)), (3, raw::R_X86_64_JUMP_SLOT));
    assert!(rows::<raw::Rela64<biopsy_elf::LittleEndian>>(&[]).is_empty());
}

/// The program that runs the tests is a real file.
fn own() -> File {
    File::open(std::env::current_exe().unwrap()).unwrap()
}

#[test]
fn an_own_program_has_what_programs_have() {
    let file = own();
    let header = FileHeader::read(&file, 0).unwrap();
    let segments = header.read_segments(&file, 100).unwrap();
    assert_eq!(segments.len() as u64, header.segments.count);
    assert!(segments.iter().any(|one| one.is_load() && one.is_executable()));
    let sections = header.read_sections(&file, 1000, 1 << 16).unwrap();
    let text = sections.iter().find(|one| one.name == ".text").unwrap();
    assert!(text.is_executable() && place_of(&segments, text.address).unwrap().0 == text.offset);
    let dynamic = segments.iter().find(|one| one.kind == PT_DYNAMIC).unwrap();
    let mut bytes = vec![0; dynamic.file_size as usize];
    assert_eq!(file.read(dynamic.offset, &mut bytes).unwrap(), bytes.len());
    let strings = Dynamic::parse(&bytes).value(raw::DT_STRTAB).unwrap();
    let dynstr = sections.iter().find(|one| one.name == ".dynstr").unwrap();
    assert_eq!(place_of(&segments, strings).unwrap().0, dynstr.offset);
}

#[test]
fn a_source_that_fails_is_said() {
    struct Broken;
    impl Source for Broken {
        type Error = io::Error;
        fn read(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
    let refused = FileHeader::read(&Broken, 0);
    assert!(
        matches!(refused, Err(Problem::Source(error)) if error.kind() == io::ErrorKind::PermissionDenied)
    );
    // Beyond all offsets there is nothing, which is no error.
    let mut buffer = [0; 4];
    assert_eq!(own().read(u64::MAX - 1, &mut buffer).unwrap(), 0);
    assert_eq!(own().read(i64::MAX as u64, &mut buffer).unwrap(), 0);
    let bytes: &[u8] = b"abc";
    assert_eq!((bytes.read(1, &mut buffer).unwrap(), bytes.read(u64::MAX, &mut buffer).unwrap()), (2, 0));
    // A function that claims more than it was given room for.
    assert_eq!(Memory(|_, _: &mut [u8]| usize::MAX).read(0, &mut buffer).unwrap(), 4);
}
