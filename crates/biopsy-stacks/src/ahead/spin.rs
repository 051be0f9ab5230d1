//! A thread that goes round in a few instructions until a word changes.

use std::collections::{BTreeMap, BTreeSet};

use biopsy_image::{GeneralRegisters, Image, MemoryExt};
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};

use super::code::CodeView;
use super::{LockFamily, Wanted};
use crate::ahead::state::State;
use crate::image::ImageStacks;

/// Instructions of such a loop at most, and how far apart they lie, in bytes.
const LOOP: usize = 32;
const NEAR: u64 = 128;

/// The lock that the loop around the thread's instruction waits for; `None`: it is in no such loop.
#[must_use]
pub fn spins_at(image: &dyn Image, stacks: &ImageStacks, registers: &GeneralRegisters) -> Option<Wanted> {
    let mut code = CodeView::new(image, stacks.code.modules()?, false);
    let around = circle(&mut code, registers.rip)?;
    let waits = |instruction: &Instruction| {
        instruction.mnemonic() == Mnemonic::Pause || instruction.has_lock_prefix() || is_swap(instruction)
    };
    if !around.iter().any(waits) {
        return None;
    }
    let state = State::new(&numbered(registers));
    let mut places = BTreeSet::new();
    for instruction in around.iter().filter(|instruction| has_memory(instruction)) {
        places.insert((state.address(instruction)?, instruction.memory_size().size()));
    }
    // One word, and nothing else: whoever works goes round in other memory too.
    let mut places = places.into_iter();
    let ((address, bytes), None) = (places.next()?, places.next()) else { return None };
    if !matches!(bytes, 1 | 4) {
        return None;
    }
    let word = image.read_u32(address).ok()? & if bytes == 1 { 0xff } else { u32::MAX };
    let counts_down = around
        .iter()
        .any(|instruction| instruction.has_lock_prefix() && instruction.mnemonic() == Mnemonic::Dec)
        || (bytes == 4 && word.cast_signed() <= 0);
    let free = u8::from(counts_down);
    let held = if counts_down { word.cast_signed() <= 0 } else { word != 0 };
    held.then_some(Wanted { lock: address, family: LockFamily::Spin { free } })
}

/// The instructions of the smallest circle that the thread is in.
fn circle(code: &mut CodeView<'_>, start: u64) -> Option<Vec<Instruction>> {
    let mut met: BTreeMap<u64, (Instruction, Vec<u64>)> = BTreeMap::new();
    let mut open = vec![start];
    while let Some(at) = open.pop() {
        if met.contains_key(&at) || at.abs_diff(start) > NEAR {
            continue;
        }
        if met.len() >= LOOP {
            return None;
        }
        let instruction = code.instruction(at)?;
        let next = match instruction.flow_control() {
            FlowControl::Next => vec![instruction.next_ip()],
            FlowControl::ConditionalBranch => vec![instruction.next_ip(), instruction.near_branch_target()],
            FlowControl::UnconditionalBranch => vec![instruction.near_branch_target()],
            // What is called or left to is not of the circle.
            _ => Vec::new(),
        };
        open.extend(&next);
        met.insert(at, (instruction, next));
    }
    let mut back: BTreeSet<u64> = BTreeSet::new();
    loop {
        let leads = |next: &Vec<u64>| next.iter().any(|to| *to == start || back.contains(to));
        let more: Vec<u64> = met
            .iter()
            .filter(|(at, (_, next))| !back.contains(at) && leads(next))
            .map(|(at, _)| *at)
            .collect();
        if more.is_empty() {
            break;
        }
        back.extend(more);
    }
    back.contains(&start)
        .then(|| met.iter().filter(|(at, _)| back.contains(at)).map(|(_, one)| one.0).collect())
}

fn has_memory(instruction: &Instruction) -> bool {
    let operands = 0..instruction.op_count();
    instruction.mnemonic() != Mnemonic::Lea
        && instruction.mnemonic() != Mnemonic::Nop
        && operands.into_iter().any(|at| instruction.op_kind(at) == OpKind::Memory)
}

fn is_swap(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Xchg && has_memory(instruction)
}

fn numbered(registers: &GeneralRegisters) -> [(usize, u64); 16] {
    let GeneralRegisters {
        rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15, ..
    } = *registers;
    let all = [rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15];
    std::array::from_fn(|number| (number, all[number]))
}
