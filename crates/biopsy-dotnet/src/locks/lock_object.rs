//! Locks that are objects whose fields say who holds them. Who waits for one is found on stacks. Here: `System.Threading.Lock`.

use biopsy_image::{MemoryExt, mapping};
use biopsy_model::Avma;
use biopsy_stacks::image::{Frame, ImageStacks, ThreadStack};

use super::lock::{Lock, LockKind, Locks, Wait, WaitKind, by_managed_id};
use super::reader_writer;
use crate::runtime::{FieldPlace, ManagedThread, Runtime};

/// A class whose objects are locks, and whose waiters are found on stacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockClass {
    /// `System.Threading.Lock`.
    Lock,
    /// `System.Threading.ReaderWriterLockSlim`; `to_read`: it waits to read.
    ReaderWriter {
        /// And not to write.
        to_read: bool,
    },
}

/// The part of a thread's stack that belongs to calls inside of a lock's own class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InsideLock {
    /// Of which class.
    pub class: LockClass,
    /// The thread: kernel's id.
    pub os_id: u32,
    /// Its stack pointer.
    pub from: Avma,
    /// Stack pointer of the frame that called into the lock; the words above it are its own.
    pub to: Avma,
}

/// The part of a stack that belongs to the innermost calls inside of a lock's own class, if there are some.
#[must_use]
pub fn inside_lock(stacks: &ImageStacks, stack: &ThreadStack) -> Option<InsideLock> {
    /// Frames that are looked at: waiting takes some thirty, native ones included.
    const FRAMES: usize = 64;
    let class = |frame: &Frame| {
        let functions = stacks.place(frame.place).map(|place| place.functions.as_slice()).unwrap_or_default();
        functions.iter().find_map(|function| class_of(&function.name))
    };
    let last = stack.frames.iter().take(FRAMES).rposition(|frame| class(frame).is_some())?;
    let caller = stack.frames.get(last + 1)?;
    Some(InsideLock {
        class: class(stack.frames.get(last)?)?,
        os_id: stack.tid.0,
        from: stack.frames.first()?.sp,
        to: caller.sp,
    })
}

fn class_of(function: &str) -> Option<LockClass> {
    let method = |class: &str| function.strip_prefix(class).filter(|method| !method.contains('.'));
    if method("System.Threading.Lock.").is_some() {
        return Some(LockClass::Lock);
    }
    // Upgradeable locks wait for writers and each other, as writers do.
    let method = method("System.Threading.ReaderWriterLockSlim.")?;
    let to_read = method.contains("EnterReadLock");
    (to_read || method.contains("Enter")).then_some(LockClass::ReaderWriter { to_read })
}

/// Its full name.
pub(super) const TYPE: &str = "System.Threading.Lock";
/// Bytes above the last frame that are looked at too: the caller keeps the lock there.
const CALLER: u64 = 256;
/// Bytes of one stack that are looked at.
const BYTES: u64 = 64 << 10;

pub(super) fn find(
    runtime: &Runtime<'_>,
    threads: &[ManagedThread],
    inside: &[InsideLock],
    locks: &mut Locks,
) {
    for part in inside {
        let (found, kind) = match part.class {
            LockClass::Lock => {
                let held_by_other = |object| {
                    let lock = read(runtime, threads, object)?;
                    lock.owner.is_some_and(|owner| owner != part.os_id).then_some(lock)
                };
                (on_stack(runtime, part, held_by_other), WaitKind::Enter)
            }
            LockClass::ReaderWriter { to_read } => {
                let kind = if to_read { WaitKind::Read } else { WaitKind::Enter };
                (on_stack(runtime, part, |object| reader_writer::read(runtime, threads, object)), kind)
            }
        };
        let Some(found) = found else { continue };
        let index = locks.index_of(found.object).unwrap_or_else(|| {
            locks.locks.push(found);
            locks.locks.len() - 1
        });
        if let Some(lock) = locks.locks.get_mut(index) {
            lock.waiters = lock.waiters.saturating_add(1);
        }
        locks.waits.push(Wait { os_id: part.os_id, lock: index, kind, timeout: None });
    }
}

