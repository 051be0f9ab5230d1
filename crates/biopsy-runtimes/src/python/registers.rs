//! What a thread does in the kernel, by its registers.

use biopsy_image::GeneralRegisters;

use crate::memory::Memory;
use crate::{StrandWait, WaitKind};

const FUTEX: u64 = 202;
/// FUTEX_WAIT and FUTEX_WAIT_BITSET, without the bits for private ones and for the clock.
const FUTEX_WAITS: [u64; 2] = [0, 9];
const FUTEX_COMMAND: u64 = 0x7f;

/// A wait at a futex.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Futex {
    pub(super) address: u64,
    pub(super) has_timeout: bool,
}

/// Number of the system call that the thread is in.
pub(super) fn system_call(memory: &Memory<'_>, registers: &GeneralRegisters) -> Option<u64> {
    let number = registers.system_call()?;
    // Dumps seldom hold the text of files; it is read from the same file.
    let before = memory.array::<2>(registers.rip.checked_sub(2)?)?;
    (before == [0x0f, 0x05]).then_some(number)
}

/// The futex that the thread waits at.
pub(super) fn futex(memory: &Memory<'_>, registers: &GeneralRegisters) -> Option<Futex> {
    let waits =
        system_call(memory, registers)? == FUTEX && FUTEX_WAITS.contains(&(registers.rsi & FUTEX_COMMAND));
    waits.then_some(Futex { address: registers.rdi, has_timeout: registers.r10 != 0 })
}

/// What a thread waits for that is in another system call.
pub(super) fn wait(number: u64, registers: &GeneralRegisters) -> Option<StrandWait> {
    let (kind, name, first_is_descriptor) = match number {
        0 => (WaitKind::Io, "read", true),
        1 => (WaitKind::Io, "write", true),
        7 => (WaitKind::Io, "poll", false),
        23 | 270 => (WaitKind::Io, "select", false),
        35 | 230 => (WaitKind::Timer, "sleep", false),
        42 => (WaitKind::Io, "connect", true),
        43 | 288 => (WaitKind::Io, "accept", true),
        44 => (WaitKind::Io, "sendto", true),
        45 => (WaitKind::Io, "recvfrom", true),
        46 => (WaitKind::Io, "sendmsg", true),
        47 => (WaitKind::Io, "recvmsg", true),
        61 | 247 => (WaitKind::Other, "a child process", false),
        73 => (WaitKind::Io, "flock", true),
        232 | 281 => (WaitKind::Io, "epoll_wait", true),
        271 => (WaitKind::Io, "ppoll", false),
        _ => return None,
    };
    let mut wait = StrandWait::of(kind, name);
    // `select` without descriptors is how 3.8 to 3.10 sleep.
    if matches!(number, 23 | 270) && registers.rdi == 0 {
        wait = StrandWait::of(WaitKind::Timer, "sleep");
    }
    wait.descriptor = u32::try_from(registers.rdi).ok().filter(|_| first_is_descriptor);
    Some(wait)
}
