//! What instructions that are not about locks do to what is known.

use std::cell::RefCell;

use iced_x86::{
    ConditionCode, Instruction, InstructionInfo, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
};

use super::state::{Compared, MemoryNow, RBP, RCX, RDI, RSP, State, Value};

/// A number of so many bytes, as one of eight with the same sign.
pub(super) fn sign(amount: u64, bytes: usize) -> u64 {
    match bytes {
        1 => i64::from(amount as u8 as i8).cast_unsigned(),
        2 => i64::from(amount as u16 as i16).cast_unsigned(),
        4 => i64::from(amount as u32 as i32).cast_unsigned(),
        _ => amount,
    }
}

/// Whether the condition holds, where the flags say it.
pub(super) fn holds(condition: ConditionCode, Compared { a, b, bytes, .. }: Compared) -> Option<bool> {
    let (signed_a, signed_b) = (sign(a, bytes).cast_signed(), sign(b, bytes).cast_signed());
    let negative = sign(a.wrapping_sub(b), bytes).cast_signed() < 0;
    Some(match condition {
        ConditionCode::e => a == b,
        ConditionCode::ne => a != b,
        ConditionCode::b => a < b,
        ConditionCode::ae => a >= b,
        ConditionCode::be => a <= b,
        ConditionCode::a => a > b,
        ConditionCode::s => negative,
        ConditionCode::ns => !negative,
        ConditionCode::l => signed_a < signed_b,
        ConditionCode::ge => signed_a >= signed_b,
        ConditionCode::le => signed_a <= signed_b,
        ConditionCode::g => signed_a > signed_b,
        _ => return None,
    })
}

/// What an instruction that is not about locks does to what is known.
pub(super) fn apply(state: &mut State, instruction: &Instruction, now: &dyn MemoryNow) {
    let first = |state: &State| state.operand(instruction, 0, now);
    let second = |state: &State| state.operand(instruction, 1, now);
    let bytes = match instruction.op_kind(0) {
        OpKind::Register => instruction.op_register(0).size(),
        _ => instruction.memory_size().size(),
    };
    let mask = if bytes >= 8 { u64::MAX } else { (1u64 << (bytes * 8)) - 1 };
    let both = |a: Option<Value>, b: Option<Value>, of: fn(u64, u64) -> u64| {
        let (a, b) = (a?, b?);
        Some(Value { bits: of(a.bits, b.bits) & mask, steady: a.steady && b.steady, ..a })
    };
    let flags = |a: Option<Value>, b: Option<Value>| {
        let (a, b) = (a?, b?);
        (a.steady && b.steady).then_some(Compared {
            a: a.bits & mask,
            b: b.bits & mask,
            bytes,
            always: false,
        })
    };
    let zero = Some(Value::constant(0));
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx => {
            let value = second(state);
            write(state, instruction, bytes, value);
        }
        Mnemonic::Movsx | Mnemonic::Movsxd => {
            let from = match instruction.op_kind(1) {
                OpKind::Register => instruction.op_register(1).size(),
                _ => instruction.memory_size().size(),
            };
            let value = second(state).map(|value| Value { bits: sign(value.bits, from) & mask, ..value });
            write(state, instruction, bytes, value);
        }
        Mnemonic::Lea => {
            let value = state.effective(instruction);
            write(state, instruction, bytes, value);
        }
        Mnemonic::Add | Mnemonic::Sub | Mnemonic::And | Mnemonic::Or | Mnemonic::Xor => {
            let same = instruction.op_kind(1) == OpKind::Register
                && instruction.op_kind(0) == OpKind::Register
                && instruction.op_register(0) == instruction.op_register(1);
            let (a, b) = (first(state), second(state));
            let value = match instruction.mnemonic() {
                Mnemonic::Xor | Mnemonic::Sub if same => zero,
                Mnemonic::Add => both(a, b, u64::wrapping_add),
                Mnemonic::Sub => both(a, b, u64::wrapping_sub),
                Mnemonic::And => both(a, b, |a, b| a & b),
                Mnemonic::Or => both(a, b, |a, b| a | b),
                _ => both(a, b, |a, b| a ^ b),
            };
            state.flags = match instruction.mnemonic() {
                Mnemonic::Sub => flags(a, b),
                Mnemonic::Add => None,
                _ => flags(value, zero),
            };
            write(state, instruction, bytes, value);
        }
        Mnemonic::Cmp => state.flags = flags(first(state), second(state)),
        Mnemonic::Test => {
            let value = both(first(state), second(state), |a, b| a & b);
            state.flags = flags(value, zero);
        }
        Mnemonic::Push => {
            let value = first(state).filter(|_| instruction.op_kind(0) != OpKind::Memory || bytes == 8);
            if let Some(sp) = state.whole(RSP) {
                let sp = Value { bits: sp.bits.wrapping_sub(8), ..sp };
                state.set(RSP, Some(sp));
                state.store(sp.bits, 8, value);
            }
        }
        Mnemonic::Pop => {
            let sp = state.whole(RSP);
            let value = sp.and_then(|sp| state.load(sp.bits, 8, now));
            state.set(RSP, sp.map(|sp| Value { bits: sp.bits.wrapping_add(8), ..sp }));
            if instruction.op_kind(0) == OpKind::Register {
                state.set_register(instruction.op_register(0), value);
            }
        }
        Mnemonic::Leave => {
            let fp = state.whole(RBP);
            let value = fp.and_then(|fp| state.load(fp.bits, 8, now));
            state.set(RSP, fp.map(|fp| Value { bits: fp.bits.wrapping_add(8), ..fp }));
            state.set(RBP, value);
        }
        Mnemonic::Nop | Mnemonic::Endbr64 | Mnemonic::Pause => {}
        _ => forget_written(state, instruction),
    }
}

