//! At each context switch: times of the thread that leaves and of the one that comes.

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{KtimeGetNs, MapDeleteElem, MapLookupElem, MapUpdateElem, ProbeReadKernel, RingbufOutput},
    Label, Op,
    Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Width::{W8, W32, W64},
};

use super::layout::{config, pt_regs, slot, thread, thread_state, wait};
use super::maps::{MAYBE_SLOTS, Maps};
use super::user_registers::UserRegisters;

/// Stack slots. The ids of a task lie beside each other, as in `task_struct`: one read takes both.
const KEY: i16 = -8;
const TGID_KEY: i16 = -4;
const NEW_VALUE: i16 = -8 - thread::SIZE;
const RECORD: i16 = NEW_VALUE - wait::SIZE as i16;
const REGISTERS: i16 = RECORD - pt_regs::SIZE;

/// Where the kernel keeps what the program reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskLayout {
    /// The arguments have types: a task is loaded from, where it would be copied from by calls.
    pub(super) typed: bool,
    /// Offset of `task_struct.pid`.
    pub(super) pid: i16,
    /// Offset of `task_struct.tgid`.
    pub(super) tgid: i16,
    /// Offset of `task_struct.__state`; only read where the tracepoint does not give the state (before Linux 5.18).
    pub(super) state: i16,
    /// The tracepoint's fourth argument is the state.
    pub(super) state_argument: bool,
    /// Where the registers of user mode are.
    pub(super) user_registers: UserRegisters,
}

impl TaskLayout {
    /// Programs may load from the task that runs.
    pub(super) fn loads_current(self) -> bool {
        matches!(self.user_registers, UserRegisters::Loaded { .. })
    }
}

/// Arguments of `sched_switch`: preempted, previous task, next task, state of the previous one.
const ARG_PREEMPT: i16 = 0;
const ARG_PREV: i16 = 8;
const ARG_NEXT: i16 = 16;
const ARG_STATE: i16 = 24;

/// Assembles the program. Registers: R6 context, R7 time, R8 the thread, R9 its entry.
pub(super) fn program(maps: &Maps, task: TaskLayout) -> Vec<u64> {
    let mut asm = Assembler::new();
    let (no_prev, next, done) = (asm.label(), asm.label(), asm.label());

    asm.mov(R6, R1);
    read_ids(&mut asm, task, ARG_PREV);
    asm.store(W32, R10, TGID_KEY, R1);
    skip_others(&mut asm, maps, no_prev);
    find_or_add_previous(&mut asm, maps, no_prev);
    leave(&mut asm, task);
    asm.jump(next);

    asm.place(no_prev);
    asm.mov_imm(R7, 0);
    asm.place(next);
    find_next(&mut asm, maps, task, done);
    enter(&mut asm);
    write_long_wait(&mut asm, maps, done);

    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}

/// R9 = the leaving thread's entry, made if its process is a target, in its slot if one was given to it; otherwise goes to `not_ours`. R7 =
/// the time.
fn find_or_add_previous(asm: &mut Assembler, maps: &Maps, not_ours: Label) {
    let (found, known) = (asm.label(), asm.label());
    let (in_table, moves, has_entry) = (asm.label(), asm.label(), asm.label());
    find_slot(asm, maps);
    asm.load(W64, R1, R9, slot::OWNER);
    asm.jump_if(R1, Cond::Equal, R8, found);

    asm.store(W32, R10, KEY, R8);
    asm.map(R1, &maps.threads);
    asm.address(R2, R10, KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, has_entry);
    asm.map(R1, &maps.targets);
    asm.address(R2, R10, TGID_KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, not_ours);
    zero_new_value(asm, NEW_VALUE);
    asm.load(W32, R1, R10, TGID_KEY);
    asm.store(W64, R10, NEW_VALUE + thread::TGID, R1);
    asm.map(R1, &maps.threads);
    asm.address(R2, R10, KEY);
    asm.address(R3, R10, NEW_VALUE);
    asm.mov_imm(R4, 0);
    asm.call(MapUpdateElem);
    asm.map(R1, &maps.threads);
    asm.address(R2, R10, KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, in_table);
    count(asm, maps, config::THREADS_FULL);
    asm.jump(not_ours);

    asm.place(has_entry);
    asm.load(W32, R1, R9, slot::OWNER);
    asm.jump_if(R1, Cond::Equal, R8, moves);
    asm.place(in_table);
    asm.mov(R9, R0);
    asm.jump(known);

    asm.place(moves);
    for field in (0..thread::SIZE).step_by(8) {
        asm.load(W64, R1, R0, field);
        asm.store(W64, R9, slot::TIMES + field, R1);
    }
    asm.store_imm(W32, R9, slot::OWNER + 4, 0);
    asm.map(R1, &maps.threads);
    asm.address(R2, R10, KEY);
    asm.call(MapDeleteElem);

    asm.place(found);
    asm.op_imm(Op::Add, R9, i32::from(slot::TIMES));
    asm.place(known);
    asm.call(KtimeGetNs);
    asm.mov(R7, R0);
}

