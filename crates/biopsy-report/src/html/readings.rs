//! The readings of one metric table, sorted by key and thinned out to what a chart can show.

use super::numbers::round;
use crate::assemble::Assembly;
use crate::units::to_f64;
use biopsy_model::metric::{MetricRow, MetricTable, Unit};
use biopsy_model::order::Order as _;
use rustc_hash::FxHashMap;

/// Points of a chart's line: a column of 1,200 pixels shows no more.
pub(super) const POINTS: usize = 600;

/// The readings of one key.
pub(super) struct Readings<'a> {
    table: &'a MetricTable,
    pub(super) key: &'a [String],
    rows: Vec<&'a MetricRow>,
    /// How many readings one point stands for.
    pub(super) merged: usize,
}

/// The readings of each key of a table, in the order in which the keys appear.
pub(super) fn by_key(table: &MetricTable) -> Vec<Readings<'_>> {
    let mut all: Vec<Readings<'_>> = Vec::new();
    let mut positions: FxHashMap<&[String], usize> = FxHashMap::default();
    for row in &table.rows {
        let position = *positions.entry(&row.keys).or_insert_with(|| {
            all.push(Readings { table, key: &row.keys, rows: Vec::new(), merged: 1 });
            all.len() - 1
        });
        all[position].rows.push(row);
    }
    for readings in &mut all {
        readings.rows.order_by_key(|row| row.time);
        readings.merged = readings.rows.len().div_ceil(POINTS).max(1);
    }
    all
}

impl Readings<'_> {
    /// Index and unit of a column.
    pub(super) fn column(&self, name: &str) -> Option<(usize, Unit)> {
        let index = self.table.columns.iter().position(|column| column.name == name)?;
        Some((index, self.table.columns[index].unit))
    }

    /// Times of the points, milliseconds since the start of the window.
    pub(super) fn times(&self, assembly: &Assembly<'_>) -> Vec<f64> {
        let points = self.rows.chunks(self.merged);
        points.filter_map(|rows| rows.last()).map(|row| (assembly.at(row.time) * 1e3).round()).collect()
    }

    /// Values of the points: the sum of `columns`, as the mean over the merged readings.
    pub(super) fn values(&self, columns: &[usize]) -> Vec<Option<f64>> {
        let sum = |row: &MetricRow| {
            let mut sum = None;
            for column in columns {
                let value = row.values.get(*column).copied().flatten().filter(|value| value.is_finite());
                sum = value.map(|value| value + sum.unwrap_or(0.0)).or(sum);
            }
            sum
        };
        self.rows
            .chunks(self.merged)
            .map(|rows| {
                let values: Vec<f64> = rows.iter().filter_map(|row| sum(row)).collect();
                (!values.is_empty()).then(|| round(values.iter().sum::<f64>() / to_f64(values.len() as u64)))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
