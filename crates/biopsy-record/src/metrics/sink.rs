//! Where readings go: one trait, and the row that collectors fill by column name.

use std::io;

use biopsy_model::MonoNanos;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};

/// What a table holds: its name, its key columns and its numeric columns.
#[derive(PartialEq, Eq, Debug)]
pub struct TableSchema {
    /// Name of the table and of its file, without extension.
    pub name: &'static str,
    /// Names of the key columns.
    pub keys: &'static [&'static str],
    /// Names and units of the numeric columns.
    pub columns: &'static [(&'static str, Unit)],
}

impl TableSchema {
    /// The same table in the words of the model, without rows.
    #[must_use]
    pub fn to_table(&self) -> MetricTable {
        MetricTable {
            name: self.name.to_owned(),
            keys: self.keys.iter().map(|key| (*key).to_owned()).collect(),
            columns: self
                .columns
                .iter()
                .map(|(name, unit)| Column { name: (*name).to_owned(), unit: *unit })
                .collect(),
            rows: Vec::new(),
        }
    }
}

/// Takes the rows of all tables. An error ends the recording of metrics; what was written stays.
pub trait TableSink {
    /// Appends one row. The header is due with the first row of a schema.
    ///
    /// # Errors
    /// When the row cannot be written (disk full).
    fn row(
        &mut self,
        schema: &'static TableSchema,
        time: MonoNanos,
        keys: &[&str],
        values: &[Option<f64>],
    ) -> io::Result<()>;

    /// Hands everything to the operating system: called after each reading, so that a kill loses one at most.
    ///
    /// # Errors
    /// When it cannot be written (disk full).
    fn flush(&mut self) -> io::Result<()>;
}

/// Keeps rows in memory: for tests, and for readings that are not recorded.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct MemorySink {
    /// The tables that got a row, in the order of their first rows.
    pub tables: Vec<MetricTable>,
}

impl MemorySink {
    /// The table of this name, if it got a row.
    #[must_use]
    pub fn table(&self, name: &str) -> Option<&MetricTable> {
        self.tables.iter().find(|table| table.name == name)
    }
}

impl TableSink for MemorySink {
    fn row(
        &mut self,
        schema: &'static TableSchema,
        time: MonoNanos,
        keys: &[&str],
        values: &[Option<f64>],
    ) -> io::Result<()> {
        let index = match self.tables.iter().position(|table| table.name == schema.name) {
            Some(index) => index,
            None => {
                self.tables.push(schema.to_table());
                self.tables.len() - 1
            }
        };
        if let Some(table) = self.tables.get_mut(index) {
            table.rows.push(MetricRow {
                time,
                keys: keys.iter().map(|key| (*key).to_owned()).collect(),
                values: values.to_vec(),
            });
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One row being filled. Columns that nobody sets stay `None`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    schema: &'static TableSchema,
    values: Vec<Option<f64>>,
}

impl Row {
    pub(crate) fn new(schema: &'static TableSchema) -> Row {
        Row { schema, values: vec![None; schema.columns.len()] }
    }

    /// A row of zeros in the columns of `known`, a bit each.
    pub(crate) fn zeros(schema: &'static TableSchema, known: u32) -> Row {
        let mut row = Row::new(schema);
        for (index, value) in row.values.iter_mut().enumerate() {
            *value = (index < 32 && known >> index & 1 == 1).then_some(0.0);
        }
        row
    }

    /// Which columns have a value, a bit each.
    pub(crate) fn known(&self) -> u32 {
        let columns = self.values.iter().take(32).enumerate();
        columns.fold(0, |known, (index, value)| known | u32::from(value.is_some()) << index)
    }

    /// Sets a column; a name that the schema does not have is a bug that the tests catch.
    pub(crate) fn set(&mut self, column: &str, value: Option<f64>) {
        let index = self.schema.columns.iter().position(|(name, _)| *name == column);
        debug_assert!(index.is_some(), "table `{}` has no column `{column}`", self.schema.name);
        if let Some(slot) = index.and_then(|index| self.values.get_mut(index)) {
            *slot = value.filter(|value| value.is_finite());
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "metrics: 53 bits are plenty")]
    pub(crate) fn set_count(&mut self, column: &str, value: Option<u64>) {
        self.set(column, value.map(|value| value as f64));
    }
}

/// The rows of one reading on their way to the sink. After the first error nothing more is written.
pub(crate) struct Emitter<'a> {
    sink: &'a mut (dyn TableSink + Send),
    pub(crate) rows: u64,
    pub(crate) error: Option<io::Error>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(sink: &'a mut (dyn TableSink + Send)) -> Emitter<'a> {
        Emitter { sink, rows: 0, error: None }
    }

    pub(crate) fn emit(&mut self, time: MonoNanos, keys: &[&str], row: &Row) {
        if self.error.is_some() {
            return;
        }
        debug_assert_eq!(keys.len(), row.schema.keys.len(), "keys of table `{}`", row.schema.name);
        match self.sink.row(row.schema, time, keys, &row.values) {
            Ok(()) => self.rows += 1,
            Err(error) => self.error = Some(error),
        }
    }

    pub(crate) fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.sink.flush().err();
        }
    }
}
