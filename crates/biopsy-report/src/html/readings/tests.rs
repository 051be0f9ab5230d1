//! Readings of a chart: each key's own, in the order of time, and thinned out to means that keep what was read.

use super::*;
use biopsy_analyze::Analysis;
use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;
use biopsy_model::metric::Column;
use proptest::prelude::*;

fn row(seconds: u64, key: &str, values: &[Option<f64>]) -> MetricRow {
    MetricRow {
        time: MonoNanos(seconds * 1_000_000_000),
        keys: vec![key.to_owned()],
        values: values.to_vec(),
    }
}

fn table(rows: Vec<MetricRow>) -> MetricTable {
    let column = |name: &str, unit| Column { name: name.to_owned(), unit };
    MetricTable {
        name: "disks".to_owned(),
        keys: vec!["device".to_owned()],
        columns: vec![column("read", Unit::BytesPerSecond), column("busy", Unit::Ratio)],
        rows,
    }
}

#[test]
fn each_key_has_its_own_readings_in_the_order_of_time() {
    let table = table(vec![
        row(2, "sdb", &[Some(20.0)]),
        row(3, "sda", &[Some(3.0)]),
        row(1, "sda", &[Some(1.0)]),
        row(2, "sda", &[None]),
    ]);
    let all = by_key(&table);
    let keys: Vec<_> = all.iter().map(|one| one.key[0].as_str()).collect();
    assert_eq!(keys, ["sdb", "sda"]);
    assert_eq!(all[1].values(&[0]), [Some(1.0), None, Some(3.0)]);
    let (capture, analysis) = (Capture::default(), Analysis::default());
    assert_eq!(all[1].times(&Assembly::new(&capture, &analysis)), [1_000.0, 2_000.0, 3_000.0]);
}

#[test]
fn columns_are_known_by_name() {
    let table = table(vec![row(1, "sda", &[])]);
    let readings = &by_key(&table)[0];
    assert_eq!(readings.column("read"), Some((0, Unit::BytesPerSecond)));
    assert_eq!(readings.column("busy"), Some((1, Unit::Ratio)));
    assert_eq!(readings.column("Busy"), None);
}

#[test]
fn columns_add_up_as_far_as_they_were_read() {
    let of = |values: &[Option<f64>], columns: &[usize]| {
        by_key(&table(vec![row(1, "sda", values)]))[0].values(columns)
    };
    for (values, columns, expected) in [
        (&[Some(1.5), Some(2.0)][..], &[0, 1][..], Some(3.5)),
        (&[Some(1.5), None], &[0, 1], Some(1.5)),
        (&[None, Some(2.0)], &[0, 1], Some(2.0)),
        (&[None, None], &[0, 1], None),
        (&[Some(f64::NAN), Some(f64::INFINITY)], &[0, 1], None),
        // A row that is too short has no reading of the last column.
        (&[Some(1.5)], &[1], None),
        (&[Some(1.5)], &[0, 7], Some(1.5)),
        (&[Some(1.5)], &[], None),
    ] {
        assert_eq!(of(values, columns), [expected], "{values:?} {columns:?}");
    }
}

proptest! {
    /// A point is the mean of the readings that it stands for; no reading is left out, and none is in two.
    #[test]
    fn a_long_recording_is_thinned_out_to_means(
        readings in prop::collection::vec(prop::option::weighted(0.8, 0..1_000_u32), 1..3_000),
    ) {
        let rows = (0..).zip(&readings).map(|(at, value)| row(at, "sda", &[value.map(f64::from)])).collect();
        let table = table(rows);
        let all = by_key(&table);
        let (merged, values) = (all[0].merged, all[0].values(&[0]));
        prop_assert!(values.len() <= POINTS && values.len() > (POINTS - 1).min(readings.len() / 2) / 2, "{}", values.len());
        prop_assert_eq!(values.len(), readings.len().div_ceil(merged));
        for (at, value) in values.iter().enumerate() {
            let of: Vec<f64> = readings[at * merged..readings.len().min((at + 1) * merged)].iter().flatten().map(|one| f64::from(*one)).collect();
            match value {
                None => prop_assert!(of.is_empty()),
                Some(mean) => {
                    let exact = of.iter().sum::<f64>() / of.len() as f64;
                    prop_assert!((mean - exact).abs() <= exact * 0.000_51, "{} of {:?}", mean, of);
                }
            }
        }
        let (capture, analysis) = (Capture::default(), Analysis::default());
        let times = all[0].times(&Assembly::new(&capture, &analysis));
        prop_assert_eq!(times.len(), values.len());
        prop_assert!(times.is_sorted());
        prop_assert_eq!(times.last().copied(), Some((readings.len() - 1) as f64 * 1e3));
    }
}
