//! One file: a table of some reports as Parquet, encrypted as the format has it (AES-256-GCM, the footer too), read where it is.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::SchemaRef;
pub use bytes::Bytes;
use datafusion::physical_optimizer::pruning::PruningPredicate;
pub use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ArrowWriter, ParquetRecordBatchStreamBuilder, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::encryption::decrypt::FileDecryptionProperties;
use parquet::encryption::encrypt::FileEncryptionProperties;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{KeyValue, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use zeroize::Zeroizing;

use crate::error::CasesError;
use crate::prune;
use crate::schema::{Table, VERSION};

/// Bytes at the end of a file that are read first: its footer is in them, or most of it.
const TAIL: usize = 32 << 10;
/// Pieces of a file with less than this between them are read at once.
const GAP: u64 = 64 << 10;
/// Rows that are read at once.
const BATCH: usize = 4096;

/// Where files are.
pub trait Files: fmt::Debug + Send + Sync + 'static {
    /// Reads a piece of a file.
    fn read(&self, name: &str, range: Range<u64>) -> BoxFuture<'static, io::Result<Bytes>>;
}

/// What files of a segment are encrypted with.
#[derive(Clone)]
pub struct Key(Arc<Zeroizing<[u8; 32]>>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// 32 bytes that nobody can guess.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }
}

/// A file of one table of one segment.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Its name, for [`Files`].
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// The key of its segment.
    pub key: Key,
    /// The segment. A file is of one table and one segment: as another one it is not read.
    pub segment: String,
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Written {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes that its rows take in memory.
    pub memory: u64,
}

/// What each page is bound to beside its place.
fn bound_to(segment: &str, table: Table) -> Vec<u8> {
    format!("biopsy cases {segment} {}", table.name()).into_bytes()
}

/// What encrypted files and exported ones have in common.
pub(crate) fn properties(table: Table) -> WriterPropertiesBuilder {
    let about =
        [("biopsy.cases.version", VERSION.to_string()), ("biopsy.cases.table", table.name().to_owned())];
    let about = about.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect();
    WriterProperties::builder()
        .set_created_by("biopsy-lab".to_owned())
        .set_key_value_metadata(Some(about))
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(table.group_rows()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
}

/// Writes rows, sorted as the table is, to a file that is new.
///
/// # Errors
/// It cannot be written.
pub fn write(
    table: Table,
    rows: &RecordBatch,
    key: &Key,
    segment: &str,
    out: impl io::Write + Send,
) -> Result<Written, CasesError> {
    let encryption = FileEncryptionProperties::builder(key.0.to_vec())
        .with_aad_prefix(bound_to(segment, table))
        .with_aad_prefix_storage(false)
        .build()?;
    let properties = properties(table).with_file_encryption_properties(encryption).build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    writer.write(rows)?;
    writer.finish()?;
    let memory = u64::try_from(rows.get_array_memory_size()).unwrap_or(u64::MAX);
    Ok(Written { bytes: u64::try_from(writer.bytes_written()).unwrap_or(u64::MAX), memory })
}

/// Reads pieces of one file.
#[derive(Debug)]
struct Reader {
    files: Arc<dyn Files>,
    file: SegmentFile,
}

fn of_reading(error: io::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for Reader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        let (wanted, reading) =
            (range.end.saturating_sub(range.start), self.files.read(&self.file.name, range));
        async move {
            let bytes = reading.await.map_err(of_reading)?;
            match u64::try_from(bytes.len()) == Ok(wanted) {
                true => Ok(bytes),
                false => Err(of_reading(io::ErrorKind::UnexpectedEof.into())),
            }
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let mut pieces = Vec::with_capacity(ranges.len());
            let mut rest = ranges.as_slice();
            while let Some(first) = rest.first() {
                // As many as follow each other closely.
                let mut end = first.end;
                let together = rest.iter().take_while(|range| {
                    let is_near = range.start >= first.start && range.start <= end.saturating_add(GAP);
                    end = if is_near { end.max(range.end) } else { end };
                    is_near
                });
                let (now, later) = rest.split_at(together.count().max(1));
                let bytes = self.get_bytes(first.start..end).await?;
                for range in now {
                    let place = |at: u64| usize::try_from(at - first.start).unwrap_or(usize::MAX);
                    pieces.push(bytes.slice(place(range.start)..place(range.end)));
                }
                rest = later;
            }
            Ok(pieces)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let size = self.file.bytes;
            let reader = ParquetMetaDataReader::new()
                .with_arrow_reader_options(options)
                .with_prefetch_hint(Some(TAIL));
            Ok(Arc::new(reader.load_and_finish(self, size).await?))
        }
        .boxed()
    }
}

/// Rows of a file, as they come.
pub(crate) type Stream = BoxStream<'static, Result<RecordBatch, CasesError>>;

/// Opens a file: the columns of `schema` by their names, of the row groups that `wanted` does not rule out.
pub(crate) async fn open(
    table: Table,
    files: Arc<dyn Files>,
    file: SegmentFile,
    schema: SchemaRef,
    wanted: Option<Arc<PruningPredicate>>,
) -> Result<Stream, CasesError> {
    let decryption = FileDecryptionProperties::builder(file.key.0.to_vec())
        .with_aad_prefix(bound_to(&file.segment, table))
        .build()?;
    let options = ArrowReaderOptions::new().with_file_decryption_properties(decryption);
    let name = file.name.clone();
    let reader = Reader { files, file };
    let builder = ParquetRecordBatchStreamBuilder::new_with_options(reader, options).await?;
    see_to_version(builder.metadata(), &name)?;
    let parquet = builder.parquet_schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let mask = ProjectionMask::columns(parquet, names);
    let groups = wanted.map(|wanted| prune::groups(&wanted, builder.metadata(), builder.schema(), parquet));
    let builder = builder.with_projection(mask).with_batch_size(BATCH);
    let builder = match groups {
        Some(groups) => builder.with_row_groups(groups),
        None => builder,
    };
    let rows = builder.build()?.map_err(CasesError::from);
    Ok(rows.map(move |batch| fitted(&batch?, &schema)).boxed())
}

fn see_to_version(metadata: &ParquetMetaData, name: &str) -> Result<(), CasesError> {
    let about = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let version = about.into_iter().find(|one| one.key == "biopsy.cases.version");
    let version = version.and_then(|one| one.value.as_deref()).unwrap_or_default();
    match version.parse::<u32>() {
        Ok(known) if known <= VERSION => Ok(()),
        _ => Err(CasesError::Newer { name: name.to_owned(), found: version.to_owned() }),
    }
}

/// The columns that are wanted, in their order. A file that was written before there was a column has none of it.
fn fitted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, CasesError> {
    let columns = schema.fields().iter().map(|field| match batch.column_by_name(field.name()) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), batch.num_rows()),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns.collect(), &options)?)
}
