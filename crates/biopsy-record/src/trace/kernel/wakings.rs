//! When a thread is woken: from now on it is ready, and this is who did it.

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{GetCurrentPidTgid, GetCurrentTaskBtf, KtimeGetNs, ThisCpuPtr},
    Label, Op,
    Reg::{R0, R1, R6, R7, R8, R9},
    Width::{W32, W64},
};

use super::layout::{pt_regs, thread, thread_state};
use super::maps::Maps;
use super::switches::{TaskLayout, add_elapsed, add_one, find_entry, read_ids, skip_others};

/// Below the keys.
const REGISTERS: i16 = -16 - pt_regs::SIZE;

/// Argument of `sched_waking`: the task.
const ARG_TASK: i16 = 0;

/// Bits of the preemption counter (include/linux/preempt.h): NMI and hard interrupt; and serving a soft interrupt.
const IN_INTERRUPT: i32 = 0x00ff_0000;
const IN_SOFT_INTERRUPT: i32 = 0x100;

/// System calls in whose context a loopback packet is delivered: write, sendto, sendmsg, writev, sendmmsg, close,
/// connect, shutdown, sendfile.
const SENDING: [i32; 9] = [1, 44, 46, 20, 307, 3, 42, 48, 40];

/// System calls that wake nobody: sched_yield, nanosleep, clock_nanosleep. What wakes inside them is an interrupt.
const WAKING_NOBODY: [i32; 3] = [24, 35, 230];

/// Assembles the program. `preempt_count`: BTF id of the per-CPU counter, where the kernel names it.
///
/// A wake-up from an interrupt is no deed of the thread that happened to run: such a waker is written as 0. A soft
/// interrupt is ambiguous: delivering to a local socket runs inside the sender's system call, and then the sender
/// *is* the waker. Where the counter is not named (kernels without data symbols in kallsyms), one case is still
/// certain: a thread that is in no system call, or in one that wakes nobody, was interrupted.
pub(super) fn program(maps: &Maps, task: TaskLayout, preempt_count: Option<u32>) -> Vec<u64> {
    let mut asm = Assembler::new();
    let (done, interrupt, by_current, store) = (asm.label(), asm.label(), asm.label(), asm.label());

    asm.mov(R6, R1);
    read_ids(&mut asm, task, ARG_TASK);
    skip_others(&mut asm, maps, done);
    find_entry(&mut asm, maps, done);
    add_one(&mut asm, thread::WAKEUPS);
    asm.load(W64, R1, R9, thread::STATE);
    // Still running: it had only announced that it would sleep.
    asm.jump_if_imm(R1, Cond::NotEqual, i32::try_from(thread_state::WAITING).expect("small"), done);
    asm.call(KtimeGetNs);
    asm.mov(R7, R0);
    add_elapsed(&mut asm, thread::WAITING);
    asm.store(W64, R9, thread::SINCE, R7);
    asm.store(W64, R9, thread::READY_TIME, R7);
    asm.store_imm(W64, R9, thread::STATE, i32::try_from(thread_state::READY).expect("small"));

    current_syscall(&mut asm, task);
    asm.jump_if_imm(R8, Cond::SignedLess, 0, interrupt);
    for syscall in WAKING_NOBODY {
        asm.jump_if_imm(R8, Cond::Equal, syscall, interrupt);
    }
    if let Some(id) = preempt_count {
        asm.kernel_variable(R1, id);
        asm.call(ThisCpuPtr);
        asm.load(W32, R7, R0, 0);
        asm.jump_if_imm(R7, Cond::AnyBits, IN_INTERRUPT, interrupt);
        soft_interrupt_is_current_if_sending(&mut asm, by_current, interrupt);
    }
    asm.place(by_current);
    if task.loads_current() {
        asm.load(W32, R0, R6, task.pid);
    } else {
        asm.call(GetCurrentPidTgid);
        asm.op_imm(Op::ShiftLeft, R0, 32);
        asm.op_imm(Op::ShiftRight, R0, 32);
    }
    asm.jump(store);
    asm.place(interrupt);
    asm.mov_imm(R0, 0);
    asm.place(store);
    asm.store(W64, R9, thread::WAKER, R0);

    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

/// R8 = the system call that the current thread is in; negative: none. R6 = the current task, where it can be loaded from.
fn current_syscall(asm: &mut Assembler, task: TaskLayout) {
    let current = task.loads_current().then_some(R6);
    if current.is_some() {
        asm.call(GetCurrentTaskBtf);
        asm.mov(R6, R0);
    }
    task.user_registers.find(asm, REGISTERS, current);
    asm.load(W64, R8, R0, pt_regs::ORIG_AX);
}

/// R8 is the system call, R7 the preemption counter.
fn soft_interrupt_is_current_if_sending(asm: &mut Assembler, by_current: Label, interrupt: Label) {
    let soft = asm.label();
    asm.jump_if_imm(R7, Cond::AnyBits, IN_SOFT_INTERRUPT, soft);
    asm.jump(by_current);
    asm.place(soft);
    for syscall in SENDING {
        asm.jump_if_imm(R8, Cond::Equal, syscall, by_current);
    }
    asm.jump(interrupt);
}
