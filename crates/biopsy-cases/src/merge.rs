//! Several files of one table become one, and one case less.

use std::sync::Arc;

use arrow::array::{Array as _, BooleanArray, RecordBatch, StringArray};
use arrow::compute::{
    SortColumn, SortOptions, concat_batches, filter_record_batch, lexsort_to_indices, take_record_batch,
};
use futures_util::TryStreamExt as _;

use crate::error::CasesError;
use crate::file::{Files, SegmentFile, open};
use crate::schema::Table;

/// The rows in the order of the table.
pub(crate) fn sorted(table: Table, batch: &RecordBatch) -> Result<RecordBatch, CasesError> {
    let by = table.sorted_by().iter().filter_map(|name| batch.column_by_name(name));
    let options = Some(SortOptions { descending: false, nulls_first: true });
    let columns: Vec<SortColumn> =
        by.map(|values| SortColumn { values: Arc::clone(values), options }).collect();
    Ok(take_record_batch(batch, &lexsort_to_indices(&columns, None)?)?)
}

/// Rows of all these files of one table, sorted; those of the case `without` are left out. All of them are in memory: whoever calls sees to it that
/// they are not many.
///
/// # Errors
/// A file cannot be read.
pub async fn merged(
    table: Table,
    files: &Arc<dyn Files>,
    segments: &[SegmentFile],
    without: Option<&str>,
) -> Result<RecordBatch, CasesError> {
    let schema = table.schema();
    let mut batches = Vec::new();
    for segment in segments {
        let mut stream = open(table, Arc::clone(files), segment.clone(), Arc::clone(&schema), None).await?;
        while let Some(batch) = stream.try_next().await? {
            batches.push(match without {
                None => batch,
                Some(case) => filter_record_batch(&batch, &others(&batch, case))?,
            });
        }
    }
    let all = concat_batches(&schema, &batches)?;
    drop(batches);
    sorted(table, &all)
}

/// Which rows are of other cases.
fn others(batch: &RecordBatch, case: &str) -> BooleanArray {
    let cases =
        batch.column_by_name("case_id").and_then(|column| column.as_any().downcast_ref::<StringArray>());
    match cases {
        Some(cases) => cases.iter().map(|one| Some(one != Some(case))).collect(),
        None => BooleanArray::from(vec![false; batch.num_rows()]),
    }
}
