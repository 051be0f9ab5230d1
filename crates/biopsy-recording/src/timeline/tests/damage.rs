//! What is left of a file that is cut, damaged or hostile.

use std::cell::Cell;
use std::io::Write;
use std::rc::Rc;

use biopsy_model::stack::{FrameHandle, StackEnd};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{Sample, Timeline, TimelineEvent};
use biopsy_model::{MonoNanos, Nanos, Tid};

use super::super::chunk::{CHUNK_HEADER_LEN, ChunkHeader, Definitions, checksum, file_header};
use super::super::{TimelineError, Writer, read, tags};
use super::{chunk, events_of, sample, user_frame, write};
use crate::Limits;

#[test]
fn an_empty_file_is_cut_short_and_other_files_are_refused() {
    let (timeline, warnings) = read(&[][..], &Limits::default()).unwrap();
    assert_eq!(timeline, Timeline::default());
    assert_eq!(
        warnings[0].message,
        "the timeline is cut short: it ends inside its header; everything before is there"
    );
    for bad in [&b"PK\x03\x04"[..], b"BIOPSYTM", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        let error = read(bad, &Limits::default()).unwrap_err();
        assert!(matches!(error, TimelineError::NotATimeline { .. }), "{error}");
    }
}

#[test]
fn a_newer_major_version_is_refused_and_a_newer_minor_is_read() {
    let events = [sample(1 << 40, 7, None)];
    let mut bytes = write(&events, 10);
    bytes[10] = 9; // minor
    bytes[12] = 20; // four more bytes of header, which this version does not know
    bytes.splice(16..16, [1, 2, 3, 4]);
    assert_eq!(events_of(&bytes), (events.to_vec(), vec![]));
    bytes[8] = 3; // major
    let error = read(bytes.as_slice(), &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "the timeline has format 3.9, this biopsy reads up to 1.0");
}

#[test]
fn unknown_events_and_trailing_fields_are_skipped() {
    let mut raw = Vec::new();
    raw.extend([0x02, 7, 0xff]); // thread 0 is tid 7, and a field from the future
    raw.extend([0xff, 0x80, 0x01, 31]); // tag 7 + 128, length 31
    raw.extend([0xee; 31]);
    raw.extend([0xe1, 0x7f, 0xee]); // tag 7 + 127, length 1
    // Sample: time +2, flags: cpu 0, end root, new weight; thread 0; no stack; weight 5; two fields from the future.
    raw.extend([0x27, 4, 1, 0, 0, 5, 0xaa, 0xbb]);
    let bytes = [file_header(), chunk(&raw, Definitions::default())].concat();
    let (events, warnings) = events_of(&bytes);
    assert_eq!(
        events,
        [TimelineEvent::Sample(Sample {
            time: MonoNanos(2),
            tid: Tid(7),
            cpu: 0,
            stack: None,
            end: StackEnd::Root,
            weight: Nanos(5),
        })]
    );
    assert_eq!(warnings, ["recording.cut-short", "recording.unknown-events"]);
}

#[test]
fn hostile_sizes_are_refused_before_memory_is_taken() {
    let huge =
        ChunkHeader { crc: 0, stored: u32::MAX, raw: u32::MAX, events: 0, before: Definitions::default() };
    let bytes = [file_header(), huge.to_bytes(&[]).to_vec()].concat();
    let (_, warnings) = read(bytes.as_slice(), &Limits::default()).unwrap();
    assert_eq!(
        warnings[0].message,
        "the timeline is not read to its end: chunk at 0x10 claims 4294967295 bytes, the limit is 8388608"
    );
    // A zstd frame that unpacks to more than the chunk says.
    let mut bomb = chunk(&vec![0x01; 1 << 20], Definitions::default());
    bomb[12..16].copy_from_slice(&100_u32.to_le_bytes());
    let crc = checksum(&bomb[..CHUNK_HEADER_LEN], &bomb[CHUNK_HEADER_LEN..]);
    bomb[4..8].copy_from_slice(&crc.to_le_bytes());
    let (events, warnings) = events_of(&[file_header(), bomb].concat());
    assert_eq!((events.len(), warnings[1].as_str()), (0, "recording.damaged"));
}

#[test]
fn limits_end_reading_with_a_warning() {
    let events: Vec<_> = (0..100).map(|n| sample((1 << 40) + n, 1, None)).collect();
    let limits = Limits { events: 30, ..Limits::default() };
    let (timeline, warnings) = read(write(&events, 10).as_slice(), &limits).unwrap();
    assert_eq!(timeline.samples.len(), 30);
    assert_eq!(warnings[0].code, "recording.limit");
    let frames: Vec<_> = (0..100).map(user_frame).collect();
    let limits = Limits { definitions: 30, ..Limits::default() };
    let (timeline, warnings) = read(write(&frames, 10).as_slice(), &limits).unwrap();
    assert_eq!(timeline.frames.len(), 30);
    assert_eq!(warnings[0].code, "recording.limit");
}

