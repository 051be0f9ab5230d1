//! What a thread was doing, told from its registers alone.

use biopsy_image::{GeneralRegisters, Image};
use biopsy_stacks::image::ThreadStack;

use super::facts::DumpFacts;
use super::system_call;

/// What a thread was doing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ThreadState {
    /// Executing its own code, or ready to.
    Running,
    /// In a system call.
    InSystemCall {
        /// Its number, where it is known.
        number: Option<u32>,
        /// Its name, or `system call N`.
        name: String,
        /// What it waits for.
        wait: WaitKind,
        /// In words: `waits for events on descriptor 5`.
        words: String,
    },
    /// The dump has no registers of it.
    #[default]
    Unknown,
}

/// What a system call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum WaitKind {
    /// A futex: a lock, a condition or another thread's end.
    Futex,
    /// One of several descriptors.
    Events,
    /// Data to read, or a peer.
    Input,
    /// Room to write, or a device.
    Output,
    /// A new connection.
    Connection,
    /// Time.
    Time,
    /// A child process.
    Child,
    /// A signal.
    Signal,
    /// A lock on a file, a semaphore or queue of the kernel.
    KernelObject,
    /// Its own end.
    End,
    /// Something else, or nothing: the call may just have been running.
    Other,
}

impl ThreadState {
    /// In words.
    #[must_use]
    pub fn words(&self) -> &str {
        match self {
            Self::Running => "runs its own code",
            Self::InSystemCall { words, .. } => words,
            Self::Unknown => "not known: the dump has no registers of it",
        }
    }

    /// What it waits for, in a system call.
    #[must_use]
    pub fn wait(&self) -> Option<WaitKind> {
        match self {
            Self::InSystemCall { wait, .. } => Some(*wait),
            Self::Running | Self::Unknown => None,
        }
    }
}

/// What the kernel leaves in `rax` while a system call is interrupted: -ERESTARTSYS (512) to -ERESTART_RESTARTBLOCK (516)
/// of `linux/errno.h`, -EINTR, and -ENOSYS at the entry.
fn interrupted(rax: u64) -> bool {
    matches!(rax.cast_signed(), -516..=-512 | -4 | -38)
}

pub(super) fn state(
    image: &dyn Image,
    registers: Option<&GeneralRegisters>,
    stack: Option<&ThreadStack>,
    facts: &DumpFacts<'_>,
) -> ThreadState {
    let Some(registers) = registers else { return ThreadState::Unknown };
    // `syscall`, and `int 0x80` and `sysenter` of 32-bit code.
    let code = stack.and_then(|stack| stack.code_before);
    if code.is_some_and(|code| !matches!(code, [0x0f, 0x05] | [0xcd, 0x80] | [0x0f, 0x34])) {
        return ThreadState::Running;
    }
    let number = u32::try_from(registers.orig_rax).ok().filter(|number| *number < 4096);
    match number {
        Some(number) if interrupted(registers.rax) || is_final(number) => {
            system_call::describe(image, number, registers, facts)
        }
        // Between the call's end and the next instruction.
        Some(_) => ThreadState::Running,
        None if code.is_some() && interrupted(registers.rax) => ThreadState::InSystemCall {
            number: None,
            name: "a system call".to_owned(),
            wait: WaitKind::Other,
            words: "in a system call whose number the dump does not have".to_owned(),
        },
        None => ThreadState::Running,
    }
}

/// `exit` and `exit_group` do not come back, `tgkill` and `kill` are where a thread stands that ended itself.
fn is_final(number: u32) -> bool {
    matches!(number, 60 | 231)
}
