//! The table of sync blocks: monitors that somebody has waited for.

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::lock::{Lock, LockKind, Locks, by_managed_id, type_name};
use crate::runtime::{ManagedThread, Runtime, RuntimeError};

/// Entries at most: the index of a sync block has 26 bits.
const ENTRIES: u32 = 1 << 26;
/// The table is not cleared behind its used part. Where the runtime does not say how long that is, so many entries in a row
/// that do not fit end it.
const UNUSED: u32 = 256;
/// Bits of the header of an object, and of a sync block, that hold the index.
const INDEX: u32 = 0x03ff_ffff;
/// The header holds an index, and no hash code (bits 27 and 26 of `syncblk.h`).
const IS_INDEX: u32 = 0x0800_0000;

/// Adds all sync blocks that are in use; returns which lock each one is, by address.
pub(super) fn read(
    runtime: &Runtime<'_>,
    threads: &[ManagedThread],
    locks: &mut Locks,
) -> Result<FxHashMap<Avma, usize>, RuntimeError> {
    let (layout, memory) = (runtime.layout(), runtime.memory());
    let table = memory.u64(layout.global("SyncTableEntries")?)?;
    let block_field = layout.field("SyncTableEntry", "SyncBlock")?;
    let object_field = layout.find_field("SyncTableEntry", "Object").unwrap_or(block_field + 8);
    let size = layout.find_size("SyncTableEntry").unwrap_or(16);
    let used = used(runtime);
    let mut found = FxHashMap::default();
    let mut unfit = 0;
    for index in 1..used.unwrap_or(ENTRIES) {
        let entry = table.wrapping_add(u64::from(index) * u64::from(size));
        let read = |field: u32| memory.u64(entry.wrapping_add(field.into()));
        let (Ok(block), Ok(object)) = (read(block_field), read(object_field)) else { break };
        // Bit 0 of the object marks a free entry.
        if object & 1 == 0 && object != 0 && block != 0 && fits(runtime, index, block, object) {
            unfit = 0;
            locks.sync_blocks += 1;
            if let Some(lock) = lock(runtime, threads, block, object) {
                found.insert(Avma(block), locks.locks.len());
                locks.locks.push(lock);
            }
            continue;
        }
        unfit += 1;
        if used.is_none() && unfit > UNUSED {
            break;
        }
    }
    Ok(found)
}

/// First index that was never used, where the runtime says.
fn used(runtime: &Runtime<'_>) -> Option<u32> {
    let (layout, memory) = (runtime.layout(), runtime.memory());
    let cache = memory.u64(layout.find_global("SyncBlockCache")?).ok()?;
    let field = layout.find_field("SyncBlockCache", "FreeSyncTableIndex")?;
    memory.u32(cache.checked_add(field.into())?).ok().filter(|used| (1..=ENTRIES).contains(used))
}

/// The sync block and the header of the object name the index that they are found at.
fn fits(runtime: &Runtime<'_>, index: u32, block: u64, object: u64) -> bool {
    let memory = runtime.memory();
    let field = runtime.layout().find_field("SyncBlock", "Index").unwrap_or(28);
    memory.u32(block.wrapping_add(field.into())).is_ok_and(|word| word & INDEX == index)
        && memory.u32(object.wrapping_sub(4)).is_ok_and(|header| header & 0x0fff_ffff == IS_INDEX | index)
}

fn lock(runtime: &Runtime<'_>, threads: &[ManagedThread], block: u64, object: u64) -> Option<Lock> {
    let (layout, memory) = (runtime.layout(), runtime.memory());
    let at = |field: &str, otherwise: u32| {
        block.wrapping_add(layout.find_field("SyncBlock", field).unwrap_or(otherwise).into())
    };
    // Bit 0: held; from bit 6 on: how many wait (`AwareLock::LockState` of `syncblk.h`).
    let state = memory.u32(at("LockState", 0)).ok()?;
    let held = state & 1 == 1;
    let owner = held.then(|| owner(runtime, threads, block));
    Some(Lock {
        object: Avma(object),
        type_name: if held || state >> 6 > 0 { type_name(runtime, Avma(object)) } else { String::new() },
        kind: LockKind::Monitor,
        owner,
        readers: Vec::new(),
        recursion: memory
            .u32(at("Recursion", 4))
            .ok()
            .filter(|_| held)
            .map_or(0, |count| count.saturating_sub(1)),
        waiters: state >> 6,
        sync_block: Avma(block),
    })
}

/// By the kernel's id, which all versions keep; else by the thread or the managed id, whichever the version keeps. 0: not a
/// thread that runs.
fn owner(runtime: &Runtime<'_>, threads: &[ManagedThread], block: u64) -> u32 {
    let (layout, memory) = (runtime.layout(), runtime.memory());
    let at = |field: &str, otherwise: u32| {
        block.wrapping_add(layout.find_field("SyncBlock", field).unwrap_or(otherwise).into())
    };
    let os_id = memory.u32(at("HoldingOSThreadId", 16)).unwrap_or(0);
    if let Some(thread) = threads.iter().find(|thread| thread.own_os_id == os_id && os_id != 0) {
        return thread.os_id;
    }
    let holder = memory.u64(at("HoldingThread", 8)).unwrap_or(0);
    let by_address = threads.iter().find(|thread| thread.address == Avma(holder)).map(|thread| thread.os_id);
    let by_id = || u32::try_from(holder).ok().filter(|id| *id != 0).and_then(|id| by_managed_id(threads, id));
    by_address.or_else(by_id).unwrap_or(0)
}