#[test]
fn a_chunk_that_claims_definitions_nobody_made_is_left_out() {
    let before = Definitions { frames: 1_000_000, ..Definitions::default() };
    let (events, warnings) = events_of(&[file_header(), chunk(&[0xe0, 0x7f], before)].concat());
    assert_eq!((events.len(), warnings[1].as_str()), (0, "recording.damaged"));
}

/// 3 MB of zeros are events that nobody knows: what they cost is counted before they are unpacked.
#[test]
fn a_timeline_that_packs_too_well_is_not_read_to_its_end() {
    let piece = chunk(&vec![0; 1 << 20], Definitions::default());
    let bytes = [file_header(), piece.clone(), piece.clone(), piece].concat();
    let limits = Limits { free_bytes: 2 << 20, ratio: 100, ..Limits::default() };
    let (_, warnings) = read(bytes.as_slice(), &limits).unwrap();
    let messages: Vec<&str> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(messages.iter().any(|message| message.contains("bytes unpacked")), "{messages:?}");
    let (_, warnings) = read(bytes.as_slice(), &Limits::default()).unwrap();
    assert!(warnings.iter().all(|warning| warning.code != "recording.limit"), "{warnings:?}");
}

#[test]
fn a_damaged_chunk_of_a_few_bytes_has_not_held_a_million_definitions() {
    let mut damaged = chunk(&[0xe0, 0x7f], Definitions::default());
    damaged[CHUNK_HEADER_LEN] ^= 1;
    let before = Definitions { frames: 1_000_000, stacks: 1_000_000, modules: 1_000_000 };
    let (events, _) = events_of(&[file_header(), damaged, chunk(&[0xe0, 0x7f], before)].concat());
    assert_eq!(events.len(), 0);
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let name = "ü".repeat(50_000);
    let mark = TimelineEvent::Mark { time: MonoNanos(5), label: name.clone() };
    let symbols = TimelineEvent::Symbols(FrameSymbols {
        frame: FrameHandle(0),
        functions: (0..200)
            .map(|n| Function { name: format!("{n}{name}"), file: None, line: None })
            .collect(),
        source: SymbolSource::Dwarf,
    });
    let (events, warnings) = events_of(&write(&[mark, symbols], 1));
    assert_eq!(warnings, Vec::<String>::new());
    let TimelineEvent::Mark { label, .. } = &events[0] else { panic!() };
    assert_eq!((label.len(), name.starts_with(label)), (tags::MAX_TEXT, true));
    let TimelineEvent::Symbols(symbols) = &events[1] else { panic!() };
    assert_eq!(symbols.functions.len(), tags::MAX_FUNCTIONS);
    assert!(symbols.functions.last().unwrap().name.starts_with("199ü"), "the real function is the last");
}

/// A disk that is full after some bytes.
struct Full(Rc<Cell<usize>>, Vec<u8>);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let fits = bytes.len().min(self.0.get());
        if fits == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        self.0.set(self.0.get() - fits);
        self.1.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn after_a_full_disk_nothing_more_is_written_and_what_is_there_is_readable() {
    let room = Rc::new(Cell::new(120));
    let mut writer = Writer::new(Full(Rc::clone(&room), Vec::new())).unwrap();
    let push = |writer: &mut Writer<Full>, n: u64| {
        writer.push(&sample((1 << 40) + n, 1, None))?;
        writer.flush_chunk()
    };
    push(&mut writer, 1).unwrap();
    let failed = (2..10).map(|n| push(&mut writer, n)).find(Result::is_err).unwrap();
    assert_eq!(failed.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    room.set(1_000_000);
    assert_eq!(push(&mut writer, 99).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let (events, warnings) = events_of(&writer.get_ref().1);
    assert!(!events.is_empty());
    assert_eq!(warnings, ["recording.cut-short"]);
}

#[test]
fn a_copy_with_an_end_mark_is_whole() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.push(&sample(1 << 40, 1, None)).unwrap();
    writer.flush_chunk().unwrap();
    let copy = [writer.get_ref().clone(), writer.end_mark()].concat();
    assert_eq!(writer.bytes_written(), writer.get_ref().len() as u64);
    assert_eq!(events_of(&copy).1, Vec::<String>::new());
    assert_eq!(events_of(writer.get_ref()).1, ["recording.cut-short"]);
}

#[test]
fn a_full_chunk_is_written_by_itself() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for n in 0..60_000_u64 {
        writer.push(&sample((1 << 40) + n * 500_001, (n % 30) as u32, None)).unwrap();
    }
    assert!(writer.bytes_written() > 20_000 && writer.bytes_pending() < 300_000);
}
