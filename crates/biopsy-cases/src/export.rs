//! The tables as plain Parquet, for other engines. What is exported is a copy that nobody deletes.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use futures_util::TryStreamExt as _;
use parquet::arrow::ArrowWriter;

use crate::error::CasesError;
use crate::file::{Files, SegmentFile, open, properties};
use crate::schema::Table;

/// Writes each table to `FOLDER/TABLE.parquet`, into a new folder that is nobody else's; gives the number of rows of each.
///
/// # Errors
/// The folder is there already, or a file cannot be read or written. What was written stays.
pub async fn to(
    folder: &Path,
    files: &Arc<dyn Files>,
    of_tables: &[(Table, SegmentFile)],
) -> Result<Vec<(Table, u64)>, CasesError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| CasesError::Write { path, source }
    };
    DirBuilder::new().mode(0o700).create(folder).map_err(failed(folder))?;
    let mut counts = Vec::new();
    for table in Table::ALL {
        let path = folder.join(format!("{}.parquet", table.name()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut writer = ArrowWriter::try_new(
            file.map_err(failed(&path))?,
            table.schema(),
            Some(properties(table).build()),
        )?;
        let mut rows = 0;
        for (_, segment) in of_tables.iter().filter(|(of, _)| *of == table) {
            let mut batches = open(table, Arc::clone(files), segment.clone(), table.schema(), None).await?;
            while let Some(batch) = batches.try_next().await? {
                writer.write(&batch)?;
                rows += u64::try_from(batch.num_rows()).unwrap_or(0);
            }
        }
        writer.finish()?;
        writer.inner().sync_all().map_err(failed(&path))?;
        counts.push((table, rows));
    }
    Ok(counts)
}
