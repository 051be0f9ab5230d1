//! Where programs find the registers that the current thread had in user mode.

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{GetCurrentTask, GetCurrentTaskBtf, ProbeReadKernel, TaskPtRegs},
    Op,
    Reg::{R0, R1, R2, R3, R10},
    Width::W64,
};

use super::layout::pt_regs;

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
}

/// `THREAD_SIZE` of x86-64 (arch/x86/include/asm/page_64_types.h). Kernels with KASAN have twice as much: see the check below.
const KERNEL_STACK: i32 = 16 << 10;

impl UserRegisters {
    /// R0 = address of a `struct pt_regs`, from which can be loaded. Needs [`pt_regs::SIZE`] bytes of the program's stack from `slot` on;
    /// R1 to R5 are lost.
    pub(super) fn find(self, asm: &mut Assembler, slot: i16) {
        match self {
            Self::Told => {
                asm.call(GetCurrentTaskBtf);
                asm.mov(R1, R0);
                asm.call(TaskPtRegs);
            }
            Self::OnStack { stack } => {
                let plausible = asm.label();
                asm.call(GetCurrentTask);
                asm.mov(R3, R0);
                asm.op_imm(Op::Add, R3, stack);
                asm.address(R1, R10, slot);
                asm.mov_imm(R2, 8);
                asm.call(ProbeReadKernel);
                asm.load(W64, R3, R10, slot);
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