/// R9 = the slot that the thread of R8 has if it has one; R1 and R2 are lost.
pub(super) fn find_slot(asm: &mut Assembler, maps: &Maps) {
    asm.mov(R1, R8);
    asm.op_imm(Op::And, R1, maps.slot_count - 1);
    asm.op_imm(Op::Mul, R1, slot::SIZE);
    asm.map_value(R9, maps.slots.map(), 0);
    asm.op(Op::Add, R9, R1);
}

/// R9 = the entry of the thread of R8, or goes to `absent`.
pub(super) fn find_entry(asm: &mut Assembler, maps: &Maps, absent: Label) {
    let (in_slot, found) = (asm.label(), asm.label());
    find_slot(asm, maps);
    asm.load(W64, R1, R9, slot::OWNER);
    asm.jump_if(R1, Cond::Equal, R8, in_slot);
    asm.store(W32, R10, KEY, R8);
    asm.map(R1, &maps.threads);
    asm.address(R2, R10, KEY);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, absent);
    asm.mov(R9, R0);
    asm.jump(found);
    asm.place(in_slot);
    asm.op_imm(Op::Add, R9, i32::from(slot::TIMES));
    asm.place(found);
}

/// The thread of R9 leaves the CPU at R7.
fn leave(asm: &mut Assembler, task: TaskLayout) {
    let (not_running, ready, registers) = (asm.label(), asm.label(), asm.label());
    asm.load(W64, R1, R9, thread::STATE);
    asm.jump_if_imm(R1, Cond::NotEqual, imm(thread_state::RUNNING), not_running);
    add_elapsed(asm, thread::RUNNING);
    asm.place(not_running);
    asm.store(W64, R9, thread::SINCE, R7);
    asm.store(W64, R9, thread::OUT_TIME, R7);
    asm.store_imm(W64, R9, thread::WAKER, 0);
    add_one(asm, thread::SEQUENCE);

    asm.load(W64, R2, R6, ARG_PREEMPT);
    asm.op_imm(Op::And, R2, 0xff);
    asm.jump_if_imm(R2, Cond::NotEqual, 0, ready);
    if task.state_argument {
        asm.load(W64, R8, R6, ARG_STATE);
        asm.op_imm(Op::ShiftLeft, R8, 32);
        asm.op_imm(Op::ShiftRight, R8, 32);
    } else if task.typed {
        asm.load(W64, R8, R6, ARG_PREV);
        asm.load(W32, R8, R8, task.state);
    } else {
        asm.load(W64, R3, R6, ARG_PREV);
        asm.op_imm(Op::Add, R3, task.state.into());
        asm.address(R1, R10, TGID_KEY);
        asm.store_imm(W32, R10, TGID_KEY, 0);
        asm.mov_imm(R2, 4);
        asm.call(ProbeReadKernel);
        asm.load(W32, R8, R10, TGID_KEY);
    }
    asm.jump_if_imm(R8, Cond::Equal, 0, ready);
    asm.store_imm(W64, R9, thread::STATE, imm(thread_state::WAITING));
    asm.store_imm(W64, R9, thread::READY_TIME, 0);
    asm.store(W32, R9, thread::OUT_STATE, R8);
    add_one(asm, thread::VOLUNTARY);
    asm.jump(registers);

    asm.place(ready);
    asm.store_imm(W64, R9, thread::STATE, imm(thread_state::READY));
    asm.store(W64, R9, thread::READY_TIME, R7);
    asm.store_imm(W32, R9, thread::OUT_STATE, 0);
    add_one(asm, thread::INVOLUNTARY);

    // The user's registers lie at the top of the kernel stack: with them a waiting thread's stack can be unwound
    // from outside, and the system call it waits in is known.
    asm.place(registers);
    let previous = task.typed.then_some(R8);
    if task.typed {
        asm.load(W64, R8, R6, ARG_PREV);
    }
    task.user_registers.find(asm, REGISTERS, previous);
    asm.load(W64, R1, R0, pt_regs::ORIG_AX);
    asm.store(W32, R9, thread::SYSCALL, R1);
    for (from, to) in [(pt_regs::IP, thread::IP), (pt_regs::SP, thread::SP), (pt_regs::BP, thread::BP)] {
        asm.load(W64, R1, R0, from);
        asm.store(W64, R9, to, R1);
    }
}

