//! An answer, as it comes: as texts for people, as JSON for programs.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SendableRecordBatchStream;
use futures_util::StreamExt as _;

use crate::error::CasesError;

/// An answer: rows that come in batches.
pub struct Answer {
    schema: SchemaRef,
    stream: SendableRecordBatchStream,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub struct Batch(RecordBatch);

impl Answer {
    pub(crate) fn new(stream: SendableRecordBatchStream) -> Self {
        Self { schema: stream.schema(), stream }
    }

    /// Names of its columns, and whether they are numbers.
    pub fn columns(&self) -> impl Iterator<Item = (&str, bool)> {
        self.schema.fields().iter().map(|field| (field.name().as_str(), field.data_type().is_numeric()))
    }

    /// The next rows; `None`: that was all.
    ///
    /// # Errors
    /// A file cannot be read, a value cannot be computed, or it takes too much memory.
    pub async fn next(&mut self) -> Result<Option<Batch>, CasesError> {
        let next = self.stream.next().await.transpose();
        next.map(|batch| batch.map(Batch)).map_err(|error| CasesError::of_engine(&error))
    }
}

impl Batch {
    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The rows as texts; what is absent is empty.
    ///
    /// # Errors
    /// A value has no text.
    pub fn texts(&self) -> Result<Vec<Vec<String>>, CasesError> {
        let options = FormatOptions::default().with_display_error(false);
        let columns: Vec<ArrayFormatter<'_>> = self
            .0
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options))
            .collect::<Result<_, _>>()?;
        (0..self.0.num_rows())
            .map(|row| columns.iter().map(|column| Ok(column.value(row).try_to_string()?)).collect())
            .collect()
    }

    /// The rows as JSON objects, one a line. What is absent is `null`.
    ///
    /// # Errors
    /// A value has no form in JSON.
    pub fn json_lines(&self) -> Result<String, CasesError> {
        let mut lines = Vec::new();
        let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut lines);
        writer.write(&self.0)?;
        writer.finish()?;
        drop(writer);
        Ok(String::from_utf8_lossy(&lines).into_owned())
    }
}
