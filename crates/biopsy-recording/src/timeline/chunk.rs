//! Headers of the file and of its chunks.

use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::stack::FrameHandle;

use crate::FormatVersion;

/// First bytes of a timeline.
pub(super) const FILE_MAGIC: [u8; 8] = *b"BIOPSYTL";
/// Bytes of the file header that this version writes; a newer minor version may have more.
pub(super) const FILE_HEADER_LEN: usize = 16;
/// Longest file header that is read.
pub(super) const MAX_FILE_HEADER_LEN: usize = 4096;
/// First bytes of a chunk.
const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"BTC1");
/// Bytes of a chunk header.
pub(super) const CHUNK_HEADER_LEN: usize = 32;
/// Frame of a stack that was lost with a damaged chunk.
pub(super) const LOST_FRAME: FrameHandle = FrameHandle(u32::MAX);
/// What the CRC does not cover: the magic number and itself.
pub(super) const CRC_START: usize = 8;

/// The file header of this version.
#[expect(clippy::cast_possible_truncation, reason = "16 fits")]
pub(super) fn file_header() -> Vec<u8> {
    let mut bytes = FILE_MAGIC.to_vec();
    bytes.extend_from_slice(&FormatVersion::TIMELINE.major.to_le_bytes());
    bytes.extend_from_slice(&FormatVersion::TIMELINE.minor.to_le_bytes());
    bytes.extend_from_slice(&(FILE_HEADER_LEN as u32).to_le_bytes());
    bytes
}

/// How many definitions of each kind there were.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Definitions {
    pub(super) modules: u32,
    pub(super) frames: u32,
    pub(super) stacks: u32,
}

/// A chunk header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ChunkHeader {
    /// CRC-32 (IEEE) of the header behind this field and of the payload as stored.
    pub(super) crc: u32,
    /// Bytes of the payload as stored.
    pub(super) stored: u32,
    /// Bytes of the payload unpacked.
    pub(super) raw: u32,
    /// Events in it; so the number of lost ones is known when the payload is damaged.
    pub(super) events: u32,
    /// Definitions before it.
    pub(super) before: Definitions,
}

impl ChunkHeader {
    /// A header with neither payload nor events: the timeline was finished in good order.
    pub(super) fn is_end(&self) -> bool {
        self.stored == 0 && self.raw == 0
    }

    /// The bytes of the header, with the CRC over them and `payload` filled in.
    pub(super) fn to_bytes(self, payload: &[u8]) -> [u8; CHUNK_HEADER_LEN] {
        let mut bytes = [0; CHUNK_HEADER_LEN];
        let fields = [
            CHUNK_MAGIC,
            0,
            self.stored,
            self.raw,
            self.events,
            self.before.modules,
            self.before.frames,
            self.before.stacks,
        ];
        for (target, field) in bytes.chunks_exact_mut(4).zip(fields) {
            target.copy_from_slice(&field.to_le_bytes());
        }
        let crc = checksum(&bytes, payload);
        if let Some(target) = bytes.get_mut(4..CRC_START) {
            target.copy_from_slice(&crc.to_le_bytes());
        }
        bytes
    }

    /// Reads a header; the CRC is not checked yet.
    pub(super) fn parse(bytes: &[u8], offset: u64) -> Result<Self, ReadError> {
        let mut cursor = Cursor::at(bytes, offset);
        cursor.expect_u32("chunk magic", CHUNK_MAGIC)?;
        Ok(Self {
            crc: cursor.u32("chunk crc")?,
            stored: cursor.u32("chunk stored length")?,
            raw: cursor.u32("chunk raw length")?,
            events: cursor.u32("chunk events")?,
            before: Definitions {
                modules: cursor.u32("chunk modules before")?,
                frames: cursor.u32("chunk frames before")?,
                stacks: cursor.u32("chunk stacks before")?,
            },
        })
    }
}

/// CRC-32 of a chunk, given its header and payload.
pub(super) fn checksum(header: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header.get(CRC_START..).unwrap_or_default());
    hasher.update(payload);
    hasher.finalize()
}