/// R9 = the entry of the thread that comes, R8, or goes to `done` if it is none of ours; R7 = now.
fn find_next(asm: &mut Assembler, maps: &Maps, task: TaskLayout, done: Label) {
    let have_time = asm.label();
    read_ids(asm, task, ARG_NEXT);
    skip_others(asm, maps, done);
    find_entry(asm, maps, done);
    asm.jump_if_imm(R7, Cond::NotEqual, 0, have_time);
    asm.call(KtimeGetNs);
    asm.mov(R7, R0);
    asm.place(have_time);
}

/// R8 and R1 = tid and tgid of the task in the tracepoint's argument at `argument`; R6 is the context.
pub(super) fn read_ids(asm: &mut Assembler, task: TaskLayout, argument: i16) {
    if task.typed {
        asm.load(W64, R8, R6, argument);
        asm.load(W32, R1, R8, task.tgid);
        asm.load(W32, R8, R8, task.pid);
        return;
    }
    asm.store_imm(W64, R10, KEY, 0);
    let beside = task.tgid == task.pid + 4;
    let reads: &[(i16, i16, i32)] =
        if beside { &[(KEY, task.pid, 8)] } else { &[(KEY, task.pid, 4), (TGID_KEY, task.tgid, 4)] };
    for &(slot, offset, bytes) in reads {
        asm.load(W64, R3, R6, argument);
        asm.op_imm(Op::Add, R3, offset.into());
        asm.address(R1, R10, slot);
        asm.mov_imm(R2, bytes);
        asm.call(ProbeReadKernel);
    }
    asm.load(W32, R8, R10, KEY);
    asm.load(W32, R1, R10, TGID_KEY);
}

/// Goes to `not_ours` if the process of R1 is certainly no target, and for nobody's thread, R8 = 0. Most switches of a busy machine may be of
/// others: this is a byte of memory, instead of up to three hash maps.
pub(super) fn skip_others(asm: &mut Assembler, maps: &Maps, not_ours: Label) {
    asm.op_imm(Op::And, R1, MAYBE_SLOTS - 1);
    asm.map_value(R2, maps.maybe.map(), 0);
    asm.op(Op::Add, R2, R1);
    asm.load(W8, R1, R2, 0);
    asm.jump_if_imm(R1, Cond::Equal, 0, not_ours);
    asm.jump_if_imm(R8, Cond::Equal, 0, not_ours);
}

