//! Finding the frames of a zstd file without a seek table: by walking from header to header (RFC 8878, section 3.1).
//!
//! It works for files of several frames that each say their size: what `biopsy dump` leaves when it is cut off before
//! the table, and what parallel compressors write.

use super::frames::Frame;
use super::{Storage, StorageError};
use crate::Limits;

/// Magic number of a frame.
const FRAME_MAGIC: u32 = 0xFD2F_B528;
/// Magic numbers of skippable frames, without the low four bits.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// Longest header of a frame (section 3.1.1.1).
pub(super) const LONGEST_HEADER: usize = 18;
/// Bytes read at once while walking. The headers of blocks are all that is wanted, and blocks are up to 128 KiB apart.
const WINDOW: usize = 4 << 10;
/// Blocks in one frame that are walked; a frame of 64 MiB has 512, or more where its writer flushed often.
const MAX_BLOCKS: u32 = 1 << 17;

/// What a walk found.
#[derive(Debug)]
pub(super) struct Walked {
    pub(super) frames: Vec<Frame>,
    /// Where the last whole frame ends, when something follows that is not a whole frame.
    pub(super) ends_early_at: Option<u64>,
}

/// Walks over all frames. `None` when a frame does not say its size or is too large to be unpacked on demand, or when
/// there are more than the limit.
pub(super) fn walk(source: &dyn Storage, limits: &Limits) -> Result<Option<Walked>, StorageError> {
    let mut window = Window { source, start: 0, bytes: Vec::new() };
    let mut frames: Vec<Frame> = Vec::new();
    let (mut packed_at, mut at, mut steps) = (0u64, 0u64, 0u64);
    while packed_at < source.len() {
        steps += 1;
        if steps > limits.frames {
            return Ok(None);
        }
        let (end, size) = match frame_at(&mut window, packed_at, limits.frame_bytes)? {
            Step::Frame { end, size } => (end, size),
            Step::Skip { end } => (end, 0),
            Step::Unsized => return Ok(None),
            Step::Cut => return Ok(Some(Walked { frames, ends_early_at: Some(packed_at) })),
        };
        if size > 0 {
            let (Ok(packed), Ok(size)) = (u32::try_from(end.saturating_sub(packed_at)), u32::try_from(size))
            else {
                return Ok(None);
            };
            frames.push(Frame { packed_at, packed, size, at, checksum: None });
        }
        at = at.saturating_add(size);
        packed_at = end;
    }
    Ok(Some(Walked { frames, ends_early_at: None }))
}

/// What is at an offset.
enum Step {
    Frame {
        end: u64,
        size: u64,
    },
    Skip {
        end: u64,
    },
    /// A frame that does not say how large it is when unpacked, or is larger than what is unpacked on demand.
    Unsized,
    /// The file ends inside, or this is no frame.
    Cut,
}

/// What the header of a frame says.
pub(super) enum Head {
    /// Nothing of the file: so many bytes follow that mean something else.
    Skippable { bytes: u32 },
    /// Size when unpacked, where it is said; bytes of the header; whether a checksum is behind the last block.
    Frame { size: Option<u64>, length: usize, checksum: bool },
}

/// Of the first bytes of a frame; `None`: they are cut off, or of no frame.
pub(super) fn head(bytes: &[u8]) -> Option<Head> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let magic = u32::from_le_bytes(*magic);
    if magic & !0xf == SKIPPABLE_MAGIC {
        return rest.first_chunk::<4>().map(|bytes| Head::Skippable { bytes: u32::from_le_bytes(*bytes) });
    }
    if magic != FRAME_MAGIC {
        return None;
    }
    let &descriptor = rest.first()?;
    let single_segment = descriptor & 0x20 != 0;
    let window_bytes = usize::from(!single_segment);
    let dictionary_bytes = [0usize, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = match descriptor >> 6 {
        0 => usize::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    let before = 1 + window_bytes + dictionary_bytes;
    let field = rest.get(before..before + size_bytes)?;
    let mut word = [0; 8];
    word[..size_bytes].copy_from_slice(field);
    let size = u64::from_le_bytes(word).saturating_add(if size_bytes == 2 { 256 } else { 0 });
    Some(Head::Frame {
        size: (size_bytes > 0).then_some(size),
        length: 4 + before + size_bytes,
        checksum: descriptor & 4 != 0,
    })
}

fn frame_at(window: &mut Window<'_>, start: u64, most: u64) -> Result<Step, StorageError> {
    let (size, length, checksum) = match head(window.at(start, LONGEST_HEADER)?) {
        None => return Ok(Step::Cut),
        Some(Head::Skippable { bytes }) => {
            let end = start.saturating_add(8).saturating_add(u64::from(bytes));
            return Ok(if end <= window.source.len() { Step::Skip { end } } else { Step::Cut });
        }
        Some(Head::Frame { size: Some(size), length, checksum }) if size <= most => (size, length, checksum),
        Some(Head::Frame { .. }) => return Ok(Step::Unsized),
    };
    let blocks = start.saturating_add(length as u64);
    let Some(mut end) = end_of_blocks(window, blocks)? else { return Ok(Step::Cut) };
    if checksum {
        end = end.saturating_add(4); // Content_Checksum
    }
    Ok(if end <= window.source.len() { Step::Frame { end, size } } else { Step::Cut })
}

/// Walks over the blocks of a frame (section 3.1.1.2).
fn end_of_blocks(window: &mut Window<'_>, mut at: u64) -> Result<Option<u64>, StorageError> {
    for _ in 0..MAX_BLOCKS {
        let Some(&[a, b, c]) = window.at(at, 3)?.first_chunk::<3>() else { return Ok(None) };
        let header = u32::from_le_bytes([a, b, c, 0]);
        let stored = match (header >> 1) & 3 {
            1 => 1, // RLE_Block: one byte
            3 => return Ok(None),
            _ => u64::from(header >> 3),
        };
        at = at.saturating_add(3).saturating_add(stored);
        if header & 1 != 0 {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

/// A piece of the file that moves on with the walk.
struct Window<'a> {
    source: &'a dyn Storage,
    start: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// Up to `count` bytes at `offset`; fewer at the end of the file.
    fn at(&mut self, offset: u64, count: usize) -> Result<&[u8], StorageError> {
        let inside = |window: &Self| {
            let from = usize::try_from(offset.checked_sub(window.start)?).ok()?;
            (from.checked_add(count)? <= window.bytes.len()).then_some(from)
        };
        if inside(self).is_none() {
            self.bytes.resize(WINDOW, 0);
            let read = self.source.read_full(offset, &mut self.bytes)?;
            self.bytes.truncate(read);
            self.start = offset;
        }
        let from = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        Ok(&rest[..count.min(rest.len())])
    }
}
