//! A small assembler for BPF: instructions with labels, in the order they run.
//!
//! Encoding: Documentation/bpf/standardization/instruction-set.rst. One instruction is 64 bits: opcode (8), destination
//! (4), source (4), offset (16), immediate (32).

use std::os::fd::{AsFd, AsRawFd};

use super::Map;

/// A register. R0: result; R1 to R5: arguments, lost by calls; R6 to R9: kept; R10: frame pointer, read-only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "numbers")]
pub enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
    R10,
}

/// Width of a load or store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "bits")]
pub enum Width {
    W8,
    W16,
    W32,
    W64,
}

impl Width {
    fn bits(self) -> u8 {
        match self {
            Width::W32 => 0x00,
            Width::W16 => 0x08,
            Width::W8 => 0x10,
            Width::W64 => 0x18,
        }
    }
}

/// A comparison, 64-bit, unsigned unless it says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the usual ones")]
pub enum Cond {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    SignedLess,
    SignedGreater,
    /// Some bits of the operand are set.
    AnyBits,
}

impl Cond {
    fn code(self) -> u8 {
        match self {
            Cond::Equal => 0x10,
            Cond::Greater => 0x20,
            Cond::GreaterOrEqual => 0x30,
            Cond::AnyBits => 0x40,
            Cond::NotEqual => 0x50,
            Cond::SignedGreater => 0x60,
            Cond::Less => 0xa0,
            Cond::LessOrEqual => 0xb0,
            Cond::SignedLess => 0xc0,
        }
    }
}

/// Arithmetic, 64-bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the usual ones")]
pub enum Op {
    Add,
    Sub,
    Mul,
    Or,
    And,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Move,
}

impl Op {
    fn code(self) -> u8 {
        match self {
            Op::Add => 0x00,
            Op::Sub => 0x10,
            Op::Mul => 0x20,
            Op::Or => 0x40,
            Op::And => 0x50,
            Op::ShiftLeft => 0x60,
            Op::ShiftRight => 0x70,
            Op::Move => 0xb0,
            Op::ShiftRightSigned => 0xc0,
        }
    }
}

/// Helper functions of the kernel that are used (`enum bpf_func_id`), with the version that brought them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "named as in bpf-helpers(7)")]
pub enum Helper {
    MapLookupElem = 1,
    MapUpdateElem = 2,
    MapDeleteElem = 3,
    KtimeGetNs = 5,
    /// 4.1
    GetPrandomU32 = 7,
    GetSmpProcessorId = 8,
    GetCurrentPidTgid = 14,
    /// 4.8
    GetCurrentTask = 35,
    /// 4.18
    GetStack = 67,
    /// 5.5
    ProbeReadUser = 112,
    /// 5.5
    ProbeReadKernel = 113,
    /// 5.7
    SeqWrite = 127,
    /// 5.8
    RingbufOutput = 130,
    /// 5.10
    ThisCpuPtr = 154,
    /// 5.11
    GetCurrentTaskBtf = 158,
    /// 5.13
    Snprintf = 165,
    /// 5.15
    TaskPtRegs = 175,
}

/// A place in the program that jumps may name before it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(usize);