/// The thread of R9 gets the CPU at R7.
fn enter(asm: &mut Assembler) {
    let (not_waiting, account_done) = (asm.label(), asm.label());
    asm.load(W64, R1, R9, thread::STATE);
    asm.jump_if_imm(R1, Cond::NotEqual, imm(thread_state::WAITING), not_waiting);
    // Nobody was seen waking it: the whole time counts as waiting.
    add_elapsed(asm, thread::WAITING);
    asm.jump(account_done);
    asm.place(not_waiting);
    asm.jump_if_imm(R1, Cond::NotEqual, imm(thread_state::READY), account_done);
    add_elapsed(asm, thread::READY);
    asm.place(account_done);
    asm.store_imm(W64, R9, thread::STATE, imm(thread_state::RUNNING));
    asm.store(W64, R9, thread::SINCE, R7);
}

/// If the thread of R8, whose entry is R9, was away for longer than the threshold, a record says so.
fn write_long_wait(asm: &mut Assembler, maps: &Maps, done: biopsy_sys::bpf::asm::Label) {
    let short = asm.label();
    asm.load(W64, R3, R9, thread::OUT_TIME);
    asm.jump_if_imm(R3, Cond::Equal, 0, short);
    asm.map_value(R2, maps.config.map(), config::WAIT_THRESHOLD * 8);
    asm.load(W64, R2, R2, 0);
    asm.mov(R1, R7);
    asm.op(Op::Sub, R1, R3);
    asm.jump_if(R1, Cond::Less, R2, short);

    asm.store_imm(W32, R10, RECORD, imm(wait::KIND.into()));
    asm.store(W32, R10, RECORD + wait::TID, R8);
    asm.store(W64, R10, RECORD + wait::START, R3);
    asm.store(W64, R10, RECORD + wait::END, R7);
    for (width, from, to) in [
        (W64, thread::READY_TIME, wait::READY),
        (W64, thread::WAKER, wait::WAKER),
        (W32, thread::OUT_STATE, wait::STATE),
        (W32, thread::SYSCALL, wait::SYSCALL),
        (W64, thread::SEQUENCE, wait::SEQUENCE),
    ] {
        asm.load(width, R1, R9, from);
        asm.store(W64, R10, RECORD + to, R1);
    }
    add_one(asm, thread::SEQUENCE);
    asm.map(R1, &maps.events);
    asm.address(R2, R10, RECORD);
    asm.mov_imm(R3, wait::SIZE);
    asm.mov_imm(R4, super::maps::NO_WAKEUP);
    asm.call(RingbufOutput);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    count(asm, maps, config::LOST_WAITS);
    asm.jump(done);

    asm.place(short);
    add_one(asm, thread::SEQUENCE);
}

/// `[R9 + field] += R7 - [R9 + SINCE]`, using R1 and R2. A clock that is behind adds nothing.
pub(super) fn add_elapsed(asm: &mut Assembler, field: i16) {
    let behind = asm.label();
    asm.load(W64, R2, R9, thread::SINCE);
    asm.jump_if(R2, Cond::Greater, R7, behind);
    asm.mov(R1, R7);
    asm.op(Op::Sub, R1, R2);
    asm.load(W64, R2, R9, field);
    asm.op(Op::Add, R2, R1);
    asm.store(W64, R9, field, R2);
    asm.place(behind);
}

/// `[R9 + field] += 1`, using R1.
pub(super) fn add_one(asm: &mut Assembler, field: i16) {
    asm.load(W64, R1, R9, field);
    asm.op_imm(Op::Add, R1, 1);
    asm.store(W64, R9, field, R1);
}

/// Adds one to a counter of the `config` memory.
pub(super) fn count(asm: &mut Assembler, maps: &Maps, counter: i32) {
    asm.map_value(R2, maps.config.map(), counter * 8);
    asm.mov_imm(R1, 1);
    asm.atomic_add(R2, 0, R1);
}

/// Zeroes a thread entry on the stack at `at`.
pub(super) fn zero_new_value(asm: &mut Assembler, at: i16) {
    for field in (0..thread::SIZE).step_by(8) {
        asm.store_imm(W64, R10, at + field, 0);
    }
}

fn imm(value: u64) -> i32 {
    i32::try_from(value).expect("small constants")
}
