//! When a target makes a thread or, where children are followed, a process: it is recorded from its birth.

use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{GetCurrentPidTgid, KtimeGetNs, MapLookupElem, MapUpdateElem, ProbeReadKernel},
    Op,
    Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10},
    Width::{W8, W32, W64},
};

use super::layout::{slot, thread, thread_state};
use super::maps::{FOLLOW_CHILDREN, MAYBE_SLOTS, Maps};
use super::switches::{TaskLayout, find_slot, zero_new_value};

const CHILD_TID: i16 = -4;
const PARENT_TGID: i16 = -8;
const CHILD_TGID: i16 = -12;
const FLAGS: i16 = -16;
const NEW_VALUE: i16 = -24 - thread::SIZE;

/// Assembles the program. Arguments of `sched_process_fork`: parent, child. It runs in the parent.
pub(super) fn program(maps: &Maps, task: TaskLayout) -> Vec<u64> {
    let mut asm = Assembler::new();
    let (done, same_process) = (asm.label(), asm.label());
    asm.mov(R6, R1);
    asm.call(GetCurrentPidTgid);
    asm.mov(R7, R0);
    asm.mov(R1, R0);
    asm.op_imm(Op::ShiftRight, R1, 32);
    asm.store(W32, R10, PARENT_TGID, R1);
    asm.map(R1, &maps.targets);
    asm.address(R2, R10, PARENT_TGID);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, done);
    asm.load(W32, R8, R0, 0);
    asm.store(W32, R10, FLAGS, R8);
    for (slot, offset) in [(CHILD_TID, task.pid), (CHILD_TGID, task.tgid)] {
        asm.store_imm(W32, R10, slot, 0);
        asm.load(W64, R3, R6, 8);
        asm.op_imm(Op::Add, R3, offset.into());
        asm.address(R1, R10, slot);
        asm.mov_imm(R2, 4);
        asm.call(ProbeReadKernel);
    }
    asm.load(W32, R1, R10, CHILD_TGID);
    asm.load(W32, R2, R10, PARENT_TGID);
    asm.jump_if(R1, Cond::Equal, R2, same_process);
    asm.op_imm(Op::And, R8, FOLLOW_CHILDREN.cast_signed());
    asm.jump_if_imm(R8, Cond::Equal, 0, done);
    asm.load(W32, R1, R10, CHILD_TGID);
    asm.op_imm(Op::And, R1, MAYBE_SLOTS - 1);
    asm.map_value(R2, maps.maybe.map(), 0);
    asm.op(Op::Add, R2, R1);
    asm.store_imm(W8, R2, 0, 1);
    asm.map(R1, &maps.targets);
    asm.address(R2, R10, CHILD_TGID);
    asm.address(R3, R10, FLAGS);
    asm.mov_imm(R4, 0);
    asm.call(MapUpdateElem);

    asm.place(same_process);
    zero_new_value(&mut asm, NEW_VALUE);
    asm.call(KtimeGetNs);
    asm.store(W64, R10, NEW_VALUE + thread::SINCE, R0);
    asm.store_imm(W64, R10, NEW_VALUE + thread::STATE, i32::try_from(thread_state::READY).expect("small"));
    asm.load(W32, R1, R10, CHILD_TGID);
    asm.store(W64, R10, NEW_VALUE + thread::TGID, R1);
    asm.map(R1, &maps.threads);
    asm.address(R2, R10, CHILD_TID);
    asm.address(R3, R10, NEW_VALUE);
    asm.mov_imm(R4, 0);
    asm.call(MapUpdateElem);

    // Of a thread that had this tid before and whose end has not been noticed yet: what is there is not this one's.
    asm.load(W32, R8, R10, CHILD_TID);
    find_slot(&mut asm, maps);
    asm.load(W64, R1, R9, slot::OWNER);
    asm.jump_if(R1, Cond::NotEqual, R8, done);
    asm.store_imm(W32, R9, slot::OWNER + 4, 1);

    asm.place(done);
    asm.mov_imm(R0, 0);
    asm.exit();
    asm.finish()
}
