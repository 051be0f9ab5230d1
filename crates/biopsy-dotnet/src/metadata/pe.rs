//! PE files: just enough to find metadata, ReadyToRun headers and debug directories.

use std::sync::Arc;

use biopsy_bytes::Cursor;
use biopsy_image::pe::PeHeaders;
use biopsy_image::pe::raw::IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR;

use super::tables::METADATA_BYTES;
use super::{Metadata, MetadataError};

/// Bytes of the CLI header (II.25.3.3).
const CLI_HEADER: usize = 72;

/// Bytes of a file, or of memory, from some start on.
pub trait ReadAt {
    /// Fills all of `buffer` from `offset` on; `false` when some of it is not there.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> bool;
}

impl ReadAt for [u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> bool {
        let Ok(start) = usize::try_from(offset) else { return false };
        let Some(part) = start.checked_add(buffer.len()).and_then(|end| self.get(start..end)) else {
            return false;
        };
        buffer.copy_from_slice(part);
        true
    }
}

/// How the bytes are laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeLayout {
    /// As in the file.
    Flat,
    /// Each section at its virtual address.
    Mapped,
}

/// Headers of a PE file with a CLI header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeFile {
    layout: PeLayout,
    headers: PeHeaders,
    metadata: (u32, u32),
    managed_native: (u32, u32),
}

impl PeFile {
    /// Parses the headers. `source` starts with the first byte of the file, laid out as `layout` says.
    ///
    /// # Errors
    /// When it is no PE file with a CLI header, or damaged.
    pub fn parse(source: &(impl ReadAt + ?Sized), layout: PeLayout) -> Result<Self, MetadataError> {
        let mut head = vec![0u8; PeHeaders::HEAD];
        // Very small files: as much as there is of the first page, by halves.
        while !source.read_at(0, &mut head) {
            let half = head.len() / 2;
            if half < 128 {
                return Err(MetadataError::Unreadable { address: 0 });
            }
            head.truncate(half);
        }
        let headers = PeHeaders::parse(&head)?;
        let mut pe = Self { layout, headers, metadata: (0, 0), managed_native: (0, 0) };
        let mut cli = [0u8; CLI_HEADER];
        let directory = pe.headers.directory(IMAGE_DIRECTORY_ENTRY_COM_DESCRIPTOR);
        let (rva, _) = directory.ok_or(MetadataError::Absent("CLI header"))?;
        pe.read(source, rva, &mut cli)?;
        let mut cursor = Cursor::new(&cli);
        cursor.skip("CLI header", 8)?;
        pe.metadata = (cursor.u32("metadata")?, cursor.u32("metadata")?);
        cursor.skip("CLI header", 48)?;
        pe.managed_native = (cursor.u32("managed native header")?, cursor.u32("managed native header")?);
        Ok(pe)
    }

    /// How the bytes are laid out.
    #[must_use]
    pub fn layout(&self) -> PeLayout {
        self.layout
    }

    /// `SizeOfImage` of the header.
    #[must_use]
    pub fn image_bytes(&self) -> u32 {
        self.headers.image_bytes
    }

    /// Relative virtual address and bytes of the ReadyToRun header; 0 when the code is IL only.
    #[must_use]
    pub fn ready_to_run(&self) -> (u32, u32) {
        self.managed_native
    }

    /// Where a relative virtual address is in the bytes.
    #[must_use]
    pub fn offset_of(&self, rva: u32) -> Option<u64> {
        match self.layout {
            PeLayout::Mapped => Some(rva.into()),
            PeLayout::Flat => self.headers.offset_of(rva),
        }
    }

    /// Fills `buffer` from a relative virtual address on.
    ///
    /// # Errors
    /// When it is in no section, or not readable.
    pub fn read(
        &self,
        source: &(impl ReadAt + ?Sized),
        rva: u32,
        buffer: &mut [u8],
    ) -> Result<(), MetadataError> {
        let offset = self.offset_of(rva).ok_or(MetadataError::Outside {
            what: "relative virtual address",
            index: rva.into(),
            limit: self.image_bytes().into(),
        })?;
        if source.read_at(offset, buffer) {
            return Ok(());
        }
        Err(MetadataError::Unreadable { address: offset })
    }

    /// Reads and parses the metadata.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn metadata(&self, source: &(impl ReadAt + ?Sized)) -> Result<Metadata, MetadataError> {
        Metadata::parse(self.metadata_bytes(source)?)
    }

    /// The bytes of the metadata.
    ///
    /// # Errors
    /// When they cannot be read, or are too many.
    pub fn metadata_bytes(&self, source: &(impl ReadAt + ?Sized)) -> Result<Arc<[u8]>, MetadataError> {
        let (rva, size) = self.metadata;
        if u64::from(size) > METADATA_BYTES {
            return Err(MetadataError::TooLarge {
                what: "metadata",
                found: size.into(),
                limit: METADATA_BYTES,
            });
        }
        if size > self.image_bytes() {
            return Err(MetadataError::TooLarge {
                what: "metadata",
                found: size.into(),
                limit: self.image_bytes().into(),
            });
        }
        // Read with the wrong layout, something else is here, and its size may be anything.
        let mut signature = [0; 4];
        self.read(source, rva, &mut signature)?;
        expect("signature of metadata", u32::from_le_bytes(signature).into(), super::tables::MAGIC.into())?;
        // The size is somebody's claim: memory is taken as the bytes turn out to be there.
        const STEP: usize = 1 << 20;
        let mut bytes = Vec::new();
        let mut at = rva;
        while bytes.len() < size as usize {
            let start = bytes.len();
            let step = STEP.min(size as usize - start);
            bytes.resize(start + step, 0);
            self.read(source, at, &mut bytes[start..])?;
            let next = u32::try_from(step).ok().and_then(|step| at.checked_add(step));
            at = next.ok_or(MetadataError::Absent("metadata behind the end of addresses"))?;
        }
        Ok(bytes.into())
    }
}

fn expect(what: &'static str, found: u64, expected: u64) -> Result<(), MetadataError> {
    if found == expected { Ok(()) } else { Err(MetadataError::NotThis { what, found, expected }) }
}
