//! Reading behind the cache, from files in place of what a dump lacks, and searching.

#![expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use biopsy_image::{Backing, ImageModule, Mapping, ProcessFacts, Protection, Thread};
use proptest::prelude::*;

use super::*;

const AT: u64 = 0x10_0000;
const SIZE: u64 = PAGE_SIZE;

/// Pages of memory, each there (filled by a function of the address) or missing for a reason.
struct Patchy {
    start: u64,
    pages: Vec<Result<(), Absence>>,
    mappings: Vec<Mapping>,
    process: ProcessFacts,
    reads: AtomicUsize,
}

fn byte_at(address: u64) -> u8 {
    (address ^ address >> 8).wrapping_mul(0x9d) as u8
}

impl Patchy {
    /// One mapping of a file from `/lib/made.so` + 0x3000 on.
    fn new(pages: Vec<Result<(), Absence>>) -> Self {
        let mapping = Mapping {
            start: AT,
            end: AT + pages.len() as u64 * SIZE,
            protection: Protection { read: true, write: false, execute: false },
            shared: false,
            backing: Backing::File {
                path: b"/lib/made.so".to_vec(),
                offset: 0x3000,
                deleted: false,
                identity: (0, 0),
            },
            not_frozen: false,
        };
        Self::of(AT, pages, vec![mapping])
    }

    fn of(start: u64, pages: Vec<Result<(), Absence>>, mappings: Vec<Mapping>) -> Self {
        Self { start, pages, mappings, process: ProcessFacts::default(), reads: AtomicUsize::new(0) }
    }

    fn all(count: usize) -> Self {
        Self::new(vec![Ok(()); count])
    }
}

impl Image for Patchy {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let missing = |why| Err(ReadError::Missing { address, why });
        let Some(from) = address.checked_sub(self.start) else { return missing(Absence::Unmapped) };
        match self.pages.get((from / SIZE) as usize) {
            None => missing(Absence::Unmapped),
            Some(Err(why)) => missing(*why),
            Some(Ok(())) => {
                let count = buffer.len().min((SIZE - from % SIZE) as usize);
                for (slot, by) in buffer[..count].iter_mut().zip(0..) {
                    *slot = byte_at(address + by);
                }
                Ok(count)
            }
        }
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &[]
    }

    fn modules(&self) -> &[ImageModule] {
        &[]
    }

    fn process(&self) -> &ProcessFacts {
        &self.process
    }
}

/// A file whose bytes say where they are, up to an end.
struct Files {
    end: u64,
}

fn file_byte(offset: u64) -> u8 {
    (offset / 7) as u8 ^ 0x55
}

impl MissingFiles for Files {
    fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
        if path != b"/lib/made.so" {
            return 0;
        }
        let count = buffer.len().min(usize::try_from(self.end.saturating_sub(offset)).unwrap());
        for (slot, at) in buffer[..count].iter_mut().zip(offset..) {
            *slot = file_byte(at);
        }
        count
    }
}

#[test]
fn numbers_that_straddle_pages_are_those_of_their_bytes() {
    let image = Patchy::all(2);
    let memory = Memory::new(&image, None, 0);
    for at in AT + SIZE - 9..AT + SIZE + 1 {
        let bytes: [u8; 8] = std::array::from_fn(|by| byte_at(at + by as u64));
        let [a, b, c, d, ..] = bytes;
        assert_eq!(memory.u64(at), Some(u64::from_le_bytes(bytes)));
        assert_eq!(memory.u32(at), Some(u32::from_le_bytes([a, b, c, d])));
        assert_eq!(memory.i32(at), Some(i32::from_le_bytes([a, b, c, d])));
        assert_eq!(memory.u16(at), Some(u16::from_le_bytes([a, b])));
        assert_eq!(memory.u8(at), Some(a));
    }
}

#[test]
fn a_number_is_there_only_with_all_of_its_bytes() {
    let image = Patchy::all(1);
    let memory = Memory::new(&image, None, 0);
    let end = AT + SIZE;
    for left in 0..10 {
        let at = end - left;
        assert_eq!(memory.u64(at).is_some(), left >= 8, "{left}");
        assert_eq!(memory.u32(at).is_some(), left >= 4, "{left}");
        assert_eq!(memory.u16(at).is_some(), left >= 2, "{left}");
        assert_eq!(memory.u8(at).is_some(), left >= 1, "{left}");
        assert_eq!(memory.text(at, 5).is_some(), left >= 5, "{left}");
        let mut buffer = [0; 16];
        assert_eq!(memory.read_available(at, &mut buffer), left as usize);
        assert_eq!(memory.bytes(at, 16).len(), left as usize);
    }
}

