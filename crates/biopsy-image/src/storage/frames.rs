//! A zstd file of many frames, unpacked frame by frame when bytes of it are asked for.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use twox_hash::XxHash64;
use zstd::bulk::Decompressor;

use super::cache::FrameCache;
use super::{Storage, StorageError};

/// Unpacking contexts that are kept for the next read; more threads than that make new ones.
const IDLE_CONTEXTS: usize = 8;
/// What a frame may have more than the bytes in it: headers of blocks that do not compress.
const OVERHEAD: u64 = 1 << 20;

/// Where one frame is, packed and unpacked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// Offset in the compressed file.
    pub(super) packed_at: u64,
    /// Bytes in the compressed file.
    pub(super) packed: u32,
    /// Bytes when unpacked; never 0 where they are read.
    pub(super) size: u32,
    /// Offset of its first byte when everything is unpacked.
    pub(super) at: u64,
    /// Low half of XXH64 of the unpacked bytes, where the seek table has one.
    pub(super) checksum: Option<u32>,
}

/// The frames of a file, by offset.
pub(super) struct FramedZstd {
    source: Arc<dyn Storage>,
    frames: Vec<Frame>,
    len: u64,
    cache: FrameCache,
    idle: Mutex<Vec<Decompressor<'static>>>,
}

impl fmt::Debug for FramedZstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FramedZstd")
            .field("source", &self.source)
            .field("frames", &self.frames.len())
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

impl FramedZstd {
    /// Over frames that follow each other, by offset. `None` when one of them is larger than `frame_bytes`.
    pub(super) fn new(
        source: Arc<dyn Storage>,
        frames: Vec<Frame>,
        frame_bytes: u64,
        cached_bytes: u64,
    ) -> Option<Self> {
        let fits = |frame: &Frame| {
            u64::from(frame.size) <= frame_bytes
                && u64::from(frame.packed) <= frame_bytes.saturating_add(OVERHEAD)
        };
        if !frames.iter().all(fits) {
            return None;
        }
        let len = frames.last().map_or(0, |last| last.at.saturating_add(u64::from(last.size)));
        Some(Self { source, frames, len, cache: FrameCache::new(cached_bytes), idle: Mutex::default() })
    }

    fn frame(&self, index: usize, frame: &Frame) -> Result<Arc<Vec<u8>>, StorageError> {
        if let Some(kept) = self.cache.get(index) {
            return Ok(kept);
        }
        let bytes = Arc::new(self.unpack(frame)?);
        self.cache.put(index, Arc::clone(&bytes));
        Ok(bytes)
    }

    fn unpack(&self, frame: &Frame) -> Result<Vec<u8>, StorageError> {
        let damaged = |what: &str| StorageError::Damaged {
            what: format!("frame at {:#x} of the compressed file: {what}", frame.packed_at),
        };
        let mut packed = vec![0; frame.packed as usize];
        if self.source.read_full(frame.packed_at, &mut packed)? < packed.len() {
            return Err(damaged("the file ends in it"));
        }
        let mut context = match self.lock_idle().pop() {
            Some(context) => context,
            None => Decompressor::new()?,
        };
        let mut bytes = vec![0; frame.size as usize];
        let unpacked = context.decompress_to_buffer(&packed, bytes.as_mut_slice());
        let mut idle = self.lock_idle();
        if idle.len() < IDLE_CONTEXTS {
            idle.push(context);
        }
        drop(idle);
        match unpacked {
            Ok(size) if size == bytes.len() => {}
            Ok(_) => return Err(damaged("it is shorter than its size says")),
            Err(error) => return Err(damaged(&error.to_string())),
        }
        match frame.checksum {
            Some(expected) if low_half(XxHash64::oneshot(0, &bytes)) != expected => {
                Err(damaged("its checksum in the seek table is another"))
            }
            _ => Ok(bytes),
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Decompressor<'static>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the format keeps the low half")]
fn low_half(hash: u64) -> u32 {
    hash as u32
}

impl Storage for FramedZstd {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, StorageError> {
        if buffer.is_empty() || offset >= self.len {
            return Ok(0);
        }
        let mut index = self.frames.partition_point(|frame| frame.at <= offset).saturating_sub(1);
        let mut done = 0;
        while let (Some(frame), true) = (self.frames.get(index), done < buffer.len()) {
            let bytes = match self.frame(index, frame) {
                Ok(bytes) => bytes,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
            let inside = usize::try_from(offset.saturating_add(done as u64).saturating_sub(frame.at));
            let rest = inside.ok().and_then(|inside| bytes.get(inside..)).unwrap_or_default();
            let count = rest.len().min(buffer.len() - done);
            if count == 0 {
                break;
            }
            buffer[done..done + count].copy_from_slice(&rest[..count]);
            done += count;
            index += 1;
        }
        Ok(done)
    }
}
