//! What is known after one instruction: a wrong number here takes a branch that the thread will not take, and names a wrong holder.

use iced_x86::{Decoder, DecoderOptions, Register};
use proptest::prelude::*;

use super::super::state::RAX;
use super::*;

const RBX: usize = 3;
const STACK: u64 = 0x7fff_0000_1000;
/// What stands in each word of the stack before anything is written.
const OLD: u64 = 0x0101_0101_0101_0101;

struct Memory;

impl MemoryNow for Memory {
    fn read(&self, _: u64, bytes: usize) -> Option<u64> {
        (bytes <= 8).then(|| OLD & if bytes == 8 { u64::MAX } else { (1 << (bytes * 8)) - 1 })
    }

    fn is_own_stack(&self, address: u64) -> bool {
        address >= STACK - 0x1000
    }
}

/// rax, rcx, rbx, rbp, rdi as said; rsp is the stack.
fn state(rax: u64, rcx: u64, rbx: u64) -> State {
    State::new(&[(RAX, rax), (RCX, rcx), (RBX, rbx), (RSP, STACK), (RBP, STACK + 0x40), (RDI, STACK + 0x80)])
}

fn run(state: &mut State, code: &[u8]) {
    let mut decoder = Decoder::with_ip(64, code, 0x40_0000, DecoderOptions::NONE);
    while decoder.can_decode() {
        let instruction = decoder.decode();
        assert!(!instruction.is_invalid(), "{code:02x?}");
        apply(state, &instruction, &Memory);
    }
}

fn of(state: &State, number: usize) -> Option<u64> {
    state.whole(number).map(|value| value.bits)
}

#[test]
fn numbers_are_worked_out_as_the_cpu_does() {
    const RBX_IS: u64 = 0xffff_ffff_8000_00f0;
    for (code, rax, expected) in [
        (&[0xb8, 5, 0, 0, 0][..], 9, Some(5)),                 // mov eax, 5
        (&[0x48, 0x89, 0xd8], 9, Some(RBX_IS)),                // mov rax, rbx
        (&[0x89, 0xd8], u64::MAX, Some(0x8000_00f0)),          // mov eax, ebx: clears the upper half
        (&[0xb0, 7], 0x1122, Some(0x1107)),                    // mov al, 7: leaves the rest
        (&[0x0f, 0xb6, 0xc3], u64::MAX, Some(0xf0)),           // movzx eax, bl
        (&[0x48, 0x0f, 0xbe, 0xc3], 0, Some(-16_i64 as u64)),  // movsx rax, bl
        (&[0x0f, 0xbe, 0xc3], 0, Some(0xffff_fff0)),           // movsx eax, bl
        (&[0x48, 0x63, 0xc3], 0, Some(0xffff_ffff_8000_00f0)), // movsxd rax, ebx
        (&[0x48, 0x8d, 0x44, 0x8b, 8], 0, Some(RBX_IS.wrapping_add(3 * 4 + 8))), // lea rax, [rbx + rcx * 4 + 8]
        (&[0x01, 0xd8], 0x8000_0010, Some(0x100)), // add eax, ebx: wraps at 32 bits
        (&[0x48, 0x83, 0xe8, 8], 3, Some(-5_i64 as u64)), // sub rax, 8
        (&[0x29, 0xc0], 3, Some(0)),               // sub eax, eax
        (&[0x25, 0xf0, 0, 0, 0], 0xabcd, Some(0xc0)), // and eax, 0xf0
        (&[0x83, 0xc8, 1], 0xff00, Some(0xff01)),  // or eax, 1
        (&[0x31, 0xd8], 0xf0, Some(0x8000_0000)),  // xor eax, ebx
        (&[0x6a, 0xff, 0x58], 0, Some(u64::MAX)),  // push -1; pop rax
        (&[0x53, 0x58], 0, Some(RBX_IS)),          // push rbx; pop rax
        (&[0x90, 0xf3, 0x90], 7, Some(7)),         // nop; pause
        // What is not worked out is not known, and nothing else is said of it.
        (&[0xd1, 0xe0], 7, None),                                  // shl eax, 1
        (&[0xff, 0xc0], 7, None),                                  // inc eax
        (&[0xf7, 0xd8], 7, None),                                  // neg eax
        (&[0x0f, 0x94, 0xc0], 7, None),                            // sete al
        (&[0x48, 0x0f, 0x45, 0xc3], 7, None),                      // cmovne rax, rbx
        (&[0x48, 0x0f, 0xaf, 0xc3], 7, None),                      // imul rax, rbx
        (&[0x48, 0x93], 7, None),                                  // xchg rbx, rax
        (&[0x0f, 0xc8], 7, None),                                  // bswap eax
        (&[0x0f, 0xa2], 7, None),                                  // cpuid
        (&[0xb4, 1], 7, None),                                     // mov ah, 1
        (&[0x48, 0x98], 7, None),                                  // cdqe
        (&[0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0], 7, None), // mov rax, fs:0x28
    ] {
        let mut state = state(rax, 3, RBX_IS);
        run(&mut state, code);
        assert_eq!(of(&state, RAX), expected, "{code:02x?} with {rax:#x}");
        assert_eq!(of(&state, RSP), Some(STACK), "{code:02x?}");
    }
}

