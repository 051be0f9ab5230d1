//! Streams written by `super::write`, read back.

mod bounds;
mod values;

use super::write::{EventRow, Writer, text16};
use super::{End, EventMetadata, Field, FieldType, Limits, NettraceError, Reader, Value, fuzz_nettrace};
use biopsy_model::{Avma, MonoNanos, Pid, Tid};
use proptest::prelude::*;
use std::io::{self, Read};

/// What is compared of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    provider: String,
    ticks: u64,
    tid: u32,
    stack: Vec<Avma>,
    payload: Vec<u8>,
    activity: [u8; 16],
}

fn read_all<R: Read>(reader: &mut Reader<R>) -> Vec<Seen> {
    let mut all = Vec::new();
    while let Some(event) = reader.next_event().expect("bytes in memory") {
        all.push(Seen {
            provider: event.metadata.provider.clone(),
            ticks: event.ticks,
            tid: event.tid.0,
            stack: event.stack.to_vec(),
            payload: event.payload.to_vec(),
            activity: event.activity,
        });
    }
    all
}

fn open(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(bytes, &Limits::default()).expect("a header")
}

fn metadata(provider: &str, id: u32, fields: Vec<Field>) -> EventMetadata {
    EventMetadata {
        provider: provider.to_owned(),
        id,
        name: format!("Event{id}"),
        keywords: 0xf000_0000_0001,
        version: 3,
        level: 4,
        opcode: None,
        fields,
        fingerprint: 0,
    }
}

fn field(name: &str, kind: FieldType) -> Field {
    Field { name: name.to_owned(), kind }
}

fn row(metadata: u32, sequence: u32, thread: u64, ticks: u64) -> EventRow {
    EventRow { metadata, sequence, thread, capture_thread: thread, ticks, ..EventRow::default() }
}

/// A stream with everything in it, and what is to be read.
fn stream(version: u32, rows: &[EventRow], compressed: bool) -> (Vec<u8>, Vec<Seen>) {
    let providers = ["Näme\u{1f600}", "Other"];
    let descriptions: Vec<EventMetadata> = providers.map(|name| metadata(name, 7, Vec::new())).to_vec();
    let stacks = vec![vec![0x7000, 0x8000, u64::MAX], vec![], vec![1]];
    let lists = [([9; 16], [7; 16], 5)];
    let mut writer = Writer::new(version);
    writer.metadata(&[(1, &descriptions[0]), (2, &descriptions[1])]);
    if version >= 6 {
        writer.threads(&(1..6).map(|index| (index, 4711, 100 + index as u32)).collect::<Vec<_>>());
        writer.labels(1, &lists);
    }
    writer.stacks(10, &stacks);
    for rows in rows.chunks(5) {
        writer.unknown(b"what is this");
        writer.events(rows, compressed);
    }
    let seen = rows.iter().map(|row| Seen {
        provider: providers[row.metadata as usize - 1].to_owned(),
        ticks: row.ticks,
        tid: if version < 6 { row.thread as u32 } else { 100 + row.thread as u32 },
        stack: stacks
            .get((row.stack as usize).wrapping_sub(10))
            .into_iter()
            .flatten()
            .copied()
            .map(Avma)
            .collect(),
        payload: row.payload.clone(),
        activity: match (version < 6, row.labels) {
            (true, _) => row.activity,
            (false, 1) => [9; 16],
            (false, _) => [0; 16],
        },
    });
    (writer.finish(), seen.collect())
}

