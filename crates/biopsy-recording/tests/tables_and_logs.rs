//! Tables and logs that were cut, damaged or written by somebody else: what is whole is kept, what is not is counted.

use std::io::{self, Read};

use biopsy_model::MonoNanos;
use biopsy_model::log::{LogLevel, LogLine};
use biopsy_model::loss::Warning;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_recording::Limits;
use biopsy_recording::logs::{LogWriter, read_log};
use biopsy_recording::metrics::{TableWriter, read_table};
use proptest::prelude::*;

fn table_of(text: &str, limits: &Limits) -> (Vec<(u64, Option<f64>)>, Vec<&'static str>) {
    let (table, warnings) = read_table("t", text.as_bytes(), limits);
    let rows = table.rows.iter().map(|row| (row.time.0, row.values.first().copied().flatten())).collect();
    (rows, codes(&warnings))
}

fn codes(warnings: &[Warning]) -> Vec<&'static str> {
    let known = [
        "recording.cut-short",
        "recording.bad-rows",
        "recording.bad-lines",
        "recording.bad-table",
        "recording.limit",
    ];
    let code = |warning: &Warning| known.into_iter().find(|code| *code == warning.code).unwrap_or("another");
    warnings.iter().map(code).collect()
}

#[test]
fn the_number_that_was_being_written_is_never_taken_for_a_reading() {
    const CUT: &str = "recording.cut-short";
    const BAD: &str = "recording.bad-rows";
    for (text, rows, warned) in [
        ("1,25\n", vec![(1, Some(25.0))], vec![]),
        ("1,2", vec![], vec![CUT]),
        ("1,25\n2,3", vec![(1, Some(25.0))], vec![CUT]),
        // A row that was bad before is another one than the one that is cut.
        ("bad\n1,2", vec![], vec![CUT, BAD]),
        ("1,25\nbad\n2,3", vec![(1, Some(25.0))], vec![CUT, BAD]),
        ("bad\n1,25\n2,3", vec![(1, Some(25.0))], vec![CUT, BAD]),
        ("bad\n1,25\n2", vec![(1, Some(25.0))], vec![CUT, BAD]),
        ("1,25\n2", vec![(1, Some(25.0))], vec![CUT]),
        ("1,25\nbad\n", vec![(1, Some(25.0))], vec![BAD]),
        ("1,25\n2,1e", vec![(1, Some(25.0))], vec![CUT]),
        ("1,25\n2,\"3", vec![(1, Some(25.0))], vec![CUT]),
        // An empty number could not be read, which is a reading too.
        ("1,\n2,3\n", vec![(1, None), (2, Some(3.0))], vec![]),
    ] {
        let text = format!("time_ns,a[n]\n{text}");
        assert_eq!(table_of(&text, &Limits::default()), (rows, warned), "{text:?}");
    }
}

#[test]
fn a_table_with_more_rows_than_are_read_loses_none_of_those_that_are() {
    let limits = Limits { rows: 3, ..Limits::default() };
    for more in [4, 5, 3_000, 30_000] {
        let rows: String = (0..more).map(|row| format!("{row},{row}.5\n")).collect();
        let (rows, warned) = table_of(&format!("time_ns,a[n]\n{rows}"), &limits);
        assert_eq!(rows.len(), 3, "of {more}");
        assert_eq!(warned, ["recording.limit"], "of {more}");
    }
}

/// Gives bytes, and then an error.
struct Failing<'a>(&'a [u8]);

impl Read for Failing<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the disk is gone")),
            count => Ok(count),
        }
    }
}

