//! The root, streams and tables of ECMA-335 metadata (II.24), read where they are asked for.
//!
//! ```text
//! "BSJB" u16 major, u16 minor, u32 0, u32 length, version text; u16 0, u16 streams; {u32 offset, u32 bytes, name, padding} ...
//! #~ or #-:  u32 0, u8 2, u8 0, u8 heap sizes, u8 1, u64 tables there, u64 tables sorted, u32 rows of each, the rows
//! ```

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};

use super::MetadataError;
use super::schema::{COLUMNS, Coded, Column, TABLES, Table, columns};

/// Bytes of metadata of one module. That of the largest assembly met has 12 MB.
pub(crate) const METADATA_BYTES: u64 = 256 << 20;
/// "BSJB".
pub(super) const MAGIC: u32 = 0x424a_5342;
/// Streams; real files have five or six.
const STREAMS: u16 = 64;
/// Characters of the version text; the standard allows 255.
const VERSION_BYTES: u32 = 4096;
/// Rows of a table: tokens have 24 bits for them.
const ROWS: u32 = 0x00ff_ffff;
/// Bytes of a name in `#Strings`.
const NAME_BYTES: usize = 16 << 10;

/// A row of some table; 1 is the first. 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowOf {
    /// Which table.
    pub table: Table,
    /// Which row.
    pub row: u32,
}

#[derive(Clone, Copy, Default, Debug)]
struct TableShape {
    rows: u32,
    offset: usize,
    row_bytes: usize,
    /// Offset and width of each column.
    columns: [(u8, u8); COLUMNS],
    sorted: bool,
}

/// Metadata of one module.
pub struct Metadata {
    bytes: Arc<[u8]>,
    strings: Range<usize>,
    blobs: Range<usize>,
    pdb: Range<usize>,
    tables: Box<[TableShape; TABLES]>,
    /// `#-`: tables in the order they were made, found through `*Ptr` tables where there are some.
    edited: bool,
    /// Rows by their keys, of tables that are not sorted by them and were asked.
    by_key: [OnceLock<Vec<u32>>; Keyed::ALL],
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Metadata {
    /// Parses the root, streams and row counts; rows are read when asked for.
    ///
    /// # Errors
    /// When the headers are damaged or contradict each other.
    pub fn parse(bytes: Arc<[u8]>) -> Result<Self, MetadataError> {
        if bytes.len() as u64 > METADATA_BYTES {
            return Err(MetadataError::TooLarge {
                what: "metadata",
                found: bytes.len() as u64,
                limit: METADATA_BYTES,
            });
        }
        let mut cursor = Cursor::new(&bytes);
        let magic = cursor.u32("signature")?;
        if magic != MAGIC {
            return Err(MetadataError::NotThis {
                what: "signature of metadata",
                found: magic.into(),
                expected: MAGIC.into(),
            });
        }
        cursor.skip("versions", 8)?;
        let version = cursor.u32("length of version")?;
        if version > VERSION_BYTES {
            return Err(MetadataError::TooLarge {
                what: "version text",
                found: version.into(),
                limit: VERSION_BYTES.into(),
            });
        }
        cursor.skip("version", version as usize)?;
        cursor.skip("flags", 2)?;
        let streams = cursor.u16("streams")?.min(STREAMS);
        let mut found = Streams::default();
        for _ in 0..streams {
            found.read(&mut cursor, bytes.len())?;
        }
        let (rows, edited) = match (found.compressed, found.edited) {
            (Some(rows), _) => (rows, false),
            (None, Some(rows)) => (rows, true),
            (None, None) => return Err(MetadataError::Absent("stream of tables")),
        };
        let external = external_rows(&bytes, &found.pdb)?;
        let tables = parse_tables(&bytes, rows, &external)?;
        let by_key = Default::default();
        Ok(Self { strings: found.strings, blobs: found.blobs, pdb: found.pdb, tables, edited, by_key, bytes })
    }

    /// How many rows a table has.
    #[must_use]
    pub fn rows(&self, table: Table) -> u32 {
        self.tables[table as usize].rows
    }

    /// Whether the rows of a table are said to be sorted by their key.
    pub(super) fn sorted(&self, table: Table) -> bool {
        self.tables[table as usize].sorted && !self.edited
    }

    /// A cell as it is: a number, an offset into a heap, a row, a coded index. Rows count from 1.
    ///
    /// # Errors
    /// [`MetadataError::Outside`].
    pub fn cell(&self, table: Table, row: u32, column: usize) -> Result<u32, MetadataError> {
        let shape = &self.tables[table as usize];
        if row == 0 || row > shape.rows {
            return Err(MetadataError::Outside { what: "row", index: row.into(), limit: shape.rows.into() });
        }
        let (offset, width) = shape.columns.get(column).copied().unwrap_or_default();
        let at = shape.offset + (row as usize - 1) * shape.row_bytes + usize::from(offset);
        let bytes = self.bytes.get(at..at + usize::from(width)).unwrap_or_default();
        let mut number = [0; 4];
        if let Some(part) = number.get_mut(..bytes.len()) {
            part.copy_from_slice(bytes);
        }
        Ok(u32::from_le_bytes(number))
    }

    /// A cell that is a name.
    ///
    /// # Errors
    /// [`MetadataError::Outside`].
    pub fn name(&self, table: Table, row: u32, column: usize) -> Result<&str, MetadataError> {
        self.string(self.cell(table, row, column)?)
    }

    /// A cell that is a blob.
    ///
    /// # Errors
    /// [`MetadataError::Outside`], [`MetadataError::Damaged`].
    pub fn blob_cell(&self, table: Table, row: u32, column: usize) -> Result<&[u8], MetadataError> {
        self.blob(self.cell(table, row, column)?)
    }

    /// A text of `#Strings`. What is no UTF-8 ends it.
    ///
    /// # Errors
    /// [`MetadataError::Outside`].
    pub fn string(&self, offset: u32) -> Result<&str, MetadataError> {
        let heap = &self.bytes[self.strings.clone()];
        let Some(rest) = heap.get(offset as usize..) else {
            // Metadata without any name has no heap of them.
            if offset == 0 {
                return Ok("");
            }
            return Err(MetadataError::Outside {
                what: "name",
                index: offset.into(),
                limit: heap.len() as u64,
            });
        };
        let rest = &rest[..rest.len().min(NAME_BYTES)];
        let text = rest.split(|&byte| byte == 0).next().unwrap_or_default();
        Ok(match std::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
        })
    }