fn rows() -> impl Strategy<Value = Vec<EventRow>> {
    let one = (
        (1_u32..3, any::<u32>(), 1_u64..6, 1_u64..6, 0_u32..3, 9_u32..14),
        (any::<u64>(), any::<bool>(), 0_u32..2, any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)),
    );
    prop::collection::vec(one, 0..20).prop_map(|rows| {
        rows.into_iter()
            .map(
                |(
                    (metadata, sequence, thread, capture, processor, stack),
                    (ticks, acts, labels, sorted, payload),
                )| {
                    EventRow {
                        metadata,
                        sequence,
                        thread,
                        capture_thread: capture,
                        processor,
                        stack,
                        ticks,
                        activity: if acts { [sequence as u8; 16] } else { [0; 16] },
                        related_activity: if acts { [3; 16] } else { [0; 16] },
                        labels,
                        sorted,
                        payload,
                    }
                },
            )
            .collect()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read(rows in rows(), version in 4_u32..7, compressed in any::<bool>()) {
        let (bytes, expected) = stream(version, &rows, compressed);
        let mut reader = open(&bytes);
        prop_assert_eq!(reader.header().version, version);
        prop_assert_eq!(reader.header().pid, Some(Pid(4711)));
        prop_assert_eq!(reader.header().processors, Some(2));
        prop_assert_eq!(reader.header().start().wall_unix_nanos, 1_795_279_224_007_000_000);
        prop_assert_eq!(read_all(&mut reader), expected);
        prop_assert_eq!(reader.end(), Some(End::Complete));
        prop_assert_eq!(reader.unknown() as usize, rows.len().div_ceil(5));
    }

    #[test]
    fn a_cut_costs_only_what_is_behind_it(rows in rows(), version in 4_u32..7, compressed in any::<bool>(), at in any::<prop::sample::Index>()) {
        let (bytes, expected) = stream(version, &rows, compressed);
        let cut = &bytes[..at.index(bytes.len())];
        let Ok(mut reader) = Reader::new(cut, &Limits::default()) else { return Ok(()) };
        let found = read_all(&mut reader);
        prop_assert!(expected.starts_with(&found), "{found:?} of {expected:?}");
        prop_assert_eq!(reader.end(), Some(End::Cut));
    }

    #[test]
    fn the_order_of_time_loses_nothing(rows in rows(), version in 4_u32..7, points in any::<bool>()) {
        // Times of a sane writer: sorted events are marked at the right places, or a sequence point comes in the end.
        let mut rows = rows;
        let (mut floor, mut newest) = (0, 0);
        for row in &mut rows {
            row.ticks %= 1_000;
            if row.sorted {
                row.ticks = row.ticks.max(newest);
                floor = row.ticks;
            }
            row.ticks = row.ticks.max(floor);
            newest = newest.max(row.ticks);
        }
        let (mut bytes, mut expected) = stream(version, &rows, true);
        if points {
            bytes.truncate(bytes.len() - 1);
        }
        let mut reader = open(&bytes);
        reader.sort_by_time(true);
        let found = read_all(&mut reader);
        expected.sort_by_key(|seen| seen.ticks);
        prop_assert_eq!(found, expected);
        prop_assert_eq!(reader.late(), 0);
    }

    #[test]
    fn any_damage_is_survived(rows in rows(), version in 4_u32..7, compressed in any::<bool>(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let (mut bytes, _) = stream(version, &rows, compressed);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        fuzz_nettrace(&bytes);
    }

    #[test]
    fn a_source_that_gives_little_and_is_not_ready_gives_the_same(rows in rows(), version in 4_u32..7, step in 1_usize..50) {
        let (bytes, expected) = stream(version, &rows, true);
        let mut reader = Reader::new(Trickle { bytes: &bytes, step, ready: true, polite: false }, &Limits::default()).expect("a header");
        reader.container_source().polite = true;
        let mut found = Vec::new();
        loop {
            match reader.next_event() {
                Ok(Some(event)) => found.push(event.ticks),
                Ok(None) => break,
                Err(error) => prop_assert!(error.is_not_ready(), "{}", error),
            }
        }
        prop_assert_eq!(found, expected.iter().map(|seen| seen.ticks).collect::<Vec<_>>());
        prop_assert_eq!(reader.end(), Some(End::Complete));
    }
}

/// A socket with a time limit: gives a few bytes, and every other time says that it has none yet.
struct Trickle<'a> {
    bytes: &'a [u8],
    step: usize,
    ready: bool,
    polite: bool,
}

impl Read for Trickle<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.ready = !self.ready;
        if self.polite && self.ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.step.min(room.len()).min(self.bytes.len());
        let (now, later) = self.bytes.split_at(count);
        room[..count].copy_from_slice(now);
        self.bytes = later;
        Ok(count)
    }
}

