//! At each tick of a thread that runs an interpreter: which functions of the language it is in.
//!
//! An interpreter writes its frames over as soon as functions return, so that they are read here, at the moment of the sample. Where
//! they are, user space says for each process. Names are found afterwards: code holds still.

use biopsy_runtimes::python::FrameWalk;
use biopsy_sys::bpf::asm::{
    Assembler, Cond,
    Helper::{
        GetCurrentTask, GetSmpProcessorId, MapLookupElem, ProbeReadKernel, ProbeReadUser, RingbufOutput,
    },
    Op,
    Reg::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10},
    Width::{W32, W64},
};

use super::layout::{language, language_place};
use super::maps::{Maps, NO_WAKEUP};

/// A word of the program's stack, and where its context is kept meanwhile.
const WORD: i16 = -24;
const CONTEXT: i16 = -32;

/// Sends the frames of the language before the sample itself. R6 is kept; the keys of the thread and the process are on the stack.
/// `thread_pointer`: offset of the user's thread pointer in the kernel's task.
pub(super) fn frames(asm: &mut Assembler, maps: &Maps, thread_pointer: i32, keys: Keys) {
    let (end, direct, next, emit) = (asm.label(), asm.label(), asm.label(), asm.label());
    asm.store(W64, R10, CONTEXT, R6);
    asm.map(R1, &maps.languages);
    asm.address(R2, R10, keys.tgid);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, end);
    asm.mov(R9, R0);
    asm.call(GetSmpProcessorId);
    asm.store(W32, R10, keys.cpu, R0);
    asm.map(R1, &maps.frames);
    asm.address(R2, R10, keys.cpu);
    asm.call(MapLookupElem);
    asm.jump_if_imm(R0, Cond::Equal, 0, end);
    asm.mov(R8, R0);
    asm.store_imm(W64, R8, language::COUNT, 0);
    asm.store_imm(W64, R8, language::HOLDER, 0);

    asm.call(GetCurrentTask);
    asm.mov(R3, R0);
    asm.op_imm(Op::Add, R3, thread_pointer);
    asm.address(R1, R10, WORD);
    asm.mov_imm(R2, 8);
    asm.call(ProbeReadKernel);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, end);
    for place in [language_place::THREAD, language_place::FIRST] {
        asm.load(W64, R3, R10, WORD);
        asm.jump_if_imm(R3, Cond::Equal, 0, end);
        asm.load(W64, R1, R9, place);
        asm.op(Op::Add, R3, R1);
        word(asm);
        asm.jump_if_imm(R0, Cond::NotEqual, 0, end);
    }
    asm.load(W64, R1, R9, language_place::FIRST_INNER);
    asm.jump_if_imm(R1, Cond::Equal, -1, direct);
    asm.load(W64, R3, R10, WORD);
    asm.jump_if_imm(R3, Cond::Equal, 0, end);
    asm.store(W64, R8, language::HOLDER, R3);
    asm.op(Op::Add, R3, R1);
    word(asm);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, end);
    asm.place(direct);
    asm.load(W64, R7, R10, WORD);
    asm.mov_imm(R6, 0);

    // R6 frames so far, R7 the next frame, R8 the record, R9 where frames are.
    asm.place(next);
    asm.jump_if_imm(R6, Cond::GreaterOrEqual, language::MOST, emit);
    asm.jump_if_imm(R7, Cond::Equal, 0, emit);
    asm.mov(R1, R8);
    asm.op_imm(Op::Add, R1, language::BUFFER);
    asm.load(W64, R2, R9, language_place::BYTES);
    asm.jump_if_imm(R2, Cond::Greater, language::BUFFER_BYTES, emit);
    asm.mov(R3, R7);
    asm.call(ProbeReadUser);
    asm.jump_if_imm(R0, Cond::NotEqual, 0, emit);
    asm.mov(R5, R6);
    asm.op_imm(Op::Mul, R5, language::FRAME);
    asm.op(Op::Add, R5, R8);
    asm.store(W64, R5, language::FRAMES, R7);
    let fields = [language_place::CODE, language_place::INSTRUCTION, language_place::MARKS];
    for (place, slot) in fields.into_iter().zip((8_i16..).step_by(8)) {
        field(asm, place, emit);
        asm.store(W64, R5, language::FRAMES + slot, R2);
    }
    field(asm, language_place::PREVIOUS, emit);
    asm.mov(R7, R2);
    asm.op_imm(Op::Add, R6, 1);
    asm.store(W64, R8, language::COUNT, R6);
    asm.jump(next);

    // The count is read back, so that the verifier need not follow each number of frames from here on.
    asm.place(emit);
    asm.load(W64, R6, R8, language::COUNT);
    asm.jump_if_imm(R6, Cond::Equal, 0, end);
    asm.jump_if_imm(R6, Cond::Greater, language::MOST, end);
    asm.store(W64, R8, language::NEXT, R7);
    asm.store_imm(W32, R8, 0, language::KIND.cast_signed());
    asm.load(W32, R1, R10, keys.tid);
    asm.store(W32, R8, language::TID, R1);
    asm.load(W32, R1, R10, keys.cpu);
    asm.store(W32, R8, language::CPU, R1);
    asm.map(R1, &maps.events);
    asm.mov(R2, R8);
    asm.mov(R3, R6);
    asm.op_imm(Op::Mul, R3, language::FRAME);
    asm.op_imm(Op::Add, R3, language::FRAMES.into());
    asm.mov_imm(R4, NO_WAKEUP);
    asm.call(RingbufOutput);
    asm.place(end);
    asm.load(W64, R6, R10, CONTEXT);
}

/// Where the calling program has the keys of maps on its stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    pub(super) tid: i16,
    pub(super) tgid: i16,
    pub(super) cpu: i16,
}

/// [`WORD`] = the user's word at R3; R0 = 0 if it is there.
fn word(asm: &mut Assembler) {
    asm.address(R1, R10, WORD);
    asm.mov_imm(R2, 8);
    asm.call(ProbeReadUser);
}

/// R2 = the word of the frame that was read which is where `place` says.
fn field(asm: &mut Assembler, place: i16, otherwise: biopsy_sys::bpf::asm::Label) {
    asm.load(W64, R1, R9, place);
    asm.jump_if_imm(R1, Cond::Greater, language::BUFFER_BYTES - 8, otherwise);
    asm.op(Op::Add, R1, R8);
    asm.op_imm(Op::Add, R1, language::BUFFER);
    asm.load(W64, R2, R1, 0);
}

/// The value of the `languages` map.
pub(super) fn place(walk: &FrameWalk) -> Vec<u8> {
    let mut value = vec![0; language_place::SIZE as usize];
    let mut put = |at: i16, word: u64| {
        let at = usize::try_from(at).expect("offsets are positive");
        value[at..at + 8].copy_from_slice(&word.to_ne_bytes());
    };
    put(language_place::THREAD, walk.thread.cast_unsigned());
    put(language_place::FIRST, walk.first);
    put(language_place::FIRST_INNER, walk.first_inner.unwrap_or(u64::MAX));
    put(language_place::PREVIOUS, walk.previous);
    put(language_place::CODE, walk.code);
    put(language_place::INSTRUCTION, walk.instruction);
    put(language_place::MARKS, walk.marks);
    put(language_place::BYTES, walk.bytes);
    value
}
