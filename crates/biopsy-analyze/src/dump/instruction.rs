//! The instruction that failed, decoded.

use biopsy_image::GeneralRegisters;
use biopsy_model::Avma;
use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction as Decoded, InstructionInfoFactory, IntelFormatter,
    MemorySize, OpAccess, Register, UsedMemory,
};

/// How memory was accessed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Read.
    Read,
    /// Written.
    Write,
    /// Executed.
    Execute,
}

impl Access {
    /// `read`, `written`, `executed`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "written",
            Self::Execute => "executed",
        }
    }
}

/// An instruction, and what it wanted from memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// In Intel syntax: `mov rax, [rbx+0x18]`.
    pub text: String,
    /// The memory it accesses; empty when it accesses none.
    pub operands: Vec<Operand>,
}

/// Memory that an instruction accesses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operand {
    /// The address, by the registers of the thread.
    pub address: Avma,
    /// Bytes; zero when the instruction only names the address.
    pub bytes: u32,
    /// How.
    pub access: Access,
    /// The register that the address begins with, by name and value.
    pub base: Option<(String, u64)>,
    /// What is added to it.
    pub displacement: u64,
}

/// Decodes the first of `code`, which lies at `ip`.
pub(super) fn decode(code: &[u8], registers: &GeneralRegisters) -> Option<Instruction> {
    let mut decoder = Decoder::with_ip(64, code, registers.rip, DecoderOptions::NONE);
    let decoded = decoder.decode();
    if decoded.is_invalid() {
        return None;
    }
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    options.set_branch_leading_zeros(false);
    let mut text = String::new();
    formatter.format(&decoded, &mut text);
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&decoded);
    let operands =
        info.used_memory().iter().filter_map(|memory| operand(&decoded, memory, registers)).collect();
    Some(Instruction { text, operands })
}

fn operand(decoded: &Decoded, memory: &UsedMemory, registers: &GeneralRegisters) -> Option<Operand> {
    let access = match memory.access() {
        OpAccess::Read | OpAccess::CondRead => Access::Read,
        OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => {
            Access::Write
        }
        _ => return None,
    };
    let address = memory.virtual_address(0, |register, _, _| value(register, registers))?;
    let base = memory.base();
    let named = value(base, registers).filter(|_| base != Register::None && base != Register::RIP);
    let bytes =
        if memory.memory_size() == MemorySize::Unknown { 0 } else { memory.memory_size().size() as u32 };
    let base = named.map(|value| (format!("{base:?}").to_ascii_lowercase(), value));
    let _ = decoded;
    Some(Operand { address: Avma(address), bytes, access, base, displacement: memory.displacement() })
}

fn value(register: Register, registers: &GeneralRegisters) -> Option<u64> {
    Some(match register {
        // Bases of segments: only these two are not zero in 64-bit code.
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::CS | Register::DS | Register::ES | Register::SS => 0,
        Register::RIP => registers.rip,
        Register::RAX => registers.rax,
        Register::RBX => registers.rbx,
        Register::RCX => registers.rcx,
        Register::RDX => registers.rdx,
        Register::RSI => registers.rsi,
        Register::RDI => registers.rdi,
        Register::RBP => registers.rbp,
        Register::RSP => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_told_with_its_register() {
        let registers = GeneralRegisters { rax: 0, rbx: 0x10, ..Default::default() };
        // mov rcx, [rax+0x18]
        let read = decode(&[0x48, 0x8b, 0x48, 0x18], &registers).unwrap();
        assert_eq!(read.text, "mov rcx, [rax+0x18]");
        let operand = &read.operands[0];
        assert_eq!((operand.address, operand.bytes, operand.access), (Avma(0x18), 8, Access::Read));
        assert_eq!(operand.base, Some(("rax".to_owned(), 0)));
        // mov byte ptr [rbx], 1
        let write = decode(&[0xc6, 0x03, 0x01], &registers).unwrap();
        assert_eq!((write.operands[0].address, write.operands[0].access), (Avma(0x10), Access::Write));
    }

    #[test]
    fn half_an_instruction_is_none() {
        assert_eq!(decode(&[0x48], &GeneralRegisters::default()), None);
        assert_eq!(decode(&[], &GeneralRegisters::default()), None);
    }
}
