//! Locks that nobody waits for, found without a walk of the heap: who holds a lock has the object on its stack.
//!
//! Compilers keep what `lock` has to release in a register or a slot of the frame. So the words of each thread's own stack are
//! looked at: one that leads to an object whose header names this very thread is a lock that it holds. Conservative only
//! in theory: an object whose header names a thread is locked by it, whatever led there.

use biopsy_image::{MemoryExt, mapping};
use biopsy_model::Avma;
use rustc_hash::{FxHashMap, FxHashSet};

use super::lock::Locks;
use super::{lock_object, thin};
use crate::runtime::{ManagedThread, Runtime, TypeHandle};

/// Bytes of one stack that are looked through, from its innermost frame on.
const STACK: u64 = 256 << 10;
/// Below the stack pointer a leaf function may keep something (System V ABI).
const RED_ZONE: u64 = 128;
/// No object lies below.
const LOWEST: u64 = 0x1_0000;

pub(super) fn find(runtime: &Runtime<'_>, threads: &[ManagedThread], locks: &mut Locks) {
    let image = runtime.memory().image();
    let mut cut = 0_u32;
    // Which method tables are that of `System.Threading.Lock`: most words lead to no object, many to the same types.
    let mut is_lock: FxHashMap<TypeHandle, bool> = FxHashMap::default();
    for thread in threads.iter().filter(|thread| thread.os_id != 0 && !thread.dead) {
        let of_image = image.threads().iter().find(|one| one.tid.0 == thread.os_id);
        let Some(registers) = of_image.and_then(|one| one.registers) else { continue };
        let Some(stack) = mapping::find(image.mappings(), registers.rsp) else { continue };
        let low = (registers.rsp.saturating_sub(RED_ZONE) & !7).max(stack.start);
        let length = stack.end.saturating_sub(low);
        cut += u32::from(length > STACK);
        let bytes =
            usize::try_from(length.min(STACK)).ok().and_then(|length| image.read_up_to(low, length).ok());
        let bytes = bytes.unwrap_or_default();
        let words = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
        let mut seen = FxHashSet::default();
        for word in registers.to_words().into_iter().chain(words) {
            let possible = word >= LOWEST && word % 8 == 0 && word >> 47 == 0;
            if possible && seen.insert(word) && !(stack.start..stack.end).contains(&word) {
                look_at(runtime, threads, thread, Avma(word), &mut is_lock, locks);
            }
        }
    }
    if cut > 0 {
        locks.problems.push(format!(
            "locks that nobody waits for: of {cut} stacks the innermost {} KiB only",
            STACK >> 10
        ));
    }
}

fn look_at(
    runtime: &Runtime<'_>,
    threads: &[ManagedThread],
    thread: &ManagedThread,
    object: Avma,
    is_lock: &mut FxHashMap<TypeHandle, bool>,
    locks: &mut Locks,
) {
    let Ok(header) = runtime.memory().u32(object.0.wrapping_sub(4)) else { return };
    let held = match thin::owner(header) {
        Some((id, recursion)) if id == thread.id => {
            let Ok(info) = runtime.type_of_object(object) else { return };
            let name = crate::names::display_type(&info.name);
            Some(thin::lock(object, name, thread.os_id, recursion))
        }
        _ => {
            let Ok(method_table) = runtime.method_table_of(object) else { return };
            let known = *is_lock.entry(method_table).or_insert_with(|| {
                runtime.type_of(method_table).is_ok_and(|info| &*info.name == lock_object::TYPE)
            });
            let lock = known.then(|| lock_object::read(runtime, threads, object)).flatten();
            lock.filter(|lock| lock.owner == Some(thread.os_id))
        }
    };
    if let Some(lock) = held.filter(|lock| locks.index_of(lock.object).is_none()) {
        locks.locks.push(lock);
    }
}