    /// A blob.
    ///
    /// # Errors
    /// [`MetadataError::Outside`], [`MetadataError::Damaged`].
    pub fn blob(&self, offset: u32) -> Result<&[u8], MetadataError> {
        let heap = &self.bytes[self.blobs.clone()];
        if offset == 0 {
            return Ok(&[]);
        }
        let rest = heap.get(offset as usize..).ok_or(MetadataError::Outside {
            what: "blob",
            index: offset.into(),
            limit: heap.len() as u64,
        })?;
        let mut cursor = Cursor::at(rest, offset.into());
        let length = compressed_u32(&mut cursor)?;
        Ok(cursor.take("blob", length as usize)?)
    }

    /// Bytes of the stream `#Pdb`; empty for assemblies.
    #[must_use]
    pub fn pdb_stream(&self) -> &[u8] {
        &self.bytes[self.pdb.clone()]
    }

    /// Which row a coded index means; `None` for row 0 and for tags that mean nothing.
    pub(super) fn decode(&self, kind: Coded, value: u32) -> Option<RowOf> {
        let tag = value & ((1 << kind.bits) - 1);
        let table = (*kind.tables.get(tag as usize)?)?;
        let row = value >> kind.bits;
        (row != 0).then_some(RowOf { table, row })
    }

    /// The coded index of a row, if the kind knows its table.
    pub(super) fn encode(kind: Coded, of: RowOf) -> Option<u32> {
        let tag = kind.tables.iter().position(|&table| table == Some(of.table))?;
        of.row.checked_shl(kind.bits.into()).map(|row| row | u32::try_from(tag).unwrap_or(0))
    }

