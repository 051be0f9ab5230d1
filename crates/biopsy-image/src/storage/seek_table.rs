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
use super::walk::{self, Head, LONGEST_HEADER};
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
/// Frames whose own headers are held against the table.
const MOST_ASKED: usize = 4096;
/// Bit of the descriptor: entries have checksums.
const HAS_CHECKSUMS: u8 = 0x80;
/// Bits of the descriptor that must be zero.
const RESERVED: u8 = 0x7c;

/// Reads the table, if the file ends with one whose sizes add up to exactly the file, and are those of the frames.
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
    let Some(mut frames) = parse(&bytes, start, count, entry) else { return Ok(None) };
    if !is_believed(source, &frames)? {
        return Ok(None);
    }
    frames.retain(|frame| frame.size > 0);
    Ok(Some(frames))
}

/// Whether frames say the sizes that the table has of them: a wrong one would move all that follows it. A writer cuts its input into pieces
/// of one size, so that few frames have another than the first: these are asked, and the others are not, which would take long on
/// storage that is far away.
fn is_believed(source: &dyn Storage, frames: &[Frame]) -> Result<bool, StorageError> {
    let usual = frames.first().map(|first| first.size);
    let asked = frames.iter().skip(1).filter(|frame| Some(frame.size) != usual).take(MOST_ASKED);
    for frame in frames.first().into_iter().chain(asked) {
        let mut bytes = [0; LONGEST_HEADER];
        let read = source.read_full(frame.packed_at, &mut bytes)?;
        let says = match walk::head(bytes.get(..read).unwrap_or_default()) {
            Some(Head::Skippable { .. }) => Some(0),
            Some(Head::Frame { size, .. }) => size,
            None => return Ok(false),
        };
        if says.is_some_and(|says| says != u64::from(frame.size)) {
            return Ok(false);
        }
    }
    Ok(true)
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
        frames.push(Frame { packed_at, packed, at, size, checksum });
        packed_at = packed_at.checked_add(u64::from(packed))?;
        at = at.checked_add(u64::from(size))?;
    }
    (packed_at == start).then_some(frames)
}
