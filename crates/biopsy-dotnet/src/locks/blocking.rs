//! What a thread waits for: the note that the runtime keeps for debuggers while a thread enters a monitor or waits for a pulse.
//!
//! ```text
//! Thread + DebugBlockingItem ─► { SyncBlock*, AppDomain*, u32 kind (0 enter, 1 wait), u32 timeout, next }   on its own stack
//! ```
//!
//! No descriptor says where the pointer is. It is looked for in the structure of each thread by what it must lead to; one
//! offset has to hold for all of them.

use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::lock::{Locks, Wait, WaitKind, type_name};
use crate::runtime::{ManagedThread, Runtime};

/// Bytes of the runtime's `Thread` that are looked through.
const THREAD: u64 = 0xc00;
/// An endless wait.
const INFINITE: u32 = u32::MAX;

struct Note {
    block: Avma,
    kind: WaitKind,
    timeout: u32,
}

pub(super) fn find(
    runtime: &Runtime<'_>,
    threads: &[ManagedThread],
    blocks: &FxHashMap<Avma, usize>,
    locks: &mut Locks,
) {
    let alive = || threads.iter().filter(|thread| thread.os_id != 0 && !thread.dead);
    let Some(offset) = offset(runtime, alive(), blocks) else { return };
    for thread in alive() {
        let Some(note) = note(runtime, thread.address.0.wrapping_add(offset), blocks) else { continue };
        let Some(lock) = blocks.get(&note.block).copied() else { continue };
        if let Some(lock) = locks.locks.get_mut(lock).filter(|lock| lock.type_name.is_empty()) {
            lock.type_name = type_name(runtime, lock.object);
        }
        let timeout = (note.timeout != INFINITE).then_some(note.timeout);
        locks.waits.push(Wait { os_id: thread.os_id, lock, kind: note.kind, timeout });
    }
}

/// Where the pointer is: as the layout says, else where most threads have one that leads to a note.
fn offset<'t>(
    runtime: &Runtime<'_>,
    threads: impl Iterator<Item = &'t ManagedThread>,
    blocks: &FxHashMap<Avma, usize>,
) -> Option<u64> {
    if let Some(offset) = runtime.layout().find_field("Thread", "DebugBlockingItem") {
        return Some(offset.into());
    }
    let mut votes: FxHashMap<u64, u32> = FxHashMap::default();
    for thread in threads {
        for offset in (0..THREAD).step_by(8) {
            if note(runtime, thread.address.0.wrapping_add(offset), blocks).is_some() {
                *votes.entry(offset).or_default() += 1;
            }
        }
    }
    votes
        .into_iter()
        .max_by_key(|(offset, votes)| (*votes, std::cmp::Reverse(*offset)))
        .map(|(offset, _)| offset)
}

fn note(runtime: &Runtime<'_>, pointer: u64, blocks: &FxHashMap<Avma, usize>) -> Option<Note> {
    let memory = runtime.memory();
    let note = memory.u64(pointer).ok().filter(|note| *note > 0x1_0000 && note % 8 == 0)?;
    let [block, _domain] = memory.words::<2>(note).ok()?;
    let block = Avma(block);
    if !blocks.contains_key(&block) {
        return None;
    }
    let kind = match memory.u32(note.wrapping_add(16)).ok()? {
        0 => WaitKind::Enter,
        1 => WaitKind::Pulse,
        _ => return None,
    };
    // A thread's place in the queue of a pulse looks alike, and has a pointer in place of kind and timeout.
    let timeout = memory.u32(note.wrapping_add(20)).ok()?;
    let plausible = timeout == INFINITE || timeout < i32::MAX.cast_unsigned();
    plausible.then_some(Note { block, kind, timeout })
}