    /// The rows, at most so many, whose cell in `column` has `value`, in their order: by binary search where the table is sorted by it, else by
    /// an index that is made once.
    pub(super) fn rows_with(&self, table: Keyed, value: u32, most: usize) -> Vec<u32> {
        let (of, column) = table.place();
        let rows = self.rows(of);
        let cell = |row| self.cell(of, row, column).unwrap_or(0);
        // What edited metadata alone has is in the order in which it was edited.
        if self.sorted(of) && of != Table::MethodPtr {
            let first = partition(rows, |row| cell(row) < value);
            return (first..=rows).take_while(|&row| cell(row) == value).take(most).collect();
        }
        let index = self.by_key[table as usize].get_or_init(|| {
            let mut index: Vec<u32> = (1..=rows.min(ROWS)).collect();
            index.sort_by_key(|&row| cell(row));
            index
        });
        let first = index.partition_point(|&row| cell(row) < value);
        index.iter().skip(first).copied().take_while(|&row| cell(row) == value).take(most).collect()
    }
}

/// Tables in which rows are looked for by their key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Keyed {
    /// By the inner type.
    NestedClass,
    /// By whose parameter it is.
    GenericParam,
    /// By the method.
    MethodPtr,
}

impl Keyed {
    /// How many there are.
    const ALL: usize = 3;

    /// The table, and the column of the key.
    fn place(self) -> (Table, usize) {
        match self {
            Self::NestedClass => (Table::NestedClass, 0),
            Self::GenericParam => (Table::GenericParam, 2),
            Self::MethodPtr => (Table::MethodPtr, 0),
        }
    }
}

