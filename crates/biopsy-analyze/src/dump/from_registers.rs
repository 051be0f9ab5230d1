//! What a thread was doing, read from its registers alone.

use biopsy_image::{GeneralRegisters, Image};
use biopsy_model::Tid;
use biopsy_stacks::image::ThreadStack;
use rustc_hash::FxHashSet;

use super::facts::DumpFacts;
use super::state::{ThreadState, WaitKind};
use super::system_call;

/// What the kernel leaves in `rax` while a system call is interrupted: -ERESTARTSYS (512) to -ERESTART_RESTARTBLOCK (516)
/// of `linux/errno.h`, -EINTR, and -ENOSYS at the entry.
fn interrupted(rax: u64) -> bool {
    matches!(rax.cast_signed(), -516..=-512 | -4 | -38)
}

/// Threads that are at the end of a system call, which stopping them may have ended.
pub(super) fn returned(image: &dyn Image) -> FxHashSet<Tid> {
    let at_end = |registers: &GeneralRegisters| registers.orig_rax < 4096 && !interrupted(registers.rax);
    let threads = image.threads().iter();
    threads.filter(|thread| thread.registers.as_ref().is_some_and(at_end)).map(|thread| thread.tid).collect()
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
    let number = registers.system_call().and_then(|number| u32::try_from(number).ok());
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

#[cfg(test)]
mod tests;
