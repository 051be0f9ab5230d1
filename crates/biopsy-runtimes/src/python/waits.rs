//! What a thread of Python waits for: its registers say at which futex or in which system call, the interpreter's data what that is.

use super::layout::{LockPlace, same};
use super::locks;
use super::owners::Held;
use super::reading::Reading;
use super::registers;
use super::threads::PythonThread;
use crate::{Confidence, Holder, Owner, StrandId, StrandState, StrandWait, WaitKind};
use biopsy_model::Avma;

/// The lock of the interpreter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Gil {
    pub(super) address: u64,
    pub(super) locked: bool,
    /// State of the thread that has it, or had it last.
    pub(super) holder: u64,
}

/// The lock of an interpreter; `None` when what is there is none.
pub(super) fn gil(
    reading: &Reading<'_, '_, '_>,
    runtime: u64,
    interpreter: u64,
    threads: &[PythonThread],
) -> Option<Gil> {
    let objects = &reading.objects;
    let address = match objects.layout.lock {
        LockPlace::InRuntime(offset) => runtime.checked_add(offset)?,
        LockPlace::Pointer(offset) => objects.pointer(interpreter, offset)?,
    };
    let holder = objects.word(address, same::GIL_HOLDER)?;
    let locked = objects.i32(address, same::GIL_LOCKED)?;
    let is_thread = threads.iter().any(|thread| thread.at == holder);
    // -1: made and never taken.
    match locked {
        1 if is_thread => Some(Gil { address, locked: true, holder }),
        0 | -1 => Some(Gil { address, locked: false, holder }),
        _ => None,
    }
}

/// What it does and waits for.
pub(super) fn state(
    reading: &Reading<'_, '_, '_>,
    threads: &[PythonThread],
    held: &Held,
    gil: Option<&Gil>,
    number: usize,
) -> (StrandState, Option<StrandWait>) {
    let Some(thread) = threads.get(number) else { return (StrandState::NotKnown, None) };
    let has_gil = gil.is_some_and(|gil| gil.locked && gil.holder == thread.at);
    let Some(registers) = &thread.registers else { return (StrandState::NotKnown, None) };
    let memory = reading.objects.memory;
    let Some(call) = registers::system_call(memory, registers) else {
        let state = if has_gil || gil.is_none() { StrandState::Running } else { StrandState::Native };
        return (state, None);
    };
    let Some(futex) = registers::futex(memory, registers) else {
        return match registers::wait(call, registers) {
            Some(wait) => (StrandState::Waiting, Some(wait)),
            None => (StrandState::Native, None),
        };
    };
    if let Some(gil) = gil.filter(|gil| is_in(gil, futex.address)) {
        let mut wait = StrandWait::of(WaitKind::InterpreterLock, "GIL");
        wait.address = Some(Avma(gil.address));
        if gil.locked {
            wait.owners.push(Owner {
                holder: Holder::Strand(StrandId(gil.holder)),
                confidence: Confidence::Certain,
                frame: Some(0),
                proof: "the interpreter's lock says who has it".to_owned(),
            });
        }
        return (StrandState::Waiting, Some(wait));
    }
    let stack = locks::words(&reading.objects, registers.rsp);
    let innermost = thread.frames.first();
    let is_in_threading = |names: &[&str]| innermost.is_some_and(|frame| frame.is_of_threading(names));
    let Some(lock) = locks::waited_for(&reading.objects, &stack, registers.rsp, futex.address) else {
        // 3.13 waits for the end of a thread by its handle.
        let join = innermost.filter(|frame| frame.is_of_threading(&["join"]));
        let owner = join.and_then(|join| held.by_handle(reading, threads, join));
        let Some(owner) = owner else { return (StrandState::Native, None) };
        let mut wait = StrandWait::of(WaitKind::Join, "threading.Thread.join");
        wait.ends_by_itself = futex.has_timeout;
        wait.owners.push(owner);
        return (StrandState::Waiting, Some(wait));
    };
    let (kind, reason) = if is_in_threading(&["wait", "wait_for"]) {
        (WaitKind::Condition, "threading.Condition.wait")
    } else if is_in_threading(&["_wait_for_tstate_lock", "_shutdown"]) {
        (WaitKind::Join, "threading.Thread.join")
    } else {
        (WaitKind::Mutex, if lock.reentrant { "threading.RLock.acquire" } else { "threading.Lock.acquire" })
    };
    let mut wait = StrandWait::of(kind, reason);
    wait.address = Some(Avma(lock.object));
    wait.object = Some(if lock.reentrant { "threading.RLock" } else { "threading.Lock" }.to_owned());
    wait.ends_by_itself = futex.has_timeout;
    match kind {
        WaitKind::Join => wait.owners.extend(held.ends_with(reading, threads, &lock)),
        WaitKind::Mutex => wait.owners = held.owners(reading, threads, &lock, number),
        // Its lock is its own: whoever notifies it is not recorded.
        _ => wait.object = Some("threading.Condition".to_owned()),
    }
    (StrandState::Waiting, Some(wait))
}

fn is_in(gil: &Gil, futex: u64) -> bool {
    (gil.address..gil.address.saturating_add(same::GIL_SIZE)).contains(&futex)
}
