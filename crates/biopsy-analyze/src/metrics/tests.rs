//! Readings of tables made by hand: both sides of each limit.

use super::*;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn table(name: &str, column: &str, key: &str, readings: &[f64]) -> MetricTable {
    let row = |(second, value): (u64, &f64)| MetricRow {
        time: MonoNanos((second + 1) * SECOND),
        keys: if key.is_empty() { vec![] } else { vec![key.to_owned()] },
        values: vec![Some(*value)],
    };
    MetricTable {
        name: name.to_owned(),
        keys: if key.is_empty() { vec![] } else { vec!["of".to_owned()] },
        columns: vec![Column { name: column.to_owned(), unit: Unit::Count }],
        rows: (0..).zip(readings).map(row).collect(),
    }
}

fn summary(metrics: Vec<MetricTable>) -> MetricSummary {
    let mut capture = Capture { metrics, ..Capture::default() };
    capture.header.host.cpus = 4;
    MetricSummary::new(&capture)
}

#[test]
fn a_resource_is_short_from_its_limit_on() {
    #[rustfmt::skip]
    let table_of = [
        ("system", "cpu.busy", "", NotableKind::CpuSaturated, 0.95, "all CPUs busy: 95 % on average"),
        ("system", "cpu.steal", "", NotableKind::Steal, 0.2, "CPUs taken by the hypervisor: 0.2 cores on average"),
        ("system", "pressure.cpu.some", "", NotableKind::CpuPressure, 0.4, "tasks waited for a CPU: 40 % on average"),
        ("system", "pressure.memory.some", "", NotableKind::MemoryPressure, 0.1, "tasks waited for memory: 10 % on average"),
        ("system", "pressure.io.some", "", NotableKind::IoPressure, 0.4, "tasks waited for disks: 40 % on average"),
        ("system", "swap.in", "", NotableKind::Swapping, 1e6, "pages read back from swap: 1.0 MB/s on average"),
        ("system", "swap.out", "", NotableKind::Swapping, 1e6, "pages written to swap: 1.0 MB/s on average"),
        ("cgroups", "throttled.ratio", "/a", NotableKind::Throttled, 0.1, "CPU quota of the cgroup used up (/a): 10 % on average"),
        ("cgroups", "pressure.memory.some", "/a", NotableKind::MemoryPressure, 0.1, "tasks of the cgroup waited for memory (/a): 10 % on average"),
        ("disks", "busy", "sda", NotableKind::DiskBusy, 0.9, "disk busy (sda): 90 % on average"),
    ];
    for (name, column, key, kind, limit, text) in table_of {
        let below = limit * 0.999;
        let found = summary(vec![table(name, column, key, &[below, limit, limit, below])]).notables;
        let told: Vec<_> = found.iter().map(|one| (one.kind, one.text.as_str(), one.key.as_str())).collect();
        assert_eq!(told, [(kind, text, key)], "{name} {column}");
        // A rate is of the time up to its reading.
        assert_eq!((found[0].from.0 / SECOND, found[0].to.0 / SECOND), (1, 3), "{column}");
        let quiet = summary(vec![table(name, column, key, &[below; 9])]);
        assert_eq!(quiet.notables, [], "{name} {column}");
        let elsewhere = summary(vec![table("elsewhere", column, key, &[limit; 9])]);
        assert_eq!(elsewhere.notables, []);
    }
}

#[test]
fn one_reading_alone_is_noise_unless_there_are_few() {
    let spans = |readings: &[f64]| -> Vec<(u64, u64, f64)> {
        let found = summary(vec![table("disks", "busy", "sda", readings)]).notables;
        found.iter().map(|one| (one.from.0 / SECOND, one.to.0 / SECOND, one.worst)).collect()
    };
    assert_eq!(spans(&[0.0, 1.0, 0.0, 0.0]), []);
    assert_eq!(spans(&[0.0, 1.0]), [(1, 2, 1.0)]);
    assert_eq!(spans(&[1.0]), [(1, 1, 1.0)]);
    // A gap of one reading is let pass, of two it is not.
    assert_eq!(spans(&[1.0, 0.0, 0.95, 0.0, 0.0, 0.95, 1.0]), [(1, 3, 1.0), (5, 7, 1.0)]);
    assert_eq!(spans(&[]), []);
    // What no disk can be is of a damaged file.
    assert_eq!(spans(&[1.0, f64::NAN, f64::INFINITY, -1.0, 2e19, 1.0]), [(1, 6, 1.0)]);
}

