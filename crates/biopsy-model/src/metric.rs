//! Metrics: tables of readings.

use crate::MonoNanos;

/// Unit of a column, which decides how it is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Unit {
    /// A plain number.
    Count,
    /// Events per second.
    PerSecond,
    /// Cores: 1.0 is one CPU fully used.
    Cores,
    /// 0 to 1.
    Ratio,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Milliseconds.
    Milliseconds,
}

/// One numeric column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// Dotted name, lower case: `cpu.user`, `read.throughput`.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
}

/// A table of readings: one row a moment and key.
///
/// Known tables (name: keys; the columns are listed in `docs/formats/recording.md`):
/// `system`: none · `disks`: device · `network`: interface · `processes`: pid, name · `threads`: pid, tid, name ·
/// `cgroups`: path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MetricTable {
    /// Name of the table and of its file, without extension.
    pub name: String,
    /// Names of the key columns.
    pub keys: Vec<String>,
    /// The numeric columns. Rates are over the interval that ends at the row's time.
    pub columns: Vec<Column>,
    /// Rows in the order of time.
    pub rows: Vec<MetricRow>,
}

/// One row.
#[derive(Clone, PartialEq, Debug)]
pub struct MetricRow {
    /// When the reading was taken.
    pub time: MonoNanos,
    /// Values of the key columns.
    pub keys: Vec<String>,
    /// Values of the numeric columns; `None`: could not be read (never a made-up zero).
    pub values: Vec<Option<f64>>,
}