/// A program under construction.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<u64>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// An empty program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn push(&mut self, opcode: u8, dst: u8, src: u8, offset: i16, imm: i32) {
        let word = u64::from(opcode)
            | u64::from(dst) << 8
            | u64::from(src) << 12
            | u64::from(offset.cast_unsigned()) << 16
            | u64::from(imm.cast_unsigned()) << 32;
        self.code.push(word);
    }

    /// `dst = dst op src`
    pub fn op(&mut self, op: Op, dst: Reg, src: Reg) {
        self.push(0x07 | 0x08 | op.code(), dst as u8, src as u8, 0, 0);
    }

    /// `dst = dst op imm`, the immediate sign-extended.
    pub fn op_imm(&mut self, op: Op, dst: Reg, imm: i32) {
        self.push(0x07 | op.code(), dst as u8, 0, 0, imm);
    }

    /// `dst = src`
    pub fn mov(&mut self, dst: Reg, src: Reg) {
        self.op(Op::Move, dst, src);
    }

    /// `dst = imm`
    pub fn mov_imm(&mut self, dst: Reg, imm: i32) {
        self.op_imm(Op::Move, dst, imm);
    }

    /// `dst = base + offset`, as for the address of a stack slot.
    pub fn address(&mut self, dst: Reg, base: Reg, offset: i16) {
        self.mov(dst, base);
        self.op_imm(Op::Add, dst, offset.into());
    }

    /// `dst = *(base + offset)`
    pub fn load(&mut self, width: Width, dst: Reg, base: Reg, offset: i16) {
        self.push(0x61 | width.bits(), dst as u8, base as u8, offset, 0);
    }

    /// `*(base + offset) = src`
    pub fn store(&mut self, width: Width, base: Reg, offset: i16, src: Reg) {
        self.push(0x63 | width.bits(), base as u8, src as u8, offset, 0);
    }

    /// `*(base + offset) = imm`
    pub fn store_imm(&mut self, width: Width, base: Reg, offset: i16, imm: i32) {
        self.push(0x62 | width.bits(), base as u8, 0, offset, imm);
    }

    /// `*(base + offset) += src`, atomically, 64 bits.
    pub fn atomic_add(&mut self, base: Reg, offset: i16, src: Reg) {
        self.push(0xdb, base as u8, src as u8, offset, 0);
    }

    /// `dst = ` the map.
    pub fn map(&mut self, dst: Reg, map: &Map) {
        const PSEUDO_MAP_FD: u8 = 1;
        self.push(0x18, dst as u8, PSEUDO_MAP_FD, 0, map.as_fd().as_raw_fd());
        self.push(0, 0, 0, 0, 0);
    }

    /// `dst = ` the address of the first value of an array, `offset` bytes into it.
    pub fn map_value(&mut self, dst: Reg, map: &Map, offset: i32) {
        const PSEUDO_MAP_VALUE: u8 = 2;
        self.push(0x18, dst as u8, PSEUDO_MAP_VALUE, 0, map.as_fd().as_raw_fd());
        self.push(0, 0, 0, 0, offset);
    }

    /// `dst = ` the kernel variable with this BTF id.
    pub fn kernel_variable(&mut self, dst: Reg, btf_id: u32) {
        const PSEUDO_BTF_ID: u8 = 3;
        self.push(0x18, dst as u8, PSEUDO_BTF_ID, 0, btf_id.cast_signed());
        self.push(0, 0, 0, 0, 0);
    }

    /// Calls a helper: R1 to R5 are its arguments and are lost, R0 is the result.
    pub fn call(&mut self, helper: Helper) {
        self.push(0x85, 0, 0, 0, helper as i32);
    }

    /// Calls a function that the kernel lets programs call, by its BTF id, as a helper is called.
    pub fn kernel_function(&mut self, btf_id: u32) {
        const PSEUDO_KFUNC_CALL: u8 = 2;
        self.push(0x85, 0, PSEUDO_KFUNC_CALL, 0, btf_id.cast_signed());
    }

    /// Ends the program with R0.
    pub fn exit(&mut self) {
        self.push(0x95, 0, 0, 0, 0);
    }

    /// A label to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label means the next instruction.
    pub fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    /// Goes to `label`.
    pub fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05, 0, 0, 0, 0);
    }

    /// Goes to `label` if `left cond right`.
    pub fn jump_if(&mut self, left: Reg, cond: Cond, right: Reg, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05 | 0x08 | cond.code(), left as u8, right as u8, 0, 0);
    }

    /// Goes to `label` if `left cond imm`, the immediate sign-extended.
    pub fn jump_if_imm(&mut self, left: Reg, cond: Cond, imm: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05 | cond.code(), left as u8, 0, 0, imm);
    }

    /// The finished program.
    ///
    /// # Panics
    /// When a label that is jumped to was not placed: a mistake in the program text, not in any input.
    #[must_use]
    pub fn finish(mut self) -> Vec<u64> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("every label that is used is placed");
            let distance = i64::try_from(to).expect("small") - i64::try_from(at).expect("small") - 1;
            let distance =
                i16::try_from(distance).expect("programs are far shorter than 32,768 instructions");
            self.code[at] |= u64::from(distance.cast_unsigned()) << 16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_like_the_specification() {
        let mut asm = Assembler::new();
        let end = asm.label();
        asm.mov_imm(Reg::R0, -1); // b7 00 0000 ffffffff
        asm.jump_if_imm(Reg::R1, Cond::Equal, 0, end); // 15 01 0001 00000000
        asm.load(Width::W64, Reg::R0, Reg::R1, 8); // 79 10 0008 00000000
        asm.place(end);
        asm.exit(); // 95
        assert_eq!(
            asm.finish(),
            vec![0xffff_ffff_0000_00b7, 0x0000_0000_0001_0115, 0x0000_0000_0008_1079, 0x95]
        );
    }
}