#[test]
fn zero_made_of_what_is_not_known_is_zero() {
    for code in [&[0x31, 0xc0][..], &[0x29, 0xc0], &[0x48, 0x31, 0xc0]] {
        let mut state = State::new(&[]);
        run(&mut state, code);
        assert_eq!(of(&state, RAX), Some(0), "{code:02x?}");
    }
    let mut state = State::new(&[(RAX, 1)]);
    run(&mut state, &[0x31, 0xd8]); // xor eax, ebx
    assert_eq!(of(&state, RAX), None, "of another register");
}

#[test]
fn the_stack_is_where_push_pop_and_leave_put_it() {
    let mut state = state(1, 2, 3);
    run(&mut state, &[0x53, 0x6a, 7]); // push rbx; push 7
    assert_eq!(of(&state, RSP), Some(STACK - 16));
    run(&mut state, &[0x59]); // pop rcx
    assert_eq!((of(&state, RCX), of(&state, RSP)), (Some(7), Some(STACK - 8)));
    run(&mut state, &[0xc9]); // leave: what stands at rbp is what the caller had
    assert_eq!((of(&state, RSP), of(&state, RBP)), (Some(STACK + 0x48), Some(OLD)));
    // Where the stack is not known, nothing that is taken from it is.
    let mut lost = State::new(&[(RBX, 5), (RCX, 6)]);
    run(&mut lost, &[0x53, 0x59]);
    assert_eq!((of(&lost, RCX), of(&lost, RSP)), (None, None));
}

/// `[rsp + at]`, eight bytes.
fn stack(state: &State, at: u64) -> Option<u64> {
    state.load(STACK + at, 8, &Memory).map(|value| value.bits)
}

#[test]
fn what_is_written_to_the_stack_is_read_back_and_nothing_else_changes() {
    for (code, at, expected) in [
        (&[0x48, 0x89, 0x44, 0x24, 8][..], 8, Some(0x1122_3344_5566_7788)), // mov [rsp + 8], rax
        (&[0x48, 0x89, 0x44, 0x24, 8], 0, Some(OLD)),
        (&[0x48, 0x89, 0x44, 0x24, 8], 16, Some(OLD)),
        (&[0x48, 0x83, 0x04, 0x24, 1], 0, Some(OLD + 1)), // add qword [rsp], 1
        // Half of it is new, half of it is what it was: that is not put together.
        (&[0xc7, 0x44, 0x24, 8, 3, 0, 0, 0], 8, None), // mov dword [rsp + 8], 3
        (&[0xc6, 0x44, 0x24, 8, 1], 8, None),          // mov byte [rsp + 8], 1
        (&[0xc6, 0x44, 0x24, 8, 1], 0, Some(OLD)),
        // Across two words.
        (&[0x48, 0x89, 0x5c, 0x24, 4], 0, None), // mov [rsp + 4], rbx
        (&[0x48, 0x89, 0x5c, 0x24, 4], 8, None),
        (&[0x48, 0x89, 0x5c, 0x24, 4], 16, Some(OLD)),
        // A vector: two words, and not the one behind it, in which a guard may have its flag.
        (&[0x0f, 0x11, 0x04, 0x24], 0, None), // movups [rsp], xmm0
        (&[0x0f, 0x11, 0x04, 0x24], 8, None),
        (&[0x0f, 0x11, 0x04, 0x24], 16, Some(OLD)),
        (&[0x0f, 0x29, 0x44, 0x24, 0x10], 8, Some(OLD)), // movaps [rsp + 16], xmm0
        (&[0x0f, 0x29, 0x44, 0x24, 0x10], 0x10, None),
        (&[0x0f, 0x29, 0x44, 0x24, 0x10], 0x18, None),
        (&[0x0f, 0x29, 0x44, 0x24, 0x10], 0x20, Some(OLD)),
    ] {
        let mut state = state(0x1122_3344_5566_7788, 0, 9);
        run(&mut state, code);
        assert_eq!(stack(&state, at), expected, "[rsp + {at:#x}] after {code:02x?}");
    }
}