#[test]
fn null_is_no_pointer() {
    let mut image = crate::fuzz::go_image(24);
    image.word(0x40_5ff0, 0);
    image.word(0x40_5ff8, 5);
    let memory = Memory::new(&image, None, 0);
    assert_eq!((memory.pointer(0x40_5ff0), memory.pointer(0x40_5ff8)), (None, Some(5)));
}

#[test]
fn a_page_is_read_once_and_a_missing_one_too() {
    let image = Patchy::new(vec![Ok(()), Err(Absence::LeftOut)]);
    let memory = Memory::new(&image, None, 1 << 20);
    assert!(memory.u64(AT + 8).is_some());
    let once = image.reads.load(Ordering::Relaxed);
    assert!((0..SIZE - 8).all(|by| memory.u64(AT + by).is_some()));
    assert_eq!(image.reads.load(Ordering::Relaxed), once, "the page is kept");
    assert_eq!(memory.u64(AT + SIZE), None);
}

#[test]
fn no_more_pages_are_kept_than_were_asked_for() {
    let image = Patchy::all(300);
    for (bytes, most) in [(0, PAGES_MIN), (100 * PAGE, 100), (usize::MAX, 300)] {
        let memory = Memory::new(&image, None, bytes);
        for page in 0..300 {
            assert!(memory.u8(AT + page * SIZE).is_some());
            assert!(memory.pages.borrow().len() <= most);
        }
    }
}

#[test]
fn large_reads_go_past_the_cache() {
    let image = Patchy::all(10);
    let memory = Memory::new(&image, None, 1 << 20);
    assert_eq!(memory.bytes(AT, 10 * PAGE).len(), 10 * PAGE);
    assert!(memory.pages.borrow().is_empty());
}

#[test]
fn a_text_ends_at_its_zero_at_its_limit_or_with_the_memory() {
    let mut image = crate::fuzz::go_image(24);
    let (at, end) = (0x40_5f00, 0x40_6000);
    image.put(at, &[b'x'; 0x100]);
    let of = |image: &crate::fuzz::MadeImage, from, limit| Memory::new(image, None, 0).c_string(from, limit);
    let length = |text: Option<String>| text.map(|text| text.len());
    assert_eq!(length(of(&image, at, 1_000)), Some(0x100), "memory ends before the text does");
    assert_eq!(length(of(&image, end - 1, 1_000)), Some(1));
    assert_eq!(of(&image, end, 1_000), None, "not even its first byte is there");
    assert_eq!(length(of(&image, at, 7)), Some(7));
    assert_eq!(length(of(&image, at, 0)), Some(0));
    // A zero in each place, among them those where pieces of reads meet.
    for zero in [0, 1, 127, 128, 129, 255] {
        let mut image = crate::fuzz::go_image(24);
        image.put(at, &[b'x'; 0x100]);
        image.put(at + zero, &[0]);
        assert_eq!(length(of(&image, at, 1_000)), Some(zero as usize));
    }
    image.put(at, &[b'a', 0xff, b'b', 0]);
    assert_eq!(of(&image, at, 10).as_deref(), Some("a\u{fffd}b"));
}

/// What a dump lacks is taken from the file where the process cannot have written it.
#[test]
fn a_file_stands_in_for_what_cannot_have_been_written() {
    // Why it is missing; whether it is read for pages that may not be written, for private ones that may, for shared ones that may.
    let table = [
        (Absence::LeftOut, [true, true, false]),
        (Absence::Unmapped, [true, true, false]),
        (Absence::Unreadable, [true, true, false]),
        (Absence::NotOfKind, [true, false, false]),
        (Absence::OverLimit, [false; 3]),
        (Absence::NoTime, [false; 3]),
        (Absence::Truncated, [false; 3]),
        (Absence::Gone, [false; 3]),
    ];
    for (why, expected) in table {
        let kinds = [(false, false), (true, false), (true, true)];
        for ((write, shared), read) in kinds.into_iter().zip(expected) {
            let mut image = Patchy::new(vec![Err(why)]);
            image.mappings[0].protection.write = write;
            image.mappings[0].shared = shared;
            let memory = Memory::new(&image, Some(&Files { end: u64::MAX }), 0);
            let expected = read.then(|| file_byte(0x3000 + 0x123));
            assert_eq!(memory.u8(AT + 0x123), expected, "{why:?} write {write} shared {shared}");
            assert_eq!(Memory::new(&image, None, 0).u8(AT + 0x123), None);
        }
    }
}