/// The first row (from 1) for which `before` does not hold; `rows + 1` if there is none.
pub(super) fn partition(rows: u32, before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (1u32, rows.saturating_add(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// A compressed unsigned number of one, two or four bytes (II.23.2).
pub(super) fn compressed_u32(cursor: &mut Cursor<'_>) -> Result<u32, ReadError> {
    let begin = *cursor;
    let first = u32::from(cursor.u8("compressed number")?);
    if first & 0x80 == 0 {
        return Ok(first);
    }
    let second = u32::from(cursor.u8("compressed number")?);
    if first & 0x40 == 0 {
        return Ok((first & 0x3f) << 8 | second);
    }
    if first & 0x20 != 0 {
        let kind = ReadErrorKind::Unexpected { expected: 0xc0, found: first.into() };
        return Err(begin.error("compressed number", kind));
    }
    let [third, fourth] = cursor.array::<2>("compressed number")?;
    Ok((first & 0x1f) << 24 | second << 16 | u32::from(third) << 8 | u32::from(fourth))
}

/// A compressed signed number: its sign is the lowest bit of what is stored.
pub(super) fn compressed_i32(cursor: &mut Cursor<'_>) -> Result<i32, ReadError> {
    let before = cursor.remaining();
    let value = compressed_u32(cursor)?;
    let rotated = (value >> 1).cast_signed();
    if value & 1 == 0 {
        return Ok(rotated);
    }
    Ok(match before - cursor.remaining() {
        1 => rotated - (1 << 6),
        2 => rotated - (1 << 13),
        _ => rotated - (1 << 28),
    })
}

#[derive(Default)]
struct Streams {
    strings: Range<usize>,
    blobs: Range<usize>,
    pdb: Range<usize>,
    compressed: Option<Range<usize>>,
    edited: Option<Range<usize>>,
}

impl Streams {
    fn read(&mut self, cursor: &mut Cursor<'_>, total: usize) -> Result<(), MetadataError> {
        let start = cursor.u32("offset of stream")? as usize;
        let length = cursor.u32("bytes of stream")? as usize;
        let mut name = [0u8; 32];
        let mut used = 0;
        loop {
            let four: [u8; 4] = cursor.array("name of stream")?;
            name[used..used + 4].copy_from_slice(&four);
            used += 4;
            if four.contains(&0) || used == name.len() {
                break;
            }
        }
        // A stream that is cut (metadata read from a core, for example) is used as far as it goes.
        let start = start.min(total);
        let range = start..start.saturating_add(length).min(total);
        match name.split(|&byte| byte == 0).next().unwrap_or_default() {
            b"#Strings" => self.strings = range,
            b"#Blob" => self.blobs = range,
            b"#Pdb" => self.pdb = range,
            b"#~" => self.compressed = Some(range),
            b"#-" => self.edited = Some(range),
            _ => {}
        }
        Ok(())
    }
}

/// Rows of the assembly's tables, as debug information says them: its own rows refer to those.
fn external_rows(bytes: &[u8], pdb: &Range<usize>) -> Result<[u32; TABLES], MetadataError> {
    let mut rows = [0; TABLES];
    if pdb.is_empty() {
        return Ok(rows);
    }
    let mut cursor = Cursor::at(&bytes[pdb.clone()], pdb.start as u64);
    cursor.skip("id of debug information", 20)?;
    cursor.skip("entry point", 4)?;
    let there = cursor.u64("tables of the assembly")?;
    for (table, rows) in rows.iter_mut().enumerate() {
        if there >> table & 1 != 0 {
            *rows = cursor.u32("rows of the assembly")?;
        }
    }
    Ok(rows)
}

fn parse_tables(
    bytes: &[u8],
    stream: Range<usize>,
    external: &[u32; TABLES],
) -> Result<Box<[TableShape; TABLES]>, MetadataError> {
    let base = stream.start;
    let mut cursor = Cursor::at(&bytes[stream.clone()], base as u64);
    cursor.skip("table header", 6)?;
    let heaps = cursor.u8("heap sizes")?;
    cursor.skip("table header", 1)?;
    let there = cursor.u64("tables")?;
    let sorted = cursor.u64("sorted tables")?;
    let mut tables = Box::new([TableShape::default(); TABLES]);
    for (number, table) in tables.iter_mut().enumerate() {
        table.sorted = sorted >> number & 1 != 0;
        if there >> number & 1 != 0 {
            table.rows = cursor.u32("rows of table")?;
        }
    }
    if heaps & 0x40 != 0 {
        cursor.skip("extra data", 4)?;
    }
    let rows = |table: Table| tables[table as usize].rows.max(external[table as usize]);
    let wide = |bit: u8| if heaps & bit != 0 { 4 } else { 2 };
    let width = |column: &Column| match column {
        Column::Fixed(width) => *width,
        Column::String => wide(1),
        Column::Guid => wide(2),
        Column::Blob => wide(4),
        Column::Row(table) => {
            if rows(*table) > 0xffff {
                4
            } else {
                2
            }
        }
        Column::Coded(kind) => {
            let most = kind.tables.iter().flatten().map(|&table| rows(table)).max().unwrap_or(0);
            if most >= 1 << (16 - kind.bits) { 4 } else { 2 }
        }
    };
    let mut shapes = [([(0u8, 0u8); COLUMNS], 0usize); TABLES];
    for (number, (shape, row_bytes)) in shapes.iter_mut().enumerate() {
        let mut offset = 0u8;
        for (slot, column) in shape.iter_mut().zip(columns(number)) {
            let bytes = width(column);
            *slot = (offset, bytes);
            offset += bytes;
        }
        *row_bytes = usize::from(offset);
    }
    let mut at = usize::try_from(cursor.offset()).unwrap_or(usize::MAX);
    let end = stream.end;
    for (number, (table, (columns_of, row_bytes))) in tables.iter_mut().zip(shapes).enumerate() {
        if table.rows == 0 {
            continue;
        }
        if row_bytes == 0 {
            // Rows of a table that nobody has described: what follows cannot be found.
            return Err(MetadataError::NotThis { what: "table", found: number as u64, expected: 0x37 });
        }
        let room = end.saturating_sub(at) / row_bytes;
        let limit = u32::try_from(room).unwrap_or(u32::MAX);
        if table.rows > limit {
            return Err(MetadataError::Outside {
                what: "rows of table",
                index: table.rows.into(),
                limit: limit.into(),
            });
        }
        table.offset = at;
        table.row_bytes = row_bytes;
        table.columns = columns_of;
        at += table.rows as usize * row_bytes;
    }
    Ok(tables)
}
