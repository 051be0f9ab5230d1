//! Stacks of Java: interpreted and compiled frames, and native code between them.

use proptest::prelude::*;

use super::{INTERPRETER, Made, STACK, STACK_BYTES, STUB};
use crate::jvm::compressed::Form;
use crate::jvm::frames::{Registers, Walk, Walker};

const RANGE: std::ops::Range<u64> = STACK..STACK + STACK_BYTES as u64;
/// Bytes of a frame of the interpreter here, from its stack pointer to its frame pointer.
const OPERANDS: u64 = 96;
const SEGMENT_BITS: u64 = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// At a byte code.
    Interpreted(u32),
    /// A compiled method with a frame of so many words.
    Compiled(u64),
    /// A stub of the runtime with a frame of so many words.
    Stub(u64),
    /// Native code called Java here, and had itself been called by Java.
    Native,
}

struct Code {
    method: u64,
    byte_code: u64,
    /// First instructions of pieces with frames of 2, 3, 4 ... words: of methods, and of stubs.
    compiled: Vec<u64>,
    stubs: Vec<u64>,
}

fn code(made: &mut Made) -> Code {
    let class = made.class("Main", &["work", "Main.java"]);
    let lines = super::line_table(&[(0, 1), (10, 2), (20, 3)], made.form);
    let method = made.method(class, 1, 30, Some(&lines), 0);
    let byte_code = made.image.word_at(method + 8) + 16;
    let memory = made.room(32 << SEGMENT_BITS);
    let map = made.bytes(&[0; 32]);
    let heap = made.words(&[memory, memory + (32 << SEGMENT_BITS), map, map + 32, SEGMENT_BITS]);
    made.heaps.push(heap);
    let mut pieces = (0..32).map(|number| {
        let at = memory + (number << SEGMENT_BITS) + 16;
        let compiled = number < 16;
        made.image.word(at, made.names[usize::from(!compiled)]);
        made.image.half(at + 8, 2 + (number % 16) as u32);
        made.image.word(at + 16, at + 0x60);
        made.image.word(at + 24, method);
        at + 0x60
    });
    let compiled = pieces.by_ref().take(16).collect();
    Code { method, byte_code, compiled, stubs: pieces.collect() }
}

/// Writes the frames, innermost first, and below the last the stub that native code called by. Gives the registers of the first.
fn stack(made: &mut Made, code: &Code, kinds: &[Kind]) -> Registers {
    let all = [kinds, &[Kind::Native]].concat();
    // Where each frame is: stack pointer, frame pointer (where it has one), instruction that is next.
    let mut places = Vec::new();
    let mut sp = STACK + 0x100;
    for (number, kind) in all.iter().enumerate() {
        let (fp, pc, next) = match kind {
            Kind::Interpreted(_) => {
                (Some(sp + OPERANDS), INTERPRETER + 8 + number as u64, sp + OPERANDS + 16)
            }
            Kind::Compiled(words) => (None, code.compiled[*words as usize - 2] + 4, sp + 8 * words),
            Kind::Stub(words) => (None, code.stubs[*words as usize - 2] + 4, sp + 8 * words),
            // The frame of the call, with the wrapper below its frame pointer; native frames follow.
            Kind::Native => (Some(sp + 64), STUB, sp + 160),
        };
        places.push((sp, fp, pc));
        sp = next;
    }
    for (number, kind) in all.iter().enumerate() {
        let (sp, fp, _) = places[number];
        let next = places.get(number + 1).copied();
        // What the one above has for a frame pointer: frames that keep none leave it alone.
        let above_fp = places[number + 1..].iter().find_map(|(_, fp, _)| *fp).unwrap_or(0);
        let (above_sp, _, above_pc) = next.unwrap_or_default();
        let image = &mut made.image;
        match kind {
            Kind::Interpreted(at) => {
                let fp = fp.expect("it has one");
                for (place, word) in [
                    (fp - 64, code.byte_code + u64::from(*at)),
                    (fp - 24, code.method),
                    (fp - 8, above_sp),
                    (fp, above_fp),
                    (fp + 8, above_pc),
                ] {
                    image.word(place, word);
                }
            }
            Kind::Compiled(words) | Kind::Stub(words) => {
                image.word(sp + 8 * words - 16, above_fp);
                image.word(sp + 8 * words - 8, above_pc);
            }
            Kind::Native => {
                let wrapper = made.room(64);
                // The anchor: where Java had called; all zero where nothing of Java is below.
                let anchor = next.map_or([0; 3], |(sp, fp, pc)| [sp, fp.unwrap_or(above_fp), pc]);
                made.image.word(fp.expect("it has one") - 48, wrapper);
                for (place, word) in anchor.into_iter().enumerate() {
                    made.image.word(wrapper + 32 + 8 * place as u64, word);
                }
            }
        }
    }
    let (sp, _, pc) = places[0];
    let fp = places.iter().find_map(|(_, fp, _)| *fp).unwrap_or(0);
    Registers { pc, sp, fp, byte_code: None }
}

