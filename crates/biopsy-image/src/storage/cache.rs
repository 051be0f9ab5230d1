//! The unpacked frames that were used last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Keeps frames up to a number of bytes; the one whose use is longest ago goes first. Two threads that miss the same
/// frame both unpack it, which is cheaper than waiting for each other.
#[derive(Debug)]
pub(super) struct FrameCache {
    most_bytes: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    frames: HashMap<usize, (Arc<Vec<u8>>, u64)>,
    bytes: u64,
    clock: u64,
}

impl FrameCache {
    pub(super) fn new(most_bytes: u64) -> Self {
        Self { most_bytes, kept: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing that can panic runs while it is held, and a cache may lose its contents.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The frame, if it is kept.
    pub(super) fn get(&self, index: usize) -> Option<Arc<Vec<u8>>> {
        let mut kept = self.lock();
        kept.clock += 1;
        let now = kept.clock;
        let (frame, used) = kept.frames.get_mut(&index)?;
        *used = now;
        Some(Arc::clone(frame))
    }

    /// Keeps a frame, and drops others until it fits. The last one stays however large it is.
    pub(super) fn put(&self, index: usize, frame: Arc<Vec<u8>>) {
        let mut kept = self.lock();
        kept.clock += 1;
        let now = kept.clock;
        let bytes = frame.len() as u64;
        // `bytes` of memory are not all: an entry costs something, also of an empty frame.
        while kept.bytes + bytes > self.most_bytes || kept.frames.len() >= 4096 {
            let Some(&oldest) = kept.frames.iter().min_by_key(|(_, (_, used))| used).map(|(index, _)| index)
            else {
                break;
            };
            if let Some((gone, _)) = kept.frames.remove(&oldest) {
                kept.bytes = kept.bytes.saturating_sub(gone.len() as u64);
            }
        }
        if let Some((before, _)) = kept.frames.insert(index, (frame, now)) {
            kept.bytes = kept.bytes.saturating_sub(before.len() as u64);
        }
        kept.bytes += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_used_longest_ago_goes_first() {
        let cache = FrameCache::new(300);
        for index in 0..3 {
            cache.put(index, Arc::new(vec![0; 100]));
        }
        assert!(cache.get(0).is_some());
        cache.put(3, Arc::new(vec![0; 100]));
        assert!(cache.get(1).is_none(), "1 was used before 0");
        assert!(cache.get(0).is_some() && cache.get(2).is_some() && cache.get(3).is_some());
    }

    #[test]
    fn a_frame_larger_than_the_cache_is_kept_alone() {
        let cache = FrameCache::new(10);
        cache.put(0, Arc::new(vec![0; 5]));
        cache.put(1, Arc::new(vec![0; 50]));
        assert!(cache.get(0).is_none());
        assert!(cache.get(1).is_some());
        cache.put(1, Arc::new(vec![0; 50]));
        cache.put(2, Arc::new(vec![0; 5]));
        assert!(cache.get(1).is_none() && cache.get(2).is_some());
    }
}
