//! Walks the Java frames of a thread: interpreted, compiled, and past native code that Java called and that called Java.

use std::ops::Range;

use biopsy_model::Avma;

use super::code::{Blob, CodeCache};
use super::vm::Vm;
use crate::StrandFrame;

/// Words of an interpreter's frame, from its frame pointer (`src/hotspot/cpu/x86/frame_x86.hpp`).
const SENDER_SP: u64 = 8;
pub(super) const METHOD: u64 = 24;
pub(super) const BYTE_CODE: u64 = 64;
/// Steps of a walk beyond its frames: stubs and calls from native code.
const STEPS: usize = 4;

/// Registers of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Registers {
    pub(super) pc: u64,
    pub(super) sp: u64,
    pub(super) fp: u64,
    /// `r13`, where the interpreter keeps what it executes; only of a thread that runs.
    pub(super) byte_code: Option<u64>,
}

/// The frames of a thread.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) frames: Vec<StrandFrame>,
    /// There are more.
    pub(super) cut: bool,
}

/// Walks stacks.
pub(super) struct Walker<'v> {
    pub(super) vm: &'v Vm<'v>,
    pub(super) code: &'v CodeCache<'v>,
}

impl Walker<'_> {
    /// Where the thread left Java: what its anchor at `address` says.
    pub(super) fn anchor(&self, address: u64) -> Option<Registers> {
        let (memory, layout) = (self.vm.memory, &self.vm.layout.threads);
        let word = |offset: u64| memory.u64(address.checked_add(offset)?);
        let sp = word(layout.anchor_sp)?;
        let (fp, pc) = (word(layout.anchor_fp)?, word(layout.anchor_pc)?);
        if sp == 0 {
            return None;
        }
        // Compiled code does not write where it left: the call did.
        let pc = if pc == 0 { memory.u64(sp.checked_sub(8)?)? } else { pc };
        Some(Registers { pc, sp, fp, byte_code: None })
    }

    /// All frames from `from` on, at most `most`; `stack` is the thread's.
    pub(super) fn walk(&self, from: Registers, running: bool, stack: &Range<u64>, most: usize) -> Walk {
        // Until its end is seen.
        let mut walk = Walk { cut: true, ..Walk::default() };
        let mut at = from;
        let mut exact = running;
        for _ in 0..most.saturating_mul(STEPS) {
            if walk.frames.len() >= most {
                break;
            }
            let next = match self.step(&mut walk, at, exact) {
                Step::Sender(next) => next,
                Step::End => {
                    walk.cut = false;
                    break;
                }
                Step::Lost => break,
            };
            // Stacks grow down: whatever does not go up is not a caller, and a circle cannot be.
            if next.sp <= at.sp || !stack.contains(&next.sp) {
                break;
            }
            at = next;
            exact = false;
        }
        walk
    }

    fn step(&self, walk: &mut Walk, at: Registers, exact: bool) -> Step {
        if at.pc == self.code.call_stub_return {
            return self.called_by_native(at);
        }
        if self.code.is_interpreter(at.pc) {
            return self.interpreted(walk, at, exact).unwrap_or(Step::Lost);
        }
        let Some(blob) = self.code.blob(at.pc) else { return Step::Lost };
        if blob.compiled {
            let frames = self.code.frames(&blob, at.pc, at.sp, exact);
            for frame in frames.iter() {
                walk.frames.push(StrandFrame {
                    address: Some(Avma(at.pc)),
                    sp: Some(Avma(at.sp)),
                    ..frame.clone()
                });
            }
        }
        let sender = match exact {
            true => self.sender_of_running(&blob, at),
            false => self.sender(&blob, at),
        };
        sender.map_or(Step::Lost, Step::Sender)
    }

    /// Java was called here by native code; the wrapper of the call says where Java had called that.
    fn called_by_native(&self, at: Registers) -> Step {
        let layout = &self.vm.layout.threads;
        let slot = at.fp.checked_add_signed(8 * layout.call_wrapper_slot);
        let Some(wrapper) = slot.and_then(|slot| self.vm.memory.pointer(slot)) else { return Step::Lost };
        let Some(anchor) = wrapper.checked_add(layout.call_wrapper_anchor) else { return Step::Lost };
        // No anchor: nothing of Java is below.
        self.anchor(anchor).map_or(Step::End, Step::Sender)
    }

    fn interpreted(&self, walk: &mut Walk, at: Registers, exact: bool) -> Option<Step> {
        let memory = self.vm.memory;
        let method = self.vm.method(memory.pointer(at.fp.checked_sub(METHOD)?)?)?;
        let in_frame = memory.u64(at.fp.checked_sub(BYTE_CODE)?)?;
        let index = |byte_code: u64| {
            let index = u32::try_from(byte_code.checked_sub(method.code)?).ok()?;
            (index < method.code_size).then_some(index)
        };
        // What runs just now is in a register; the frame has it only once something was called.
        let now = at.byte_code.filter(|_| exact).and_then(index);
        let frame = method.frame(now.or_else(|| index(in_frame)), self.vm.form);
        walk.frames.push(StrandFrame { address: Some(Avma(at.pc)), sp: Some(Avma(at.sp)), ..frame });
        let word = |address: Option<u64>| memory.u64(address?);
        let (fp, pc) = (memory.u64(at.fp)?, word(at.fp.checked_add(8))?);
        let sp = word(at.fp.checked_sub(SENDER_SP))?;
        Some(Step::Sender(Registers { pc, sp, fp, byte_code: None }))
    }

    /// The caller of code whose frame has a fixed size.
    fn sender(&self, blob: &Blob, at: Registers) -> Option<Registers> {
        if blob.frame_bytes < 16 {
            return None;
        }
        let sp = at.sp.checked_add(blob.frame_bytes)?;
        Some(Registers {
            pc: self.vm.memory.u64(sp.checked_sub(8)?)?,
            fp: self.vm.memory.u64(sp.checked_sub(16)?)?,
            sp,
            byte_code: None,
        })
    }

    /// The caller of the innermost frame of a thread that runs: its frame may not be there yet, or no more.
    fn sender_of_running(&self, blob: &Blob, at: Registers) -> Option<Registers> {
        let word = |offset: u64| self.vm.memory.u64(at.sp.checked_add(offset)?);
        let bare = || Some(Registers { pc: word(0)?, fp: at.fp, sp: at.sp.checked_add(8)?, byte_code: None });
        let pushed =
            || Some(Registers { pc: word(8)?, fp: word(0)?, sp: at.sp.checked_add(16)?, byte_code: None });
        let known = |caller: &Option<Registers>| caller.is_some_and(|caller| self.is_code(caller.pc));
        let mut next = [0; 4];
        let there = self.vm.memory.read_available(at.pc, &mut next);
        let next = next.get(..there).unwrap_or_default();
        let offset = at.pc.saturating_sub(blob.code);
        if blob.frame_bytes == 0 {
            // A stub without a frame, or with one by its frame pointer.
            let by_pointer = || {
                let word = |offset: u64| self.vm.memory.u64(at.fp.checked_add(offset)?);
                Some(Registers { pc: word(8)?, fp: word(0)?, sp: at.fp.checked_add(16)?, byte_code: None })
            };
            return Some(bare()).filter(known).or_else(|| Some(by_pointer()).filter(known)).flatten();
        }
        if blob.compiled && offset < blob.frame_complete {
            // Its entry checks the class of the receiver, touches the stack, pushes the frame pointer, makes room.
            return [bare(), pushed(), self.sender(blob, at)].into_iter().find(known).flatten();
        }
        match next {
            // `ret`; the check for a safepoint before it (`cmp rsp, [r15 + ..]`, `ja`).
            [0xc3, ..] | [0x49, 0x3b, 0x67 | 0xa7, ..] | [0x0f, 0x87, ..] if known(&bare()) => bare(),
            // `pop rbp`.
            [0x5d, ..] if known(&pushed()) => pushed(),
            _ => self.sender(blob, at),
        }
    }

    /// There is code of Java, or of the virtual machine's own making, at the address.
    pub(super) fn is_code(&self, pc: u64) -> bool {
        self.code.is_interpreter(pc) || self.code.contains(pc) && self.code.blob(pc).is_some()
    }
}

enum Step {
    Sender(Registers),
    /// The thread began here.
    End,
    /// What is here is not understood.
    Lost,
}
