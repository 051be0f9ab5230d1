//! Small readers that others stand on: headers of PE files, numbers that threads have for themselves, calls that were begun again.

use biopsy_image::pe::PeHeaders;
use biopsy_image::testing::CoreBuilder;
use biopsy_image::{GeneralRegisters, Limits, OwnNumbers, open_bytes};
use biopsy_model::Tid;
use proptest::prelude::*;

/// Sections of a PE file: address, bytes in memory, offset, bytes in the file.
type Section = [u32; 4];

fn pe(is_wide: bool, sections: &[Section], directories: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; 0x80];
    bytes[..2].copy_from_slice(b"MZ");
    bytes[0x3c] = 0x80;
    bytes.extend(b"PE\0\0");
    let optional = if is_wide { 112 } else { 96 } + 16 * 8;
    // Machine, number of sections, time, symbols, their number, bytes of the optional header, characteristics.
    bytes.extend([0x8664_u16, sections.len() as u16].map(u16::to_le_bytes).concat());
    bytes.extend([0; 12]);
    bytes.extend([optional as u16, 0x2022].map(u16::to_le_bytes).concat());
    let at = bytes.len();
    bytes.resize(at + optional, 0);
    bytes[at..at + 2].copy_from_slice(&if is_wide { 0x20b_u16 } else { 0x10b }.to_le_bytes());
    bytes[at + 56..at + 60].copy_from_slice(&0x9000_u32.to_le_bytes());
    bytes[at + 60..at + 64].copy_from_slice(&0x400_u32.to_le_bytes());
    let directory = at + optional - 16 * 8;
    bytes[directory - 4..directory].copy_from_slice(&16_u32.to_le_bytes());
    for (number, (rva, size)) in directories.iter().enumerate() {
        let both = [*rva, *size].map(u32::to_le_bytes).concat();
        bytes[directory + number * 8..directory + number * 8 + 8].copy_from_slice(&both);
    }
    for [rva, memory, offset, size] in sections {
        bytes.extend(b".made\0\0\0");
        bytes.extend([*memory, *rva, *size, *offset].map(u32::to_le_bytes).concat());
        bytes.extend([0; 16]);
    }
    bytes
}

fn sections() -> impl Strategy<Value = Vec<Section>> {
    prop::collection::vec((0..4_u32, 1..0x1800_u32, 0..0x1800_u32), 1..8).prop_map(|all| {
        let (mut rva, mut offset) = (0x1000, 0x400);
        let section = |(gap, memory, size): (u32, u32, u32)| {
            let one = [rva + gap * 0x1000, memory, offset, size];
            rva = (one[0] + memory.max(size)).next_multiple_of(0x1000);
            offset += size.next_multiple_of(0x200);
            one
        };
        all.into_iter().map(section).collect()
    })
}

