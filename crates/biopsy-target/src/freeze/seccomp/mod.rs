//! What seccomp filters would say to a system call, without making it.
//!
//! A filter may kill the process for a call that it does not expect, so calls are led through a process only after its
//! own filters were run here, on the very numbers and arguments (P3 of the measured pitfalls). Reading filters needs a
//! stopped thread that we trace: it is done in the window, on the thread that is to carry the call.

mod carry;
mod interpreter;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

use biopsy_sys::ptrace::seccomp::{Instruction, filter};

pub(super) use carry::{Allowed, may_carry};
pub use interpreter::MAX_INSTRUCTIONS;

/// Most filters on one thread that are run. The kernel bounds the sum of their lengths to 32,768 instructions.
const MAX_FILTERS: usize = 1024;

/// `AUDIT_ARCH_X86_64` of `linux/audit.h`.
const X86_64: u32 = 0xc000_003e;

/// One system call, as a filter sees it (`struct seccomp_data` of `linux/seccomp.h`). The architecture is x86-64.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Call {
    /// Its number.
    pub number: u32,
    /// Address behind the `syscall` instruction.
    pub instruction_pointer: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
}

impl Call {
    /// Size of the kernel's structure in bytes.
    const SIZE: usize = 64;

    fn bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let (head, arguments) = bytes.split_at_mut(16);
        head[..4].copy_from_slice(&self.number.to_le_bytes());
        head[4..8].copy_from_slice(&X86_64.to_le_bytes());
        head[8..].copy_from_slice(&self.instruction_pointer.to_le_bytes());
        for (eight, argument) in arguments.as_chunks_mut::<8>().0.iter_mut().zip(self.arguments) {
            *eight = argument.to_le_bytes();
        }
        bytes
    }
}

/// What filters answer (seccomp(2)); those that come first win over those that come later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Answer {
    /// The process dies.
    KillProcess,
    /// The thread dies.
    KillThread,
    /// The thread gets SIGSYS.
    Trap,
    /// The call is not made and returns this errno.
    Errno(u16),
    /// Another process decides, whenever it likes.
    UserNotification,
    /// A tracer decides; without one the call returns ENOSYS.
    Trace,
    /// The call is made, and the kernel logs it.
    Log,
    /// The call is made.
    Allow,
}

impl Answer {
    /// Whether the call is made, now and unchanged.
    #[must_use]
    pub fn is_allowed(self) -> bool {
        matches!(self, Self::Allow | Self::Log)
    }

    /// From what a filter returned. An action that the kernel does not know kills the process.
    pub(super) fn from_return(value: u32) -> Self {
        let data = u16::try_from(value & 0xffff).unwrap_or(0);
        match value & 0xffff_0000 {
            0x0000_0000 => Self::KillThread,
            0x0003_0000 => Self::Trap,
            0x0005_0000 => Self::Errno(data),
            0x7fc0_0000 => Self::UserNotification,
            0x7ff0_0000 => Self::Trace,
            0x7ffc_0000 => Self::Log,
            0x7fff_0000 => Self::Allow,
            _ => Self::KillProcess,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KillProcess => formatter.write_str("kills the process"),
            Self::KillThread => formatter.write_str("kills the thread"),
            Self::Trap => formatter.write_str("sends SIGSYS"),
            Self::Errno(errno) => write!(formatter, "makes it fail with errno {errno}"),
            Self::UserNotification => formatter.write_str("asks another process"),
            Self::Trace => formatter.write_str("asks a tracer"),
            Self::Log => formatter.write_str("allows and logs it"),
            Self::Allow => formatter.write_str("allows it"),
        }
    }
}

/// A call that must not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("its seccomp filter {answer}, asked for system call {number}")]
pub struct Denied {
    /// Number of the call.
    pub number: u32,
    /// What the filters say to it.
    pub answer: Answer,
}

/// What the filters of a thread answer to a call: the severest of their answers. Without filters, all is allowed.
#[must_use]
pub fn answer(filters: &[Vec<Instruction>], call: &Call) -> Answer {
    let data = call.bytes();
    filters.iter().map(|filter| interpreter::run(filter, &data)).min().unwrap_or(Answer::Allow)
}

/// Whether the filters of a thread let all these calls through.
///
/// # Errors
/// The first one that they do not.
pub fn allows(filters: &[Vec<Instruction>], calls: &[Call]) -> Result<(), Denied> {
    for call in calls {
        let answer = answer(filters, call);
        if !answer.is_allowed() {
            return Err(Denied { number: call.number, answer });
        }
    }
    Ok(())
}

/// The filters of a thread that we trace and that stands still, the newest first.
///
/// # Errors
/// EACCES without CAP_SYS_ADMIN or under a seccomp filter of our own; EMEDIUMTYPE for a filter that cannot be told; `InvalidData` for
/// more filters than are run.
pub fn read_filters(tid: u32) -> io::Result<Vec<Vec<Instruction>>> {
    let mut filters = Vec::new();
    while let Some(found) = filter(tid, filters.len())? {
        filters.push(found);
        if filters.len() > MAX_FILTERS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("more than {MAX_FILTERS} filters"),
            ));
        }
    }
    Ok(filters)
}
