//! The Java heap by the spaces of its collector.
//!
//! ```text
//! Serial     GenCollectedHeap (17, 21), SerialHeap: young (eden, from, to), old
//! Parallel   young (eden, from, to), old
//! G1         a list of regions of one size, each with a tag
//! ```

use std::ops::Range;

use biopsy_model::footprint::{MemoryKind, RuntimeArea};

use super::found::Found;
use crate::jvm::vm::Flags;

/// Regions of G1: it makes 2,048 of a heap, and more where they are as large as they can be.
const REGIONS: u64 = 1 << 20;
/// Names of types before and since 23.
const REGION: [&str; 2] = ["HeapRegion", "G1HeapRegion"];
const REGION_TYPE: [&str; 2] = ["HeapRegionType", "G1HeapRegionType"];
const MANAGER: [&str; 2] = ["HeapRegionManager", "G1HeapRegionManager"];

/// Names of the spaces, in the order in which objects go through them.
const NAMES: [&str; 4] = ["eden", "survivors", "old", "humongous"];

/// Adds the spaces, and says whose they are.
pub(super) fn read(found: &mut Found<'_>, flags: &Flags<'_>) -> Result<&'static str, String> {
    let known = [("UseG1GC", "G1"), ("UseParallelGC", "Parallel"), ("UseSerialGC", "Serial")];
    let (_, collector) = known
        .into_iter()
        .find(|(flag, _)| flags.is_on(flag) == Some(true))
        .ok_or("its collector is none of Serial, Parallel and G1")?;
    let heap = found.tables.variable("Universe", "_collectedHeap").and_then(|at| found.memory.pointer(at));
    let heap = heap.ok_or("it was not found")?;
    let reserved = reserved(found, heap).ok_or("its addresses were not found")?;
    let spaces = match collector {
        "G1" => g1(found, heap, &reserved),
        "Parallel" => parallel(found),
        _ => serial(found, heap),
    };
    let mut spaces = spaces.ok_or_else(|| format!("the spaces of {collector} were not found"))?;
    let is_in = |space: &Space| {
        let Space { range, top, .. } = space;
        reserved.start <= range.start && range.start <= *top && *top <= range.end && range.end <= reserved.end
    };
    if !spaces.iter().all(is_in) {
        return Err(format!("a space of {collector} is not in it"));
    }
    spaces.sort_by_key(|space| space.range.start);
    if spaces
        .windows(2)
        .any(|pair| pair.first().map(|one| one.range.end) > pair.get(1).map(|one| one.range.start))
    {
        return Err(format!("spaces of {collector} overlap"));
    }
    for name in NAMES.into_iter().filter(|name| spaces.iter().any(|space| space.name == *name)) {
        found.pool(name, MemoryKind::ManagedHeap);
    }
    let mut at = reserved.start;
    let mut free = Vec::new();
    for space in spaces {
        free.push(at..space.range.start);
        at = space.range.end;
        let pool = found.pool(space.name, MemoryKind::ManagedHeap);
        found.space(pool, space.range, space.top);
    }
    free.push(at..reserved.end);
    let pool = found.pool("not given to a space", MemoryKind::ManagedFree);
    for range in free {
        let committed = found.memory.writable(&range);
        if let Some(pool) = found.heap.memory.pools.get_mut(pool) {
            pool.committed = pool.committed.saturating_add(committed);
        }
        found.heap.areas.push(RuntimeArea { range, pool, used: 0 });
    }
    Ok(collector)
}

/// Memory of which the first part, up to `top`, has objects.
struct Space {
    name: &'static str,
    range: Range<u64>,
    top: u64,
}

/// All addresses of the heap.
fn reserved(found: &Found<'_>, heap: u64) -> Option<Range<u64>> {
    let at = heap.checked_add(found.tables.field("CollectedHeap", "_reserved")?)?;
    let start = found.word(at, "MemRegion", "_start")?;
    let bytes = found.word(at, "MemRegion", "_word_size")?.checked_mul(8)?;
    let end = start.checked_add(bytes)?;
    (start > 0 && start < end && end < 1 << 47).then_some(start..end)
}