#[test]
fn bytes_of_memory_and_of_files_are_put_together() {
    let image = Patchy::new(vec![Ok(()), Err(Absence::LeftOut), Ok(()), Err(Absence::OverLimit)]);
    let memory = Memory::new(&image, Some(&Files { end: u64::MAX }), 0);
    let expected: Vec<u8> = (0..3 * SIZE)
        .map(|by| if by / SIZE == 1 { file_byte(0x3000 + by) } else { byte_at(AT + by) })
        .collect();
    assert!(
        memory.bytes(AT, 4 * PAGE) == expected,
        "the third page is there, the fourth may have been changed"
    );
    let mut cached = vec![0; 4 * PAGE];
    assert_eq!(memory.read_available(AT, &mut cached), 3 * PAGE);
    assert!(cached[..3 * PAGE] == expected);
}

#[test]
fn a_file_that_ends_early_ends_what_is_there() {
    let image = Patchy::new(vec![Err(Absence::LeftOut); 2]);
    let files = Files { end: 0x3000 + 0x1100 };
    let memory = Memory::new(&image, Some(&files), 0);
    assert_eq!(memory.bytes(AT, 2 * PAGE).len(), 0x1100);
    let mut buffer = [0; 0x200];
    assert_eq!(memory.read_available(AT + 0x1000, &mut buffer), 0x100);
    assert_eq!(memory.u8(AT + 0x10ff), Some(file_byte(0x3000 + 0x10ff)));
    assert_eq!(memory.u8(AT + 0x1100), None);
}

/// What is mapped of a file ends where the mapping does, however long the file is.
#[test]
fn a_file_is_not_read_beyond_its_mapping() {
    let image = Patchy::new(vec![Err(Absence::LeftOut)]);
    let memory = Memory::new(&image, Some(&Files { end: u64::MAX }), 0);
    assert_eq!(memory.bytes(AT, 3 * PAGE).len(), PAGE);
}

/// Says to have read more than it was asked for.
struct Boasts;

impl MissingFiles for Boasts {
    fn read(&self, _: &[u8], _: u64, _: &mut [u8]) -> usize {
        usize::MAX
    }
}

#[test]
fn a_source_of_files_that_boasts_is_not_believed() {
    let image = Patchy::new(vec![Err(Absence::LeftOut)]);
    let memory = Memory::new(&image, Some(&Boasts), 0);
    assert_eq!(memory.bytes(AT + 1, 10).len(), 10);
    assert_eq!(memory.u64(AT + SIZE - 8), Some(0));
}

/// Where in `range` a search was given bytes, in order, and that they were those of the address.
fn searched(image: &Patchy, range: Range<u64>, overlap: usize, most: u64) -> Vec<Range<u64>> {
    let memory = Memory::new(image, None, 0);
    let mut pieces: Vec<Range<u64>> = Vec::new();
    let nothing = memory.search::<()>(range, overlap, most, |at, bytes| {
        assert!(bytes.iter().zip(0..).step_by(97).all(|(byte, by)| *byte == byte_at(at + by)));
        pieces.push(at..at + bytes.len() as u64);
        None
    });
    assert_eq!(nothing, None);
    pieces
}

