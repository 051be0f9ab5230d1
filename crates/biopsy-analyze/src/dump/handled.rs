//! A fault whose handler ended the process: what the kernel told the handler, and where it came from.
//!
//! Virtual machines, crash reporters and handlers of a program's own print something, and then abort or send the signal once more. What
//! the process died of is the fault that they were called for.

use biopsy_image::{GeneralRegisters, Image, MemoryExt};
use biopsy_stacks::image::{Frame, ThreadStack};
use biopsy_stacks::unwind::FoundBy;

/// From the stack pointer of the code that a handler returns to, which is that of `struct ucontext`, to `struct siginfo`, which
/// begins with the number of the signal (`struct rt_sigframe` of arch/x86/include/asm/sigframe.h).
const SIGINFO_BEHIND: u64 = 304;
/// In it: `si_code` and `si_addr`.
const CODE: u64 = 8;
const ADDRESS: u64 = 16;
/// To the number of the trap in its registers (`trapno` of `struct sigcontext_64`): 6 no instruction, 13 protection, 14 page fault, 16 and
/// 19 arithmetic, 17 alignment.
const TRAP_BEHIND: u64 = 200;
/// To the error of the trap, and to the address of a page that was not there (`err`, `cr2`).
const ERROR_BEHIND: u64 = 192;
const PAGE_BEHIND: u64 = 216;
/// To the first of its registers, and how many there are: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags.
const REGISTERS_BEHIND: u64 = 40;
const REGISTERS: usize = 18;
/// `si_code` of an arithmetic error of which it is not said which it is.
const FPE_FLTUNK: i32 = 14;
/// The longest instruction.
const INSTRUCTION: usize = 15;

/// A fault that was handled.
#[derive(Clone, Debug)]
pub(super) struct Handled {
    pub(super) number: i32,
    pub(super) code: i32,
    pub(super) address: u64,
    pub(super) registers: GeneralRegisters,
    /// The bytes from the instruction on.
    pub(super) bytes: Vec<u8>,
}

/// The fault that the handler on this stack was called for; `None`: there is none, or its handler did not ask what it was.
pub(super) fn fault(image: &dyn Image, stack: &ThreadStack) -> Option<Handled> {
    let frame = stack.frames.get(crashed_at(image, stack)?.checked_sub(1)?)?.sp.0;
    let word = |offset: u64| image.read_u64(frame.checked_add(offset)?).ok();
    let mut words = [0; REGISTERS];
    for (at, register) in words.iter_mut().enumerate() {
        *register = word(REGISTERS_BEHIND + 8 * at as u64)?;
    }
    let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags] = words;
    let registers = GeneralRegisters {
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rdi,
        rsi,
        rbp,
        rbx,
        rdx,
        rax,
        rcx,
        rsp,
        rip,
        eflags,
        // In no system call.
        orig_rax: u64::MAX,
        ..GeneralRegisters::from_words(&[0; 27])
    };
    let bytes = image.read_up_to(rip, INSTRUCTION).unwrap_or_default();
    let told = int(image, frame, SIGINFO_BEHIND).filter(|number| (1..=64).contains(number));
    let (number, code, address) = match told {
        Some(number) => (number, int(image, frame, SIGINFO_BEHIND + CODE)?, word(SIGINFO_BEHIND + ADDRESS)?),
        // A handler that did not ask for it has none: the processor's own words are in the registers.
        None => by_trap(int(image, frame, TRAP_BEHIND)?, word(ERROR_BEHIND)?, word(PAGE_BEHIND)?)?,
    };
    // Sent from outside, and taken for a fault by its number: its address is none.
    (is_fault(number) && code > 0).then_some(Handled { number, code, address, registers, bytes })
}

/// Signal, its code and the address, by the processor's trap (`force_sig_fault` of arch/x86): 14 is a page fault, whose error tells by its
/// lowest bit whether the page was there.
fn by_trap(trap: i32, error: u64, page: u64) -> Option<(i32, i32, u64)> {
    Some(match trap {
        0 => (8, 1, 0),
        6 => (4, 2, 0),
        13 => (11, 0x80, 0),
        14 if error & 1 == 0 => (11, 1, page),
        14 => (11, 2, page),
        // Which of the floating point errors it was is in registers that a handler is not given.
        16 | 19 => (8, FPE_FLTUNK, 0),
        17 => (7, 1, 0),
        _ => return None,
    })
}

/// Signals that the processor's faults raise.
fn is_fault(number: i32) -> bool {
    matches!(number, 4 | 5 | 7 | 8 | 11)
}

/// The number of the frame that a signal of a crash interrupted, where its handler runs: the outermost such. Handlers of other
/// signals are code like any other, and may crash themselves.
pub(super) fn crashed_at(image: &dyn Image, stack: &ThreadStack) -> Option<usize> {
    (1..stack.frames.len()).rev().find(|position| {
        let interrupted =
            stack.frames.get(*position).is_some_and(|frame| frame.found == FoundBy::SignalFrame);
        interrupted
            && stack.frames.get(position - 1).is_some_and(|trampoline| {
                match int(image, trampoline.sp.0, SIGINFO_BEHIND) {
                    Some(4..=8 | 11 | 31) => true,
                    Some(1..=64) | None => false,
                    // A handler that did not ask for it has none: the processor's trap tells, if it was one.
                    Some(_) => {
                        matches!(int(image, trampoline.sp.0, TRAP_BEHIND), Some(6 | 13 | 14 | 16 | 17 | 19))
                    }
                }
            })
    })
}

fn int(image: &dyn Image, at: u64, offset: u64) -> Option<i32> {
    image.read_u32(at.checked_add(offset)?).ok().map(u32::cast_signed)
}

/// The frames of a thread from where it crashed on.
pub(super) fn frames_of_crash<'s>(image: &dyn Image, stack: &'s ThreadStack) -> &'s [Frame] {
    stack.frames.get(crashed_at(image, stack).unwrap_or(0)..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::by_trap;

    #[test]
    fn the_processor_says_what_a_handler_was_not_told() {
        assert_eq!(by_trap(14, 4, 0x18), Some((11, 1, 0x18)));
        assert_eq!(by_trap(14, 7, 0x7000), Some((11, 2, 0x7000)));
        assert_eq!(by_trap(13, 0, 9).map(|(number, code, _)| (number, code)), Some((11, 0x80)));
        assert_eq!(by_trap(0, 0, 0).map(|(number, ..)| number), Some(8));
        for trap in [16, 19] {
            assert_eq!(by_trap(trap, 0, 9), Some((8, 14, 0)), "an error of floating point");
        }
        assert_eq!((by_trap(6, 0, 9), by_trap(17, 0, 9)), (Some((4, 2, 0)), Some((7, 1, 0))));
        assert_eq!(by_trap(3, 0, 0), None);
        // Each trap that makes a stack one of a crash is one that tells its signal, and that signal has a meaning.
        for trap in 0..32 {
            let told = by_trap(trap, 0, 0);
            let is_known = matches!(trap, 0 | 6 | 13 | 14 | 16 | 17 | 19);
            assert_eq!(told.is_some(), is_known, "{trap}");
            if let Some((number, code, _)) = told {
                assert!(crate::dump::signal::code_words(number, code).is_some(), "{number} {code}");
            }
        }
    }
}
