//! From frame to frame up to the thread's root.

use std::os::unix::fs::FileExt;

use biopsy_model::Avma;
use biopsy_model::stack::StackEnd;

use super::compiled::CompiledCode;
use super::evaluate::{Evaluated, Evaluator};
use super::frame::{FoundBy, Unwound, WalkedFrame};
use super::prologue::return_address_offset;
use super::registers::{CALLEE_SAVED, RBP, RBX, RIP, RSP, Registers, UserRegisters};
use super::rule::{FrameRule, LOST, Rule, UNCHANGED};
use super::rules::Rules;
use super::signal_frame;
use super::stack::{Reader, Unreadable};

/// A copied stack of 64 KiB holds 4,096 of the smallest frames (16 bytes).
pub(super) const MAX_FRAMES: usize = 4096;

/// The longest call instruction looked for before a return address, in bytes: `call *disp32(base,index,scale)`.
const CALL_BYTES: u64 = 7;

enum Step {
    Caller {
        registers: Registers,
        interrupted: bool,
        found: FoundBy,
    },
    End(StackEnd),
    /// A word is needed that the copy does not have.
    Unreadable(Unreadable),
}

/// Calls `emit` for each frame, innermost first.
pub(super) fn walk(
    rules: &mut Rules,
    user: &UserRegisters,
    mut stack: Reader<'_>,
    compiled: Option<&dyn CompiledCode>,
    max_frames: usize,
    mut emit: impl FnMut(WalkedFrame),
) -> Unwound {
    let mut registers = Registers::new(user);
    let mut by_frame_pointer = 0;
    // The ip of a sample, and of code that a signal interrupted, is exact; a return address lies after its call.
    let mut exact = true;
    let mut rule = rules.rule(user.ip, true, compiled).unwrap_or(Rule::Nothing);
    let mut found = FoundBy::Registers;
    let mut frames = 0;
    let mut needed_beyond = false;
    let end = loop {
        // A return address that is a signal trampoline: C libraries without unwind information for it (musl, Go), and
        // `ip - 1` would be the end of another function.
        let trampoline = !exact && is_trampoline(rules, registers.ip(), &stack);
        let lookup = if exact || trampoline { registers.ip() } else { registers.ip().wrapping_sub(1) };
        emit(WalkedFrame {
            ip: Avma(registers.ip()),
            lookup: Avma(lookup),
            sp: Avma(registers.sp()),
            fp: registers.get(RBP),
            saved: [RBX, 12, 13, 14, 15].map(|number| registers.get(number)),
            found,
        });
        frames += 1;
        if frames >= max_frames {
            break StackEnd::Truncated;
        }
        let frame = Frame { lookup, exact, trampoline, chained: by_frame_pointer > 0 };
        match frame.step(rule, rules, &registers, &mut stack) {
            Step::End(end) => break end,
            Step::Unreadable(unreadable) => {
                needed_beyond = unreadable == Unreadable::Beyond;
                break StackEnd::Truncated;
            }
            Step::Caller { registers: caller, interrupted, found: how } => {
                if caller.ip() == 0 && !interrupted {
                    break StackEnd::Root;
                }
                let by_pointer = how == FoundBy::FramePointer;
                let lookup = if interrupted { caller.ip() } else { caller.ip().wrapping_sub(1) };
                let next = match rules.rule(lookup, interrupted, compiled) {
                    Some(next) => next,
                    // A signal handler over a jump to where there is no code.
                    None if interrupted && stack.has_whole() => Rule::Nothing,
                    None if by_pointer || by_frame_pointer > 0 => break StackEnd::FramePointers,
                    None => break StackEnd::NoUnwindInfo,
                };
                if caller.ip() == registers.ip() && caller.sp() == registers.sp() {
                    break StackEnd::NoUnwindInfo;
                }
                by_frame_pointer += u32::from(by_pointer);
                registers = caller;
                rule = next;
                exact = interrupted;
                found = how;
            }
        }
    };
    Unwound { end, top: Avma(stack.highest), needed_beyond, by_frame_pointer }
}

