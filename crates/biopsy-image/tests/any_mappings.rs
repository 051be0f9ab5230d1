//! Cores of any mapped files and segments, and of any notes: each page has the mapping that both together say, each thread what its
//! note has.

use biopsy_image::testing::{CoreBuilder, Segment};
use biopsy_image::{Absence, Backing, GeneralRegisters, Limits, Opened, ReadError, mapping, open_bytes};
use biopsy_model::Avma;
use proptest::prelude::*;

const PAGE: u64 = 4096;
const FIRST: u64 = 0x40_0000;
const PAGES: u64 = 48;
const PATHS: [&[u8]; 4] = [b"/lib/one.so", b"/lib/two.so", b"/lib/three.so (deleted)", b"/usr/bin/made"];

fn opened(core: &CoreBuilder) -> Result<Opened, TestCaseError> {
    open_bytes("core", core.build(), &Limits::default())
        .map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Files: first page, pages, page of the file, path. They may overlap.
fn files() -> impl Strategy<Value = Vec<(u64, u64, u64, usize)>> {
    prop::collection::vec((0..PAGES - 8, 1..8_u64, 0..100_u64, 0..4_usize), 0..8)
}

/// Segments, one behind the other: first page, pages in the file, pages in memory more, flags.
fn segments() -> impl Strategy<Value = Vec<(u64, u64, u64, u32)>> {
    prop::collection::vec((0..4_u64, 0..2_u64, 0..5_u64, 1..8_u32), 0..7).prop_map(|all| {
        let mut at = 0;
        let segment = |(gap, filled, more, flags): (u64, u64, u64, u32)| {
            let more = if filled + more == 0 { 1 } else { more };
            let start = at + gap;
            at = start + filled + more;
            (start, filled, more, flags)
        };
        all.into_iter()
            .map(segment)
            .filter(|(start, filled, more, _)| start + filled + more <= PAGES)
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_page_is_what_its_segment_and_its_file_say(files in files(), segments in segments()) {
        let entries: Vec<(u64, u64, u64, &[u8])> = files
            .iter()
            .map(|(start, pages, offset, path)| {
                (FIRST + start * PAGE, FIRST + (start + pages) * PAGE, *offset, PATHS[*path])
            })
            .collect();
        let mut core = CoreBuilder::new().process(7, "made", "made").thread(7, 0, &GeneralRegisters::default()).files(&entries);
        for (start, filled, more, flags) in &segments {
            let bytes = vec![*start as u8 + 1; (filled * PAGE) as usize];
            core = core.segment(Segment { start: FIRST + start * PAGE, bytes, size: (filled + more) * PAGE, flags: *flags });
        }
        let opened = opened(&core)?;
        let image = &*opened.image;
        // Where files overlap, the one that begins first counts, and the rest of the other.
        let mut by_start = files.clone();
        by_start.sort_by_key(|(start, ..)| *start);
        let mut swallowed = false;
        let mut free_from = 0;
        for (start, pages, ..) in &by_start {
            swallowed |= start + pages <= free_from;
            free_from = free_from.max(start + pages);
        }
        for page in 0..PAGES {
            let address = FIRST + page * PAGE;
            let segment = segments.iter().find(|(start, filled, more, _)| (*start..start + filled + more).contains(&page));
            let file = by_start.iter().find(|(start, pages, ..)| (*start..start + pages).contains(&page));
            let found = mapping::find(image.mappings(), address + 5);
            prop_assert_eq!(found.is_some(), segment.is_some() || file.is_some(), "page {}", page);
            let Some(found) = found else {
                let read = image.read(address, &mut [0]);
                prop_assert!(matches!(read, Err(ReadError::Missing { why: Absence::Unmapped, .. })), "{:?}", read);
                continue;
            };
            match (&found.backing, file) {
                (Backing::File { path, offset, deleted, .. }, Some((start, _, first, number))) => {
                    let (expected, is_deleted) = match PATHS[*number].strip_suffix(b" (deleted)") {
                        Some(path) => (path, true),
                        None => (PATHS[*number], false),
                    };
                    prop_assert_eq!((path.as_slice(), *deleted), (expected, is_deleted));
                    prop_assert_eq!(offset + (address - found.start), (first + page - start) * PAGE, "page {}", page);
                }
                (backing, file) => {
                    prop_assert!(file.is_none() && found.is_anonymous(), "page {}: {:?}, {:?}", page, backing, file);
                }
            }
            // Without a segment it is said to be readable, as nearly all files are.
            let flags = segment.map_or(4, |(.., flags)| *flags);
            let protection = found.protection;
            let bits = u32::from(protection.read) << 2 | u32::from(protection.write) << 1 | u32::from(protection.execute);
            prop_assert_eq!(bits, flags, "page {}", page);
            let mut byte = [0];
            match image.read(address, &mut byte) {
                Ok(_) => {
                    let (start, filled, ..) = segment.expect("only these have bytes");
                    prop_assert!(page < start + filled);
                    prop_assert_eq!(byte, [*start as u8 + 1]);
                }
                Err(error) => {
                    prop_assert!(matches!(error, ReadError::Missing { why: Absence::LeftOut, .. }), "{:?}", error);
                    prop_assert!(segment.is_none_or(|(start, filled, ..)| page >= start + filled), "page {}", page);
                }
            }
        }
        // Mappings are by address, and none are empty or over each other.
        for pair in image.mappings().windows(2) {
            prop_assert!(pair[0].start < pair[0].end && pair[0].end <= pair[1].start, "{:?}", pair);
        }
        let says = opened.warnings.iter().any(|warning| warning.code == "dump.odd-headers");
        prop_assert_eq!(says, swallowed, "{:?}", opened.warnings);
    }

    #[test]
    fn threads_have_the_registers_of_their_notes(
        threads in prop::collection::btree_map(1..100_000_u32, any::<[u64; 27]>(), 1..12),
        died in any::<prop::sample::Index>(),
        fault in prop::option::of((prop::sample::select(vec![4, 7, 8, 11]), 1..5_i32, any::<u64>())),
    ) {
        let threads: Vec<(u32, GeneralRegisters)> =
            threads.into_iter().map(|(tid, words)| (tid, GeneralRegisters::from_words(&words))).collect();
        let died = died.index(threads.len());
        let mut core = CoreBuilder::new().process(threads[0].0, "a name", "a name  with arguments");
        for (number, (tid, registers)) in threads.iter().enumerate() {
            core = core.thread(*tid, 0, registers);
            // What follows a thread's status is about that thread.
            if let Some((signal, code, address)) = fault.filter(|_| number == died) {
                core = core.signal(signal, code, address);
            }
        }
        let opened = opened(&core)?;
        let found = opened.image.threads();
        let mut expected = threads.clone();
        if fault.is_some() {
            expected[..=died].rotate_right(1);
        }
        let read: Vec<_> = found.iter().map(|thread| (thread.tid.0, thread.registers.expect("it has some"))).collect();
        prop_assert_eq!(read, expected);
        let signals: Vec<_> = found.iter().filter_map(|thread| thread.signal.as_ref()).collect();
        prop_assert_eq!(signals.len(), usize::from(fault.is_some()));
        if let (Some(signal), Some((number, code, address))) = (signals.first(), fault) {
            prop_assert_eq!((signal.number, signal.code, signal.address), (number, Some(code), Some(Avma(address))));
            prop_assert_eq!(opened.crash().and_then(|crash| crash.thread).map(|tid| tid.0), Some(threads[died].0));
        }
        let facts = opened.image.process();
        prop_assert_eq!((facts.pid.0, facts.name.as_slice()), (threads[0].0, b"a name".as_slice()));
        prop_assert_eq!(&facts.command_line, &[b"a".to_vec(), b"name".to_vec(), b"with".to_vec(), b"arguments".to_vec()]);
    }

    /// Lengths of notes that lie: what was read before is kept, and that something is missing is said.
    #[test]
    fn a_note_that_is_longer_than_its_segment_ends_the_notes(count in 1..6_usize, which in any::<prop::sample::Index>(), more in 1..u32::MAX / 2) {
        let which = which.index(count);
        let mut core = CoreBuilder::new();
        for tid in 1..=count as u32 {
            core = core.thread(tid, 0, &GeneralRegisters::default());
        }
        let mut bytes = core.memory(FIRST, 6, vec![9; 64]).build();
        // Headers of two segments, then notes: 12 bytes, the owner in 8, and 336 of contents.
        let at = 64 + 2 * 56 + which * (12 + 8 + 336) + 4;
        prop_assert_eq!(&bytes[at..at + 4], &336_u32.to_le_bytes());
        let rest = (count - which) * (12 + 8 + 336) - 20;
        let size = rest as u32 + more;
        bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
        let opened = open_bytes("core", bytes, &Limits::default()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(opened.image.threads().len(), which);
        prop_assert!(opened.warnings.iter().any(|warning| warning.code == "dump.notes"), "{:?}", opened.warnings);
        let mut memory = [0; 64];
        prop_assert_eq!(opened.image.read(FIRST, &mut memory).ok(), Some(64), "memory is there all the same");
    }
}