#[test]
fn short_memory_is_a_twentieth_of_all() {
    let told = |available: &[f64], total: &[f64]| -> Vec<(u64, u64, String)> {
        let mut both = table("system", "memory.available", "", available);
        both.columns.push(Column { name: "memory.total".to_owned(), unit: Unit::Bytes });
        for (row, total) in both.rows.iter_mut().zip(total) {
            row.values.push(Some(*total));
        }
        let found = summary(vec![both]).notables;
        assert!(
            found.iter().all(|one| one.kind == NotableKind::MemoryShort && one.column == "memory.available")
        );
        found.into_iter().map(|one| (one.from.0 / SECOND, one.to.0 / SECOND, one.text)).collect()
    };
    let row = |from, to, text: &str| (from, to, text.to_owned());
    assert_eq!(told(&[9e9, 4e8, 9e9], &[8e9; 3]), [], "just a twentieth");
    assert_eq!(told(&[9e9, 3.9e8, 3.7e8, 9e9], &[8e9; 4]), [row(1, 3, "only 370 MB of memory available")]);
    // Memory cannot wait for a second reading.
    assert_eq!(told(&[9e9, 1e6, 9e9, 9e9], &[8e9; 4]), [row(1, 2, "only 1 MB of memory available")]);
    assert_eq!(told(&[1e6, 1e6], &[0.0; 2]), [], "nobody knows of how much");
    assert_eq!(summary(vec![table("system", "memory.available", "", &[1.0; 3])]).notables, []);
}

#[test]
fn notables_are_in_the_order_of_time_and_few() {
    let found = summary(vec![
        table("disks", "busy", "sdb", &[1.0; 3]),
        table("system", "pressure.io.some", "", &[0.0, 0.0, 1.0, 1.0]),
        table("system", "cpu.busy", "", &[1.0; 3]),
    ])
    .notables;
    // The second table of one name is not looked at: a recording has one.
    let kinds: Vec<_> = found.iter().map(|one| one.kind).collect();
    assert_eq!(kinds, [NotableKind::DiskBusy, NotableKind::IoPressure]);
    let mut many = table("disks", "busy", "sd", &[1.0; 300]);
    for (at, row) in many.rows.iter_mut().enumerate() {
        row.keys = vec![format!("sd{:03}", at / 2)];
    }
    let found = summary(vec![many]).notables;
    assert_eq!(found.len(), NOTABLES);
    assert_eq!(found.last().map(|one| one.key.as_str()), Some("sd099"), "the first of all in time");
}

/// First, last, steady, growing.
fn trend(table_name: &str, column: &str, readings: &[f64]) -> Option<(f64, f64, bool, bool)> {
    let found = summary(vec![table(table_name, column, "7", readings)]).trends;
    assert!(found.len() <= 1);
    found.first().map(|one| (one.first, one.last, one.steady, one.growing))
}

#[test]
fn growth_is_noteworthy_by_amount_and_by_share() {
    let rising = |from: f64, by: f64| (0..10).map(|at| from + by * f64::from(at) / 9.0).collect::<Vec<_>>();
    for (name, column, from, by, growing) in [
        ("processes", "memory.rss", 10e6, 8e6, true),
        ("processes", "memory.rss", 10e6, 7.9e6, false),
        ("processes", "memory.rss", 100e6, 10e6, true),
        ("processes", "memory.rss", 100e6, 9.9e6, false),
        ("processes", "memory.anon", 0.0, 8e6, true),
        ("processes", "threads", 10.0, 8.0, true),
        ("processes", "threads", 10.0, 7.0, false),
        ("processes", "threads", 40.0, 12.0, true),
        ("processes", "threads", 40.0, 11.0, false),
        ("processes", "fds", 20.0, 16.0, true),
        ("processes", "fds", 20.0, 15.0, false),
        ("processes", "fds", 1000.0, 190.0, false),
        ("cgroups", "memory.anon", 10e6, 16e6, true),
        ("cgroups", "memory.anon", 10e6, 15e6, false),
    ] {
        let found = trend(name, column, &rising(from, by));
        let Some((first, last, steady, grows)) = found else { panic!("{name} {column}: no trend") };
        assert_eq!((first, steady, grows), (from, true, growing), "{name} {column} {from} {by}");
        assert!((last - from - by).abs() < 1e-6 * by);
    }
    assert_eq!(trend("processes", "cpu", &rising(0.0, 9e9)), None, "nobody asks for it");
}

#[test]
fn what_levels_out_or_jumps_does_not_grow_steadily() {
    let steady = |readings: &[f64]| trend("processes", "fds", readings).map(|found| found.2);
    assert_eq!(steady(&[0., 10., 20., 30.]), None, "too few readings");
    assert_eq!(steady(&[0., 10., 20., 30., 40.]), Some(true));
    assert_eq!(steady(&[40., 30., 20., 10., 0.]), Some(false));
    assert_eq!(steady(&[5.; 9]), Some(false));
    // A start that levels out: the last third rises less than a quarter of what the middle one did.
    assert_eq!(steady(&[0., 0., 0., 100., 100., 100., 124., 124., 124.]), Some(false));
    assert_eq!(steady(&[0., 20., 40., 60., 80., 100., 103., 106., 109.]), Some(true));
    assert_eq!(steady(&[0., 100., 0., 100., 0., 100., 0., 100., 90.]), Some(false), "no line");
    let summary = summary(vec![table("processes", "fds", "7", &[0., 2., 4., 6., 8., 10.])]);
    let one = &summary.trends[0];
    assert!((one.per_minute - 120.0).abs() < 1e-6 && (one.fit - 1.0).abs() < 1e-9, "{one:?}");
    assert_eq!((one.table.as_str(), one.column.as_str(), one.key.as_str()), ("processes", "fds", "7"));
}