#[test]
fn what_was_read_before_a_disk_failed_is_kept_and_the_failure_named() {
    let (table, warnings) = read_table("t", Failing(b"time_ns,a[n]\n1,2\n3,4\n5,"), &Limits::default());
    assert_eq!(table.rows.iter().map(|row| row.time.0).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(codes(&warnings), ["recording.cut-short"]);
    assert!(warnings[0].message.contains("the disk is gone"), "{}", warnings[0].message);
    let log = b"{\"source\":\"a\",\"assumed_zone\":\"UTC\"}\n{\"time_ns\":1,\"level\":\"\",\"text\":\"one\"}\n{\"ti";
    let (log, warnings) = read_log("logs/a.jsonl", Failing(log), &Limits::default(), &mut 100);
    assert_eq!(log.lines.len(), 1);
    assert!(warnings[0].message.contains("the disk is gone"), "{}", warnings[0].message);
}

#[test]
fn first_lines_say_what_columns_mean_or_the_table_is_left_out() {
    for (first, keys, columns) in [
        ("time_ns", Some(0), 0),
        ("time_ns,device,a[n]", Some(1), 1),
        ("time_ns,a[n],b[B/s],c[ms]", Some(0), 3),
        // A unit of a newer version, and names with brackets.
        ("time_ns,a[furlongs]", Some(0), 1),
        ("time_ns,a[0][n]", Some(0), 1),
        ("time_ns,a[]", Some(0), 1),
        ("time_ns,a]", Some(1), 0),
        ("time_ns,\"with, comma\",a[n]", Some(1), 1),
        ("time_ns,a[n],device", None, 0),
        ("time,a[n]", None, 0),
        ("", Some(0), 0),
        ("a[n],time_ns", None, 0),
    ] {
        let (table, warnings) = read_table("t", format!("{first}\n").as_bytes(), &Limits::default());
        let is_left_out = codes(&warnings) == ["recording.bad-table"];
        assert_eq!(is_left_out, keys.is_none(), "{first}");
        if let Some(keys) = keys {
            assert_eq!((table.keys.len(), table.columns.len()), (keys, columns), "{first}");
            assert_eq!(warnings, [], "{first}");
        }
    }
    let wide = format!("time_ns{}\n1\n", ",k".repeat(64));
    assert_eq!(table_of(&wide, &Limits::small()).1, ["recording.bad-table"], "too many columns");
}

#[test]
fn rows_that_are_not_of_the_table_are_counted_one_by_one() {
    for (row, is_read) in [
        ("1,sda,2", true),
        ("1,,2", true),
        ("1,sda,", true),
        ("1,sda,-2.5e-3", true),
        ("18446744073709551615,sda,2", true),
        ("18446744073709551616,sda,2", false),
        ("-1,sda,2", false),
        ("1.5,sda,2", false),
        ("1,sda", false),
        ("1,sda,2,3", false),
        ("1,sda,many", false),
        ("1,sda,NaN", false),
        ("1,sda,inf", false),
        ("1,sda,1e999", false),
        ("1,sda, 2", false),
        (",sda,2", false),
    ] {
        let text = format!("time_ns,device,a[n]\n7,first,1\n{row}\n9,last,1\n");
        let (table, warnings) = read_table("t", text.as_bytes(), &Limits::default());
        assert_eq!(table.rows.len(), 2 + usize::from(is_read), "{row}");
        let expected: &[&str] = if is_read { &[] } else { &["recording.bad-rows"] };
        assert_eq!(codes(&warnings), expected, "{row}");
        assert!(warnings.iter().all(|warning| warning.message.starts_with("1 row of ")), "{warnings:?}");
        let times: Vec<_> = table.rows.iter().map(|row| row.time).collect();
        assert!(times.is_sorted(), "{times:?}");
    }
}

fn rows() -> impl Strategy<Value = Vec<MetricRow>> {
    let value = prop_oneof![
        3 => (-1e6..1e6_f64).prop_map(Some),
        1 => Just(None),
        1 => prop::sample::select(vec![Some(0.0), Some(f64::MAX), Some(f64::MIN_POSITIVE), Some(1e17)]),
    ];
    let key = prop_oneof![3 => "[a-z]{0,6}", 1 => "[ -~\n\"]{0,8}"];
    let row = (0..1_000_u64, key, value).prop_map(|(time, key, value)| MetricRow {
        time: MonoNanos(time),
        keys: vec![key],
        values: vec![value],
    });
    prop::collection::vec(row, 0..12)
}

fn written(rows: &[MetricRow]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let columns = [Column { name: "a".to_owned(), unit: Unit::Count }];
    let mut writer = TableWriter::new(&mut bytes, &["key"], &columns).expect("into memory");
    for row in rows {
        writer.append_row(row).expect("of the table's shape");
    }
    writer.flush().expect("into memory");
    bytes
}

fn is_of(row: &MetricRow, rows: &[MetricRow]) -> bool {
    rows.iter().any(|other| other == row)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// The machine died while the table was written, at any byte: rows that are read are rows that were recorded, in full, and at
    /// most the last is missing.
    #[test]
    fn a_table_cut_at_any_byte_has_only_rows_that_were_recorded(rows in rows(), cut in any::<prop::sample::Index>()) {
        let bytes = written(&rows);
        let cut = cut.index(bytes.len() + 1);
        let (table, warnings) = read_table("t", &bytes[..cut], &Limits::default());
        for row in &table.rows {
            prop_assert!(is_of(row, &rows), "{:?} was not recorded", row);
        }
        let whole = (0..=rows.len()).rev().find(|count| written(&rows[..*count]).len() <= cut);
        let whole = whole.unwrap_or(0);
        prop_assert_eq!(table.rows.len(), whole, "of {} bytes of {}", cut, bytes.len());
        if cut == bytes.len() {
            prop_assert_eq!(warnings, Vec::new());
        }
    }

    /// Rows of others between ours: those that are ours are kept, and each other one is counted.
    #[test]
    fn bad_rows_between_good_ones_are_counted_and_hide_none(
        rows in rows(),
        bad in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(vec!["x", "1", "1,2,3,4", "z,k,1"])), 1..5),
        is_cut in any::<bool>(),
    ) {
        let rows: Vec<MetricRow> = rows.into_iter().filter(|row| !row.keys[0].contains(['\n', '"'])).collect();
        let text = String::from_utf8(written(&rows)).expect("of texts");
        let mut lines: Vec<&str> = text.lines().collect();
        for (at, line) in &bad {
            lines.insert(1 + at.index(lines.len()), line);
        }
        let mut text = lines.join("\n") + "\n";
        if is_cut {
            text.push_str("5,k,1");
        }
        let (table, warnings) = read_table("t", text.as_bytes(), &Limits::default());
        prop_assert_eq!(table.rows.len(), rows.len(), "{:?}", text);
        let count = warnings.iter().find(|warning| warning.code == "recording.bad-rows");
        let count = count.and_then(|warning| warning.message.split(' ').next()?.parse().ok());
        prop_assert_eq!(count, Some(bad.len()), "{:?}", warnings);
        prop_assert_eq!(warnings.len(), 1 + usize::from(is_cut), "{:?}", warnings);
    }

    /// A log that was cut at any byte has the lines that were written whole.
    #[test]
    fn a_log_cut_at_any_byte_has_the_lines_before_it(
        texts in prop::collection::vec("[ -~\n\u{e9}\u{1f600}]{0,20}", 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        let mut writer = LogWriter::new(&mut bytes, "logs/a.jsonl", "/var/log/a", "UTC").expect("into memory");
        for (time, text) in (0..).zip(&texts) {
            let line = LogLine { time: Some(MonoNanos(time)), level: LogLevel::Unknown, text: text.clone() };
            writer.push(&line).expect("into memory");
        }
        writer.finish().expect("into memory");
        let cut = cut.index(bytes.len() + 1);
        let (log, warnings) = read_log("logs/a.jsonl", &bytes[..cut], &Limits::default(), &mut 100);
        let ends = bytes[..cut].iter().filter(|byte| **byte == b'\n').count();
        let read: Vec<&String> = log.lines.iter().map(|line| &line.text).collect();
        prop_assert_eq!(read, texts.iter().take(ends.saturating_sub(1)).collect::<Vec<_>>());
        let is_whole = cut == 0 || bytes[cut - 1] == b'\n';
        prop_assert_eq!(warnings.is_empty(), is_whole, "{:?}", warnings);
    }
}

#[test]
fn an_empty_table_is_one_without_rows() {
    let (table, warnings) = read_table("t", &b""[..], &Limits::default());
    assert_eq!(table, MetricTable { name: "t".to_owned(), ..MetricTable::default() });
    assert_eq!(warnings, []);
}
