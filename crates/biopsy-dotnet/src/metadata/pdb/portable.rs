//! The lines of an assembly, from the two tables of debug information that have them: documents, and sequence points of methods.

use std::sync::Arc;

use biopsy_bytes::Cursor;

use super::PdbError;
use super::sequence_points::{Point, points};
use crate::metadata::tables::{MAGIC, compressed_u32};
use crate::metadata::{Metadata, Table};

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
#[derive(Debug)]
pub struct PortablePdb {
    metadata: Metadata,
    id: [u8; 20],
}

impl PortablePdb {
    /// Reads the headers; lines are read when they are asked for.
    ///
    /// # Errors
    /// When it is not portable debug information, or its headers are damaged.
    pub fn parse(bytes: Arc<[u8]>) -> Result<Self, PdbError> {
        let found = Cursor::new(&bytes).u32("signature")?;
        if found != MAGIC {
            return Err(PdbError::NotPortable { found });
        }
        let metadata = Metadata::parse(bytes)?;
        // An assembly's own metadata begins alike, and has a module instead of an id.
        let id = metadata.pdb_stream().first_chunk().filter(|_| metadata.rows(Table::Module) == 0).copied();
        Ok(Self { id: id.ok_or(PdbError::NotPortable { found })?, metadata })
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
        let row = method_token & 0xff_ffff;
        let document = self.metadata.cell(Table::MethodDebugInformation, row, 0).ok()?;
        let blob = self.metadata.blob_cell(Table::MethodDebugInformation, row, 1).ok()?;
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
        self.metadata.rows(Table::MethodDebugInformation)
    }

    /// Path of a document, by row from 1.
    fn document(&self, row: u32) -> Option<String> {
        let mut blob = Cursor::new(self.metadata.blob_cell(Table::Document, row, 0).ok()?);
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
            let part = self.metadata.blob(compressed_u32(&mut blob).ok()?).ok()?;
            path.push_str(&String::from_utf8_lossy(&part[..part.len().min(PATH_BYTES)]));
        }
        (!path.is_empty()).then_some(path)
    }
}
