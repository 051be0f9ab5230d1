//! Where programs find the registers that the current thread had in user mode.

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{GetCurrentTask, GetCurrentTaskBtf, ProbeReadKernel, TaskPtRegs},
    Op, Reg,
    Reg::{R0, R1, R2, R3, R6, R10},
    Width::W64,
};

use super::layout::{config, pt_regs};
use super::maps::Maps;

/// How they are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum UserRegisters {
    /// The kernel tells (Linux 5.15).
    Told,
    /// They are copied from the top of the thread's kernel stack.
    OnStack {
        /// Offset of `task_struct.stack`.
        stack: i32,
    },
    /// They are loaded from where they lie (Linux 6.2), whose distance the kernel has told: three calls less.
    Loaded {
        /// Offset of `task_struct.stack`.
        stack: i16,
        /// From the beginning of the stack.
        distance: i32,
        /// BTF id of `struct pt_regs`.
        structure: i32,
        /// BTF id of `bpf_rdonly_cast`.
        cast: u32,
    },
}

/// `THREAD_SIZE` of x86-64 (arch/x86/include/asm/page_64_types.h). Kernels with KASAN have twice as much: see the check below.
const KERNEL_STACK: i32 = 16 << 10;

impl UserRegisters {
    /// R0 = address of a `struct pt_regs`, from which can be loaded. Needs [`pt_regs::SIZE`] bytes of the program's stack from `slot` on;
    /// R1 to R5 are lost. `of`: the thread, where the program has it with its type; otherwise the current one.
    pub(super) fn find(self, asm: &mut Assembler, slot: i16, of: Option<Reg>) {
        let task = |asm: &mut Assembler| {
            of.unwrap_or_else(|| {
                asm.call(GetCurrentTaskBtf);
                R0
            })
        };
        match self {
            Self::Told => {
                let task = task(asm);
                asm.mov(R1, task);
                asm.call(TaskPtRegs);
            }
            Self::Loaded { stack, distance, structure, cast } => {
                let task = task(asm);
                asm.load(W64, R1, task, stack);
                asm.op_imm(Op::Add, R1, distance);
                asm.mov_imm(R2, structure);
                asm.kernel_function(cast);
            }
            Self::OnStack { stack } => {
                let plausible = asm.label();
                if let (Some(task), Ok(stack)) = (of, i16::try_from(stack)) {
                    asm.load(W64, R3, task, stack);
                } else {
                    asm.call(GetCurrentTask);
                    asm.mov(R3, R0);
                    asm.op_imm(Op::Add, R3, stack);
                    asm.address(R1, R10, slot);
                    asm.mov_imm(R2, 8);
                    asm.call(ProbeReadKernel);
                    asm.load(W64, R3, R10, slot);
                }
                asm.op_imm(Op::Add, R3, KERNEL_STACK - i32::from(pt_regs::SIZE));
                asm.address(R1, R10, slot);
                asm.mov_imm(R2, i32::from(pt_regs::SIZE));
                asm.call(ProbeReadKernel);
                // Not of user mode: a kernel thread, or the stack is of another size than thought. No registers are better than wrong ones.
                asm.load(W64, R1, R10, slot + pt_regs::CS);
                asm.op_imm(Op::And, R1, 3);
                asm.jump_if_imm(R1, Cond::NotEqual, 0, plausible);
                for field in [pt_regs::BP, pt_regs::IP, pt_regs::SP] {
                    asm.store_imm(W64, R10, slot + field, 0);
                }
                asm.store_imm(W64, R10, slot + pt_regs::ORIG_AX, -1);
                asm.place(plausible);
                asm.address(R0, R10, slot);
            }
        }
    }
}

/// Assembles a program that notes where the registers of user mode lie, seen from the beginning of the kernel stack of whoever runs it: its size and
/// what is kept free above them are the kernel's.
pub(super) fn distance_program(maps: &Maps, stack: i16) -> Vec<u64> {
    let at = config::REGISTERS_DISTANCE * 8;
    let mut asm = Assembler::new();
    asm.call(GetCurrentTaskBtf);
    asm.mov(R6, R0);
    asm.mov(R1, R0);
    asm.call(TaskPtRegs);
    // By way of memory an address becomes a number.
    asm.map_value(R1, maps.config.map(), at);
    asm.store(W64, R1, 0, R0);
    asm.load(W64, R2, R1, 0);
    asm.load(W64, R3, R6, stack);
    asm.op(Op::Sub, R2, R3);
    asm.store(W64, R1, 0, R2);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}
