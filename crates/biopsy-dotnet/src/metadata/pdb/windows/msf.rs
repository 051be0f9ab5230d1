//! The container of a Windows PDB: streams in blocks, as a small file system ("MSF 7.00").
//!
//! ```text
//!  superblock ──► block map ──► blocks of the directory ──► for each stream: its size, and its blocks
//! ```

use std::cell::Cell;

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};

/// How a file begins.
pub(in super::super) const MAGIC: &[u8; 32] = b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0";
/// Sizes of blocks that linkers write.
const SMALLEST_BLOCK: u32 = 512;
const LARGEST_BLOCK: u32 = 64 << 10;
/// A number of 16 bits names them.
const STREAMS: usize = 1 << 16;
/// Size of a stream that was deleted.
const DELETED: u32 = u32::MAX;

/// The streams of a file.
#[derive(Debug)]
pub(super) struct Msf<'a> {
    bytes: &'a [u8],
    block: usize,
    /// Size of each stream, and its blocks.
    streams: Vec<(usize, Vec<u32>)>,
    /// Bytes of streams that may still be put together. A block belongs to one stream: all of them are no larger than the file.
    left: Cell<usize>,
}

impl<'a> Msf<'a> {
    /// Reads the directory.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, ReadError> {
        let mut head = Cursor::new(bytes);
        head.skip("magic", MAGIC.len())?;
        let before = head;
        let block = head.u32("block size")?;
        if !block.is_power_of_two() || !(SMALLEST_BLOCK..=LARGEST_BLOCK).contains(&block) {
            let (claimed, limit) = (u64::from(block), u64::from(LARGEST_BLOCK));
            return Err(before.error("block size", ReadErrorKind::OverLimit { claimed, limit }));
        }
        let block = block as usize;
        head.skip("free block map", 8)?;
        let size = head.u32("bytes of directory")? as usize;
        head.skip("unknown", 4)?;
        let map = head.u32("block map")?;
        let mut msf = Self { bytes, block, streams: Vec::new(), left: Cell::new(bytes.len()) };
        let mut blocks = Cursor::new(bytes);
        blocks.skip("block map", (map as usize).saturating_mul(block))?;
        let numbers = rows(&mut blocks, "block map", size.div_ceil(block))?;
        let directory = msf.join("directory", size, &numbers)?;
        let mut directory = Cursor::new(&directory);
        let count = directory.u32("streams")? as usize;
        if count > STREAMS {
            let (claimed, limit) = (count as u64, STREAMS as u64);
            return Err(directory.error("streams", ReadErrorKind::OverLimit { claimed, limit }));
        }
        let sizes = rows(&mut directory, "sizes of streams", count)?;
        for size in sizes {
            let size = if size == DELETED { 0 } else { size as usize };
            let numbers = rows(&mut directory, "blocks of a stream", size.div_ceil(block))?;
            msf.streams.push((size, numbers));
        }
        Ok(msf)
    }

    /// The bytes of a stream.
    pub(super) fn stream(&self, field: &'static str, number: usize) -> Result<Vec<u8>, ReadError> {
        let none = ReadErrorKind::UnexpectedEnd { needed: number as u64, found: self.streams.len() as u64 };
        let nothing = Cursor::new(self.bytes).error(field, none);
        let (size, blocks) = self.streams.get(number).ok_or(nothing)?;
        self.join(field, *size, blocks)
    }

    fn join(&self, field: &'static str, size: usize, blocks: &[u32]) -> Result<Vec<u8>, ReadError> {
        let Some(left) = self.left.get().checked_sub(size) else {
            let (claimed, limit) = (size as u64, self.left.get() as u64);
            return Err(Cursor::new(self.bytes).error(field, ReadErrorKind::OverLimit { claimed, limit }));
        };
        self.left.set(left);
        let mut whole = Vec::with_capacity(size);
        for number in blocks {
            let mut at = Cursor::new(self.bytes);
            at.skip(field, (*number as usize).saturating_mul(self.block))?;
            // The last block of a file may be cut behind what is used of it.
            whole.extend_from_slice(at.take(field, self.block.min(size - whole.len()))?);
        }
        Ok(whole)
    }
}

/// So many numbers, checked to be there before memory is taken for them.
fn rows(cursor: &mut Cursor<'_>, field: &'static str, count: usize) -> Result<Vec<u32>, ReadError> {
    let bytes = cursor.take(field, count.saturating_mul(4))?;
    Ok(bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect())
}