/// Whether a signal handler returns to there: by the code, of the process or of its file.
fn is_trampoline(rules: &Rules, ip: u64, stack: &Reader<'_>) -> bool {
    if !stack.has_whole() {
        return false;
    }
    let mut code = [0; signal_frame::CODE];
    if stack.code(ip, &mut code) {
        return signal_frame::is_trampoline(&code);
    }
    let of_file = rules.modules.find(ip).and_then(|module| {
        module.file.as_ref()?.code_at(ip.wrapping_sub(module.bias), signal_frame::CODE as u64)
    });
    of_file.is_some_and(|code| signal_frame::is_trampoline(&code))
}

struct Frame {
    lookup: u64,
    exact: bool,
    /// It is where a signal handler returns to.
    trampoline: bool,
    /// A caller further in was found by frame pointer.
    chained: bool,
}

impl Frame {
    fn step(&self, rule: Rule, rules: &mut Rules, registers: &Registers, stack: &mut Reader<'_>) -> Step {
        if self.trampoline
            && let Some(caller) = signal_frame::interrupted(registers, stack)
        {
            return Step::Caller { registers: caller, interrupted: true, found: FoundBy::SignalFrame };
        }
        match rule {
            Rule::Root => Step::End(StackEnd::Root),
            Rule::Offsets(offsets) => match by_offsets(&offsets, registers, stack) {
                Some(Ok(caller)) => self.checked(registers, caller, false),
                Some(Err(unreadable)) => Step::Unreadable(unreadable),
                None => self.without_rule(rules, registers, stack),
            },
            Rule::Linked => match linked(registers, stack) {
                Some(Ok(caller)) => self.checked(registers, caller, false),
                Some(Err(unreadable)) => Step::Unreadable(unreadable),
                None => self.without_rule(rules, registers, stack),
            },
            Rule::Stub => match called_by_compiled(rules, registers, stack) {
                Some(caller) => self.checked(registers, caller, false),
                None => self.without_rule(rules, registers, stack),
            },
            Rule::Evaluate => match self.evaluate(rules, registers, stack) {
                Some(Evaluated::Root) => Step::End(StackEnd::Root),
                Some(Evaluated::Unreadable(unreadable)) => Step::Unreadable(unreadable),
                Some(Evaluated::Caller { registers: caller, interrupted }) => {
                    self.checked(registers, caller, interrupted)
                }
                None => self.without_rule(rules, registers, stack),
            },
            Rule::Nothing => self.without_rule(rules, registers, stack),
        }
    }

    /// A stack grows downwards: only a signal handler on a stack of its own has a caller further down.
    fn checked(&self, registers: &Registers, caller: Registers, interrupted: bool) -> Step {
        let backwards = if self.exact { caller.sp() < registers.sp() } else { caller.sp() <= registers.sp() };
        if backwards && !interrupted {
            return Step::End(StackEnd::NoUnwindInfo);
        }
        let found = if interrupted { FoundBy::SignalFrame } else { FoundBy::UnwindInfo };
        Step::Caller { registers: caller, interrupted, found }
    }

    fn evaluate(
        &self,
        rules: &mut Rules,
        registers: &Registers,
        stack: &mut Reader<'_>,
    ) -> Option<Evaluated> {
        let module = rules.modules.find(self.lookup)?;
        let file = module.file.as_ref()?;
        let evaluator = Evaluator { registers, stack, bias: module.bias };
        file.unwind_table().with_row(&mut rules.context, self.lookup.wrapping_sub(module.bias), evaluator)
    }

