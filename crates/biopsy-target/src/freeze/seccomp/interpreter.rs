//! Classic BPF as seccomp runs it (`seccomp_check_filter` and `bpf_convert_filter` of the kernel; bpf(4) of BSD).

use biopsy_sys::ptrace::seccomp::Instruction;

use super::answer::{Answer, Call};

/// Most instructions of one filter (`BPF_MAXINSNS`). Jumps go forward only, so this bounds the time too.
pub const MAX_INSTRUCTIONS: usize = 4096;

/// Cells of scratch memory (`BPF_MEMWORDS`).
const CELLS: usize = 16;

#[derive(Default)]
struct Machine {
    a: u32,
    x: u32,
    cells: [u32; CELLS],
}

/// Runs one filter. What the kernel would not have let in as a filter is answered like what it does not understand: it
/// counts as a kill.
pub(super) fn run(filter: &[Instruction], data: &[u8; Call::SIZE]) -> Answer {
    /// A filter that the kernel cannot have accepted.
    const NOT_A_FILTER: Answer = Answer::KillProcess;
    if filter.len() > MAX_INSTRUCTIONS {
        return NOT_A_FILTER;
    }
    let mut machine = Machine::default();
    let mut at = 0usize;
    // Each step goes forward, so the length is a bound on the steps.
    while let Some(&Instruction { code, jump_true, jump_false, k }) = filter.get(at) {
        at += 1;
        let skip = match code {
            RET_K => return Answer::from_return(k),
            RET_A => return Answer::from_return(machine.a),
            JMP_JA => usize::try_from(k).unwrap_or(usize::MAX),
            _ => match machine.test(code, k) {
                Some(true) => usize::from(jump_true),
                Some(false) => usize::from(jump_false),
                None => match machine.step(code, k, data) {
                    Step::On => 0,
                    Step::DividedByZero => return Answer::from_return(0),
                    Step::Unknown => return NOT_A_FILTER,
                },
            },
        };
        at = at.saturating_add(skip);
    }
    NOT_A_FILTER
}

enum Step {
    On,
    /// The kernel ends such a filter with 0, which kills the thread.
    DividedByZero,
    Unknown,
}

impl Machine {
    /// The outcome of a conditional jump; `None`: it is none.
    fn test(&self, code: u16, k: u32) -> Option<bool> {
        let Self { a, x, .. } = *self;
        Some(match code {
            JEQ_K => a == k,
            JEQ_X => a == x,
            JGT_K => a > k,
            JGT_X => a > x,
            JGE_K => a >= k,
            JGE_X => a >= x,
            JSET_K => a & k != 0,
            JSET_X => a & x != 0,
            _ => return None,
        })
    }

    fn step(&mut self, code: u16, k: u32, data: &[u8; Call::SIZE]) -> Step {
        const LENGTH: u32 = Call::SIZE as u32;
        let cell = usize::try_from(k).ok().filter(|&cell| cell < CELLS);
        match code {
            LD_W_ABS => match word(data, k) {
                Some(word) => self.a = word,
                None => return Step::Unknown,
            },
            LD_LEN => self.a = LENGTH,
            LDX_LEN => self.x = LENGTH,
            LD_IMM => self.a = k,
            LDX_IMM => self.x = k,
            LD_MEM | LDX_MEM | ST | STX => {
                let Some(cell) = cell.and_then(|cell| self.cells.get_mut(cell)) else { return Step::Unknown };
                match code {
                    LD_MEM => self.a = *cell,
                    LDX_MEM => self.x = *cell,
                    ST => *cell = self.a,
                    _ => *cell = self.x,
                }
            }
            TAX => self.x = self.a,
            TXA => self.a = self.x,
            NEG => self.a = self.a.wrapping_neg(),
            _ => return self.calculate(code, k),
        }
        Step::On
    }

    fn calculate(&mut self, code: u16, k: u32) -> Step {
        const FROM_X: u16 = 0x08;
        let operand = if code & FROM_X == 0 { k } else { self.x };
        let a = self.a;
        self.a = match code & !FROM_X {
            ADD => a.wrapping_add(operand),
            SUB => a.wrapping_sub(operand),
            MUL => a.wrapping_mul(operand),
            DIV => match a.checked_div(operand) {
                Some(quotient) => quotient,
                None => return Step::DividedByZero,
            },
            AND => a & operand,
            OR => a | operand,
            XOR => a ^ operand,
            // By more than the width: as the processor does it, by the lowest five bits.
            LSH => a.wrapping_shl(operand),
            RSH => a.wrapping_shr(operand),
            _ => return Step::Unknown,
        };
        Step::On
    }
}

/// The aligned 32-bit word at an offset.
fn word(data: &[u8; Call::SIZE], offset: u32) -> Option<u32> {
    if !offset.is_multiple_of(4) {
        return None;
    }
    let bytes = data.get(usize::try_from(offset).ok()?..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

// Codes that seccomp accepts: class, width or operation, and mode or source (linux/bpf_common.h, linux/filter.h).
const LD_IMM: u16 = 0x00;
const LDX_IMM: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const LD_W_ABS: u16 = 0x20;
const LD_MEM: u16 = 0x60;
const LDX_MEM: u16 = 0x61;
const LD_LEN: u16 = 0x80;
const LDX_LEN: u16 = 0x81;
const ADD: u16 = 0x04;
const SUB: u16 = 0x14;
const MUL: u16 = 0x24;
const DIV: u16 = 0x34;
const OR: u16 = 0x44;
const AND: u16 = 0x54;
const LSH: u16 = 0x64;
const RSH: u16 = 0x74;
const NEG: u16 = 0x84;
const XOR: u16 = 0xa4;
const JMP_JA: u16 = 0x05;
const JEQ_K: u16 = 0x15;
const JEQ_X: u16 = 0x1d;
const JGT_K: u16 = 0x25;
const JGT_X: u16 = 0x2d;
const JGE_K: u16 = 0x35;
const JGE_X: u16 = 0x3d;
const JSET_K: u16 = 0x45;
const JSET_X: u16 = 0x4d;
const RET_K: u16 = 0x06;
const RET_A: u16 = 0x16;
const TAX: u16 = 0x07;
const TXA: u16 = 0x87;
