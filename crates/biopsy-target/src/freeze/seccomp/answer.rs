//! A system call as a filter sees it, and what filters answer.

use std::fmt;

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
    pub(super) const SIZE: usize = 64;

    pub(super) fn bytes(&self) -> [u8; Self::SIZE] {
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
