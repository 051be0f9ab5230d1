//! The decoder against functions written out by hand, against the processor's rules followed step by step, and against chance.

mod epilogues;

use biopsy_model::Avma;
use proptest::prelude::*;

use super::*;
use crate::unwind::rule::UNCHANGED;

const BASE: u64 = 0x7f00_0000_0000;
const CODE: u32 = 0x1000;
const INFO: u32 = 0x200;

/// Memory with unwind information at `INFO` and code at `CODE`.
struct Memory {
    info: Vec<u8>,
    code: Vec<u8>,
}

impl Memory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> bool {
        for (start, bytes) in [(INFO, &self.info), (CODE, &self.code)] {
            let at = address.wrapping_sub(BASE + u64::from(start));
            let Ok(at) = usize::try_from(at) else { continue };
            if let Some(found) = at.checked_add(buffer.len()).and_then(|end| bytes.get(at..end)) {
                buffer.copy_from_slice(found);
                return true;
            }
        }
        false
    }

    fn rule(&self, offset: u32, exact: bool) -> Option<FrameRule> {
        let function = RuntimeFunction { begin: CODE, end: CODE + self.code.len() as u32, unwind_info: INFO };
        windows_rule(
            Avma(BASE),
            function,
            Avma(BASE + u64::from(CODE + offset)),
            exact,
            &|address, buffer| self.read(address, buffer),
        )
    }
}

fn info(prologue: u8, frame: u8, codes: &[[u8; 2]]) -> Vec<u8> {
    let mut bytes = vec![1, prologue, codes.len() as u8, frame];
    bytes.extend(codes.iter().flatten());
    if codes.len() % 2 == 1 {
        bytes.extend([0, 0]);
    }
    bytes
}

/// rbx, rbp, r12, r13, r14, r15
fn rule(cfa_register: u8, cfa_offset: i32, saved: [i16; 6]) -> Option<FrameRule> {
    Some(FrameRule { cfa_register, cfa_offset, saved })
}

const U: i16 = UNCHANGED;

/// `push rbp; push r15; push rbx; sub rsp, 0x20; lea rbp, [rsp+0x30]; nop x8; lea rsp, [rbp-0x10]; pop rbx; pop r15; pop rbp; ret`
fn usual() -> Memory {
    let code = [
        0x55, 0x41, 0x57, 0x53, 0x48, 0x83, 0xec, 0x20, 0x48, 0x8d, 0x6c, 0x24, 0x30, 0x90, 0x90, 0x90, 0x90,
        0x90, 0x90, 0x90, 0x90, 0x48, 0x8d, 0x65, 0xf0, 0x5b, 0x41, 0x5f, 0x5d, 0xc3,
    ];
    let codes = [[13, 0x03], [8, 0x32], [4, 0x30], [3, 0xf0], [1, 0x50]];
    Memory { info: info(13, 0x35, &codes), code: code.to_vec() }
}

#[test]
fn a_usual_function_at_each_instruction() {
    let memory = usual();
    assert_eq!(memory.rule(0, true), rule(7, 8, [U; 6]), "at the entry");
    assert_eq!(memory.rule(1, true), rule(7, 16, [U, -2, U, U, U, U]), "rbp is pushed");
    assert_eq!(memory.rule(3, true), rule(7, 24, [U, -2, U, U, U, -3]));
    assert_eq!(memory.rule(4, true), rule(7, 32, [-4, -2, U, U, U, -3]));
    assert_eq!(memory.rule(8, true), rule(7, 64, [-4, -2, U, U, U, -3]), "room is made");
    let body = rule(6, 16, [-4, -2, U, U, U, -3]);
    assert_eq!(memory.rule(13, true), body, "the frame pointer is set");
    assert_eq!(memory.rule(17, false), body, "in the middle");
    assert_eq!(
        memory.rule(21, true),
        rule(6, 16, [-4, -2, U, U, U, -3]),
        "before the epilogue's first instruction"
    );
    assert_eq!(memory.rule(25, true), rule(7, 32, [-4, -2, U, U, U, -3]), "before the pops");
    assert_eq!(memory.rule(26, true), rule(7, 24, [U, -2, U, U, U, -3]), "rbx is back");
    assert_eq!(memory.rule(28, true), rule(7, 16, [U, -2, U, U, U, U]));
    assert_eq!(memory.rule(29, true), rule(7, 8, [U; 6]), "before the return");
}