fn walk(made: &mut Made, from: Registers, running: bool, most: usize) -> Walk {
    made.read(|vm, code| Walker { vm, code }.walk(from, running, &RANGE, most))
}

fn lines(walk: &Walk) -> Vec<Option<u32>> {
    walk.frames.iter().map(|frame| frame.line).collect()
}

fn expected(kinds: &[Kind]) -> Vec<Option<u32>> {
    let shown = |kind: &Kind| match kind {
        Kind::Interpreted(at) => Some(Some(at / 10 + 1).filter(|_| *at < 30)),
        Kind::Compiled(_) => Some(None),
        Kind::Stub(_) | Kind::Native => None,
    };
    kinds.iter().filter_map(shown).collect()
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = prop_oneof![
        4 => (0..40_u32).prop_map(Kind::Interpreted),
        4 => (2..18_u64).prop_map(Kind::Compiled),
        1 => (2..18_u64).prop_map(Kind::Stub),
        1 => Just(Kind::Native),
    ];
    prop::collection::vec(kind, 1..30)
}

proptest! {
    #[test]
    fn all_frames_of_java_are_walked(kinds in kinds()) {
        let mut made = Made::new(false, Form::WithoutZero);
        let code = code(&mut made);
        let from = stack(&mut made, &code, &kinds);
        let walk = walk(&mut made, from, false, 100);
        prop_assert_eq!(lines(&walk), expected(&kinds));
        prop_assert!(!walk.cut);
        prop_assert!(walk.frames.iter().all(|frame| &*frame.function == "Main.work"));
        prop_assert!(walk.frames.is_sorted_by_key(|frame| frame.sp.map(|sp| sp.0)));
    }

    #[test]
    fn a_walk_ends_where_it_is_told_to(kinds in kinds(), most in 0..8_usize) {
        let mut made = Made::new(false, Form::WithoutZero);
        let code = code(&mut made);
        let from = stack(&mut made, &code, &kinds);
        let walk = walk(&mut made, from, false, most);
        let all = expected(&kinds);
        prop_assert_eq!(lines(&walk), &all[..all.len().min(most)]);
        prop_assert!(walk.cut || all.len() <= most);
    }

    /// Words of the stack that are anything: what is walked before is the same, and the walk ends.
    #[test]
    fn any_stack_ends(
        kinds in kinds(),
        changes in prop::collection::vec((0..400_u64, prop_oneof![any::<u64>(), RANGE, Just(0), Just(INTERPRETER), Just(STUB)]), 1..6),
        running in any::<bool>(),
    ) {
        let mut made = Made::new(false, Form::WithoutZero);
        let code = code(&mut made);
        let from = stack(&mut made, &code, &kinds);
        for (word, value) in &changes {
            made.image.word(STACK + 0x100 + 8 * word, *value);
        }
        let walk = walk(&mut made, from, running, 50);
        // No frame of these has more than one call.
        prop_assert!(walk.frames.len() <= 50);
        prop_assert!(walk.frames.is_sorted_by_key(|frame| frame.sp.map(|sp| sp.0)));
    }
}

