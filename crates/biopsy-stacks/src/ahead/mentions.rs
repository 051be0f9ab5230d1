//! Whether any code could ever signal a condition that is a variable of its own.
//!
//! ```text
//! symbol table: the condition is a variable by itself ─► nobody comes to it through something larger
//! code of its module: lea reg, [condition] ─► the next call it goes into: wait, init, exit handlers; signal; something else
//! data of its module: a pointer to it ─► anybody may come to it
//! ```
//!
//! A variable's address is formed by instructions of its own module, or stands in its data: where each of these is accounted for, and
//! none leads to a signal, nobody can. A condition in the heap, or one that is a part of something, is not asked about.

use biopsy_image::{Image, MemoryExt};
use biopsy_model::{Avma, Svma};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::code::CodeView;
use crate::elf::ElfFile;

/// Code and data of a module that are searched, and its symbols, in bytes.
const CODE: u64 = 64 << 20;
const DATA: u64 = 16 << 20;
const SYMBOLS: u64 = 64 << 20;
/// Instructions from where an address is formed to the call that it goes into.
const NEAR: usize = 64;
/// A condition of glibc; `std::condition_variable_any` has a pointer more.
const SIZES: std::ops::RangeInclusive<u64> = 48..=64;
/// `Elf64_Sym`, and its type for variables.
const SYMBOL: usize = 24;
const OBJECT: u8 = 1;

/// Functions that take a condition and signal nobody, by parts of their names.
const QUIET: &[&str] = &[
    "cond_wait",
    "cond_timedwait",
    "cond_clockwait",
    "cond_init",
    "cond_destroy",
    "18condition_variable4wait",
    "18condition_variableC",
    "18condition_variableD",
    "cxa_atexit",
    "__wait_until_impl",
];

impl CodeView<'_> {
    /// No code of its module signals the condition at `address`. `false`: some does, or it cannot be told.
    pub(super) fn is_never_signalled(&mut self, image: &dyn Image, address: u64) -> bool {
        self.never_signalled(image, address).unwrap_or(false)
    }

    fn never_signalled(&mut self, image: &dyn Image, address: u64) -> Option<bool> {
        let (file, bias) = self.module_below(address)?;
        let svma = address.wrapping_sub(bias);
        // What other modules may link to is signalled by whoever does.
        if !is_variable(&file, ".symtab", svma)? || is_variable(&file, ".dynsym", svma) == Some(true) {
            return Some(false);
        }
        for data in file.loads().filter(|load| !load.is_executable()) {
            if data.memory_size > DATA {
                return None;
            }
            let bytes = image.read_up_to(data.address.wrapping_add(bias), data.memory_size as usize).ok();
            let words = bytes.as_deref().unwrap_or_default().as_chunks::<8>().0;
            if words.iter().any(|word| u64::from_le_bytes(*word) == address) {
                return Some(false);
            }
        }
        let mut mentions = Vec::new();
        for code in file.loads().filter(|load| load.is_executable()) {
            let bytes = file.code_at(code.address, code.memory_size.min(CODE))?;
            if code.memory_size > CODE {
                return None;
            }
            let from = code.address.wrapping_add(bias);
            for (at, window) in bytes.windows(4).enumerate() {
                let [a, b, c, d] = *window else { continue };
                let value = i32::from_le_bytes([a, b, c, d]);
                let next = from.wrapping_add(at as u64 + 4);
                let relative = next.wrapping_add_signed(i64::from(value)) == address;
                if relative || u64::from(value.cast_unsigned()) == address {
                    mentions.push(next);
                }
            }
        }
        // Nothing forms its address, and somebody waits there: it comes from elsewhere.
        Some(!mentions.is_empty() && mentions.into_iter().all(|end| self.is_quiet(end, address)))
    }

    /// The address that an instruction ends with, at `end`, goes into a call that signals nobody.
    fn is_quiet(&mut self, end: u64, address: u64) -> bool {
        self.quiet(end, address).unwrap_or(false)
    }

    fn quiet(&mut self, end: u64, address: u64) -> Option<bool> {
        // `lea reg, [rip + condition]` is 7 bytes, `mov reg, condition` 5.
        let forms = [7, 5].into_iter().find_map(|length| {
            let at = end.checked_sub(length)?;
            let instruction = self.decode(at)?;
            let forms = match instruction.mnemonic() {
                Mnemonic::Lea => {
                    instruction.is_ip_rel_memory_operand() && instruction.ip_rel_memory_address() == address
                }
                Mnemonic::Mov => {
                    instruction.op1_kind() == OpKind::Immediate32
                        && u64::from(instruction.immediate32()) == address
                }
                _ => false,
            };
            (forms && instruction.next_ip() == end && instruction.op0_kind() == OpKind::Register)
                .then_some(instruction)
        })?;
        let mut holds = vec![forms.op0_register().full_register()];
        let mut at = end;
        for _ in 0..NEAR {
            let instruction = self.decode(at)?;
            at = instruction.next_ip();
            match instruction.flow_control() {
                FlowControl::Next => {
                    if !step(&instruction, &mut holds)? {
                        return Some(true);
                    }
                }
                FlowControl::Call
                | FlowControl::IndirectCall
                | FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch => {
                    let name = self.name_of_call(&instruction);
                    // A jump inside of the function goes on with the same.
                    if name.is_none() && instruction.flow_control() == FlowControl::UnconditionalBranch {
                        at = instruction.near_branch_target();
                        continue;
                    }
                    let passes = holds.iter().any(|register| ARGUMENTS.contains(register));
                    if passes {
                        let name = name?;
                        if !QUIET.iter().any(|quiet| name.contains(quiet)) {
                            return Some(false);
                        }
                    }
                    holds.retain(|register| KEPT.contains(register));
                    // A jump to another function is the last call of this one.
                    let leaves = matches!(
                        instruction.flow_control(),
                        FlowControl::UnconditionalBranch | FlowControl::IndirectBranch
                    );
                    if holds.is_empty() || leaves {
                        return Some(true);
                    }
                }
                // Both ways may use it.
                FlowControl::ConditionalBranch => {}
                FlowControl::Return
                | FlowControl::Interrupt
                | FlowControl::XbeginXabortXend
                | FlowControl::Exception => return Some(true),
            }
        }
        // It is kept in a register for long: somewhere behind it may be anything.
        Some(false)
    }

    fn decode(&mut self, at: u64) -> Option<Instruction> {
        let bytes = self.code_bytes(at)?;
        let mut decoder = Decoder::with_ip(64, &bytes, at, DecoderOptions::NONE);
        let instruction = decoder.decode();
        (!instruction.is_invalid()).then_some(instruction)
    }
}