#[test]
fn a_frame_without_frame_pointer_and_a_large_one() {
    // sub rsp, 0x1000 by the 16-bit form; rbx stored at [rsp+0x20].
    let memory = Memory { info: info(12, 0, &[[12, 0x34], [4, 0], [7, 0x01], [0, 2]]), code: vec![0x90; 32] };
    assert_eq!(memory.rule(20, false), rule(7, 0x1008, [-509, U, U, U, U, U]));
    // The 32-bit form.
    let memory = Memory { info: info(7, 0, &[[7, 0x11], [0, 0], [1, 0]]), code: vec![0x90; 32] };
    assert_eq!(memory.rule(20, false), rule(7, 0x1_0008, [U; 6]));
}

#[test]
fn dot_nets_own_large_frame_offset() {
    // push rbp; sub rsp, 0x400; lea rbp, [rsp+0x400]: offset 0x40 * 16.
    let codes = [[16, 0x0b], [0x40, 0], [0, 0], [8, 0x01], [0x80, 0], [1, 0x50]];
    let memory = Memory { info: info(16, 0xf5, &codes), code: vec![0x90; 64] };
    assert_eq!(memory.rule(40, false), rule(6, 16, [U, -2, U, U, U, U]));
}

#[test]
fn a_function_that_continues_another() {
    let mut memory = usual();
    // The continuation has saved r12 at [frame bottom + 8] and keeps the frame pointer of the first.
    let first = memory.info.len() as u32;
    let mut chained = vec![0x21, 5, 2, 0x35];
    chained.extend([5, 0xc4, 1, 0]);
    chained.extend(CODE.to_le_bytes());
    chained.extend((CODE + 30).to_le_bytes());
    chained.extend(INFO.to_le_bytes());
    memory.info.extend(&chained);
    let function = RuntimeFunction { begin: CODE, end: CODE + 30, unwind_info: INFO + first };
    let found =
        windows_rule(Avma(BASE), function, Avma(BASE + u64::from(CODE) + 15), false, &|address, buffer| {
            memory.read(address, buffer)
        });
    assert_eq!(found, rule(6, 16, [-4, -2, -7, U, U, -3]));
}

#[test]
fn a_chain_that_never_ends_and_what_nobody_defined() {
    let mut info = vec![0x21, 0, 0, 0];
    info.extend(CODE.to_le_bytes());
    info.extend((CODE + 30).to_le_bytes());
    info.extend(INFO.to_le_bytes());
    let memory = Memory { info, code: vec![0x90; 32] };
    assert_eq!(memory.rule(8, true), None);
    for operation in [10, 12, 13, 14, 15] {
        let memory = Memory { info: self::info(1, 0, &[[1, operation]]), code: vec![0x90; 32] };
        assert_eq!(memory.rule(8, false), None, "operation {operation}");
    }
    let memory = Memory { info: vec![3, 0, 0, 0], code: vec![0x90; 32] };
    assert_eq!(memory.rule(8, false), None, "a version that nobody defined");
}

#[test]
fn tail_calls_end_a_function_and_loops_do_not() {
    let end = |code: &[u8]| {
        let function = 0x1000..0x1100;
        epilogue::rule(0x1080, code, &function)
    };
    assert_eq!(
        end(&[0x5d, 0xe9, 0, 1, 0, 0]),
        rule(7, 16, [U, -2, U, U, U, U]),
        "a jump out of the function"
    );
    assert_eq!(end(&[0xe9, 0, 1, 0, 0]), rule(7, 8, [U; 6]), "with the frame taken down already");
    assert_eq!(end(&[0xeb, 0x10]), None, "a loop");
    assert_eq!(end(&[0x5d, 0xeb, 0x10]), None, "a pop within the body");
    assert_eq!(end(&[0x48, 0xff, 0xe0]), rule(7, 8, [U; 6]), "a marked tail call");
    assert_eq!(end(&[0xff, 0xe0]), None, "a jump table");
    assert_eq!(end(&[0x48, 0x83, 0xc4, 0x20, 0x5b, 0x5d, 0xc3]), rule(7, 56, [-3, -2, U, U, U, U]));
    assert_eq!(end(&[0x48, 0x83, 0xc4]), None, "cut");
    assert_eq!(end(&[]), None);
}

