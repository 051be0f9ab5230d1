//! Which row groups of a file cannot hold what is asked for: by least and greatest values in its footer.

use std::collections::HashSet;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::Schema;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_optimizer::pruning::PruningPredicate;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::SchemaDescriptor;

/// The row groups that may hold something of it. Where that cannot be told: all.
pub(crate) fn groups(
    wanted: &PruningPredicate,
    metadata: &ParquetMetaData,
    schema: &Schema,
    parquet: &SchemaDescriptor,
) -> Vec<usize> {
    let statistics = Footer { metadata, schema, parquet };
    match wanted.prune(&statistics) {
        Ok(may) => may.into_iter().enumerate().filter_map(|(at, may)| may.then_some(at)).collect(),
        Err(_) => (0..metadata.num_row_groups()).collect(),
    }
}

struct Footer<'a> {
    metadata: &'a ParquetMetaData,
    schema: &'a Schema,
    parquet: &'a SchemaDescriptor,
}

impl Footer<'_> {
    fn of(&self, column: &Column) -> Option<StatisticsConverter<'_>> {
        StatisticsConverter::try_new(column.name(), self.schema, self.parquet).ok()
    }
}

impl PruningStatistics for Footer<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column)?.row_group_mins(self.metadata.row_groups()).ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column)?.row_group_maxes(self.metadata.row_groups()).ok()
    }

    fn num_containers(&self) -> usize {
        self.metadata.num_row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self.of(column)?.row_group_null_counts(self.metadata.row_groups()).ok()?;
        Some(std::sync::Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts = self.metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).ok());
        Some(std::sync::Arc::new(counts.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
