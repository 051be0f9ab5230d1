//! Which thread carries the injected call.

use biopsy_image::{GeneralRegisters, Mapping};
use biopsy_model::Tid;
use biopsy_sys::ptrace::registers;

use super::frame;
use super::namespaces;
use super::restart::{Doing, doing};
use super::seccomp::{self, Allowed};
use super::stack::{self, Room};
use super::stop::{Halt, StoppedThread};
use crate::address_space::ProcessMemory;

/// The code segment of 64-bit user mode (`__USER_CS`).
const CODE_64: u64 = 0x33;

/// The thread that was chosen, by its place in the list, and where its frames go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) index: usize,
    pub(super) room: Room,
    pub(super) allowed: Allowed,
}

/// Chooses the best one, or says why none will do.
///
/// `syscall` is where the instruction is that makes the call. A thread that sits in a call which the kernel restarts is best: it is in no restartable sequence, and whatever happens to
/// us, it misses nothing. Timed calls come last: should we be killed, their time begins anew.
pub(super) fn choose(
    threads: &[StoppedThread],
    mappings: &[Mapping],
    memory: &ProcessMemory,
    syscall: u64,
) -> Result<Chosen, String> {
    let mut order: Vec<(Doing, usize)> = threads
        .iter()
        .enumerate()
        .filter(|(_, thread)| thread.halt.is_still())
        .filter_map(|(index, thread)| Some((doing(thread.registers.as_ref()?), index)))
        .collect();
    order.sort_unstable();
    let mut why = "none stands still".to_owned();
    for (_, index) in order {
        let Some(thread) = threads.get(index) else { continue };
        let fits = namespaces::may_have_children(memory.tid(), thread.tid)
            .and_then(|()| suits(thread, mappings, memory, syscall));
        match fits {
            Ok((room, allowed)) => return Ok(Chosen { index, room, allowed }),
            Err(reason) => why = format!("thread {}: {reason}", thread.tid),
        }
    }
    Err(why)
}

/// Whether this thread can do it, and where its frames go.
pub(super) fn suits(
    thread: &StoppedThread,
    mappings: &[Mapping],
    memory: &ProcessMemory,
    syscall: u64,
) -> Result<(Room, Allowed), &'static str> {
    let registers = thread.registers.as_ref().ok_or("its registers are not known")?;
    if matches!(thread.halt, Halt::Running | Halt::Waiting | Halt::Ended) {
        return Err("it does not stand still");
    }
    if registers.cs != CODE_64 {
        return Err("it runs in 32-bit mode");
    }
    if thread.extended.is_empty() {
        return Err("its vector registers are not known");
    }
    if registers::has_shadow_stack(thread.tid).unwrap_or(true) {
        return Err("it has a shadow stack");
    }
    if registers::has_call_dispatch(thread.tid).unwrap_or(true) {
        return Err("its system calls are dispatched in user mode");
    }
    if doing(registers) == Doing::UserMode && in_restartable_sequence(thread.tid, registers, memory) {
        return Err("it is in a restartable sequence");
    }
    let needed = frame::space(&thread.extended) + 64;
    let room = stack::find(mappings, memory, registers.rsp, registers.fs_base, needed)?;
    let allowed = seccomp::may_carry(thread.tid, syscall, room.top)?;
    Ok((room, allowed))
}

/// Whether the thread is between the two ends of a restartable sequence (rseq(2)). Sending it elsewhere would make the kernel
/// forget that, and the sequence would not be restarted. True where that cannot be told.
fn in_restartable_sequence(tid: Tid, registers: &GeneralRegisters, memory: &ProcessMemory) -> bool {
    /// Where `struct rseq` has the pointer to the sequence that runs.
    const SEQUENCE: u64 = 8;
    let Ok(rseq) = registers::rseq(tid) else { return true };
    if rseq.area == 0 {
        return false;
    }
    let word = |address: u64| {
        let mut bytes = [0; 8];
        matches!(memory.read(address, &mut bytes), Ok(8)).then(|| u64::from_le_bytes(bytes))
    };
    let Some(sequence) = rseq.area.checked_add(SEQUENCE).and_then(word) else { return true };
    if sequence == 0 {
        return false;
    }
    // `struct rseq_cs`: version, flags, start, length, abort handler.
    let start = sequence.checked_add(8).and_then(word);
    let length = sequence.checked_add(16).and_then(word);
    match (start, length) {
        (Some(start), Some(length)) => registers.rip.wrapping_sub(start) < length,
        _ => true,
    }
}