/// A prologue as a compiler could make it, with what it does to memory.
#[derive(Clone, Debug)]
struct Prologue {
    pushes: Vec<u8>,
    room: u32,
    /// `rbp` is set to the stack pointer plus this, in units of 16 bytes.
    frame: Option<u32>,
}

fn prologues() -> impl Strategy<Value = Prologue> {
    let pushes = proptest::sample::subsequence(vec![5_u8, 3, 12, 13, 14, 15], 0..=6);
    (pushes, 0..0x3000_u32, proptest::option::of(0..400_u32)).prop_map(|(pushes, words, frame)| Prologue {
        frame: frame.filter(|_| pushes.contains(&5)),
        pushes,
        room: words * 8,
    })
}

proptest! {
    /// Every state that the prologue goes through is undone to the caller's registers.
    #[test]
    fn any_prologue_at_any_point(prologue in prologues(), stop in 0..9_usize) {
        // Windows number -> (position in `CALLEE_SAVED`)
        let position = |register: u8| match register { 3 => 0, 5 => 1, other => usize::from(other) - 10 };
        let mut codes: Vec<Vec<[u8; 2]>> = Vec::new();
        let mut at = 0_u8;
        let mut states = vec![0_usize];
        for register in &prologue.pushes {
            at += 2;
            codes.push(vec![[at, register << 4]]);
            states.push(usize::from(at));
        }
        if prologue.room > 0 {
            at += 7;
            let scaled = prologue.room / 8;
            codes.push(match u16::try_from(scaled) {
                _ if prologue.room <= 128 => vec![[at, ((scaled - 1) as u8) << 4 | 2]],
                Ok(scaled) => vec![[at, 1], scaled.to_le_bytes()],
                Err(_) => unreachable!(),
            });
            states.push(usize::from(at));
        }
        let mut frame_byte = 0;
        if let Some(frame) = prologue.frame {
            at += 8;
            if frame < 15 {
                frame_byte = (frame as u8) << 4 | 5;
                codes.push(vec![[at, 3]]);
            } else {
                frame_byte = 0xf5;
                let [a, b, c, d] = frame.to_le_bytes();
                codes.push(vec![[at, 11], [a, b], [c, d]]);
            }
            states.push(usize::from(at));
        }
        let flat: Vec<[u8; 2]> = codes.iter().rev().flatten().copied().collect();
        let memory = Memory { info: info(at, frame_byte, &flat), code: vec![0x90; 256] };
        let state = stop.min(states.len() - 1);
        let offset = states[state] as u32;

        // What the processor does.
        let entry = 0x10_0000_i64;
        let mut sp = entry;
        let mut saved = [UNCHANGED; 6];
        for register in prologue.pushes.iter().take(state) {
            sp -= 8;
            saved[position(*register)] = ((sp - (entry + 8)) / 8) as i16;
        }
        let mut rbp = None;
        if state > prologue.pushes.len() {
            let mut left = state - prologue.pushes.len();
            if prologue.room > 0 {
                sp -= i64::from(prologue.room);
                left -= 1;
            }
            if left > 0 {
                rbp = prologue.frame.map(|frame| sp + i64::from(frame) * 16);
            }
        }
        let found = memory.rule(offset, true).expect("a rule");
        let base = match found.cfa_register { 7 => sp, 6 => rbp.expect("set"), other => panic!("register {other}") };
        prop_assert_eq!(base + i64::from(found.cfa_offset), entry + 8);
        prop_assert_eq!(found.saved, saved);
    }

    /// Whatever the bytes say, it ends, with a rule or without.
    #[test]
    fn any_bytes(info in proptest::collection::vec(any::<u8>(), 0..600), code in proptest::collection::vec(any::<u8>(), 0..64), offset in 0..80_u32) {
        let memory = Memory { info, code };
        if let Some(rule) = memory.rule(offset, true) {
            prop_assert!(rule.cfa_register < 16);
        }
    }
}