#[test]
fn a_trend_rests_by_the_readings_it_was_found_in() {
    let mb = |readings: &[f64]| readings.iter().map(|mb| mb * 1e6).collect::<Vec<_>>();
    let filled = mb(&[1.0, 1.6, 2.2, 2.7, 3.3, 3.9, 4.5, 5.1, 5.7, 6.0, 6.0, 6.0, 6.0]);
    let mut metrics = vec![table("processes", "memory.rss", "7", &filled)];
    metrics[0].rows.extend(table("processes", "memory.rss", "8", &mb(&[1.0; 13])).rows);
    let capture = Capture { metrics, ..Capture::default() };
    let trends = MetricSummary::new(&capture).trends;
    let rests: Vec<_> = trends.iter().map(|one| (one.key.as_str(), one.rests(&capture))).collect();
    assert_eq!(rests, [("7", true), ("8", false)]);
    assert!(!trends[0].rests(&Capture::default()), "readings that are gone");
}

#[test]
fn what_has_filled_before_the_recording_ended_does_not_grow_on() {
    // A reading a second, in MB.
    let check = |readings: &[f64], expected: bool| {
        let times = (0_u64..).map(|second| MonoNanos(second * 1_000_000_000));
        let points: Vec<_> = times.zip(readings.iter().map(|mb| mb * 1e6)).collect();
        assert_eq!(ends_flat(&points), expected, "{readings:?}");
    };
    // It fills up to the ninth second of twelve: three snapshots are each larger than the one before.
    check(&[1.0, 1.6, 2.2, 2.7, 3.3, 3.9, 4.5, 5.1, 5.7, 6.0, 6.0, 6.0, 6.0], true);
    check(&[1.0, 1.6, 2.2, 2.7, 3.3, 3.9, 4.5, 5.1, 5.7, 6.0, 6.3, 6.6, 6.9], false);
    // It got little of a busy machine's time at the end.
    check(&[1.0, 1.6, 2.2, 2.7, 3.3, 3.9, 4.5, 5.1, 5.7, 6.0, 6.3, 6.35, 6.43], false);
    // So little comes in steps, and so few readings say nothing.
    check(&[1.0, 1.05, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.4, 1.4], false);
    check(&[1.0, 2.0, 3.0, 4.0, 4.0, 4.0, 4.0], false);
    check(&[], false);
}

proptest! {
    /// Against each pair of neighbours by itself.
    #[test]
    fn stretches_hold_all_readings_and_no_gap_of_two(readings in prop::collection::vec(prop::bool::ANY, 0..40)) {
        let values: Vec<f64> = readings.iter().map(|is| f64::from(u8::from(*is))).collect();
        let capture = Capture { metrics: vec![table("t", "c", "", &values)], ..Capture::default() };
        let series = one(&capture, "t", "c", "").unwrap_or_default();
        let runs = series.runs(|value| value > 0.5);
        let hits: Vec<u64> = (1..).zip(&readings).filter(|(_, is)| **is).map(|(second, _)| second).collect();
        let gaps = hits.windows(2).filter(|pair| pair[1] - pair[0] > 2).count();
        prop_assert_eq!(runs.len(), if hits.is_empty() { 0 } else { gaps + 1 });
        prop_assert_eq!(runs.iter().map(|run| run.values.len()).sum::<usize>(), hits.len());
        for run in &runs {
            let (from, to) = (run.from.0 / SECOND, run.to.0 / SECOND);
            prop_assert!(hits.contains(&to) && (from == 1 || hits.contains(&(from + 1))), "{from} {to} {hits:?}");
        }
    }

    /// The line with the least squares: no other that is near it has less.
    #[test]
    fn no_other_line_fits_better(values in prop::collection::vec(0.0_f64..100.0, 3..20), by in -0.5_f64..0.5) {
        let points: Vec<_> = (0..).zip(&values).map(|(second, value)| (MonoNanos(second * SECOND), *value)).collect();
        let line = Line::fit(&points).expect("several moments");
        let middle = (values.len() - 1) as f64 / 2.0;
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let squares = |slope: f64| -> f64 {
            (0..).zip(&values).map(|(x, y)| (y - mean - slope * (f64::from(x) - middle)).powi(2)).sum()
        };
        prop_assert!(squares(line.per_second) <= squares(line.per_second + by) + 1e-6);
        prop_assert!((0.0..=1.0 + 1e-9).contains(&line.fit), "{}", line.fit);
        let all = squares(0.0);
        prop_assert!((line.fit * all - (all - squares(line.per_second))).abs() < 1e-6 * all.max(1.0), "the part it explains");
    }
}
