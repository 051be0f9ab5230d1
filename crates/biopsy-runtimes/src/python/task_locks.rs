//! Locks of asyncio: which one a task waits for, and which task has it.
//!
//! An `asyncio.Lock` keeps who waits for it and not who has it: that is the task which stands inside of its `async with` block.
//!
//! ```text
//! task ─► coroutine ─► ... ─► `Lock.acquire` of asyncio/locks.py: its `self`
//! ```

use rustc_hash::FxHashMap;

use super::frames::PythonFrame;
use super::objects::Objects;
use crate::{Confidence, Holder, Owner, Strand, WaitKind};
use biopsy_model::Avma;

/// The type, and the function that waits.
const LOCK: &str = "Lock";
const FILE: &str = "/asyncio/locks.py";
const ACQUIRE: &str = "acquire";

/// Fills in what tasks wait for that wait for a lock, and its owners.
pub(super) fn name(objects: &Objects<'_, '_>, tasks: &mut [(Strand, Vec<PythonFrame>)]) {
    let wanted: Vec<Option<u64>> = tasks.iter().map(|(_, frames)| waited_for(objects, frames)).collect();
    if wanted.iter().all(Option::is_none) {
        return;
    }
    let mut holders: FxHashMap<u64, Vec<Owner>> = FxHashMap::default();
    for (strand, frames) in tasks.iter() {
        for (position, frame) in frames.iter().enumerate() {
            for lock in frame.held(objects).into_iter().filter(|one| objects.is(*one, LOCK)) {
                holders.entry(lock).or_default().push(Owner {
                    holder: Holder::Strand(strand.id),
                    confidence: Confidence::AlmostCertain,
                    frame: Some(position),
                    proof:
                        "it is inside of an `async with` block of this lock, by the interpreter's own table"
                            .to_owned(),
                });
            }
        }
    }
    for ((strand, _), lock) in tasks.iter_mut().zip(wanted) {
        let (Some(wait), Some(lock)) = (&mut strand.wait, lock) else { continue };
        (wait.kind, wait.address) = (WaitKind::Mutex, Some(Avma(lock)));
        wait.reason = "asyncio.Lock.acquire".to_owned();
        wait.object = Some("asyncio.Lock".to_owned());
        // One has it; where two stand in such blocks, one of them is read wrongly.
        wait.owners = holders.get(&lock).filter(|owners| owners.len() == 1).cloned().unwrap_or_default();
    }
}

fn waited_for(objects: &Objects<'_, '_>, frames: &[PythonFrame]) -> Option<u64> {
    let innermost = frames.first()?;
    let name = innermost.code.name.rsplit('.').next().unwrap_or_default();
    let waits = innermost.code.file.ends_with(FILE) && name == ACQUIRE;
    let lock = *waits.then(|| innermost.variables(objects)).as_ref()?.first()?;
    objects.is(lock, LOCK).then_some(lock)
}