proptest! {
    #[test]
    fn an_address_of_a_file_is_where_its_section_is(is_wide in any::<bool>(), sections in sections(), asked in prop::collection::vec(0..0x2_0000_u32, 1..40)) {
        let bytes = pe(is_wide, &sections, &[(1, 2), (0x2008, 72)]);
        let headers = PeHeaders::parse(&bytes).expect("it is one");
        prop_assert_eq!((headers.image_bytes, headers.header_bytes), (0x9000, 0x400));
        let read: Vec<Section> =
            headers.sections.iter().map(|one| [one.rva, one.memory_bytes, one.file_offset, one.file_bytes]).collect();
        prop_assert_eq!(&read, &sections);
        prop_assert_eq!(headers.directory(1), Some((0x2008, 72)));
        for rva in asked {
            let section = sections.iter().find(|[start, _, _, size]| (*start..start + size).contains(&rva));
            let expected = section.map(|[start, _, offset, _]| u64::from(offset + rva - start));
            // What a section has in memory alone is asked for by nobody, nor are headers, which are at the same place in both.
            let is_tail = sections.iter().any(|[start, memory, ..]| (*start..start + memory).contains(&rva));
            if rva >= 0x1000 && (expected.is_some() || !is_tail) {
                prop_assert_eq!(headers.offset_of(rva), expected, "{:#x} of {:x?}", rva, sections);
            }
        }
        for length in 0..bytes.len() {
            prop_assert!(PeHeaders::parse(&bytes[..length]).is_err(), "cut at {}", length);
        }
    }

    #[test]
    fn any_bytes_are_headers_or_none(is_wide in any::<bool>(), sections in sections(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), rva in any::<u32>()) {
        let mut bytes = pe(is_wide, &sections, &[]);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Ok(headers) = PeHeaders::parse(&bytes) {
            prop_assert!(headers.sections.len() <= 96);
            prop_assert!(headers.offset_of(rva).is_none_or(|at| at < 1 << 33));
            prop_assert_eq!(headers.directory(16), None, "there are no more");
        }
    }

    /// The C library's thread has its number: where the process had a pid namespace of its own, it is another one than the image has.
    #[test]
    fn a_thread_has_the_number_that_its_library_noted(
        is_musl in any::<bool>(),
        threads in prop::collection::btree_map(100..200_u32, prop::option::weighted(0.9, 1..40_u32), 1..8),
    ) {
        let place = if is_musl { 0x30 } else { 0x2d0 };
        let mut core = CoreBuilder::new().page(64);
        let mut memory = vec![0_u8; 0x400 * threads.len()];
        for (number, (tid, own)) in threads.iter().enumerate() {
            let fs_base = 0x10_0000 + 0x400 * number as u64;
            // The thread pointer refers to itself.
            memory[0x400 * number..][..8].copy_from_slice(&fs_base.to_le_bytes());
            if !is_musl {
                memory[0x400 * number + 0x10..][..8].copy_from_slice(&fs_base.to_le_bytes());
            }
            let own = own.unwrap_or(0);
            memory[0x400 * number + place..][..4].copy_from_slice(&own.to_le_bytes());
            core = core.thread(*tid, 0, &GeneralRegisters { fs_base, ..GeneralRegisters::default() });
        }
        let opened = open_bytes("core", core.memory(0x10_0000, 6, memory).build(), &Limits::default());
        let opened = opened.map_err(|error| TestCaseError::fail(error.to_string()))?;
        let numbers = OwnNumbers::of(&*opened.image);
        let said: Vec<u32> = threads.values().copied().flatten().collect();
        let mut distinct = said.clone();
        distinct.sort_unstable();
        distinct.dedup();
        for (tid, own) in &threads {
            let Some(own) = own else { continue };
            if distinct.len() == said.len() {
                prop_assert_eq!(numbers.thread(*own), Some(Tid(*tid)));
                prop_assert!(numbers.differ() && numbers.thread(*tid).is_none());
            } else {
                // Numbers that two threads claim are nobody's: those of the image count.
                prop_assert_eq!((numbers.thread(*own), numbers.thread(*tid)), (None, Some(Tid(*tid))));
            }
        }
    }
}

/// A wait that a stop broke off goes on as `restart_syscall`, with the arguments that it had.
#[test]
fn a_call_that_was_begun_again_is_the_one_that_it_was() {
    let at = 0x7f00_0000_1000;
    for (rdi, rsi, rdx, r10, r9, call) in [
        // clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &left)
        (1, 0, at, at, 0, 230),
        // nanosleep(&time, &left), nanosleep(&time, NULL)
        (at, at + 16, 0, 0, 0, 35),
        (at, 0, 0, 0, 0, 35),
        // futex(&word, FUTEX_WAIT_PRIVATE, value, &time); with a clock and all bits
        (at, 0x80, 3, at + 64, 0, 202),
        (at, 0x189, 3, at + 64, 0xffff_ffff, 202),
        // poll(&descriptors, 3, 500)
        (at, 3, 500, 0, 0, 7),
        (0, 0, 500, 0, 0, 7),
        // Nothing that any of them has.
        (0x20, 0xffff_ffff_ffff, 0, 0, 0, 219),
    ] {
        let registers =
            GeneralRegisters { orig_rax: 219, rdi, rsi, rdx, r10, r9, ..GeneralRegisters::default() };
        assert_eq!(registers.system_call(), Some(call), "{rdi:#x} {rsi:#x} {rdx:#x} {r10:#x}");
    }
    for (orig_rax, call) in [(0, Some(0)), (4095, Some(4095)), (4096, None), (u64::MAX, None)] {
        let registers = GeneralRegisters { orig_rax, ..GeneralRegisters::default() };
        assert_eq!(registers.system_call(), call, "{orig_rax:#x}");
    }
}
