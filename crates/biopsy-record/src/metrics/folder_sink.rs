//! Rows into the tables of a recording.

use std::io;
use std::sync::Arc;

use biopsy_model::MonoNanos;
use biopsy_model::metric::{MetricRow, MetricTable};
use biopsy_recording::metrics::TableWriter;
use biopsy_recording::{MemberFile, RecordingFolder, WriteError, layout};
use rustc_hash::FxHashMap;

use super::sink::{TableSchema, TableSink};
use super::tables;
use crate::masking::Masking;

/// Masked keys are remembered, up to this many.
const REMEMBERED: usize = 10_000;

/// Writes each table into its member, masking the keys: names of processes, threads and control groups are
/// text that somebody chose.
#[derive(Debug)]
pub struct FolderSink {
    folder: Arc<RecordingFolder>,
    masking: Masking,
    tables: Vec<(&'static str, TableWriter<MemberFile>)>,
    masked: FxHashMap<String, String>,
}

impl FolderSink {
    /// A sink that creates each table with its first row.
    #[must_use]
    pub fn new(folder: Arc<RecordingFolder>, masking: Masking) -> FolderSink {
        FolderSink { folder, masking, tables: Vec::new(), masked: FxHashMap::default() }
    }

    /// Rows of the time before, as they are: another recorder has masked them. Of tables and columns that there are not, none.
    ///
    /// # Errors
    /// They cannot be written.
    pub fn rows_before(&mut self, tables: &[MetricTable]) -> io::Result<()> {
        for table in tables {
            let same = |schema: &TableSchema| {
                let known = schema.to_table();
                known.name == table.name && known.keys == table.keys && known.columns == table.columns
            };
            let Some(schema) = tables::ALL.iter().find(|schema| same(schema)) else { continue };
            let index = self.table(schema)?;
            if let Some((_, writer)) = self.tables.get_mut(index) {
                table.rows.iter().try_for_each(|row| writer.append_row(row))?;
            }
        }
        self.flush()
    }

    fn table(&mut self, schema: &'static TableSchema) -> io::Result<usize> {
        if let Some(index) = self.tables.iter().position(|(name, _)| *name == schema.name) {
            return Ok(index);
        }
        let columns = schema.to_table().columns;
        let writer = self.folder.metric_table(schema.name, schema.keys, &columns).map_err(into_io)?;
        self.tables.push((schema.name, writer));
        Ok(self.tables.len() - 1)
    }

    fn mask(&mut self, table: &str, key: &str) -> String {
        // Numbers are the most common keys and hold no secrets.
        if key.bytes().all(|byte| byte.is_ascii_digit()) {
            return key.to_owned();
        }
        if let Some(masked) = self.masked.get(key) {
            return masked.clone();
        }
        let masked = self.masking.text(&layout::metrics_member(table), key).into_owned();
        if self.masked.len() < REMEMBERED {
            self.masked.insert(key.to_owned(), masked.clone());
        }
        masked
    }
}

impl TableSink for FolderSink {
    fn row(
        &mut self,
        schema: &'static TableSchema,
        time: MonoNanos,
        keys: &[&str],
        values: &[Option<f64>],
    ) -> io::Result<()> {
        let index = self.table(schema)?;
        let keys = keys.iter().map(|key| self.mask(schema.name, key)).collect();
        let row = MetricRow { time, keys, values: values.iter().copied().map(shorten).collect() };
        match self.tables.get_mut(index) {
            Some((_, writer)) => writer.append_row(&row),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tables.iter_mut().try_for_each(|(_, writer)| writer.flush())
    }
}

/// Six digits behind the point: no reading is more exact, and 0.333333 is shorter than 0.3333333333333333.
fn shorten(value: Option<f64>) -> Option<f64> {
    value.map(|value| if value.abs() < 1e9 { (value * 1e6).round() / 1e6 } else { value.round() })
}

fn into_io(error: WriteError) -> io::Error {
    let kind = match &error {
        WriteError::Exists { .. } => io::ErrorKind::AlreadyExists,
        WriteError::DiskFull { .. } => io::ErrorKind::StorageFull,
        WriteError::Io { source, .. } => source.kind(),
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
