//! From chunk to chunk through a heap.

use biopsy_model::footprint::Blocks;

use super::cache::Caches;
use super::chunk::{ALIGNMENT, FENCE, Header, SMALLEST};
use super::heaps::Heap;
use crate::blocks::Classes;
use crate::kept::Kept;
use crate::window::Window;

/// What is in a heap.
#[derive(Default)]
pub(super) struct Walked {
    pub(super) used: Blocks,
    pub(super) free: Blocks,
    /// Bytes in which no chunks could be told apart.
    pub(super) unknown: u64,
    /// The first byte behind the last chunk that was told apart.
    pub(super) to: u64,
}

/// Goes through all chunks of a heap up to `top`, if that is in it. `classes` counts them by size, `caches` learns of those that look
/// like the cache of a thread.
pub(super) fn walk(
    window: &mut Window<'_>,
    heap: &Heap,
    top: u64,
    classes: &mut Classes,
    caches: &mut Caches,
    kept: &mut Kept,
) -> Walked {
    let mut walked = Walked::default();
    let end = if heap.range.contains(&top) { top } else { heap.range.end };
    let mut chunk = heap.first;
    let Some(mut header) = Header::read(window, chunk) else {
        walked.unknown = end.saturating_sub(chunk);
        return walked;
    };
    while chunk < end {
        let is_sound = header.size >= SMALLEST && header.size % ALIGNMENT == 0 && !header.is_mapped;
        let next = chunk.checked_add(header.size).filter(|&next| is_sound && next <= end);
        // Whether it is in use stands in the one behind it.
        let behind = next.and_then(|next| Header::read(window, next).map(|behind| (next, behind)));
        let Some((next, behind)) = behind else {
            let is_fence = header.size == FENCE && end - chunk <= 2 * FENCE;
            walked.unknown = if is_fence { 0 } else { end - chunk };
            break;
        };
        if behind.previous_in_use {
            walked.used.add(header.size);
            classes.used(header.size);
            caches.look_at(chunk, header.size);
            kept.used(chunk, header.size);
        } else {
            walked.free.add(header.size);
            classes.free(header.size);
        }
        (chunk, header) = (next, behind);
    }
    walked.to = chunk;
    walked
}
