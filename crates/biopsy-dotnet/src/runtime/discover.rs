//! What a descriptor leaves out and looking finds: the place of code compiled ahead in a module (9.0).

use super::Memory;
use crate::layout::Layout;

/// Bytes of `Module` that are searched, and of `ReadyToRunInfo`.
const MODULE: u64 = 2048;
const INFO: u64 = 1024;
/// "RTR\0" in front of every ReadyToRun header.
const SIGNATURE: u32 = 0x0052_5452;
/// Buckets that are looked at, and how many of their keys must be addresses in the image.
const BUCKETS: u64 = 40;
const KEYS: usize = 6;
/// Pages of it that an excerpt may lack before the next one.
const MISSING_PAGES: u32 = 512;
/// How far from its table of functions the code of an image may be.
const NEAR: u64 = 1 << 28;

/// Finds `Module.ReadyToRunInfo` and `ReadyToRunInfo.EntryPointToMethodDescMap` by looking at `module`, which has code compiled
/// ahead in every framework that is not trimmed to IL.
pub(super) fn ready_to_run(memory: &Memory<'_>, layout: &mut Layout, module: u64) -> Option<()> {
    let header = u64::from(layout.find_field("ReadyToRunInfo", "ReadyToRunHeader")?);
    let functions = u64::from(layout.find_field("ReadyToRunInfo", "RuntimeFunctions")?);
    let buckets = u64::from(layout.find_field("HashMap", "Buckets")?);
    let is_info = |info: u64| {
        let first = memory.u64(info).ok();
        let header = memory.u64(info.wrapping_add(header)).ok();
        first == Some(module) && header.and_then(|at| memory.u32(at).ok()) == Some(SIGNATURE)
    };
    let known = layout.find_field("Module", "ReadyToRunInfo").map(u64::from);
    let place = known.into_iter().chain((0..MODULE).step_by(8)).find(|&offset| {
        memory
            .u64(module.wrapping_add(offset))
            .is_ok_and(|info| info & 7 == 0 && info > 0x1000 && is_info(info))
    })?;
    layout.set_field("Module", "ReadyToRunInfo", u32::try_from(place).ok()?);
    let info = memory.u64(module.wrapping_add(place)).ok()?;
    let image = memory.u64(info.wrapping_add(functions)).ok()?;
    let known = layout.find_field("ReadyToRunInfo", "EntryPointToMethodDescMap").map(u64::from);
    let map = known
        .into_iter()
        .chain((0..INFO).step_by(8))
        .find(|&offset| is_map(memory, info.wrapping_add(offset).wrapping_add(buckets), image))?;
    layout.set_field("ReadyToRunInfo", "EntryPointToMethodDescMap", u32::try_from(map).ok()?);
    Some(())
}

/// Whether `place` points at buckets whose keys are addresses in the image.
fn is_map(memory: &Memory<'_>, place: u64, image: u64) -> bool {
    let Ok(buckets) = memory.u64(place) else { return false };
    let Ok(count) = memory.u64(buckets) else { return false };
    if !(3..1 << 20).contains(&count) {
        return false;
    }
    let (mut near, mut seen, mut missing, mut bucket) = (0, 0, 0, 1);
    while bucket < count && seen < BUCKETS && missing < MISSING_PAGES {
        let at = buckets.wrapping_add(bucket * 64);
        let Ok(keys) = memory.words::<4>(at) else {
            // Dumps may have an excerpt of it.
            missing += 1;
            bucket += (4096 - at % 4096).div_ceil(64);
            continue;
        };
        bucket += 1;
        seen += 1;
        for key in keys.into_iter().filter(|&key| key > 1) {
            if key.abs_diff(image) >= NEAR {
                return false;
            }
            near += 1;
        }
    }
    near >= KEYS
}
