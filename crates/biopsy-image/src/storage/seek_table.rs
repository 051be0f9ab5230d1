//! The seek table of zstd's seekable format, version 0.1.0
//! (<https://github.com/facebook/zstd/blob/dev/contrib/seekable_format/zstd_seekable_compression_format.md>).
//!
//! ```text
//! ... frames ... | 0x184D2A5E  frame size | entries | number of frames  descriptor  0x8F92EAB1 |
//!                  `--- skippable frame                `--- footer, 9 bytes at the end of the file
//! entry: compressed size u32, unpacked size u32, and with bit 7 of the descriptor: low half of XXH64 of the unpacked bytes
//! ```

use biopsy_bytes::Cursor;

use super::frames::Frame;
use super::{Storage, StorageError};
use crate::Limits;

/// Magic number of the skippable frame that holds the table.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
/// Magic number at the very end.
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// Number of frames, descriptor, magic number.
const FOOTER: u64 = 9;
/// Magic number and size of the skippable frame.
const HEADER: u64 = 8;
/// Bit of the descriptor: entries have checksums.
const HAS_CHECKSUMS: u8 = 0x80;
/// Bits of the descriptor that must be zero.
const RESERVED: u8 = 0x7c;

/// Reads the table, if the file ends with one whose sizes add up to exactly the file.
pub(super) fn read(source: &dyn Storage, limits: &Limits) -> Result<Option<Vec<Frame>>, StorageError> {
    let len = source.len();
    let Some(at) = len.checked_sub(FOOTER) else { return Ok(None) };
    let mut footer = [0; FOOTER as usize];
    if source.read_full(at, &mut footer)? < footer.len() {
        return Ok(None);
    }
    let Some((count, entry, table)) = footer_of(&footer, len, limits) else { return Ok(None) };
    let start = len - table;
    let mut bytes = vec![0; usize::try_from(table).unwrap_or(0)];
    if source.read_full(start, &mut bytes)? < bytes.len() {
        return Ok(None);
    }
    Ok(parse(&bytes, start, count, entry))
}

/// Number of frames, size of an entry, size of the whole skippable frame.
fn footer_of(footer: &[u8], len: u64, limits: &Limits) -> Option<(u64, u64, u64)> {
    let mut cursor = Cursor::new(footer);
    let count = u64::from(cursor.u32("Number_Of_Frames").ok()?);
    let descriptor = cursor.u8("Seek_Table_Descriptor").ok()?;
    cursor.expect_u32("Seekable_Magic_Number", SEEKABLE_MAGIC).ok()?;
    if descriptor & RESERVED != 0 || count > limits.frames {
        return None;
    }
    let entry = if descriptor & HAS_CHECKSUMS != 0 { 12 } else { 8 };
    let table = count.checked_mul(entry)?.checked_add(HEADER + FOOTER)?;
    (table <= len).then_some((count, entry, table))
}

fn parse(bytes: &[u8], start: u64, count: u64, entry: u64) -> Option<Vec<Frame>> {
    let mut cursor = Cursor::new(bytes);
    cursor.expect_u32("Skippable_Magic_Number", SKIPPABLE_MAGIC).ok()?;
    let size = u64::from(cursor.u32("Frame_Size").ok()?);
    if size != (bytes.len() as u64).checked_sub(HEADER)? {
        return None;
    }
    let mut frames = Vec::with_capacity(usize::try_from(count).ok()?);
    let (mut packed_at, mut at) = (0u64, 0u64);
    for _ in 0..count {
        let packed = cursor.u32("Compressed_Size").ok()?;
        let size = cursor.u32("Decompressed_Size").ok()?;
        let checksum = if entry == 12 { Some(cursor.u32("Checksum").ok()?) } else { None };
        if size > 0 {
            frames.push(Frame { packed_at, packed, at, size, checksum });
        }
        packed_at = packed_at.checked_add(u64::from(packed))?;
        at = at.checked_add(u64::from(size))?;
    }
    (packed_at == start).then_some(frames)
}
