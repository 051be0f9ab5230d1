//! Counters and meters: each with its first, last, smallest and largest reading.

use super::bounded::{cut, first};
use crate::keyed::Keyed;
use biopsy_model::MonoNanos;
use biopsy_model::metric::{MetricTable, Unit};
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::RuntimeTrace;

/// One counter or meter.
#[derive(Clone, PartialEq, Debug)]
pub struct CounterRow {
    /// Provider and counter, with tags.
    pub name: String,
    /// Column of its table.
    pub column: String,
    /// Unit.
    pub unit: Unit,
    /// Readings.
    pub readings: usize,
    /// The first.
    pub first: f64,
    /// The last.
    pub last: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
}

/// Readings of one counter.
pub(crate) struct Readings {
    /// Provider, counter and tags, joined by a space.
    pub(crate) name: String,
    /// Column, by name.
    pub(crate) column: String,
    pub(crate) unit: Unit,
    pub(crate) points: Vec<(MonoNanos, f64)>,
}

pub(super) fn rows(trace: &RuntimeTrace) -> Vec<CounterRow> {
    let mut rows: Vec<CounterRow> = all(trace)
        .into_iter()
        .filter_map(|readings| {
            let values = || readings.points.iter().map(|point| point.1);
            Some(CounterRow {
                name: cut(&readings.name),
                column: readings.column.clone(),
                unit: readings.unit,
                readings: readings.points.len(),
                first: values().next()?,
                last: values().next_back()?,
                min: values().fold(f64::INFINITY, f64::min),
                max: values().fold(f64::NEG_INFINITY, f64::max),
                mean: mean(values()),
            })
        })
        .collect();
    rows.order_by(|a, b| (&a.name, &a.column).cmp(&(&b.name, &b.column)));
    first(rows)
}

#[expect(clippy::cast_precision_loss, reason = "counters hold far fewer than 2^53 readings")]
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u64), |(sum, count), value| (sum + value, count + 1));
    sum / count.max(1) as f64
}

/// Readings of all counters of a runtime.
pub(crate) fn all(trace: &RuntimeTrace) -> Vec<Readings> {
    trace.counters.iter().flat_map(of_table).collect()
}

fn of_table(table: &MetricTable) -> Vec<Readings> {
    let mut out: Keyed<(&[String], usize), Readings> = Keyed::default();
    // The pid is the trace's own; the rest says which counter.
    let pid = table.keys.iter().position(|key| key == "pid");
    for row in &table.rows {
        for (column, value) in row.values.iter().enumerate() {
            let (Some(value), Some(of)) =
                (value.filter(|value| value.is_finite()), table.columns.get(column))
            else {
                continue;
            };
            let readings = out.of((row.keys.as_slice(), column), || {
                let keys = row.keys.iter().enumerate().filter(|(at, _)| Some(*at) != pid);
                let name: Vec<&str> =
                    keys.map(|(_, key)| key.as_str()).filter(|key| !key.is_empty()).collect();
                Readings { name: name.join(" "), column: of.name.clone(), unit: of.unit, points: Vec::new() }
            });
            readings.points.push((row.time, value));
        }
    }
    out.into_rows()
}

/// Readings of a counter of a provider, without tags or with; the first that is there.
pub(crate) fn find(trace: &RuntimeTrace, provider: &str, counter: &str) -> Option<Readings> {
    let wanted = format!("{provider} {counter}");
    all(trace).into_iter().find(|readings| {
        let rest = readings.name.strip_prefix(&wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '{', '[', '(']))
    })
}