    /// No usable unwind information: a leaf that was just called, or code that keeps a frame pointer.
    fn without_rule(&self, rules: &Rules, registers: &Registers, stack: &mut Reader<'_>) -> Step {
        if self.exact
            && let Some(caller) = just_called(rules, self.lookup, registers, stack)
                .or_else(|| before_frame_pointer(rules, self.lookup, registers, stack))
        {
            return Step::Caller { registers: caller, interrupted: false, found: FoundBy::CallSite };
        }
        let broken = Step::End(if self.chained { StackEnd::FramePointers } else { StackEnd::NoUnwindInfo });
        let Some(fp) = registers.get(RBP) else { return broken };
        if fp == 0 && !self.exact {
            // By the ABI's advice the outermost frame has a frame pointer of zero. In the innermost frame it may be
            // any value; here it was saved by a callee.
            return Step::End(if self.chained { StackEnd::Root } else { StackEnd::FramePointers });
        }
        if fp < registers.sp() || fp % 8 != 0 {
            return broken;
        }
        let (saved, return_address) = match (stack.word(fp), stack.word(fp.wrapping_add(8))) {
            (Ok(saved), Ok(return_address)) => (saved, return_address),
            (Err(Unreadable::Beyond), _) | (_, Err(Unreadable::Beyond)) => {
                return Step::Unreadable(Unreadable::Beyond);
            }
            _ => return broken,
        };
        let plausible = return_address == 0 || rules.modules.find(return_address.wrapping_sub(1)).is_some();
        if !plausible {
            return broken;
        }
        let mut caller = *registers;
        // Which of the others the function saved, and where, is not known.
        for register in CALLEE_SAVED {
            caller.forget(register);
        }
        caller.set(RBP, saved);
        caller.set(RSP, fp.wrapping_add(16));
        caller.set(RIP, return_address);
        Step::Caller { registers: caller, interrupted: false, found: FoundBy::FramePointer }
    }
}

/// `None`: the rule needs a register whose value is not known.
fn by_offsets(
    offsets: &FrameRule,
    registers: &Registers,
    stack: &mut Reader<'_>,
) -> Option<Result<Registers, Unreadable>> {
    let base = registers.get(u16::from(offsets.cfa_register))?;
    let cfa = base.wrapping_add_signed(i64::from(offsets.cfa_offset));
    let mut caller = *registers;
    caller.keep_callee_saved();
    for (register, words) in CALLEE_SAVED.into_iter().zip(offsets.saved) {
        match words {
            UNCHANGED => {}
            LOST => caller.forget(register),
            // Epilogues leave rules for registers that were popped already; their slots lie below the stack
            // pointer, outside the copy, and the register holds the value.
            words => {
                let address = cfa.wrapping_add_signed(i64::from(words) * 8);
                if address >= registers.sp() {
                    match stack.word(address) {
                        Ok(value) => caller.set(register, value),
                        Err(unreadable) => return Some(Err(unreadable)),
                    }
                }
            }
        }
    }
    match stack.word(cfa.wrapping_sub(8)) {
        Ok(ip) => caller.set(RIP, ip),
        Err(unreadable) => return Some(Err(unreadable)),
    }
    caller.set(RSP, cfa);
    Some(Ok(caller))
}

/// The word at the stack pointer, where it leads to code that a runtime compiled.
fn called_by_compiled(rules: &Rules, registers: &Registers, stack: &mut Reader<'_>) -> Option<Registers> {
    let ip = stack.word(registers.sp()).ok()?;
    rules.modules.find(ip.wrapping_sub(1)).filter(|module| module.file.is_none())?;
    let mut caller = *registers;
    caller.keep_callee_saved();
    caller.set(RIP, ip);
    caller.set(RSP, registers.sp().wrapping_add(8));
    Some(caller)
}

/// `None`: there is no frame pointer, or what is there is no frame.
fn linked(registers: &Registers, stack: &mut Reader<'_>) -> Option<Result<Registers, Unreadable>> {
    let fp = registers.get(RBP).filter(|fp| fp % 8 == 0 && *fp > registers.sp())?;
    let words = [fp.wrapping_sub(8), fp, fp.wrapping_add(8)].map(|at| stack.word(at));
    let [sp, saved, ip] = match words {
        [Ok(sp), Ok(saved), Ok(ip)] => [sp, saved, ip],
        [Err(unreadable), ..] | [_, Err(unreadable), _] | [.., Err(unreadable)] => {
            return Some(Err(unreadable));
        }
    };
    if sp < fp.wrapping_add(16) {
        return None;
    }
    let mut caller = *registers;
    for register in CALLEE_SAVED {
        caller.forget(register);
    }
    caller.set(RBP, saved);
    caller.set(RIP, ip);
    caller.set(RSP, sp);
    Some(Ok(caller))
}