/// A space of this type.
fn space(found: &Found<'_>, name: &'static str, at: u64, types: [&str; 2]) -> Option<Space> {
    let [ends, top] = types;
    Some(Space {
        name,
        range: found.word(at, ends, "_bottom")?..found.word(at, ends, "_end")?,
        top: found.word(at, top, "_top")?,
    })
}

/// Survivors are in one of two spaces, which take turns.
const YOUNG: [(&str, &str); 3] =
    [("eden", "_eden_space"), ("survivors", "_from_space"), ("survivors", "_to_space")];

fn parallel(found: &Found<'_>) -> Option<Vec<Space>> {
    let generation = |name| found.memory.pointer(found.tables.variable("ParallelScavengeHeap", name)?);
    let (young, old) = (generation("_young_gen")?, generation("_old_gen")?);
    let types = ["MutableSpace"; 2];
    let old = space(found, "old", found.word(old, "PSOldGen", "_object_space")?, types)?;
    let young = YOUNG
        .into_iter()
        .map(|(name, field)| space(found, name, found.word(young, "PSYoungGen", field)?, types));
    young.chain([Some(old)]).collect()
}

fn serial(found: &Found<'_>, heap: u64) -> Option<Vec<Space>> {
    let generation = |name: &str| {
        let field = found.field(&["GenCollectedHeap", "SerialHeap"], name)?;
        found.memory.pointer(heap.checked_add(field)?)
    };
    let (young, old) = (generation("_young_gen")?, generation("_old_gen")?);
    let types = ["Space", "ContiguousSpace"];
    // Since 22 there is one type.
    let types = if found.tables.field("Space", "_bottom").is_some() { types } else { ["ContiguousSpace"; 2] };
    let old = space(found, "old", found.word(old, "TenuredGeneration", "_the_space")?, types)?;
    let young = YOUNG
        .into_iter()
        .map(|(name, field)| space(found, name, found.word(young, "DefNewGeneration", field)?, types));
    young.chain([Some(old)]).collect()
}

fn g1(found: &Found<'_>, heap: u64, reserved: &Range<u64>) -> Option<Vec<Space>> {
    let manager = heap.checked_add(found.field(&["G1CollectedHeap"], "_hrm")?)?;
    let table = manager.checked_add(found.field(&MANAGER, "_regions")?)?;
    let list = found.word(table, "G1HeapRegionTable", "_base")?;
    let length = found.word(table, "G1HeapRegionTable", "_length")?;
    let grain = REGION.iter().find_map(|owner| found.tables.variable(owner, "GrainBytes"))?;
    let grain = found.memory.u64(grain)?;
    let [bottom, top, end, tag] = ["_bottom", "_top", "_end", "_type"].map(|name| found.field(&REGION, name));
    let (bottom, top, end) = (bottom?, top?, end?);
    let tag = tag?.checked_add(found.field(&REGION_TYPE, "_tag")?)?;
    if length > REGIONS || length.checked_mul(grain)? > reserved.end - reserved.start {
        return None;
    }
    let mut spaces = Vec::new();
    for number in 0..length {
        // One that was never used has no description.
        let Some(region) = found.memory.pointer(list.checked_add(number * 8)?) else { continue };
        let word = |field: u64| found.memory.u64(region.checked_add(field)?);
        let range = word(bottom)?..word(end)?;
        let expected = reserved.start.checked_add(number * grain)?;
        if range.start != expected || range.end != expected.checked_add(grain)? {
            return None;
        }
        let name = match found.memory.u32(region.checked_add(tag)?)? {
            0 => continue,
            2 => "eden",
            3 => "survivors",
            tag if tag & 4 != 0 => "humongous",
            _ => "old",
        };
        spaces.push(Space { name, range, top: word(top)? });
    }
    Some(spaces)
}