#[test]
fn a_search_steps_over_what_is_missing() {
    let hole = Err(Absence::LeftOut);
    let image = Patchy::new(vec![hole, Ok(()), Ok(()), hole, hole, Ok(())]);
    let page = |number: u64| AT + number * SIZE;
    assert_eq!(
        searched(&image, page(0)..page(6), 8, u64::MAX),
        [page(1)..page(3), page(5)..page(6)],
        "a range from and to holes"
    );
    assert_eq!(searched(&image, page(1) + 5..page(2) + 3, 8, u64::MAX), [page(1) + 5..page(2) + 3]);
    assert_eq!(searched(&image, page(0)..page(6), 8, 2 * SIZE), [page(1)..page(2)], "so many bytes at most");
    assert_eq!(searched(&image, page(3)..page(5), 8, u64::MAX), []);
    assert_eq!(searched(&image, page(2)..page(1), 8, u64::MAX), [], "a range that is none");
}

#[test]
fn pieces_of_a_search_overlap_and_the_last_one_ends_it() {
    let image = Patchy::all(2 * PIECE / PAGE);
    let end = AT + 2 * PIECE as u64;
    let piece = PIECE as u64;
    assert_eq!(
        searched(&image, AT..end, 16, u64::MAX),
        [AT..AT + piece, AT + piece - 16..AT + 2 * piece - 16, AT + 2 * piece - 32..end]
    );
    // An overlap as large as a piece would stand still.
    assert!(searched(&image, AT..AT + piece + 3, PIECE, u64::MAX).len() <= 4);
}

#[test]
fn bytes_are_found_across_the_border_of_pieces_and_only_where_aligned() {
    let image = Patchy::all(2 * PIECE / PAGE);
    let memory = Memory::new(&image, None, 0);
    let wanted = AT + PIECE as u64 - 4;
    let bytes = memory.bytes(wanted, 24);
    let calls = Cell::new(0);
    let found = |align| {
        memory.find(AT..AT + 2 * PIECE as u64, &bytes, align, u64::MAX, |at| {
            calls.set(calls.get() + 1);
            (at >= wanted).then_some(at)
        })
    };
    assert_eq!(found(4), Some(wanted));
    assert!(calls.get() > 0);
    assert!(found(8).is_none_or(|at| at % 8 == 0), "{:?}", found(8));
}

/// Memory up to the last address that a mapping can have.
#[test]
fn a_search_of_the_last_page_ends() {
    let start = u64::MAX - 2 * SIZE + 1;
    let image = Patchy::of(start, vec![Ok(()); 2], Vec::new());
    let pieces = searched(&image, start..u64::MAX, 8, u64::MAX);
    assert_eq!(pieces, [start..u64::MAX]);
    let memory = Memory::new(&image, None, 0);
    assert!(memory.u8(u64::MAX).is_some());
    assert_eq!(memory.u64(u64::MAX - 3), None, "it would go on at address 0");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn however_pages_are_missing_reads_say_what_is_there_in_one_piece(
        there in prop::collection::vec(prop::bool::weighted(0.8), 1..6),
        from in 0..5 * SIZE, length in 0..3 * PAGE,
    ) {
        let pages = there.iter().map(|there| if *there { Ok(()) } else { Err(Absence::OverLimit) });
        let image = Patchy::new(pages.collect());
        let is_there = |at: u64| there.get(((at - AT) / SIZE) as usize) == Some(&true);
        let address = AT + from;
        let expected: Vec<u8> =
            (address..).take(length).take_while(|at| is_there(*at)).map(byte_at).collect();
        let memory = Memory::new(&image, None, 0);
        prop_assert_eq!(memory.bytes(address, length), expected.clone());
        let mut buffer = vec![0; length];
        prop_assert_eq!(memory.read_available(address, &mut buffer), expected.len());
        prop_assert_eq!(&buffer[..expected.len()], &expected[..]);
    }

    #[test]
    fn a_search_sees_each_byte_that_is_there(
        there in prop::collection::vec(any::<bool>(), 1..8), from in 0..SIZE, less in 0..SIZE, overlap in 0..64_usize,
    ) {
        let pages = there.iter().map(|there| if *there { Ok(()) } else { Err(Absence::NoTime) });
        let image = Patchy::new(pages.collect());
        let range = AT + from..AT + there.len() as u64 * SIZE - less;
        let pieces = searched(&image, range.clone(), overlap, u64::MAX);
        for at in range.step_by(61) {
            let is_there = there[((at - AT) / SIZE) as usize];
            prop_assert_eq!(pieces.iter().any(|piece| piece.contains(&at)), is_there, "{:#x}", at);
        }
    }
}