/// The innermost frame has not moved the stack pointer yet: assembly leaf functions, PLT stubs without unwind
/// information, and calls to where there is no code. Believed only when the word at the stack pointer follows a call
/// instruction of a file.
fn just_called(
    rules: &Rules,
    lookup: u64,
    registers: &Registers,
    stack: &mut Reader<'_>,
) -> Option<Registers> {
    // In JIT code a frame pointer is the better guess, and its code cannot be read from a file.
    if rules.modules.find(lookup).is_some_and(|module| module.file.is_none()) {
        return None;
    }
    let return_address = stack.word(registers.sp()).ok()?;
    let before = return_address.checked_sub(CALL_BYTES)?;
    let module = rules.modules.find(before)?;
    let mut code = vec![0; CALL_BYTES as usize];
    if !stack.code(before, &mut code) {
        code = module.file.as_ref()?.code_at(before.wrapping_sub(module.bias), CALL_BYTES)?;
    }
    if !ends_in_call(&code) {
        return None;
    }
    let mut caller = *registers;
    caller.keep_callee_saved();
    caller.set(RIP, return_address);
    caller.set(RSP, registers.sp().wrapping_add(8));
    Some(caller)
}

/// Code of a JIT compiler whose frame pointer is not set up yet, or not any more.
fn before_frame_pointer(
    rules: &Rules,
    lookup: u64,
    registers: &Registers,
    stack: &mut Reader<'_>,
) -> Option<Registers> {
    rules.modules.find(lookup).filter(|module| module.file.is_none())?;
    let read = |address: u64, code: &mut [u8]| match &rules.memory {
        Some(memory) => memory.read_exact_at(code, address).is_ok(),
        None => stack.code(address, code),
    };
    let cfa = registers.sp().wrapping_add(return_address_offset(read, lookup)?).wrapping_add(8);
    let return_address = stack.word(cfa.wrapping_sub(8)).ok()?;
    rules.modules.find(return_address.wrapping_sub(1))?;
    let mut caller = *registers;
    caller.keep_callee_saved();
    caller.set(RIP, return_address);
    caller.set(RSP, cfa);
    Some(caller)
}

/// x86-64: `E8 rel32`, or `FF /2` with any addressing mode, of 2 to 7 bytes.
fn ends_in_call(code: &[u8]) -> bool {
    let back =
        |distance: usize| code.len().checked_sub(distance).and_then(|at| code.get(at..)).unwrap_or(&[]);
    if back(5).first() == Some(&0xe8) {
        return true;
    }
    (2..=7).any(|length| {
        let &[0xff, mod_rm, ..] = back(length) else { return false };
        if mod_rm >> 3 & 7 != 2 {
            return false;
        }
        let with_sib = mod_rm & 7 == 4;
        let expected = match mod_rm >> 6 {
            3 => 2,
            0 if mod_rm & 7 == 5 => 6,
            // Without a base register (SIB base 5) there is a displacement of four bytes.
            0 if with_sib => {
                return length == if back(length).get(2).is_some_and(|sib| sib & 7 == 5) { 7 } else { 3 };
            }
            0 => 2,
            1 => 3 + usize::from(with_sib),
            _ => 6 + usize::from(with_sib),
        };
        length == expected
    })
}

#[cfg(test)]
mod tests {
    use super::ends_in_call;

    #[test]
    fn calls_are_told_from_other_code() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],         // call rel32
            &[0xff, 0xd0],                   // call *%rax
            &[0x41, 0xff, 0xd4],             // call *%r12
            &[0xff, 0x15, 1, 2, 3, 4],       // call *disp32(%rip)
            &[0xff, 0x50, 0x18],             // call *0x18(%rax)
            &[0xff, 0x54, 0x24, 0x08],       // call *8(%rsp)
            &[0xff, 0x14, 0xc3],             // call *(%rbx,%rax,8)
            &[0xff, 0x14, 0xc5, 0, 0, 0, 1], // call *0x1000000(,%rax,8)
            &[0xff, 0x90, 0, 1, 0, 0],       // call *0x100(%rax)
        ] {
            let mut code = vec![0x90; 7];
            code.extend(call);
            assert!(ends_in_call(&code[code.len() - 7..]), "{call:02x?}");
        }
        assert!(!ends_in_call(&[0x90; 7]));
        assert!(!ends_in_call(&[0, 0, 0, 0, 0, 0xff, 0xe0]), "jmp *%rax");
        assert!(!ends_in_call(&[]));
    }
}