/// The innermost lock on the stack: inner calls have it in a register that their callees saved, or in a slot of their own.
fn on_stack(runtime: &Runtime<'_>, part: &InsideLock, read: impl Fn(Avma) -> Option<Lock>) -> Option<Lock> {
    let image = runtime.memory().image();
    let Avma(from) = part.from;
    let stack = mapping::find(image.mappings(), from)?;
    let end = part.to.0.saturating_add(CALLER).min(stack.end).min(from.saturating_add(BYTES));
    let length = usize::try_from(end.checked_sub(from)?).ok()?;
    let bytes = image.read_up_to(from, length).ok()?;
    let registers = image.threads().iter().find(|thread| thread.tid.0 == part.os_id)?.registers;
    let registers =
        registers.map(|one| vec![one.rbx, one.r12, one.r13, one.r14, one.r15]).unwrap_or_default();
    let words = bytes.as_chunks::<8>().0.iter().map(|eight| u64::from_le_bytes(*eight));
    registers.into_iter().chain(words).find_map(|word| read(Avma(word)))
}

/// The kernel's id (Linux, .NET 9 and 10); other systems keep the managed id. 0: no thread that runs.
fn owner_thread(threads: &[ManagedThread], id: u32) -> u32 {
    if let Some(thread) = threads.iter().find(|thread| thread.own_os_id == id && !thread.dead) {
        return thread.os_id;
    }
    by_managed_id(threads, id).unwrap_or(0)
}

/// A lock at this address, if one is.
pub(super) fn read(runtime: &Runtime<'_>, threads: &[ManagedThread], object: Avma) -> Option<Lock> {
    let Avma(address) = object;
    if address < 0x1_0000 || !address.is_multiple_of(8) || address >> 47 != 0 {
        return None;
    }
    let info = runtime.type_of_object(object).ok()?;
    if &*info.name != TYPE {
        return None;
    }
    let field = |name: &str| {
        let field = runtime.find_field(info.method_table, name).ok()??;
        let FieldPlace::Instance(offset) = field.place else { return None };
        runtime.memory().u32(address.checked_add(8 + u64::from(offset))?).ok()
    };
    let (state, owner) = (field("_state")?, field("_owningThreadId")?);
    // Bit 0: held.
    let held = state & 1 == 1 && owner != 0;
    Some(Lock {
        object,
        type_name: TYPE.to_owned(),
        kind: LockKind::Lock,
        owner: held.then(|| owner_thread(threads, owner)),
        readers: Vec::new(),
        recursion: field("_recursionCount").filter(|_| held).unwrap_or(0),
        waiters: 0,
        sync_block: Avma(0),
    })
}

#[cfg(test)]
mod tests {
    use super::{LockClass, class_of};

    #[test]
    fn the_class_of_a_lock_is_told_by_its_methods() {
        let of = |method| class_of(method);
        assert_eq!(of("System.Threading.Lock.EnterAndGetCurrentThreadId"), Some(LockClass::Lock));
        let reads = LockClass::ReaderWriter { to_read: true };
        let writes = LockClass::ReaderWriter { to_read: false };
        assert_eq!(of("System.Threading.ReaderWriterLockSlim.TryEnterReadLockCore"), Some(reads));
        assert_eq!(of("System.Threading.ReaderWriterLockSlim.EnterWriteLock"), Some(writes));
        assert_eq!(of("System.Threading.ReaderWriterLockSlim.TryEnterUpgradeableReadLockCore"), Some(writes));
        assert_eq!(of("System.Threading.ReaderWriterLockSlim.ExitReadLock"), None);
        assert_eq!(of("System.Threading.Lock.Scope.Dispose"), None);
    }
}
