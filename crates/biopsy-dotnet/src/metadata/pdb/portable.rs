//! The file: metadata root, streams, the two tables.

use std::sync::Arc;

use biopsy_bytes::{Cursor, ReadError};

use super::PdbError;
use super::sequence_points::{Point, points};

const SIGNATURE: u32 = 0x424a_5342;
/// Number of the table of documents; the one after it is of methods' sequence points.
const DOCUMENT: u32 = 0x30;
const METHOD: u32 = 0x31;
/// `II.24.2.6`: bits of `HeapSizes`.
const WIDE_GUIDS: u8 = 2;
const WIDE_BLOBS: u8 = 4;
const STREAMS: u16 = 16;
/// Parts of a path, and its bytes: more is cut.
const PATH_PARTS: usize = 256;
const PATH_BYTES: usize = 4096;

/// A place in a source file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SourceLine {
    /// As the compiler was told it.
    pub file: String,
    /// From 1.
    pub line: u32,
}

/// Debug information of one assembly.
#[derive(Clone, Debug)]
pub struct PortablePdb {
    bytes: Arc<[u8]>,
    id: [u8; 20],
    blobs: (usize, usize),
    documents: Table,
    methods: Table,
    blob_wide: bool,
    guid_wide: bool,
}

#[derive(Clone, Copy, Default, Debug)]
struct Table {
    at: usize,
    rows: u32,
    row_bytes: usize,
}

impl PortablePdb {
    /// Reads the headers; lines are read when they are asked for.
    ///
    /// # Errors
    /// When it is not portable debug information, or its headers are damaged.
    pub fn parse(bytes: Arc<[u8]>) -> Result<Self, PdbError> {
        let mut cursor = Cursor::new(&bytes);
        let found = cursor.u32("signature")?;
        if found != SIGNATURE {
            return Err(PdbError::NotPortable { found });
        }
        cursor.skip("versions", 8)?;
        let length = cursor.u32("version length")? as usize;
        cursor.skip("version", length)?;
        cursor.skip("flags", 2)?;
        let count = cursor.u16("number of streams")?.min(STREAMS);
        let (mut pdb, mut tables, mut blobs) = (None, None, (0, 0));
        for _ in 0..count {
            let at = cursor.u32("stream offset")? as usize;
            let size = cursor.u32("stream size")? as usize;
            match stream_name(&mut cursor)? {
                b"#Pdb" => pdb = Some((at, size)),
                b"#~" => tables = Some((at, size)),
                b"#Blob" => blobs = (at, size),
                _ => {}
            }
        }
        let missing = || PdbError::NotPortable { found: SIGNATURE };
        let (at, size) = pdb.ok_or_else(missing)?;
        let id = part(&bytes, at, size, "#Pdb")?.array::<20>("PDB id")?;
        let (at, size) = tables.ok_or_else(missing)?;
        let mut file = Self {
            id,
            blobs,
            documents: Table::default(),
            methods: Table::default(),
            blob_wide: false,
            guid_wide: false,
            bytes: Arc::clone(&bytes),
        };
        file.read_tables(part(&bytes, at, size, "#~")?)?;
        part(&bytes, blobs.0, blobs.1, "#Blob")?;
        Ok(file)
    }

