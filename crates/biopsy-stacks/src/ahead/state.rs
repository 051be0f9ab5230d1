//! What is known of registers and memory somewhere ahead of a frame.

use iced_x86::{Instruction, OpKind, Register};
use rustc_hash::FxHashMap;

/// Places in memory that one way writes at most; what it writes beyond is forgotten.
const WRITTEN: usize = 256;

/// Registers that a call leaves as they were, by their numbers in instructions: rbx, rsp, rbp, r12 to r15.
const KEPT: [usize; 7] = [3, 4, 5, 12, 13, 14, 15];

pub(super) const RAX: usize = 0;
pub(super) const RCX: usize = 1;
pub(super) const RSP: usize = 4;
pub(super) const RBP: usize = 5;
pub(super) const RDI: usize = 7;

/// Memory as it is now, before the thread goes on.
pub(super) trait MemoryNow {
    /// Up to eight bytes at `address`, as a number.
    fn read(&self, address: u64, bytes: usize) -> Option<u64>;

    /// The address is of the stack of the thread whose frames are looked at: nobody else writes there while it waits.
    fn is_own_stack(&self, address: u64) -> bool;
}

/// A number whose bits are known in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Value {
    pub(super) bits: u64,
    /// Which of them are known.
    pub(super) known: u64,
    /// It will still be so when the thread gets there: made of constants, registers and the thread's own stack. What was read
    /// elsewhere is only how it is now.
    pub(super) steady: bool,
}

impl Value {
    pub(super) fn constant(bits: u64) -> Self {
        Self { bits, known: u64::MAX, steady: true }
    }

    fn passing(bits: u64) -> Self {
        Self { bits, known: u64::MAX, steady: false }
    }
}

fn mask(bytes: usize) -> u64 {
    if bytes >= 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 }
}

/// What two numbers were compared: flags as after `cmp a, b`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Compared {
    pub(super) a: u64,
    pub(super) b: u64,
    pub(super) bytes: usize,
    /// It is what makes this way the way that it is: whether an exchange took place.
    pub(super) always: bool,
}

/// Registers, what was written since, flags.
#[derive(Clone, Debug)]
pub(super) struct State {
    registers: [Option<Value>; 16],
    /// By the address of eight bytes: the value, which of its bits were written.
    written: FxHashMap<u64, (Value, u64)>,
    /// More was written than is kept: what is there now may be old anywhere.
    is_overwritten: bool,
    pub(super) flags: Option<Compared>,
}

impl State {
    pub(super) fn new(registers: &[(usize, u64)]) -> Self {
        let mut state =
            Self { registers: [None; 16], written: FxHashMap::default(), is_overwritten: false, flags: None };
        for (number, value) in registers {
            state.set(*number, Some(Value::constant(*value)));
        }
        state
    }

    pub(super) fn whole(&self, number: usize) -> Option<Value> {
        self.registers.get(number).copied().flatten().filter(|value| value.known == u64::MAX)
    }

    pub(super) fn set(&mut self, number: usize, value: Option<Value>) {
        if let Some(slot) = self.registers.get_mut(number) {
            *slot = value;
        }
    }

    pub(super) fn forget_all_but_kept(&mut self) {
        for (number, slot) in self.registers.iter_mut().enumerate() {
            if !KEPT.contains(&number) {
                *slot = None;
            }
        }
        self.flags = None;
    }

    /// Puts back what a function keeps for its caller, after a walk through it.
    pub(super) fn keep_of(&mut self, caller: &Self) {
        for number in KEPT {
            self.set(number, caller.registers.get(number).copied().flatten());
        }
    }

    /// A register of any size, as an operand.
    pub(super) fn register(&self, register: Register) -> Option<Value> {
        let number = number_of(register)?;
        let value = self.registers.get(number).copied().flatten()?;
        let mask = mask(register.size());
        (value.known & mask == mask).then_some(Value {
            bits: value.bits & mask,
            known: u64::MAX,
            steady: value.steady,
        })
    }

