//! Limits, and what headers say.

use super::*;

fn small(bytes: &[u8]) -> Reader<&[u8]> {
    Reader::new(bytes, &Limits::small()).expect("a header")
}

fn ticks(reader: &mut Reader<&[u8]>) -> Vec<u64> {
    read_all(reader).iter().map(|seen| seen.ticks).collect()
}

#[test]
fn descriptions_above_the_limit_are_counted_and_their_events_left_out() {
    for version in [4, 5, 6] {
        let description = metadata("App", 1, Vec::new());
        let all: Vec<_> = (1..=70).map(|number| (number, &description)).collect();
        let mut writer = Writer::new(version);
        writer.metadata(&all);
        writer.events(&[row(64, 1, 1, 5), row(65, 2, 1, 6), row(1, 3, 1, 7)], true);
        let bytes = writer.finish();
        let mut reader = small(&bytes);
        assert_eq!(ticks(&mut reader), [5, 7]);
        assert_eq!(reader.unknown(), 6 + 1, "version {version}");
    }
}

/// A description with more fields, or deeper ones, than are read: the event is one without description (4, 5), or unknown.
#[test]
fn descriptions_that_are_too_large_cost_the_fields() {
    let many: Vec<Field> = (0..33).map(|number| field(&format!("f{number}"), FieldType::Int(4))).collect();
    let mut deep = FieldType::Int(4);
    for _ in 0..9 {
        deep = FieldType::Object(vec![field("in", deep)]);
    }
    let mut deepest = FieldType::Int(4);
    for _ in 0..7 {
        deepest = FieldType::Object(vec![field("in", deepest)]);
    }
    for (fields, is_read) in
        [(many, false), (vec![field("a", deep)], false), (vec![field("a", deepest)], true)]
    {
        for version in [4, 5, 6] {
            let mut writer = Writer::new(version);
            writer.metadata(&[(1, &metadata("App", 1, fields.clone()))]);
            writer.events(&[row(1, 1, 1, 5)], true);
            let bytes = writer.finish();
            let mut reader = small(&bytes);
            let found = reader.next_event().unwrap().map(|event| event.metadata.fields.clone());
            match (version, is_read) {
                (6, false) => assert_eq!((found, reader.unknown()), (None, 2)),
                (_, false) => assert_eq!(found, Some(Vec::new()), "version {version}"),
                (_, true) => assert_eq!(found, Some(fields.clone()), "version {version}"),
            }
        }
    }
}

#[test]
fn long_names_are_cut() {
    for (version, length) in [(4, 128), (5, 128), (6, 256)] {
        let mut writer = Writer::new(version);
        let description =
            EventMetadata { name: "n".repeat(5000), ..metadata(&"p".repeat(5000), 1, Vec::new()) };
        writer.metadata(&[(1, &description)]);
        writer.events(&[row(1, 1, 1, 5)], true);
        let bytes = writer.finish();
        let mut reader = small(&bytes);
        let event = reader.next_event().unwrap().unwrap();
        assert_eq!((event.metadata.provider.len(), event.metadata.name.len()), (length, length));
    }
}

#[test]
fn stacks_above_the_limit_are_empty_and_said() {
    for version in [4, 6] {
        let mut writer = Writer::new(version);
        writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
        writer.stacks(1, &[vec![1; 200], vec![2; 57], vec![3; 200]]);
        let on = |stack, ticks| EventRow { stack, ..row(1, ticks as u32, 1, ticks) };
        writer.events(&[on(1, 1), on(2, 2), on(3, 3)], true);
        // Behind a sequence point there is room again.
        writer.sequence_point(4, &[]);
        writer.stacks(1, &[vec![4; 9]]);
        writer.events(&[on(1, 5)], true);
        let bytes = writer.finish();
        let mut reader = small(&bytes);
        let lengths: Vec<_> = read_all(&mut reader).iter().map(|seen| seen.stack.len()).collect();
        assert_eq!((lengths, reader.unknown()), (vec![200, 57, 0, 9], 1), "version {version}");
    }
}

#[test]
fn threads_and_labels_above_the_limit_are_not_known() {
    let mut writer = Writer::new(6);
    writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
    writer.threads(&(1..80).map(|index| (index, 7, 1000 + index as u32)).collect::<Vec<_>>());
    writer.labels(1, &[([5; 16], [6; 16], 7); 80]);
    let of = |thread: u32| EventRow { labels: thread, ..row(1, 1, thread.into(), thread.into()) };
    writer.events(&[of(1), of(64), of(65), of(79)], true);
    let bytes = writer.finish();
    let seen = read_all(&mut small(&bytes));
    let seen: Vec<_> = seen.iter().map(|seen| (seen.tid, seen.activity[0])).collect();
    assert_eq!(seen, [(1001, 5), (1064, 5), (0, 0), (0, 0)]);
}

#[test]
fn a_block_above_the_limit_is_passed_over() {
    for version in [4, 6] {
        for (size, is_read) in [(60_000, true), (70_000, false)] {
            let mut writer = Writer::new(version);
            writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
            writer.events(&[EventRow { payload: vec![1; size], ..row(1, 1, 1, 5) }], true);
            writer.events(&[row(1, 2, 1, 6)], true);
            let bytes = writer.finish();
            let mut reader = small(&bytes);
            assert_eq!(ticks(&mut reader), if is_read { vec![5, 6] } else { vec![6] });
            assert_eq!((reader.unknown(), reader.end()), (u64::from(!is_read), Some(End::Complete)));
        }
    }
}