fn write(state: &mut State, instruction: &Instruction, bytes: usize, value: Option<Value>) {
    match instruction.op_kind(0) {
        OpKind::Register => state.set_register(instruction.op_register(0), value),
        OpKind::Memory => {
            if let Some(address) = state.address(instruction) {
                state.store(address, bytes, value);
            }
        }
        _ => {}
    }
}

/// Everything that an instruction writes is not known afterwards.
fn forget_written(state: &mut State, instruction: &Instruction) {
    if writes_text(instruction) {
        forget_text(state, instruction);
    }
    FACTORY.with_borrow_mut(|factory| forget_operands(state, instruction, factory.info(instruction)));
}

thread_local! {
    /// It has buffers, which are made once.
    static FACTORY: RefCell<InstructionInfoFactory> = RefCell::new(InstructionInfoFactory::new());
}

fn forget_operands(state: &mut State, instruction: &Instruction, info: &InstructionInfo) {
    let writes = |access: OpAccess| {
        matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        )
    };
    if info.used_memory().iter().any(|memory| writes(memory.access()))
        && !writes_text(instruction)
        && let Some(address) = state.address(instruction)
    {
        state.store(address, instruction.memory_size().size(), None);
    }
    for used in info.used_registers() {
        if writes(used.access()) && used.register().is_gpr() {
            state.set_register(used.register(), None);
        }
    }
    if instruction.rflags_modified() != 0 {
        state.flags = None;
    }
}

/// `stos`, `movs`: they write where rdi leads, and no operand says so.
fn writes_text(instruction: &Instruction) -> bool {
    matches!(instruction.op_kind(0), OpKind::MemoryESRDI | OpKind::MemoryESEDI | OpKind::MemoryESDI)
}

/// As many elements as rcx says with a prefix, from rdi on. Compilers clear the direction before.
fn forget_text(state: &mut State, instruction: &Instruction) {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    let count = if repeats { state.whole(RCX).map(|count| count.bits) } else { Some(1) };
    let Some(address) = state.whole(RDI).map(|address| address.bits) else { return };
    let bytes = count.map(|count| count.saturating_mul(instruction.memory_size().size() as u64));
    // It may be any number: all that is there may be old.
    match bytes {
        Some(0) => {}
        bytes => state.forget(address, bytes.unwrap_or(u64::MAX)),
    }
}

#[cfg(test)]
mod tests;