    /// Writes a register of any size: 32 bits clear those above, 8 and 16 leave them.
    pub(super) fn set_register(&mut self, register: Register, value: Option<Value>) {
        let Some(number) = number_of(register) else {
            // ah, bh, ch, dh.
            if register.is_gpr8() {
                self.set(register.full_register().number(), None);
            }
            return;
        };
        let bytes = register.size();
        let (old, mask) = (self.registers.get(number).copied().flatten(), mask(bytes));
        let new = match (value, bytes) {
            (None, 4 | 8) => None,
            (Some(value), 8) => Some(value),
            (Some(value), 4) => Some(Value { bits: value.bits & mask, ..value }),
            (value, _) => {
                let old = old.unwrap_or(Value { bits: 0, known: 0, steady: true });
                let low = value.map_or(0, |value| value.bits & mask);
                Some(Value {
                    bits: old.bits & !mask | low,
                    known: old.known & !mask | if value.is_some() { mask } else { 0 },
                    steady: value.map_or(old.steady, |value| value.steady && old.steady),
                })
            }
        };
        self.set(number, new);
    }

    /// The lowest bytes of a register.
    pub(super) fn part(&self, number: usize, bytes: usize) -> Option<u64> {
        let value = self.registers.get(number).copied().flatten()?;
        let mask = mask(bytes);
        (value.known & mask == mask).then_some(value.bits & mask)
    }

    /// The address of the memory operand.
    pub(super) fn address(&self, instruction: &Instruction) -> Option<u64> {
        self.effective(instruction).map(|value| value.bits)
    }

    /// The same as a number: what `lea` gives.
    pub(super) fn effective(&self, instruction: &Instruction) -> Option<Value> {
        if !matches!(instruction.segment_prefix(), Register::None | Register::DS | Register::SS) {
            return None;
        }
        if instruction.is_ip_rel_memory_operand() {
            return Some(Value::constant(instruction.ip_rel_memory_address()));
        }
        let part = |register: Register| match register {
            Register::None => Some(Value::constant(0)),
            register => self.register(register),
        };
        let (base, index) = (part(instruction.memory_base())?, part(instruction.memory_index())?);
        let scaled = index.bits.wrapping_mul(instruction.memory_index_scale().into());
        let bits = base.bits.wrapping_add(scaled).wrapping_add(instruction.memory_displacement64());
        Some(Value { bits, steady: base.steady && index.steady, ..base })
    }

    /// What is at `address`, as far as it is known.
    pub(super) fn load(&self, address: u64, bytes: usize, now: &dyn MemoryNow) -> Option<Value> {
        let read = |bytes| now.read(address, bytes).filter(|_| !self.is_overwritten);
        let (word, shift) = (address & !7, (address & 7) * 8);
        let wanted = mask(bytes).checked_shl(shift as u32)?;
        if (address & 7) + bytes as u64 > 8 {
            let touched =
                self.written.contains_key(&word) || self.written.contains_key(&word.wrapping_add(8));
            return read(bytes).filter(|_| !touched).map(Value::passing);
        }
        let steady = now.is_own_stack(address);
        match self.written.get(&word) {
            Some((value, written)) if written & wanted == wanted => (value.known & wanted == wanted)
                .then_some(Value {
                    bits: value.bits >> shift & mask(bytes),
                    known: u64::MAX,
                    steady: value.steady,
                }),
            Some((_, written)) if written & wanted != 0 => None,
            _ => read(bytes).map(|bits| Value { bits, known: u64::MAX, steady }),
        }
    }

    /// Writes memory; `None`: something that is not known.
    pub(super) fn store(&mut self, address: u64, bytes: usize, value: Option<Value>) {
        if bytes == 0 || bytes > 8 || (address & 7) + bytes as u64 > 8 {
            // Vectors, and what lies across.
            self.forget(address, bytes.clamp(1, 64) as u64);
            return;
        }
        let shift = (address & 7) * 8;
        let value = value.map(|value| Value { bits: value.bits << shift, ..value });
        self.store_word(address & !7, mask(bytes) << shift, value);
    }

