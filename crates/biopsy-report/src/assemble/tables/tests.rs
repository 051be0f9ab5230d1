//! Summaries of metrics and the choice of functions, held against what the rows say.

use super::*;
use biopsy_analyze::{FunctionKind, Whose};
use biopsy_model::capture::Capture;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::{MonoNanos, Nanos};
use proptest::prelude::*;

fn summary(name: &str, rows: &[(&str, &[Option<f64>])]) -> Vec<Metric> {
    let column = |name: &str| Column { name: name.to_owned(), unit: Unit::Bytes };
    let mut capture = Capture::default();
    capture.metrics.push(MetricTable {
        name: name.to_owned(),
        keys: vec!["pid".to_owned(), "name".to_owned()],
        columns: vec![column("rss"), column("swap")],
        rows: (0..)
            .zip(rows)
            .map(|(time, (key, values))| MetricRow {
                time: MonoNanos(time),
                keys: key.split('/').map(str::to_owned).collect(),
                values: values.to_vec(),
            })
            .collect(),
    });
    Assembly::new(&capture, &Analysis::default()).metric_summary()
}

#[test]
fn a_metric_has_a_row_for_each_key_and_column_that_was_read() {
    let found = summary(
        "processes",
        &[
            ("7/server", &[Some(4.0), None]),
            ("9/node", &[None, None]),
            ("7/server", &[Some(-2.0), Some(f64::NAN)]),
            ("7/server", &[Some(1.0)]),
            ("9/node", &[None, Some(0.5)]),
        ],
    );
    let rows: Vec<_> = found
        .iter()
        .map(|one| {
            (
                one.key.as_str(),
                one.column.as_str(),
                one.readings,
                one.missing,
                [one.min, one.mean, one.max, one.last],
            )
        })
        .collect();
    assert_eq!(
        rows,
        [
            ("7 server", "rss", 3, 0, [-2.0, 1.0, 4.0, 1.0]),
            // What is no number was not read, nor what a short row does not have.
            ("9 node", "swap", 1, 1, [0.5; 4]),
        ]
    );
    assert!(found.iter().all(|one| (one.table.as_str(), one.unit.as_str()) == ("processes", "bytes")));
    assert_eq!(summary("threads", &[("7/server", &[Some(4.0)])]), [], "the report has its threads already");
}

#[test]
fn a_sum_beyond_all_numbers_has_no_mean_and_no_row() {
    assert_eq!(summary("processes", &[("7/a", &[Some(f64::MAX)]), ("7/a", &[Some(f64::MAX)])]), []);
    let near = summary("processes", &[("7/a", &[Some(123_456_789.0)])]);
    assert_eq!((near[0].mean, near[0].max), (123_457_000.0, 123_457_000.0), "six digits are enough");
}

fn function() -> FunctionRow {
    FunctionRow {
        name: "f".to_owned(),
        module: "server".to_owned(),
        kind: FunctionKind::Native,
        named: true,
        whose: Whose::Program,
        file: None,
        line: None,
        cpu_self: Nanos(0),
        cpu_total: Nanos(0),
        wait_self: Nanos(0),
        wait_total: Nanos(0),
    }
}

proptest! {
    #[test]
    fn the_functions_that_are_chosen_are_the_heaviest_in_their_order(
        weights in prop::collection::vec((0..50_u64, 0..50_u64), 0..40), limit in 0..45_usize,
    ) {
        let row = |(cpu, wait): &(u64, u64)| FunctionRow { cpu_total: Nanos(*cpu), wait_total: Nanos(*wait), ..function() };
        let analysis = Analysis { functions: weights.iter().map(row).collect(), ..Analysis::default() };
        let chosen: Vec<usize> = choose_functions(&analysis, limit).iter().map(|handle| handle.0 as usize).collect();
        prop_assert_eq!(chosen.len(), limit.min(weights.len()));
        prop_assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", chosen);
        let weight = |at: &usize| weights[*at].0.max(weights[*at].1);
        let least = chosen.iter().map(weight).min().unwrap_or(u64::MAX);
        let left = (0..weights.len()).filter(|at| !chosen.contains(at));
        prop_assert!(limit == 0 || left.into_iter().all(|at| weight(&at) <= least));
    }
}
