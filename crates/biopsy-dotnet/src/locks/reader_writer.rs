//! `System.Threading.ReaderWriterLockSlim`: its writer is in its fields, its readers are counted in a list of each thread's own.
//!
//! ```text
//! ReaderWriterLockSlim: _owners  bit 31 a writer has it, bits 0 to 27 readers (one who may upgrade counts as one)
//!                       _writeLockOwnerId, _upgradeLockOwnerId  managed ids, -1: nobody
//!                       _lockID
//! [ThreadStatic] ReaderWriterCount: lockID, readercount, writercount, upgradecount, next
//! ```

use biopsy_image::MemoryExt;
use biopsy_model::Avma;

use super::lock::{Lock, LockKind, by_managed_id};
use crate::runtime::{FieldPlace, ManagedThread, Runtime, TypeHandle};

/// Its full name, and that of what counts its readers.
const TYPE: &str = "System.Threading.ReaderWriterLockSlim";
const COUNT: &str = "System.Threading.ReaderWriterCount";
/// A writer has it.
const WRITER: u32 = 1 << 31;
/// Readers.
const READERS: u32 = (1 << 28) - 1;
/// Thread statics of one thread, and locks that one thread has met.
const STATICS: u64 = 1 << 14;
const ALL_STATICS: usize = 1 << 16;
const COUNTS: usize = 1 << 12;

/// A lock at this address that somebody has, if one is.
pub(super) fn read(runtime: &Runtime<'_>, threads: &[ManagedThread], object: Avma) -> Option<Lock> {
    let Avma(address) = object;
    if address < 0x1_0000 || !address.is_multiple_of(8) || address >> 47 != 0 {
        return None;
    }
    let info = runtime.type_of_object(object).ok().filter(|info| &*info.name == TYPE)?;
    let at = |name| field(runtime, info.method_table, object, name);
    let number = |name| runtime.memory().u32(at(name)?).ok();
    let owners = number("_owners")?;
    let id = runtime.memory().u64(at("_lockID")?).ok()?;
    let writer = number("_writeLockOwnerId").filter(|id| owners & WRITER != 0 && *id != u32::MAX);
    let mut readers = Vec::new();
    if owners & WRITER == 0 && owners & READERS != 0 {
        let alive = || threads.iter().filter(|thread| thread.os_id != 0 && !thread.dead);
        readers.extend(alive().filter(|thread| reads(runtime, thread, id)).map(|thread| thread.os_id));
        let upgrader = number("_upgradeLockOwnerId").filter(|id| *id != u32::MAX);
        readers.extend(upgrader.and_then(|id| by_managed_id(threads, id)));
        readers.sort_unstable();
        readers.dedup();
    }
    Some(Lock {
        object,
        type_name: TYPE.to_owned(),
        kind: LockKind::ReaderWriter,
        owner: writer.map(|id| by_managed_id(threads, id).unwrap_or(0)),
        readers,
        recursion: 0,
        waiters: 0,
        sync_block: Avma(0),
    })
}

fn field(runtime: &Runtime<'_>, method_table: TypeHandle, object: Avma, name: &str) -> Option<u64> {
    let FieldPlace::Instance(offset) = runtime.find_field(method_table, name).ok()??.place else {
        return None;
    };
    object.0.checked_add(8 + u64::from(offset))
}

/// The thread has the lock to read: one of its thread statics counts that. Where these are is known of .NET 9 and later.
fn reads(runtime: &Runtime<'_>, thread: &ManagedThread, id: u64) -> bool {
    statics(runtime, thread).unwrap_or_default().into_iter().any(|object| {
        let Ok(info) = runtime.type_of_object(object) else { return false };
        if &*info.name != COUNT {
            return false;
        }
        let mut next = Some(object);
        for _ in 0..COUNTS {
            let Some(count) = next else { break };
            let at = |name| field(runtime, info.method_table, count, name);
            let memory = runtime.memory();
            let of = at("lockID").and_then(|at| memory.u64(at).ok());
            let held = at("readercount").and_then(|at| memory.u32(at).ok());
            if of == Some(id) && held.is_some_and(|held| held > 0) {
                return true;
            }
            next = at("next").and_then(|at| memory.u64(at).ok()).filter(|next| *next != 0).map(Avma);
        }
        false
    })
}

/// What thread statics of a thread refer to: the array of the thread has an array for each type that has some.
fn statics(runtime: &Runtime<'_>, thread: &ManagedThread) -> Option<Vec<Avma>> {
    let mut found = array_of_thread(runtime, thread)?;
    let is_array =
        |object: &Avma| runtime.type_of_object(*object).is_ok_and(|info| &*info.name == "System.Object[]");
    let inner: Vec<Avma> = found.iter().copied().filter(is_array).collect();
    for array in inner {
        found.extend(elements(runtime, array.0).unwrap_or_default());
        if found.len() >= ALL_STATICS {
            break;
        }
    }
    Some(found)
}

fn array_of_thread(runtime: &Runtime<'_>, thread: &ManagedThread) -> Option<Vec<Avma>> {
    let layout = runtime.layout();
    let pointer = u64::from(layout.find_field("Thread", "ThreadLocalDataPtr")?);
    let array = u64::from(layout.find_field("ThreadLocalData", "NonCollectibleTlsArrayData")?);
    let memory = runtime.memory();
    let data = memory.u64(thread.address.0.checked_add(pointer)?).ok().filter(|data| *data != 0)?;
    elements(runtime, memory.u64(data.checked_add(array)?).ok().filter(|array| *array != 0)?)
}

/// The objects in an array of objects.
fn elements(runtime: &Runtime<'_>, array: u64) -> Option<Vec<Avma>> {
    let memory = runtime.memory();
    // Method table, length, elements.
    let count = u64::from(memory.u32(array.checked_add(8)?).ok()?).min(STATICS);
    let bytes = memory.image().read_up_to(array.checked_add(16)?, usize::try_from(count * 8).ok()?).ok()?;
    let words = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
    Some(words.filter(|word| *word > 0x1_0000 && word % 8 == 0).map(Avma).collect())
}