    /// Something that is not known was written to all words that these bytes touch.
    pub(super) fn forget(&mut self, address: u64, bytes: u64) {
        let last = (address & 7).saturating_add(bytes.saturating_sub(1)) / 8;
        if last >= WRITTEN as u64 {
            self.is_overwritten = true;
            return;
        }
        for word in 0..=last {
            self.store_word((address & !7).wrapping_add(word * 8), u64::MAX, None);
        }
    }

    fn store_word(&mut self, word: u64, mask: u64, value: Option<Value>) {
        if self.written.len() >= WRITTEN && !self.written.contains_key(&word) {
            self.is_overwritten = true;
            return;
        }
        let nothing = (Value { bits: 0, known: 0, steady: true }, 0);
        let (old, written) = self.written.get(&word).copied().unwrap_or(nothing);
        let new = Value {
            bits: old.bits & !mask | value.map_or(0, |value| value.bits & mask),
            known: old.known & !mask | if value.is_some() { mask } else { 0 },
            steady: old.steady && value.is_none_or(|value| value.steady),
        };
        self.written.insert(word, (new, written | mask));
    }

    /// The value of an operand.
    pub(super) fn operand(
        &self,
        instruction: &Instruction,
        index: u32,
        now: &dyn MemoryNow,
    ) -> Option<Value> {
        match instruction.op_kind(index) {
            OpKind::Register => self.register(instruction.op_register(index)),
            OpKind::Memory => {
                let bytes = instruction.memory_size().size();
                self.load(self.address(instruction)?, bytes, now).filter(|_| bytes <= 8)
            }
            _ => instruction.try_immediate(index).ok().map(Value::constant),
        }
    }
}

/// The number of a general register in instructions; `None` for others, and for ah, bh, ch, dh.
fn number_of(register: Register) -> Option<usize> {
    if !register.is_gpr() || matches!(register, Register::AH | Register::BH | Register::CH | Register::DH) {
        return None;
    }
    Some(register.full_register().number())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Memory;

    impl MemoryNow for Memory {
        fn read(&self, address: u64, bytes: usize) -> Option<u64> {
            (address >= 0x1000).then_some(0x1122_3344_5566_7788 & mask(bytes))
        }

        fn is_own_stack(&self, address: u64) -> bool {
            address >= 0x2000
        }
    }

    #[test]
    fn parts_of_registers_are_known_by_themselves() {
        let mut state = State::new(&[]);
        state.set_register(Register::AL, Some(Value::constant(1)));
        assert_eq!(state.register(Register::AL).map(|value| value.bits), Some(1));
        assert_eq!(state.register(Register::EAX), None);
        state.set_register(Register::EAX, Some(Value::constant(0x1_0000_0005)));
        assert_eq!(
            state.register(Register::RAX).map(|value| value.bits),
            Some(5),
            "the upper half is cleared"
        );
        state.set_register(Register::AH, Some(Value::constant(1)));
        assert_eq!(state.register(Register::AL), None, "nothing is known of what is written in between");
    }

    #[test]
    fn what_was_written_hides_what_is_there() {
        let mut state = State::new(&[]);
        assert!(
            state.load(0x2000, 4, &Memory).is_some_and(|value| value.steady && value.bits == 0x5566_7788)
        );
        assert!(state.load(0x1000, 4, &Memory).is_some_and(|value| !value.steady));
        assert_eq!(state.load(0x10, 4, &Memory), None);
        state.store(0x2004, 1, Some(Value::constant(7)));
        assert_eq!(state.load(0x2004, 1, &Memory).map(|value| value.bits), Some(7));
        assert_eq!(state.load(0x2000, 8, &Memory), None, "half of it is old");
        assert!(state.load(0x2000, 4, &Memory).is_some());
        state.store(0x2000, 16, None);
        assert_eq!(state.load(0x2008, 8, &Memory), None);
        assert!(state.load(0x2010, 8, &Memory).is_some(), "the word behind it is not written");
    }
}
