//! Tests of metric tables.

use biopsy_model::MonoNanos;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use proptest::prelude::*;

use super::{TableWriter, read_table};
use crate::Limits;

fn column(name: &str, unit: Unit) -> Column {
    Column { name: name.to_owned(), unit }
}

fn write(table: &MetricTable, rows_per_flush: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let keys: Vec<&str> = table.keys.iter().map(String::as_str).collect();
    let mut writer = TableWriter::new(&mut bytes, &keys, &table.columns).unwrap();
    for (index, row) in table.rows.iter().enumerate() {
        writer.append_row(row).unwrap();
        if (index + 1) % rows_per_flush == 0 {
            writer.flush().unwrap();
        }
    }
    writer.flush().unwrap();
    drop(writer);
    bytes
}

fn read(bytes: &[u8]) -> (MetricTable, Vec<String>) {
    let (table, warnings) = read_table("t", bytes, &Limits::default());
    (table, warnings.into_iter().map(|warning| warning.code).collect())
}

#[test]
fn it_looks_like_the_documented_example() {
    let table = MetricTable {
        name: "disks".to_owned(),
        keys: vec!["device".to_owned()],
        columns: vec![column("read.throughput", Unit::BytesPerSecond), column("busy", Unit::Ratio)],
        rows: vec![
            MetricRow {
                time: MonoNanos(81_234_567_890),
                keys: vec!["sda".into()],
                values: vec![Some(1_048_576.0), Some(0.25)],
            },
            MetricRow {
                time: MonoNanos(81_234_567_890),
                keys: vec!["sdb".into()],
                values: vec![Some(f64::NAN), Some(1e-9)],
            },
        ],
    };
    assert_eq!(
        String::from_utf8(write(&table, 1)).unwrap(),
        "time_ns,device,read.throughput[B/s],busy[ratio]\n\
         81234567890,sda,1048576,0.25\n\
         81234567890,sdb,,1e-9\n"
    );
}

#[test]
fn rows_of_another_shape_are_refused() {
    let mut writer = TableWriter::new(Vec::new(), &["k"], &[column("c", Unit::Count)]).unwrap();
    let row = MetricRow { time: MonoNanos(1), keys: vec![], values: vec![Some(1.0)] };
    let error = writer.append_row(&row).unwrap_err();
    assert_eq!(error.to_string(), "a row of 0 keys and 1 values for a table of 1 and 1");
}

#[test]
fn a_cut_last_line_is_left_out() {
    let whole = b"time_ns,k,c[n]\n1,a,10\n2,a,20\n";
    for cut in 16..whole.len() {
        let (table, warnings) = read(&whole[..cut]);
        let lines = whole[..cut].iter().filter(|&&byte| byte == b'\n').count();
        assert_eq!(table.rows.len(), lines - 1, "cut at {cut}");
        assert_eq!(warnings.is_empty(), whole[cut - 1] == b'\n', "cut at {cut}");
    }
}

#[test]
fn bad_rows_are_counted_and_left_out() {
    let (table, warnings) =
        read(b"time_ns,k,c[n]\n1,a,10\nx,a,1\n2,a\n3,a,1,2\n4,a,nan\n5,a,inf\n6,\xff,1\n\n7,\"a\nb\",\n");
    assert_eq!(table.rows.iter().map(|row| row.time.0).collect::<Vec<_>>(), [1, 7]);
    assert_eq!((table.rows[1].keys[0].as_str(), table.rows[1].values[0]), ("a\nb", None));
    assert_eq!(warnings, ["recording.bad-rows"]);
}

#[test]
fn tables_that_are_none_are_left_out() {
    for bad in [&b"nonsense\n1\n"[..], b"time_ns,c[n],key\n", b"time,c[n]\n"] {
        let (table, warnings) = read(bad);
        assert_eq!((table.rows.len(), warnings), (0, vec!["recording.bad-table".to_owned()]));
    }
    assert_eq!(read(b""), (MetricTable { name: "t".into(), ..MetricTable::default() }, vec![]));
    // A unit of a later version is a plain number.
    let (table, _) = read(b"time_ns,c[furlongs]\n1,2\n");
    assert_eq!((table.columns[0].unit, table.rows.len()), (Unit::Count, 1));
}

#[test]
fn limits_hold() {
    let limits = Limits { rows: 2, columns: 3, line_bytes: 100_000, ..Limits::default() };
    let (table, warnings) = read_table("t", &b"time_ns,c[n]\n1,1\n2,1\n3,1\n"[..], &limits);
    assert_eq!((table.rows.len(), warnings[0].code.as_str()), (2, "recording.limit"));
    let (_, warnings) = read_table("t", &b"time_ns,a[n],b[n],c[n]\n"[..], &limits);
    assert_eq!(warnings[0].code, "recording.bad-table");
    // One row of 10 MB, by a quote that never ends.
    let endless = [&b"time_ns,k,c[n]\n1,\""[..], &vec![b'x'; 10_000_000]].concat();
    let (_, warnings) = read_table("t", endless.as_slice(), &limits);
    assert_eq!(warnings[0].message, "metric table `t` not read to its end: a row of more than 100000 bytes");
}

fn table() -> impl Strategy<Value = MetricTable> {
    let units = [
        Unit::Count,
        Unit::PerSecond,
        Unit::Cores,
        Unit::Ratio,
        Unit::Bytes,
        Unit::BytesPerSecond,
        Unit::Milliseconds,
    ];
    (proptest::collection::vec("[a-z]{1,6}", 0..3), proptest::collection::vec(0_usize..7, 1..5))
        .prop_flat_map(move |(keys, columns)| {
            let value = proptest::option::of(any::<f64>().prop_map(|value| value + 0.0));
            let row = (
                any::<u64>(),
                proptest::collection::vec("\\PC{0,5}|[\",\r\n ]{0,4}", keys.len()),
                proptest::collection::vec(value, columns.len()),
            );
            let columns: Vec<_> =
                columns.iter().enumerate().map(|(n, &unit)| column(&format!("c.{n}"), units[unit])).collect();
            proptest::collection::vec(row, 0..20).prop_map(move |rows| {
                let mut rows: Vec<_> = rows
                    .into_iter()
                    .map(|(time, keys, values)| MetricRow { time: MonoNanos(time), keys, values })
                    .collect();
                rows.sort_by_key(|row| row.time);
                MetricTable { name: "t".to_owned(), keys: keys.clone(), columns: columns.clone(), rows }
            })
        })
}

proptest! {
    #[test]
    fn tables_round_trip(table in table(), rows_per_flush in 1_usize..6) {
        let (mut found, warnings) = read(&write(&table, rows_per_flush));
        // What is not a finite number is written as "not read".
        let mut expected = table;
        for value in expected.rows.iter_mut().flat_map(|row| &mut row.values) {
            *value = value.filter(|value| value.is_finite());
        }
        prop_assert_eq!(warnings, Vec::<String>::new());
        // Zeros of both signs are one number.
        for value in found.rows.iter_mut().chain(&mut expected.rows).flat_map(|row| &mut row.values) {
            *value = value.map(|value| if value == 0.0 { 0.0 } else { value });
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
        read(&[b"time_ns,k,c[n]\n".as_slice(), &bytes].concat());
    }
}