/// Stubs have no frames to list; there may be no more of them than steps.
#[test]
fn a_walk_that_ends_before_the_stack_does_says_so() {
    for (stubs, most, cut) in [(2, 1, false), (100, 1, true), (0, 0, true), (100, 50, false)] {
        let mut made = Made::new(false, Form::WithoutZero);
        let code = code(&mut made);
        let kinds = vec![Kind::Stub(2); stubs];
        let from = stack(&mut made, &code, &kinds);
        let walk = walk(&mut made, from, false, most);
        assert_eq!((walk.frames.len(), walk.cut), (0, cut), "{stubs} {most}");
    }
}

/// The frame of a method that stands at these instructions is not there yet, or no more.
#[test]
fn a_thread_that_runs_is_unwound_by_its_next_instruction() {
    for (what, instruction, complete, words_below) in [
        ("ret", &[0xc3_u8][..], 0, 0_u64),
        ("the check before it", &[0x49, 0x3b, 0x67, 0x10], 0, 0),
        ("a jump to the runtime", &[0x0f, 0x87, 1, 2], 0, 0),
        ("pop rbp", &[0x5d], 0, 1),
        ("in its entry, nothing pushed", &[0x90], 64, 0),
        ("in its entry, the frame pointer pushed", &[0x90], 64, 1),
        ("in the middle", &[0x90], 0, 6),
    ] {
        let mut made = Made::new(false, Form::WithoutZero);
        let code = code(&mut made);
        // A frame of 8 words, of which so many are still below the return address.
        let pc = code.compiled[6] + 4;
        made.image.put(pc, instruction);
        made.image.put(code.compiled[6] - 0x60 + 12, &[complete, 0, 0, 0]);
        let above = stack(&mut made, &code, &[Kind::Interpreted(12)]);
        let (above_sp, return_at) = (above.sp, above.sp - 8);
        made.image.word(return_at, above.pc);
        made.image.word(return_at - 8, above.fp);
        // `rbp` is what the caller has, until it is pushed and used for something else.
        let (sp, fp) = match words_below {
            0 => (return_at, above.fp),
            1 => (return_at - 8, 0xdead),
            _ => (above_sp - 8 * 8, 0xdead),
        };
        let walk = walk(&mut made, Registers { pc, sp, fp, byte_code: None }, true, 10);
        assert_eq!(lines(&walk), [None, Some(2)], "{what}");
    }
}

#[test]
fn the_interpreter_says_what_runs_in_a_register() {
    let mut made = Made::new(false, Form::WithoutZero);
    let code = code(&mut made);
    let from = stack(&mut made, &code, &[Kind::Interpreted(2), Kind::Interpreted(12)]);
    for (byte_code, running, line) in [
        (Some(code.byte_code + 25), true, 3),
        // What the register has is not of this method.
        (Some(code.byte_code + 30), true, 1),
        (Some(code.byte_code - 1), true, 1),
        (Some(0), true, 1),
        (None, true, 1),
        // It stands behind a call: the register is the callee's.
        (Some(code.byte_code + 25), false, 1),
    ] {
        let walk = walk(&mut made, Registers { byte_code, ..from }, running, 10);
        assert_eq!(lines(&walk), [Some(line), Some(2)], "{byte_code:x?} {running}");
    }
}

#[test]
fn where_a_thread_left_java_is_in_its_anchor() {
    let mut made = Made::new(false, Form::WithoutZero);
    let anchor = made.room(32);
    for (words, expected) in [
        ([0, 7, 9], None),
        ([STACK + 16, 7, 9], Some((9, STACK + 16, 7))),
        // Compiled code does not write where it left: the call did, below the stack pointer.
        ([STACK + 16, 7, 0], Some((0x77, STACK + 16, 7))),
        ([1, 7, 0], None),
    ] {
        made.image.word(STACK + 8, 0x77);
        for (place, word) in words.into_iter().enumerate() {
            made.image.word(anchor + 8 * place as u64, word);
        }
        let found = made.read(|vm, code| Walker { vm, code }.anchor(anchor));
        assert_eq!(found.map(|at| (at.pc, at.sp, at.fp)), expected, "{words:x?}");
    }
    assert_eq!(made.read(|vm, code| Walker { vm, code }.anchor(u64::MAX - 4)), None);
}
