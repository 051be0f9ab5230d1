//! Signal frames told by the code of their trampoline, where no unwind information does.
//!
//! ```text
//! 48 c7 c0 0f 00 00 00   mov rax, 15 (rt_sigreturn)      or   b8 0f 00 00 00   mov eax, 15
//! 0f 05                  syscall
//! ```
//!
//! When the handler returned there, the stack pointer is at the `ucontext` of the kernel's `rt_sigframe`
//! (`arch/x86/include/asm/sigframe.h`), whose registers begin at byte 40 (`struct sigcontext_64`).

use super::registers::{CALLEE_SAVED, RBP, RBX, RIP, RSP, Registers};
use super::stack::Reader;

const LONG: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
const SHORT: [u8; 7] = [0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// Offset of the registers in the `ucontext`, in bytes.
const REGISTERS: u64 = 40;
/// Position of each register, in words: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
const POSITIONS: [(u16, u64); 8] =
    [(12, 4), (13, 5), (14, 6), (15, 7), (RBP, 10), (RBX, 11), (RSP, 15), (RIP, 16)];

/// Bytes of the longer one.
pub(super) const CODE: usize = LONG.len();

/// Whether the code is such a trampoline.
pub(super) fn is_trampoline(code: &[u8]) -> bool {
    code == LONG || code.starts_with(&SHORT)
}

/// The registers that the signal interrupted, in the frame of such a trampoline.
pub(super) fn interrupted(registers: &Registers, stack: &mut Reader<'_>) -> Option<Registers> {
    let mut caller = *registers;
    for register in CALLEE_SAVED {
        caller.forget(register);
    }
    for (register, position) in POSITIONS {
        let at = registers.sp().wrapping_add(REGISTERS + position * 8);
        caller.set(register, stack.word(at).ok()?);
    }
    Some(caller)
}

#[cfg(test)]
mod tests {
    use super::super::registers::UserRegisters;
    use super::super::stack::StackMemory;
    use super::super::stack::tests::Pieces;
    use super::*;

    const STACK: u64 = 0x8000;

    /// What such a frame says of whom it interrupted: `words` are on the stack, each its place plus 100.
    fn interrupted_at(words: u64) -> Option<Registers> {
        let stack: Vec<u8> = (100..100 + words).flat_map(u64::to_le_bytes).collect();
        let memory = Pieces(Vec::new());
        let registers = Registers::new(&UserRegisters::new(0x1000, STACK, 1));
        let mut reader = Reader::over(StackMemory { base: STACK, bytes: &stack }, &memory);
        interrupted(&registers, &mut reader)
    }

    #[test]
    fn both_ways_to_ask_for_the_return_are_known() {
        assert!(is_trampoline(&LONG));
        assert!(is_trampoline(&[&SHORT[..], &[0xcc, 0xcc]].concat()));
        for at in 0..LONG.len() {
            let mut code = LONG;
            code[at] ^= 1;
            assert!(!is_trampoline(&code), "byte {at} is another");
        }
        assert!(!is_trampoline(&LONG[..8]), "code that cannot be read");
    }

    #[test]
    fn the_registers_are_behind_it() {
        let caller = interrupted_at(32).expect("a whole frame");
        // Five words of the `ucontext` before its registers: r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip.
        let of = |position: u64| Some(100 + 5 + position);
        for (register, position) in
            [(12, 4), (13, 5), (14, 6), (15, 7), (RBP, 10), (RBX, 11), (RSP, 15), (RIP, 16)]
        {
            assert_eq!(caller.get(register), of(position), "register {register}");
        }
        assert!(interrupted_at(5 + 17).is_some());
        assert!(interrupted_at(5 + 16).is_none(), "the instruction pointer is not on the stack");
    }
}