    fn read_tables(&mut self, mut cursor: Cursor<'_>) -> Result<(), PdbError> {
        cursor.skip("reserved, versions", 6)?;
        let heap_sizes = cursor.u8("heap sizes")?;
        cursor.skip("reserved", 1)?;
        let valid = cursor.u64("tables")?;
        cursor.skip("sorted", 8)?;
        let (mut documents, mut methods) = (0, 0);
        for table in (0..64).filter(|table| valid >> table & 1 == 1) {
            let rows = cursor.u32("rows")?;
            // Tables of the assembly itself are in the file of the assembly.
            match table {
                0..DOCUMENT if rows > 0 => return Err(PdbError::NotPortable { found: SIGNATURE }),
                DOCUMENT => documents = rows,
                METHOD => methods = rows,
                _ => {}
            }
        }
        self.blob_wide = heap_sizes & WIDE_BLOBS != 0;
        self.guid_wide = heap_sizes & WIDE_GUIDS != 0;
        let width = |wide: bool| if wide { 4 } else { 2 };
        let (blob, guid) = (width(self.blob_wide), width(self.guid_wide));
        let at = usize::try_from(cursor.offset()).unwrap_or(usize::MAX);
        self.documents = Table { at, rows: documents, row_bytes: 2 * blob + 2 * guid };
        let bytes = u64::from(documents) * self.documents.row_bytes as u64;
        cursor.skip("documents", usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let at = usize::try_from(cursor.offset()).unwrap_or(usize::MAX);
        self.methods = Table { at, rows: methods, row_bytes: width(documents > 0xffff) + blob };
        let bytes = u64::from(methods) * self.methods.row_bytes as u64;
        cursor.skip("methods", usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(())
    }

    /// Which build it belongs to: a GUID and a stamp.
    #[must_use]
    pub fn id(&self) -> [u8; 20] {
        self.id
    }

    /// The line of a place in a method. `il_offset` `None`: the method's first line.
    #[must_use]
    pub fn line(&self, method_token: u32, il_offset: Option<u32>) -> Option<SourceLine> {
        if method_token >> 24 != 6 {
            return None;
        }
        let row = self.row(&self.methods, method_token & 0xff_ffff)?;
        let wide = self.documents.rows > 0xffff;
        let mut cursor = row;
        let document = index(&mut cursor, wide)?;
        let blob = self.blob(index(&mut cursor, self.blob_wide)?)?;
        let mut best: Option<Point> = None;
        for point in points(blob, document) {
            match il_offset {
                None => {
                    best = Some(point);
                    break;
                }
                Some(offset) if point.il_offset > offset => {
                    best = best.or(Some(point));
                    break;
                }
                Some(_) => best = Some(point),
            }
        }
        let point = best?;
        Some(SourceLine { file: self.document(point.document)?, line: point.line })
    }

    /// How many methods it knows of.
    #[must_use]
    pub fn method_count(&self) -> u32 {
        self.methods.rows
    }

    /// Path of a document, by row from 1.
    fn document(&self, row: u32) -> Option<String> {
        let mut cursor = self.row(&self.documents, row)?;
        let mut blob = Cursor::new(self.blob(index(&mut cursor, self.blob_wide)?)?);
        let separator = match blob.u8("separator").ok()? {
            0 => None,
            byte => Some(char::from(byte)),
        };
        let mut path = String::new();
        for position in 0..PATH_PARTS {
            if blob.is_empty() || path.len() > PATH_BYTES {
                break;
            }
            if position > 0 {
                path.extend(separator);
            }
            let part = self.blob(compressed(&mut blob)?)?;
            path.push_str(&String::from_utf8_lossy(&part[..part.len().min(PATH_BYTES)]));
        }
        (!path.is_empty()).then_some(path)
    }

    fn row(&self, table: &Table, row: u32) -> Option<Cursor<'_>> {
        let index = row.checked_sub(1).filter(|_| row <= table.rows)? as usize;
        let at = table.at.checked_add(index.checked_mul(table.row_bytes)?)?;
        Some(Cursor::new(self.bytes.get(at..at.checked_add(table.row_bytes)?)?))
    }

    fn blob(&self, at: u32) -> Option<&[u8]> {
        let heap = self.bytes.get(self.blobs.0..self.blobs.0.checked_add(self.blobs.1)?)?;
        let mut cursor = Cursor::new(heap.get(at as usize..)?);
        let length = compressed(&mut cursor)? as usize;
        cursor.take("blob", length).ok()
    }
}

fn part<'a>(bytes: &'a [u8], at: usize, size: usize, field: &'static str) -> Result<Cursor<'a>, ReadError> {
    let mut cursor = Cursor::new(bytes);
    cursor.skip(field, at)?;
    cursor.sub(field, size)
}

/// Zero-terminated, padded to four bytes.
fn stream_name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], ReadError> {
    let rest = cursor.rest();
    let length = rest.iter().take(32).position(|byte| *byte == 0).unwrap_or(32);
    let name = cursor.take("stream name", length)?;
    cursor.skip("stream name", (length + 4) / 4 * 4 - length)?;
    Ok(name)
}

fn index(cursor: &mut Cursor<'_>, wide: bool) -> Option<u32> {
    if wide { cursor.u32("index").ok() } else { cursor.u16("index").ok().map(u32::from) }
}

/// An unsigned number of one, two or four bytes (ECMA-335 II.23.2).
pub(super) fn compressed(cursor: &mut Cursor<'_>) -> Option<u32> {
    let first = u32::from(cursor.u8("compressed").ok()?);
    if first & 0x80 == 0 {
        return Some(first);
    }
    let second = u32::from(cursor.u8("compressed").ok()?);
    if first & 0x40 == 0 {
        return Some((first & 0x3f) << 8 | second);
    }
    let [third, fourth] = cursor.array::<2>("compressed").ok()?;
    (first & 0x20 == 0)
        .then_some((first & 0x1f) << 24 | second << 16 | u32::from(third) << 8 | u32::from(fourth))
}

/// The same with its sign in the lowest bit of what is stored.
pub(super) fn compressed_signed(cursor: &mut Cursor<'_>) -> Option<i32> {
    let before = cursor.remaining();
    let value = compressed(cursor)?;
    let rotated = (value >> 1).cast_signed();
    if value & 1 == 0 {
        return Some(rotated);
    }
    Some(match before - cursor.remaining() {
        1 => rotated - (1 << 6),
        2 => rotated - (1 << 13),
        _ => rotated - (1 << 28),
    })
}
