//! Where the memory of the process is in a minidump: the directory and the two lists of memory, read from the file
//! without reading what they point to (`minidumpapiset.h`).

use biopsy_bytes::Cursor;
use biopsy_model::loss::Warning;
use biopsy_model::order::Order as _;

use crate::Limits;
use crate::problem::OpenProblem;
use crate::storage::{Storage, StorageError};

const UNUSED_STREAM: u32 = 0;
const THREAD_LIST: u32 = 3;
const MEMORY_LIST: u32 = 5;
const MEMORY_64_LIST: u32 = 9;
/// Most streams; Windows writes about 20.
const MOST_STREAMS: u32 = 4096;

/// A range of memory and where its bytes are in the file.
#[derive(Clone, Debug)]
pub(super) struct MemoryRange {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Behind the last byte that the file has.
    pub(super) filled_to: u64,
    pub(super) offset: u64,
}

/// All memory of a minidump.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// By address, not overlapping.
    pub(super) ranges: Vec<MemoryRange>,
    /// What has to be held in memory to read the other streams.
    pub(super) streams_end: u64,
    pub(super) truncated_bytes: u64,
}

pub(super) fn read(
    storage: &dyn Storage,
    limits: &Limits,
    warnings: &mut Vec<Warning>,
) -> Result<Memory, OpenProblem> {
    let mut header = [0; 32];
    let read = storage.read_full(0, &mut header)?;
    let mut cursor = Cursor::new(&header[..read]);
    if cursor.take("Signature", 4)? == b"PMDM" {
        return Err(OpenProblem::Unsupported { what: "a big-endian machine".to_owned() });
    }
    cursor.skip("Version", 4)?;
    let count = cursor.u32("NumberOfStreams")?;
    let directory_at = u64::from(cursor.u32("StreamDirectoryRva")?);
    if count > MOST_STREAMS {
        return Err(OpenProblem::OverLimit {
            what: "streams",
            found: count.into(),
            limit: MOST_STREAMS.into(),
        });
    }
    let mut directory = vec![0; count as usize * 12];
    let read = storage.read_full(directory_at, &mut directory)?;
    let mut cursor = Cursor::at(&directory[..read], directory_at);
    let mut found = Found { bytes_left: limits.minidump_bytes, ..Found::default() };
    // What has to be held: the other streams may point anywhere, but not behind where only memory follows.
    let mut others_end = directory_at.saturating_add(u64::from(count) * 12);
    let mut outside = 0u64;
    for _ in 0..count {
        let kind = cursor.u32("StreamType")?;
        let size = cursor.u32("DataSize")?;
        let at = cursor.u32("Rva")?;
        let end = u64::from(at).saturating_add(u64::from(size));
        others_end = others_end.max(end);
        outside += u64::from(kind != UNUSED_STREAM && end > storage.len());
        found.stream(storage, kind, u64::from(at), size, limits)?;
    }
    let Found { mut ranges, odd, base, .. } = found;
    let streams_end = base.filter(|base| *base >= others_end).unwrap_or(storage.len());
    ranges.order_by_key(|range| range.start);
    // Stacks of threads are in the list of memory as well, so it is usual that ranges overlap.
    cut_overlaps(&mut ranges);
    if outside > 0 {
        warnings.push(Warning::new(
            "dump.odd-headers",
            format!("{outside} of {count} streams of the minidump lie behind the end of the file"),
        ));
    }
    if odd > 0 {
        warnings.push(Warning::new(
            "dump.odd-headers",
            format!("{odd} entries of the lists of memory are cut off or contradict themselves; they were left out"),
        ));
    }
    let mut truncated_bytes = 0u64;
    for range in &mut ranges {
        let there = storage.len().saturating_sub(range.offset).min(range.end - range.start);
        range.filled_to = range.start + there;
        truncated_bytes = truncated_bytes.saturating_add(range.end - range.filled_to);
    }
    Ok(Memory { ranges, streams_end, truncated_bytes })
}

#[derive(Default)]
struct Found {
    ranges: Vec<MemoryRange>,
    odd: u64,
    /// How many more bytes of lists are read: a directory may name the same list many times.
    bytes_left: u64,
    /// Where the memory of a full dump begins: Windows writes it behind everything else.
    base: Option<u64>,
}

impl Found {
    fn stream(
        &mut self,
        storage: &dyn Storage,
        kind: u32,
        at: u64,
        size: u32,
        limits: &Limits,
    ) -> Result<(), StorageError> {
        let (head, entry) = match kind {
            MEMORY_64_LIST => (16, 16),
            MEMORY_LIST => (4, 16),
            THREAD_LIST => (4, 48),
            _ => return Ok(()),
        };
        let size = u64::from(size).min(storage.len().saturating_sub(at)).min(self.bytes_left);
        self.bytes_left -= size;
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
        let read = storage.read_full(at, &mut bytes)?;
        let bytes = &bytes[..read];
        if self.list(bytes, kind, head, entry, limits).is_none() {
            self.odd += 1;
        }
        Ok(())
    }

    /// Entries of a list; `None`: it is cut off before its first entry.
    fn list(&mut self, bytes: &[u8], kind: u32, head: usize, entry: usize, limits: &Limits) -> Option<()> {
        let mut cursor = Cursor::new(bytes);
        let (count, mut next) = if kind == MEMORY_64_LIST {
            let count = cursor.u64("NumberOfMemoryRanges").ok()?;
            let base = cursor.u64("BaseRva").ok()?;
            self.base = Some(base);
            (usize::try_from(count).ok()?, base)
        } else {
            (cursor.u32("count").ok()? as usize, 0)
        };
        debug_assert_eq!(head, bytes.len() - cursor.remaining());
        // Some writers put four bytes between the number and the entries.
        if count.checked_mul(entry).and_then(|size| size.checked_add(4)) == Some(cursor.remaining()) {
            cursor.skip("padding", 4).ok()?;
        }
        for _ in 0..count {
            if self.ranges.len() >= limits.mappings {
                return None;
            }
            if kind == THREAD_LIST {
                cursor.skip("thread", 24).ok()?;
            }
            let start = cursor.u64("StartOfMemoryRange").ok()?;
            let (size, offset) = if kind == MEMORY_64_LIST {
                let size = cursor.u64("DataSize").ok()?;
                let offset = next;
                next = next.checked_add(size)?;
                (size, offset)
            } else {
                (u64::from(cursor.u32("DataSize").ok()?), u64::from(cursor.u32("Rva").ok()?))
            };
            if kind == THREAD_LIST {
                cursor.skip("context", 8).ok()?;
            }
            match start.checked_add(size) {
                // A stack without a place in the file is in the list of memory, or nowhere.
                Some(end) if size > 0 && offset > 0 => {
                    self.ranges.push(MemoryRange { start, end, filled_to: end, offset });
                }
                Some(_) => {}
                None => self.odd += 1,
            }
        }
        Some(())
    }
}

fn cut_overlaps(ranges: &mut Vec<MemoryRange>) {
    let mut free_from = 0u64;
    ranges.retain_mut(|range| {
        if range.start < free_from {
            range.offset = range.offset.saturating_add(free_from - range.start);
            range.start = free_from;
        }
        free_from = free_from.max(range.end);
        range.start < range.end
    });
}