#[test]
fn what_is_cleared_or_copied_as_a_whole_is_not_what_it_was() {
    // rdi is 0x80 above rsp; rcx says how many.
    for (code, count, bytes) in [
        (&[0xf3, 0x48, 0xab][..], Some(4), 32_u64), // rep stosq
        (&[0xf3, 0x48, 0xab], Some(0), 0),
        (&[0xf3, 0xa4], Some(9), 16), // rep movsb: to the end of the word
        (&[0xab], Some(100), 8),      // stosd
        (&[0x48, 0xab], Some(100), 8),
    ] {
        let mut state = state(0, count.unwrap_or(0), 0);
        run(&mut state, code);
        for at in (0..0x100).step_by(8) {
            let is_written = (0x80..0x80 + bytes).contains(&at);
            assert_eq!(stack(&state, at), (!is_written).then_some(OLD), "[rsp + {at:#x}] after {code:02x?}");
        }
        assert_eq!(of(&state, RDI), None, "it moved");
    }
    // Of how many is not known, or more than is kept: then anything may have been written.
    for count in [None, Some(100_000), Some(u64::MAX)] {
        let mut state = state(0, 0, 0);
        state.set(RCX, count.map(Value::constant));
        run(&mut state, &[0xf3, 0x48, 0xab]);
        assert_eq!(stack(&state, 0x80), None, "{count:?}");
        assert_eq!(stack(&state, 0xf0), None, "{count:?}");
    }
}

#[test]
fn more_writes_than_are_kept_make_nothing_old_look_new() {
    let mut state = state(7, 0, 0);
    for word in 0..1_000 {
        state.store(STACK + word * 8, 8, Some(Value::constant(word)));
    }
    assert_eq!(stack(&state, 0), Some(0));
    assert_eq!(stack(&state, 100 * 8), Some(100));
    for word in [256, 500, 999] {
        assert_ne!(stack(&state, word * 8), Some(OLD), "word {word} was overwritten");
    }
}

/// All conditions that are told, with what they say of two numbers.
fn told(a: u64, b: u64, bytes: usize) -> Vec<(ConditionCode, bool)> {
    let bits = bytes as u32 * 8;
    let mask = u64::MAX >> (64 - bits);
    let (a, b) = (a & mask, b & mask);
    let signed = |value: u64| (value << (64 - bits)) as i64 >> (64 - bits);
    let (x, y) = (i128::from(signed(a)), i128::from(signed(b)));
    // The sign of what is left in so many bits.
    let negative = signed(a.wrapping_sub(b) & mask) < 0;
    vec![
        (ConditionCode::e, a == b),
        (ConditionCode::ne, a != b),
        (ConditionCode::b, a < b),
        (ConditionCode::ae, a >= b),
        (ConditionCode::be, a <= b),
        (ConditionCode::a, a > b),
        (ConditionCode::s, negative),
        (ConditionCode::ns, !negative),
        (ConditionCode::l, x < y),
        (ConditionCode::ge, x >= y),
        (ConditionCode::le, x <= y),
        (ConditionCode::g, x > y),
    ]
}

/// Numbers at which comparing goes wrong.
fn edges() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..4_u64,
        prop::sample::select(vec![
            0x7f,
            0x80,
            0xff,
            0x7fff_ffff,
            0x8000_0000,
            0xffff_ffff,
            0x1_0000_0000,
            i64::MAX as u64,
            1 << 63,
            u64::MAX
        ]),
    ]
}