const ARGUMENTS: [Register; 6] =
    [Register::RDI, Register::RSI, Register::RDX, Register::RCX, Register::R8, Register::R9];
const KEPT: [Register; 6] =
    [Register::RBX, Register::RBP, Register::R12, Register::R13, Register::R14, Register::R15];

/// What one instruction does with registers that hold the address. `false`: none does any more; `None`: it goes where it is lost.
fn step(instruction: &Instruction, holds: &mut Vec<Register>) -> Option<bool> {
    let register = |operand: u32| {
        (instruction.op_count() > operand && instruction.op_kind(operand) == OpKind::Register)
            .then(|| instruction.op_register(operand).full_register())
    };
    let (to, from) = (register(0), register(1));
    if instruction.mnemonic() == Mnemonic::Push && to.is_some_and(|to| holds.contains(&to)) {
        return None;
    }
    if from.is_some_and(|from| holds.contains(&from)) {
        match (instruction.mnemonic(), to) {
            (Mnemonic::Mov, Some(to)) => {
                if !holds.contains(&to) {
                    holds.push(to);
                }
                return Some(true);
            }
            (Mnemonic::Cmp | Mnemonic::Test, _) => return Some(true),
            _ => return None,
        }
    }
    // Something is worked out from it.
    let based = holds.contains(&instruction.memory_base().full_register())
        || holds.contains(&instruction.memory_index().full_register());
    if based && instruction.mnemonic() == Mnemonic::Lea {
        return None;
    }
    let compares = matches!(instruction.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
    if let Some(to) = to.filter(|to| !compares && holds.contains(to)) {
        if !matches!(
            instruction.mnemonic(),
            Mnemonic::Mov | Mnemonic::Lea | Mnemonic::Xor | Mnemonic::Pop | Mnemonic::Movzx
        ) {
            return None;
        }
        holds.retain(|one| *one != to);
    }
    Some(!holds.is_empty())
}

/// The symbol table has a variable there, of the size of a condition. `None`: there is no such table.
fn is_variable(file: &ElfFile, table: &str, svma: u64) -> Option<bool> {
    let table = file.section_bytes(table, SYMBOLS).ok()??;
    let long = |bytes: &[u8; SYMBOL], at: usize| {
        bytes
            .get(at..at + 8)
            .and_then(|bytes| bytes.first_chunk::<8>())
            .map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    let is_it = |symbol: &[u8; SYMBOL]| {
        symbol[4] & 0xf == OBJECT && long(symbol, 8) == Svma(svma).0 && SIZES.contains(&long(symbol, 16))
    };
    Some(table.as_chunks::<SYMBOL>().0.iter().any(is_it))
}

impl CodeView<'_> {
    /// The module whose data an address may be of, and what its addresses are moved by.
    fn module_below(&self, address: u64) -> Option<(std::sync::Arc<ElfFile>, u64)> {
        let module = self.modules().find_below(address)?;
        let svma = module.svma(Avma(address))?.0;
        Some((std::sync::Arc::clone(module.file()?), address.wrapping_sub(svma)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(code: &[u8], holds: &[Register]) -> Option<(bool, Vec<Register>)> {
        let instruction = Decoder::with_ip(64, code, 0x1000, DecoderOptions::NONE).decode();
        let mut holds = holds.to_vec();
        step(&instruction, &mut holds).map(|goes_on| (goes_on, holds))
    }

    #[test]
    fn an_address_is_followed_through_registers() {
        use Register::{RBX, RDI};
        // mov rdi, rbx; mov rdi, rax; xor edi, edi
        assert_eq!(after(&[0x48, 0x89, 0xdf], &[RBX]), Some((true, vec![RBX, RDI])));
        assert_eq!(after(&[0x48, 0x89, 0xc7], &[RDI]), Some((false, vec![])));
        assert_eq!(after(&[0x31, 0xff], &[RDI, RBX]), None, "the same register is read");
        // mov [rax], rdi; add rdi, 8; lea rsi, [rdi + 8]; push rdi
        assert_eq!(after(&[0x48, 0x89, 0x38], &[RDI]), None, "it is stored");
        assert_eq!(after(&[0x48, 0x83, 0xc7, 0x08], &[RDI]), None);
        assert_eq!(after(&[0x48, 0x8d, 0x77, 0x08], &[RDI]), None);
        assert_eq!(after(&[0x57], &[RDI]), None);
        // mov eax, [rdi]
        assert_eq!(after(&[0x8b, 0x07], &[RDI]), Some((true, vec![RDI])));
    }
}
