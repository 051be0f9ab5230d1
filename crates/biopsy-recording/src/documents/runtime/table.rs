//! Counters, as tables of readings.

use biopsy_model::MonoNanos;
use biopsy_model::metric::{self, Unit};
use serde::{Deserialize, Serialize};

use crate::documents::{List, spellings};

spellings!(unit_text, unit, Unit, unknown = Unit::Count, {
    "count" = Unit::Count,
    "per-second" = Unit::PerSecond,
    "cores" = Unit::Cores,
    "ratio" = Unit::Ratio,
    "bytes" = Unit::Bytes,
    "bytes-per-second" = Unit::BytesPerSecond,
    "milliseconds" = Unit::Milliseconds,
});

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub(super) struct Table {
    name: String,
    keys: List<String>,
    columns: List<Column>,
    rows: List<Row>,
}

impl From<metric::MetricTable> for Table {
    fn from(table: metric::MetricTable) -> Self {
        let (columns, rows) = (table.columns.into(), table.rows.into());
        Self { name: table.name, keys: table.keys.into(), columns, rows }
    }
}

impl From<Table> for metric::MetricTable {
    fn from(table: Table) -> Self {
        let (columns, rows) = (table.columns.into(), table.rows.into());
        Self { name: table.name, keys: table.keys.into(), columns, rows }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Column {
    name: String,
    unit: String,
}

impl From<metric::Column> for Column {
    fn from(column: metric::Column) -> Self {
        Self { name: column.name, unit: unit_text(column.unit).to_owned() }
    }
}

impl From<Column> for metric::Column {
    fn from(column: Column) -> Self {
        Self { name: column.name, unit: unit(&column.unit) }
    }
}

#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
struct Row {
    time: u64,
    keys: List<String>,
    values: List<Option<f64>>,
}

impl From<metric::MetricRow> for Row {
    fn from(row: metric::MetricRow) -> Self {
        Self { time: row.time.0, keys: row.keys.into(), values: row.values.into() }
    }
}

impl From<Row> for metric::MetricRow {
    fn from(row: Row) -> Self {
        Self { time: MonoNanos(row.time), keys: row.keys.into(), values: row.values.into() }
    }
}