#[test]
fn values_are_read_by_their_description() {
    let fields = vec![
        field("text", FieldType::Text16),
        field("pair", FieldType::Object(vec![field("a", FieldType::Int(2)), field("b", FieldType::Text16)])),
        field("flag", FieldType::Boolean32),
        field("ratio", FieldType::Double),
        field("last", FieldType::UInt(4)),
    ];
    let mut payload = Vec::new();
    text16(&mut payload, "grün");
    payload.extend((-5_i16).to_le_bytes());
    text16(&mut payload, "inner");
    payload.extend(1_u32.to_le_bytes());
    payload.extend(0.5_f64.to_le_bytes());
    payload.extend(77_u32.to_le_bytes());
    for version in [4, 5, 6] {
        let mut writer = Writer::new(version);
        writer.metadata(&[(1, &metadata("App", 1, fields.clone()))]);
        writer.events(&[EventRow { payload: payload.clone(), ..row(1, 1, 1, 5) }], true);
        let bytes = writer.finish();
        let mut reader = open(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!(event.metadata.fields, fields, "version {version}");
        assert_eq!((event.metadata.level, event.metadata.version), (4, 3));
        assert_eq!(event.time, MonoNanos(5));
        assert!(matches!(event.values().get("text"), Some(Value::Text(text)) if text.is("grün")));
        let Some(Value::Object(pair)) = event.values().get("pair") else { panic!("no object") };
        assert_eq!(pair.get("a").and_then(|value| value.int()), Some(-5));
        assert!(matches!(pair.get("b"), Some(Value::Text(text)) if text.to_string() == "inner"));
        assert_eq!(event.values().get("flag").and_then(|value| value.int()), Some(1));
        assert_eq!(event.values().get("ratio").and_then(|value| value.number()), Some(0.5));
        assert_eq!(event.values().get("last").and_then(|value| value.int()), Some(77));
        assert_eq!(event.values().count(), 5);
    }
}

#[test]
fn arrays_are_read_in_versions_5_and_6() {
    let pair = FieldType::Object(vec![field("Key", FieldType::Text16), field("Value", FieldType::Text16)]);
    let fields = vec![field("list", FieldType::Array(Box::new(pair))), field("after", FieldType::UInt(1))];
    let mut payload = 2_u16.to_le_bytes().to_vec();
    ["a", "1", "b", "2"].iter().for_each(|text| text16(&mut payload, text));
    payload.push(9);
    for version in [5, 6] {
        let mut writer = Writer::new(version);
        writer.metadata(&[(1, &metadata("App", 1, fields.clone()))]);
        writer.events(&[EventRow { payload: payload.clone(), ..row(1, 1, 1, 5) }], true);
        let bytes = writer.finish();
        let mut reader = open(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        let Some(Value::Array(list)) = event.values().get("list") else { panic!("no list") };
        let keys: Vec<String> = list
            .filter_map(|element| match element {
                Value::Object(pair) => pair.get("Key")?.text().map(|text| text.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(keys, ["a", "b"]);
        assert_eq!(event.values().get("after").and_then(|value| value.int()), Some(9));
    }
}

#[test]
fn the_types_of_version_6_are_read() {
    let bytes_type = || Box::new(FieldType::UInt(1));
    let fields = vec![
        field("var", FieldType::VarInt),
        field("uvar", FieldType::VarUInt),
        field("fixed", FieldType::FixedArray(Box::new(FieldType::UInt(2)), 2)),
        field("flag", FieldType::Boolean8),
        field("relative", FieldType::RelativeArray(bytes_type())),
        field("absolute", FieldType::AbsoluteArray(bytes_type())),
    ];
    // -3 in zigzag, 300 in LEB128, two numbers, yes; then where two arrays lie: 4 behind the field, and at 19.
    let mut payload = vec![5, 0xac, 0x02, 1, 0, 2, 0, 1];
    payload.extend((2_u32 << 16 | 4).to_le_bytes());
    payload.extend((3_u32 << 16 | 18).to_le_bytes());
    payload.extend([10, 11, 20, 21, 22]);
    let mut writer = Writer::new(6);
    writer.metadata(&[(1, &metadata("App", 1, fields))]);
    writer.events(&[EventRow { payload, ..row(1, 1, 1, 5) }], true);
    let bytes = writer.finish();
    let mut reader = open(&bytes);
    let event = reader.next_event().unwrap().unwrap();
    let value = |name: &str| event.values().get(name).expect("a value");
    assert_eq!(value("var").int(), Some(-3));
    assert_eq!(value("uvar").int(), Some(300));
    assert_eq!(value("flag").int(), Some(1));
    let list = |name: &str| match value(name) {
        Value::Array(elements) => elements.filter_map(|element| element.int()).collect::<Vec<_>>(),
        _ => panic!("no array"),
    };
    assert_eq!(list("fixed"), [1, 2]);
    assert_eq!(list("relative"), [10, 11]);
    assert_eq!(list("absolute"), [20, 21, 22]);
}

#[test]
fn lost_events_are_counted_by_gaps_and_by_sequence_points() {
    for version in [4, 6] {
        let mut writer = Writer::new(version);
        writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
        writer.events(&[row(1, 1, 1, 5), row(1, 2, 1, 6), row(1, 5, 1, 7)], true);
        writer.sequence_point(8, &[(1, 9)]);
        writer.events(&[row(1, 10, 1, 9)], true);
        let mut reader_bytes = writer.clone();
        if version == 6 {
            reader_bytes.remove_threads(&[(1, 12)]);
        }
        let bytes = reader_bytes.finish();
        let mut reader = open(&bytes);
        assert_eq!(read_all(&mut reader).len(), 4);
        let at_the_end = if version == 6 { 2 } else { 0 };
        assert_eq!(reader.lost(), 2 + 4 + at_the_end, "3 and 4; 6 to 9; version {version}");
    }
}

#[test]
fn stacks_and_threads_hold_up_to_a_sequence_point() {
    let mut writer = Writer::new(6);
    let description = metadata("App", 1, Vec::new());
    writer.metadata(&[(1, &description)]);
    writer.threads(&[(3, 7, 70)]);
    writer.stacks(1, &[vec![42]]);
    let event = EventRow { stack: 1, ..row(1, 1, 3, 5) };
    writer.events(std::slice::from_ref(&event), true);
    writer.sequence_point_with(6, &[(3, 1)], 3);
    writer.events(&[EventRow { sequence: 2, ..event.clone() }], true);
    writer.metadata(&[(1, &description)]);
    writer.events(&[EventRow { sequence: 3, ..event }], true);
    let bytes = writer.finish();
    for sorted in [false, true] {
        let mut reader = open(&bytes);
        reader.sort_by_time(sorted);
        let first = reader.next_event().unwrap().unwrap();
        assert_eq!((first.pid, first.tid, first.stack), (Some(Pid(7)), Tid(70), &[Avma(42)][..]));
        let second = reader.next_event().unwrap().unwrap();
        // The description was forgotten too: the event between the two is not understood.
        assert_eq!((second.pid, second.tid, second.stack.len()), (Some(Pid(4711)), Tid(0), 0));
        assert!(reader.next_event().unwrap().is_none());
        assert_eq!(reader.unknown(), 1);
    }
}

#[test]
fn other_files_and_versions_are_refused_in_words() {
    let refused = |bytes: &[u8]| Reader::new(bytes, &Limits::default()).expect_err("no stream").to_string();
    assert!(
        refused(b"PERFILE2 and more of it").starts_with("not a nettrace stream"),
        "{}",
        refused(b"PERFILE2 and more")
    );
    assert!(refused(b"").contains("ends within its header"));
    assert!(refused(b"Nettr").contains("5 bytes"));
    let mut newer = Writer::new(6).finish();
    newer[12] = 7;
    assert_eq!(refused(&newer), "nettrace version 7 is not known; 4, 5 and 6 are");
    let mut older = Writer::new(4).finish();
    older[35] = 3;
    assert!(matches!(
        Reader::new(&older[..], &Limits::default()),
        Err(NettraceError::Version { version: 3 })
    ));
}

#[test]
fn a_hostile_length_takes_no_memory() {
    let mut writer = Writer::new(4);
    writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
    let mut bytes = writer.unfinished().to_vec();
    bytes.extend([5, 5, 1]);
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(2_u32.to_le_bytes());
    bytes.extend(10_u32.to_le_bytes());
    bytes.extend(b"EventBlock\x06");
    bytes.extend(0xffff_fff0_u32.to_le_bytes());
    bytes.extend([0; 100]);
    let mut reader = open(&bytes);
    assert!(reader.next_event().unwrap().is_none());
    assert_eq!((reader.end(), reader.unknown()), (Some(End::Cut), 1));
}