#[test]
fn what_is_held_back_is_bounded_and_what_comes_late_is_counted() {
    let mut writer = Writer::new(5);
    writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
    let at = |ticks: u64| EventRow { payload: vec![0; 900], ..row(1, 1, ticks, ticks) };
    writer.events(&[at(90), at(80), at(70), at(60), at(50), at(40), at(30)], true);
    let bytes = writer.finish();
    let mut reader = small(&bytes);
    reader.sort_by_time(true);
    let order = ticks(&mut reader);
    assert_eq!(order.len(), 7);
    assert!(reader.late() > 0 && !order.is_sorted(), "{order:?}");
    let mut reader = open(&bytes);
    reader.sort_by_time(true);
    assert!(ticks(&mut reader).is_sorted() && reader.late() == 0);
}

#[test]
fn kinds_that_do_not_wait_come_at_once_and_are_counted_with_the_others() {
    let mut writer = Writer::new(5);
    writer.metadata(&[(1, &metadata("App", 1, Vec::new())), (2, &metadata("Now", 2, Vec::new()))]);
    let of = |kind, ticks: u64| EventRow { payload: vec![0; 10], ..row(kind, ticks as u32, ticks, ticks) };
    writer.events(&[of(1, 50), of(2, 70), of(1, 20), of(2, 10)], true);
    let bytes = writer.finish();
    let mut reader = open(&bytes);
    reader.sort_by_time_but(|metadata| metadata.provider == "Now");
    assert_eq!(ticks(&mut reader), [70, 10, 20, 50]);
    let mut arrived: Vec<_> =
        reader.arrived().map(|(kind, events, bytes)| (kind.provider.clone(), events, bytes)).collect();
    arrived.sort();
    assert_eq!(arrived, [("App".to_owned(), 2, 20), ("Now".to_owned(), 2, 20)]);
}

/// Offset of the header's clocks: date, ticks, frequency, bytes of an address, and (4, 5) the process.
fn clocks(version: u32) -> usize {
    if version < 6 { 53 } else { 24 }
}

#[test]
fn times_are_nanoseconds_whatever_the_clock() {
    for version in [4, 5, 6] {
        for (frequency, ticks, nanos) in [
            (1_000_000_000_u64, 7, 7),
            (10_000_000, 7, 700),
            (3_000_000_000, 9, 3),
            (1, 5, 5_000_000_000),
            (0, 5, 5_000_000_000),
            (1, u64::MAX, u64::MAX),
        ] {
            let mut writer = Writer::new(version);
            writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
            writer.events(&[row(1, 1, 1, ticks)], true);
            let mut bytes = writer.finish();
            let at = clocks(version) + 24;
            bytes[at..at + 8].copy_from_slice(&frequency.to_le_bytes());
            let mut reader = open(&bytes);
            let event = reader.next_event().unwrap().unwrap();
            assert_eq!((event.ticks, event.time), (ticks, MonoNanos(nanos)), "{version} {frequency}");
        }
    }
}

#[test]
fn addresses_of_four_bytes_are_read_as_such() {
    for version in [4, 6] {
        let mut writer = Writer::new(version);
        writer.metadata(&[(1, &metadata("App", 1, Vec::new()))]);
        writer.stacks(1, &[vec![0x2222_2222_1111_1111]]);
        writer.events(&[EventRow { stack: 1, ..row(1, 1, 1, 5) }], true);
        let mut bytes = writer.finish();
        let at = clocks(version) + 32;
        for (size, wanted) in [
            (4_u32, vec![Avma(0x1111_1111), Avma(0x2222_2222)]),
            (8, vec![Avma(0x2222_2222_1111_1111)]),
            (77, vec![Avma(0x2222_2222_1111_1111)]),
        ] {
            bytes[at..at + 4].copy_from_slice(&size.to_le_bytes());
            assert_eq!(read_all(&mut open(&bytes))[0].stack, wanted, "{version} {size}");
        }
    }
}

#[test]
fn a_stream_of_no_process_has_none() {
    let mut bytes = Writer::new(4).finish();
    bytes[clocks(4) + 36..][..4].fill(0);
    assert_eq!(open(&bytes).header().pid, None);
    let six = Writer::new(6).finish();
    let reader = open(&six);
    let header = reader.header();
    assert_eq!((header.pid, header.processors), (Some(Pid(4711)), Some(2)));
    assert_eq!(header.properties, [("Colour".to_owned(), "blue".to_owned())]);
}

#[test]
fn headers_that_are_cut_anywhere_are_too_short() {
    for version in [4, 5, 6] {
        let whole = Writer::new(version).finish();
        for cut in 0..whole.len() {
            match Reader::new(&whole[..cut], &Limits::default()) {
                Ok(mut reader) => {
                    assert!(reader.next_event().unwrap().is_none());
                    assert_eq!(reader.end(), Some(End::Cut), "{version} {cut}");
                }
                Err(error) => assert!(
                    matches!(error, NettraceError::TooShort { .. } | NettraceError::Damaged(_)),
                    "{version} {cut}: {error}"
                ),
            }
        }
    }
}
