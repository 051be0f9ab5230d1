//! Stacks that nobody should have: deeper than any, in circles, downwards, and of any words at all.

#![cfg(target_arch = "x86_64")]

use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, FileOffset};
use biopsy_stacks::unwind::{ExecutableMapping, ProcessUnwinder, StackMemory, UserRegisters};
use proptest::prelude::*;

const STACK: u64 = 0x7fff_0000_0000;
const CODE: u64 = 0x1000;
const CODE_END: u64 = 0x9000;
/// As many frames as are given.
const MOST: usize = 4096;

/// Code of a JIT compiler, which keeps frame pointers and has no unwind information.
fn unwinder() -> ProcessUnwinder {
    let mut unwinder = ProcessUnwinder::new();
    let mapping =
        ExecutableMapping { start: Avma(CODE), end: Avma(CODE_END), file_offset: FileOffset(0), tag: 0 };
    unwinder.add_module(&mapping, None);
    unwinder
}

fn walk(stack: &[u64], base: u64, fp: u64) -> (Vec<Avma>, StackEnd) {
    let bytes: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut frames = Vec::new();
    let registers = UserRegisters::new(CODE, base, fp);
    let end = unwinder().unwind(&registers, StackMemory { base, bytes: &bytes }, &mut frames).end;
    (frames, end)
}

/// A chain of frames: each word pair leads to the next pair, and returns into code.
fn chain(frames: u64, base: u64) -> Vec<u64> {
    (1..=frames).flat_map(|number| [base.wrapping_add(number * 16), CODE + 0x10]).collect()
}

#[test]
fn a_hundred_thousand_frames_are_cut() {
    for (frames, expected, ends) in [
        (10, 11, StackEnd::Truncated),
        (4_094, 4_095, StackEnd::Truncated),
        (4_096, MOST, StackEnd::Truncated),
        (100_000, MOST, StackEnd::Truncated),
    ] {
        let (found, end) = walk(&chain(frames, STACK), STACK, STACK);
        assert_eq!((found.len(), end), (expected, ends), "{frames}");
    }
    let mut whole = chain(1_000, STACK);
    *whole.last_mut().expect("it has words") = 0;
    assert_eq!((walk(&whole, STACK, STACK).0.len(), walk(&whole, STACK, STACK).1), (1_000, StackEnd::Root));
}

#[test]
fn a_chain_that_leads_back_ends_where_it_does() {
    for back in [0, 1, 5, 9] {
        let mut stack = chain(20, STACK);
        stack[9 * 2] = STACK + back * 16;
        let (found, end) = walk(&stack, STACK, STACK);
        assert_eq!((found.len(), end), (11, StackEnd::FramePointers), "{back}");
    }
}

#[test]
fn frames_at_the_end_of_all_addresses_do_not_go_round() {
    let base = u64::MAX - 0xff;
    let (found, end) = walk(&chain(15, base), base, base);
    assert_eq!((found.len(), end), (16, StackEnd::Truncated));
}

/// What was copied of a stack may end anywhere: as many frames as are whole come out, and it is said that more were there.
#[test]
fn a_stack_that_was_copied_in_part_gives_the_frames_that_are_whole() {
    let stack = chain(20, STACK);
    for words in 0..=stack.len() {
        let (found, end) = walk(&stack[..words], STACK, STACK);
        assert_eq!((found.len(), end), (1 + words / 2, StackEnd::Truncated), "{words} words");
        assert!(found.iter().skip(1).all(|frame| (CODE..CODE_END).contains(&frame.0)), "{words}: {found:?}");
    }
}

/// The word behind a frame pointer leads out of all code: what is there is no frame. A call ends where it returns to, so that the first
/// byte of code is no such place, and the one behind the last is.
#[test]
fn a_return_into_no_code_is_no_frame() {
    for (to, is_frame) in
        [(CODE, false), (CODE + 1, true), (CODE_END, true), (CODE_END + 1, false), (u64::MAX, false)]
    {
        let mut stack = chain(20, STACK);
        stack[5 * 2 + 1] = to;
        let (found, end) = walk(&stack, STACK, STACK);
        assert_eq!(found.len() > 6, is_frame, "{to:#x}: {} frames, {end:?}", found.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Words that lead somewhere: to the stack, into code, nowhere. Frames lie in code, and the walk ends.
    #[test]
    fn any_stack_is_walked_to_an_end(
        words in prop::collection::vec(prop_oneof![
            4 => (0..64_u64).prop_map(|slot| STACK + slot * 8),
            4 => CODE..CODE_END + 16,
            1 => any::<u64>(),
        ], 1..64),
        fp in 0..64_u64,
    ) {
        let (found, _) = walk(&words, STACK, STACK + fp * 8);
        prop_assert!(found.len() <= words.len() + 2, "{} of {}", found.len(), words.len());
        prop_assert!(found.iter().all(|ip| (CODE..CODE_END).contains(&ip.0)), "{:?}", found);
    }
}
