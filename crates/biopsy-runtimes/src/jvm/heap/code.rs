//! The code cache: blocks one behind the other, each with how many segments it has and whether it is used (`memory/heap.hpp`).

use std::ops::Range;

use biopsy_model::footprint::{MemoryKind, RuntimeArea};

use super::found::Found;

/// Heaps of a code cache: there are three, or one.
const HEAPS: u32 = 16;
/// Blocks of a heap; one has two segments of 128 bytes at least, and 240 MB are reserved.
const BLOCKS: u32 = 1 << 21;
/// Bits of the size of a segment.
const SEGMENT_BITS: Range<u32> = 4..17;
/// Where a block says that it is used, behind its length; where that is 4, the length has 4 bytes.
const USED: u64 = 8;

/// Adds it; `None`: it was not found.
pub(super) fn read(found: &mut Found<'_>) -> Option<()> {
    let memory = found.memory;
    let list = memory.pointer(found.tables.variable("CodeCache", "_heaps")?)?;
    let count = memory.u32(list.checked_add(found.tables.field("GrowableArrayBase", "_len")?)?)?.min(HEAPS);
    let data = found.word(list, "GrowableArray<int>", "_data")?;
    let mut all = Vec::new();
    for number in 0..count {
        let heap = memory.pointer(data.checked_add(8 * u64::from(number))?)?;
        let space = |name| heap.checked_add(found.tables.field("CodeHeap", name)?);
        let code = space("_memory")?;
        let bits = memory.u32(space("_log2_segment_size")?)?;
        let range = found.between(code, "VirtualSpace", ["_low", "_high"])?;
        let map = found.between(space("_segmap")?, "VirtualSpace", ["_low", "_high"]);
        let end = found
            .word(code, "VirtualSpace", "_high_boundary")
            .filter(|end| *end >= range.end && *end < 1 << 47);
        SEGMENT_BITS.contains(&bits).then_some(())?;
        all.push((range, bits, map, end));
    }
    if all.is_empty() {
        return None;
    }
    let pool = found.pool("code cache", MemoryKind::CompiledCode);
    for (range, bits, map, end) in all {
        let used = used(found, &range, bits);
        let committed = range.end - range.start;
        if let Some(pool) = found.heap.memory.pools.get_mut(pool) {
            pool.committed = pool.committed.saturating_add(committed);
            pool.used.bytes = pool.used.bytes.saturating_add(used);
        }
        // What of the free code is in memory was code before.
        found.heap.areas.push(RuntimeArea { range: range.clone(), pool, used: committed });
        if let Some(end) = end {
            found.heap.areas.push(RuntimeArea { range: range.end..end, pool, used: 0 });
        }
        if let Some(map) = map {
            found.whole("maps of the code cache", MemoryKind::RuntimeData, map);
        }
    }
    Some(())
}

/// Bytes of blocks that are used, up to where no block was ever made.
fn used(found: &Found<'_>, range: &Range<u64>, bits: u32) -> u64 {
    let (mut at, mut used) = (range.start, 0_u64);
    let used_at = found.tables.field("HeapBlock::Header", "_used").unwrap_or(USED);
    for _ in 0..BLOCKS {
        let length = if used_at == 4 { found.memory.u32(at).map(u64::from) } else { found.memory.u64(at) };
        let bytes = length.and_then(|segments| segments.checked_mul(1 << bits));
        let Some(next) = bytes.filter(|bytes| *bytes > 0).and_then(|bytes| at.checked_add(bytes)) else {
            break;
        };
        if next > range.end {
            break;
        }
        if found.memory.u8(at.saturating_add(used_at)).is_some_and(|is_used| is_used != 0) {
            used = used.saturating_add(next - at);
        }
        at = next;
    }
    used
}
