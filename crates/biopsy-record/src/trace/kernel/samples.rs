//! At each tick of the sampling timer: what the running thread is doing, if it is one of ours.

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{
        GetCurrentPidTgid, GetSmpProcessorId, GetStack, KtimeGetNs, MapLookupElem, ProbeReadUser,
        RingbufOutput,
    },
    Label, Op,
    Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Width::{W32, W64},
};

use super::languages;
use super::layout::{config, hint, pt_regs, sample};
use super::maps::{Maps, NO_WAKEUP};
use super::switches::count;
use super::user_registers::UserRegisters;

const TID_KEY: i16 = -4;
const TGID_KEY: i16 = -8;
const CPU_KEY: i16 = -12;
/// Below are the words of [`languages::frames`].
const REGISTERS: i16 = -32 - pt_regs::SIZE;

/// `BPF_F_USER_STACK` (include/uapi/linux/bpf.h).
const USER_STACK: i32 = 1 << 8;

/// Sizes that are tried while a thread's stack base is not known yet: a copy fails as a whole where it meets an
/// unmapped page.
const UNKNOWN_SIZES: [i32; 4] = [32 * 1024, 16 * 1024, 8 * 1024, 4 * 1024];

/// Assembles the program. Its context is `struct bpf_perf_event_data`, which begins with the interrupted registers.
/// Registers: R6 context, R7 user SP, R8 bytes copied, R9 the record under construction.
/// It returns 0 always: nothing goes to the event's own ring.
pub(super) fn program(maps: &Maps, user_registers: UserRegisters, thread_pointer: Option<i32>) -> Vec<u64> {
    let mut asm = Assembler::new();
    let (done, emit) = (asm.label(), asm.label());

    asm.mov(R6, R1);
    asm.call(GetCurrentPidTgid);
    asm.mov(R7, R0);
    asm.mov(R8, R0);
    asm.op_imm(Op::ShiftLeft, R8, 32);
    asm.op_imm(Op::ShiftRight, R8, 32);
    asm.jump_if_imm(R8, Cond::Equal, 0, done);
    asm.op_imm(Op::ShiftRight, R7, 32);
    asm.store(W32, R10, TID_KEY, R8);
    asm.store(W32, R10, TGID_KEY, R7);
    asm.map(R1, &maps.targets);
    asm.address(R2, R10, TGID_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);

    if let Some(thread_pointer) = thread_pointer {
        let keys = languages::Keys { tid: TID_KEY, tgid: TGID_KEY, cpu: CPU_KEY };
        languages::frames(&mut asm, maps, thread_pointer, keys);
    }

    // One record's worth of scratch memory per CPU; interrupts of one kind do not nest.
    asm.call(GetSmpProcessorId);
    asm.store(W32, R10, CPU_KEY, R0);
    asm.map(R1, &maps.scratch);
    asm.address(R2, R10, CPU_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    asm.mov(R9, R0);
    asm.store_imm(W32, R9, 0, sample::KIND.cast_signed());
    asm.load(W32, R8, R10, TID_KEY);
    asm.store(W32, R9, sample::TID, R8);
    asm.load(W32, R7, R10, TGID_KEY);
    asm.store(W32, R9, sample::TGID, R7);
    asm.load(W32, R1, R10, CPU_KEY);
    asm.store(W32, R9, sample::CPU, R1);
    asm.store_imm(W32, R9, sample::FLAGS, 0);
    asm.call(KtimeGetNs);
    asm.store(W64, R9, sample::TIME, R0);

    registers(&mut asm, user_registers);
    user_stack(&mut asm, maps, emit);

    asm.place(emit);
    asm.store(W32, R9, sample::STACK_BYTES, R8);
    asm.map(R1, &maps.events);
    asm.mov(R2, R9);
    asm.mov(R3, R8);
    asm.op_imm(Op::Add, R3, sample::STACK);
    asm.mov_imm(R4, NO_WAKEUP);
    asm.call(RingbufOutput);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    count(&mut asm, maps, config::LOST_SAMPLES);

    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

/// Kernel stack, and the user's registers: from the interrupted context where that was user code, otherwise from where
/// the system call saved them. R7 = user SP.
fn registers(asm: &mut Assembler, user_registers: UserRegisters) {
    let (in_kernel, have_stack, stored) = (asm.label(), asm.label(), asm.label());
    asm.load(W64, R1, R6, pt_regs::CS);
    asm.op_imm(Op::And, R1, 3);
    asm.jump_if_imm(R1, Cond::Equal, 0, in_kernel);
    asm.store_imm(W32, R9, sample::KERNEL_BYTES, 0);
    asm.load(W64, R1, R6, pt_regs::IP);
    asm.store(W64, R9, sample::IP, R1);
    asm.load(W64, R1, R6, pt_regs::BP);
    asm.store(W64, R9, sample::BP, R1);
    asm.load(W64, R7, R6, pt_regs::SP);
    asm.jump(stored);

    asm.place(in_kernel);
    asm.mov(R1, R6);
    asm.address(R2, R9, sample::KERNEL);
    asm.mov_imm(R3, sample::KERNEL_MAX);
    asm.mov_imm(R4, 0);
    asm.call(GetStack);
    asm.jump_if_imm(R0, Cond::SignedGreater, 0, have_stack);
    asm.mov_imm(R0, 0);
    asm.place(have_stack);
    asm.store(W32, R9, sample::KERNEL_BYTES, R0);
    user_registers.find(asm, REGISTERS, None);
    asm.load(W64, R1, R0, pt_regs::IP);
    asm.store(W64, R9, sample::IP, R1);
    asm.load(W64, R1, R0, pt_regs::BP);
    asm.store(W64, R9, sample::BP, R1);
    asm.load(W64, R7, R0, pt_regs::SP);
    asm.place(stored);
    asm.store(W64, R9, sample::SP, R7);
}

/// Copies the used part of the user stack behind the header: just up to the thread's outermost frame where user space
/// has learned where that is. R6 = context, R7 = stack pointer, R9 = record; R8 = bytes. The thread's id is
/// at [`TID_KEY`].
pub(super) fn user_stack(asm: &mut Assembler, maps: &Maps, emit: Label) {
    let (unknown, copy) = (asm.label(), asm.label());
    asm.map(R1, &maps.hints);
    asm.address(R2, R10, TID_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, unknown);
    asm.load(W64, R1, R0, hint::FRAME_POINTERS);
    asm.jump_if_imm(R1, Cond::Equal, 0, copy);
    asm.mov(R1, R6);
    asm.mov(R2, R9);
    asm.op_imm(Op::Add, R2, sample::STACK);
    asm.mov_imm(R3, 127 * 8);
    asm.mov_imm(R4, USER_STACK);
    asm.store_imm(W32, R9, sample::FLAGS, sample::FLAG_FRAME_POINTERS);
    asm.call(GetStack);
    asm.mov(R8, R0);
    asm.jump_if_imm(R8, Cond::SignedLess, 0, unknown);
    asm.jump_if_imm(R8, Cond::LessOrEqual, 127 * 8, emit);
    asm.jump(unknown);

    asm.place(copy);
    asm.load(W64, R8, R0, hint::STACK_BASE);
    asm.op(Op::Sub, R8, R7);
    // Another stack than the known one gives a huge unsigned number here.
    asm.jump_if_imm(R8, Cond::Greater, sample::STACK_MAX, unknown);
    read_user(asm);
    asm.jump_if_imm(R0, Cond::Equal, 0, emit);

    asm.place(unknown);
    asm.store_imm(W32, R9, sample::FLAGS, 0);
    for size in UNKNOWN_SIZES {
        asm.mov_imm(R8, size);
        read_user(asm);
        asm.jump_if_imm(R0, Cond::Equal, 0, emit);
    }
    // To the end of the page.
    asm.mov_imm(R8, 4096);
    asm.mov(R1, R7);
    asm.op_imm(Op::And, R1, 4095);
    asm.op(Op::Sub, R8, R1);
    read_user(asm);
    asm.jump_if_imm(R0, Cond::Equal, 0, emit);
    asm.mov_imm(R8, 0);
}

/// R0 = 0 if R8 bytes from R7 on were copied.
fn read_user(asm: &mut Assembler) {
    asm.mov(R1, R9);
    asm.op_imm(Op::Add, R1, sample::STACK);
    asm.mov(R2, R8);
    asm.mov(R3, R7);
    asm.call(ProbeReadUser);
}