proptest! {
    /// `cmp` of each width, against comparing of numbers.
    #[test]
    fn branches_after_a_comparison_are_those_that_are_taken(a in edges(), b in edges()) {
        // cmp rax, rbx; cmp eax, ebx; cmp ax, bx; cmp al, bl
        for (code, bytes) in [(&[0x48, 0x39, 0xd8][..], 8), (&[0x39, 0xd8], 4), (&[0x66, 0x39, 0xd8], 2), (&[0x38, 0xd8], 1)] {
            let mut state = state(a, 0, b);
            run(&mut state, code);
            let flags = state.flags.expect("both are known");
            for (condition, expected) in told(a, b, bytes) {
                prop_assert_eq!(holds(condition, flags), Some(expected), "{:?} of {:#x} and {:#x}, {} bytes", condition, a, b, bytes);
            }
            prop_assert_eq!(holds(ConditionCode::p, flags), None, "nobody counts bits");
            prop_assert_eq!(holds(ConditionCode::o, flags), None);
        }
    }

    /// `test` and `and` clear carry and overflow: what is left is compared with zero.
    #[test]
    fn branches_after_a_test_are_those_that_are_taken(a in edges(), b in edges()) {
        // test rax, rbx; test eax, ebx; test al, bl; and eax, ebx
        for (code, bytes) in [(&[0x48, 0x85, 0xd8][..], 8), (&[0x85, 0xd8], 4), (&[0x84, 0xd8], 1), (&[0x21, 0xd8], 4)] {
            let mut state = state(a, 0, b);
            run(&mut state, code);
            let flags = state.flags.expect("both are known");
            for (condition, expected) in told(a & b, 0, bytes) {
                prop_assert_eq!(holds(condition, flags), Some(expected), "{:?} of {:#x} and {:#x}, {} bytes", condition, a, b, bytes);
            }
        }
    }

    /// Any code: what is said to be known of the stack pointer and of memory needs no panic, and unknown numbers stay unknown.
    #[test]
    fn nothing_comes_of_nothing(code in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut decoder = Decoder::with_ip(64, &code, 0x40_0000, DecoderOptions::NONE);
        let mut state = State::new(&[]);
        while decoder.can_decode() {
            let instruction = decoder.decode();
            if !instruction.is_invalid() {
                apply(&mut state, &instruction, &Memory);
            }
        }
    }
}

#[test]
fn flags_that_somebody_else_may_change_decide_nothing() {
    // cmp qword [rbx], 5: memory that is not of the own stack may be another number when the thread gets there.
    let mut elsewhere = state(0, 0, 0x5000);
    run(&mut elsewhere, &[0x48, 0x83, 0x3b, 5]);
    assert_eq!(elsewhere.flags, None);
    let mut own = state(0, 0, STACK);
    run(&mut own, &[0x48, 0x83, 0x3b, 5]);
    assert!(own.flags.is_some_and(|flags| flags.a == OLD && flags.b == 5 && !flags.always));
    // What it was loaded into is no better.
    let mut loaded = state(0, 0, 0x5000);
    run(&mut loaded, &[0x48, 0x8b, 0x03, 0x48, 0x85, 0xc0]); // mov rax, [rbx]; test rax, rax
    assert_eq!(loaded.flags, None);
    // An instruction that changes flags in a way that is not followed forgets them; one that does not, keeps them.
    for (code, is_kept) in [
        (&[0x01, 0xd8][..], false),        // add eax, ebx
        (&[0xd1, 0xe0], false),            // shl eax, 1
        (&[0xff, 0xc0], false),            // inc eax
        (&[0x48, 0x89, 0xd8], true),       // mov rax, rbx
        (&[0x48, 0x8d, 0x43, 8], true),    // lea rax, [rbx + 8]
        (&[0x53], true),                   // push rbx
        (&[0x0f, 0x94, 0xc0], true),       // sete al
        (&[0x0f, 0x11, 0x04, 0x24], true), // movups [rsp], xmm0
    ] {
        let mut state = state(5, 0, 5);
        run(&mut state, &[0x39, 0xd8]); // cmp eax, ebx
        run(&mut state, code);
        assert_eq!(state.flags.is_some(), is_kept, "{code:02x?}");
    }
}

#[test]
fn parts_that_were_written_one_by_one_are_read_together() {
    let mut state = State::new(&[(RSP, STACK)]);
    // mov word [rsp], 2; mov byte [rsp + 2], 1: four bytes are half known, two and three are known.
    run(&mut state, &[0x66, 0xc7, 0x04, 0x24, 2, 0, 0xc6, 0x44, 0x24, 2, 1]);
    let load = |at: u64, bytes| state.load(STACK + at, bytes, &Memory).map(|value| value.bits);
    assert_eq!((load(0, 2), load(2, 1), load(0, 1), load(1, 1)), (Some(2), Some(1), Some(2), Some(0)));
    assert_eq!(load(0, 4), None, "the last byte is what it was");
    assert_eq!(load(4, 4), Some(OLD & 0xffff_ffff));
    assert_eq!(state.register(Register::RAX), None);
}
