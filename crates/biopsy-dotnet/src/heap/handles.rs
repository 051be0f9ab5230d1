//! Handles: references that the runtime and native code hold.
//!
//! `HandleTableMap` (`objecthandle.h` of dotnet/runtime) → buckets → tables, one per heap → segments of 64 KiB
//! (`handletablepriv.h`). How many kinds of handles a table knows differs by version (12 up to 9, more from 10 on) and moves all
//! that lies behind the arrays with one entry per kind; the number that fits is the one with which each segment points back to
//! its table.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;
use rustc_hash::FxHashSet;

use super::found_roots::Found;
use super::segments::Collector;
use crate::graph::{Graph, RootKind};

/// `HANDLE_BLOCKS_PER_SEGMENT`, `HANDLE_HANDLES_PER_BLOCK`.
const BLOCKS: u64 = 120;
const PER_BLOCK: u64 = 64;
/// Offsets in `_TableSegmentHeader` that do not depend on the number of kinds.
const FREE_MASKS: usize = 600;
const BLOCK_KINDS: usize = 1560;
const USER_DATA: usize = 1680;
/// The first array with an entry per kind.
const PER_KIND: u64 = 1920;
/// Bytes per kind: tail, hint, count of free ones.
const BYTES_PER_KIND: u64 = 6;
/// `HANDLE_HEADER_SIZE`: the handles themselves come behind it.
const VALUES: u64 = 4096;
/// Numbers of kinds that are tried: `HANDLE_MAX_INTERNAL_TYPES`.
const KINDS: std::ops::RangeInclusive<u64> = 12..=24;
/// `INITIAL_HANDLE_TABLE_ARRAY_SIZE`, and most that is believed.
const BUCKETS: u32 = 10;
const MOST_BUCKETS: u32 = 1 << 16;
/// Most tables of a bucket: one per heap.
const MOST_TABLES: u64 = 1024;
/// Most segments of 7,680 handles.
const MOST_SEGMENTS: usize = 1 << 20;
/// A block that is not in use, or has no user data.
const NONE: u8 = 0xff;
/// `HNDTYPE_DEPENDENT`.
const DEPENDENT: u8 = 6;

/// What a kind of handle means to an object; `None`: it does not keep it alive.
fn root_kind(kind: u8) -> Option<RootKind> {
    match kind {
        2 => Some(RootKind::StrongHandle),
        3 | 7 => Some(RootKind::PinnedHandle),
        // Weak ones: short, long, of COM, interior.
        0 | 1 | 9 | 10 | DEPENDENT => None,
        // Variable, counted, sized; what is new in later versions is taken for one that holds.
        _ => Some(RootKind::OtherHandle),
    }
}

pub(super) fn find(image: &dyn Image, collector: &Collector, graph: &Graph, found: &mut Found) {
    let mut map = collector.handle_table_map;
    let mut maps = FxHashSet::default();
    let mut segments = FxHashSet::default();
    let mut tables = 0usize;
    while map != 0 && maps.insert(map) && maps.len() < 1024 {
        let numbers =
            (image.read_u64(map), image.read_u64(map.wrapping_add(8)), image.read_u32(map.wrapping_add(16)));
        let (Ok(buckets), Ok(next), Ok(count)) = numbers else { break };
        // The first map may say 0 and mean the initial number.
        let count = if (1..=MOST_BUCKETS).contains(&count) { count } else { BUCKETS };
        for bucket in 0..u64::from(count) {
            let Ok(bucket) = image.read_u64(buckets.wrapping_add(bucket * 8)) else { break };
            let Ok(first) = image.read_u64(bucket) else { continue };
            for number in 0..MOST_TABLES {
                let table = image.read_u64(first.wrapping_add(number * 8)).unwrap_or(0);
                let Some((kinds, segment)) = kinds_of(image, table) else { break };
                tables += 1;
                table_segments(image, graph, (table, kinds, segment), &mut segments, found);
            }
        }
        map = next;
    }
    if tables == 0 {
        found.missing("the handle tables cannot be read: statics and what they hold may count as garbage");
    }
}

/// The number of kinds that fits a table, and its first segment.
fn kinds_of(image: &dyn Image, table: u64) -> Option<(u64, u64)> {
    if table == 0 || !table.is_multiple_of(8) {
        return None;
    }
    KINDS.into_iter().find_map(|kinds| {
        let segment = image.read_u64(table.wrapping_add((kinds * 4).next_multiple_of(8))).ok()?;
        (segment != 0 && points_back(image, segment, kinds, table)).then_some((kinds, segment))
    })
}

fn next_offset(kinds: u64) -> u64 {
    PER_KIND + BYTES_PER_KIND * kinds
}

fn points_back(image: &dyn Image, segment: u64, kinds: u64, table: u64) -> bool {
    image.read_u64(segment.wrapping_add(next_offset(kinds) + 8)).is_ok_and(|owner| owner == table)
}

fn table_segments(
    image: &dyn Image,
    graph: &Graph,
    (table, kinds, first): (u64, u64, u64),
    seen: &mut FxHashSet<u64>,
    found: &mut Found,
) {
    let mut segment = first;
    while segment != 0 && seen.insert(segment) && seen.len() < MOST_SEGMENTS {
        if !points_back(image, segment, kinds, table) {
            found.missing("a segment of a handle table is damaged");
            return;
        }
        let mut header = vec![0; PER_KIND as usize];
        if image.read_exact(segment, &mut header).is_err() {
            found.missing("a segment of a handle table cannot be read");
            return;
        }
        for block in 0..BLOCKS {
            block_handles(image, graph, segment, &header, block, found);
        }
        segment = image.read_u64(segment.wrapping_add(next_offset(kinds))).unwrap_or(0);
    }
}

fn block_handles(
    image: &dyn Image,
    graph: &Graph,
    segment: u64,
    header: &[u8],
    block: u64,
    found: &mut Found,
) {
    let byte = |at: usize| header.get(at + block as usize).copied().unwrap_or(NONE);
    let kind = byte(BLOCK_KINDS);
    if kind == NONE {
        return;
    }
    let mask_at = FREE_MASKS + block as usize * 8;
    let free = header
        .get(mask_at..mask_at + 8)
        .and_then(|eight| eight.try_into().ok())
        .map_or(!0, u64::from_le_bytes);
    // Pages of unused blocks may not exist, so each block is read by itself.
    let values_of = |block: u64| {
        let at = segment.wrapping_add(VALUES + block * PER_BLOCK * 8);
        let mut bytes = [0; PER_BLOCK as usize * 8];
        image.read_exact(at, &mut bytes).ok().map(|()| (at, bytes))
    };
    let Some((at, values)) = values_of(block) else {
        if free != !0 {
            found.missing("handles cannot be read");
        }
        return;
    };
    let data = byte(USER_DATA);
    let data = (kind == DEPENDENT && data != NONE).then(|| values_of(data.into())).flatten();
    for (number, eight) in values.as_chunks::<8>().0.iter().enumerate() {
        let value = u64::from_le_bytes(*eight);
        if free >> number & 1 == 1 || value == 0 {
            continue;
        }
        let address = at + number as u64 * 8;
        if kind == DEPENDENT {
            let of = data.as_ref().and_then(|(_, bytes)| bytes.as_chunks::<8>().0.get(number));
            let key = graph.find(Avma(value));
            let held = of.and_then(|eight| graph.find(Avma(u64::from_le_bytes(*eight))));
            found.dependents.extend(key.zip(held));
        } else if let Some(kind) = root_kind(kind) {
            found.add(graph, kind, address, value, 0);
        }
    }
}
