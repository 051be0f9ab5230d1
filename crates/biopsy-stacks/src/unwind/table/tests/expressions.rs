//! Expressions of unwind information: which words of the stack and which registers they may ask for, and what they may not.

use super::{caller, evaluated};
use crate::unwind::evaluate::Evaluated;

/// Address of the first word of the stack.
const STACK: u64 = 0x7000;

/// DW_CFA_def_cfa_expression.
fn frame(expression: &[u8]) -> Vec<u8> {
    [&[0x0f, expression.len() as u8][..], expression].concat()
}

/// Where the frame is by an expression, told by which word the return address is.
fn frame_at(expression: &[u8], words: &[u64]) -> Option<u64> {
    caller(&frame(expression), 0, words).map(|(_, sp, _)| sp)
}

#[test]
fn a_frame_is_where_its_expression_says() {
    let words = [STACK + 0x18, 0x1111, 0x2222, 0x3333, 0x4444, 0x5555];
    for (expression, at) in [
        // rsp + 16; rsp - 8 + 24 in steps.
        (&[0x77, 0x10][..], STACK + 16),
        (&[0x77, 0x78, 0x23, 0x18], STACK + 16),
        // The word at rsp, which is the address of another.
        (&[0x77, 0x00, 0x06], STACK + 0x18),
        // The upper and lower of two: dup, over, swap, rot, pick, drop.
        (&[0x77, 0x08, 0x12, 0x13], STACK + 8),
        (&[0x77, 0x20, 0x77, 0x08, 0x16, 0x13], STACK + 8),
        (&[0x77, 0x08, 0x77, 0x20, 0x14, 0x16, 0x13, 0x16, 0x13], STACK + 8),
        (&[0x77, 0x10, 0x31, 0x32, 0x15, 0x02, 0x16, 0x13, 0x16, 0x13, 0x16, 0x13], STACK + 16),
        // rsp & -16, as functions that align their stack do; (rsp | 8) ^ 8 + 8.
        (&[0x77, 0x08, 0x09, 0xf0, 0x1a, 0x23, 0x10], STACK + 16),
        (&[0x77, 0x00, 0x38, 0x21, 0x38, 0x27, 0x23, 0x08], STACK + 8),
        // Shifts, multiplication, division, remainder.
        (&[0x77, 0x00, 0x34, 0x25, 0x34, 0x24, 0x23, 0x08], STACK + 8),
        (&[0x77, 0x00, 0x32, 0x34, 0x1e, 0x22], STACK + 8),
        (&[0x77, 0x00, 0x08, 0x40, 0x34, 0x1b, 0x22], STACK + 16),
        // Two branches: taken where the word on top is not zero.
        (&[0x77, 0x08, 0x31, 0x28, 0x02, 0x00, 0x23, 0x08], STACK + 8),
        (&[0x77, 0x08, 0x30, 0x28, 0x02, 0x00, 0x23, 0x08], STACK + 16),
    ] {
        assert_eq!(frame_at(expression, &words), Some(at), "{expression:02x?}");
    }
}

/// Words of 1 to 8 bytes of the stack, without a sign.
#[test]
fn parts_of_words_are_read_as_they_are() {
    let words = [0xfedc_ba98_7654_3210, 0, 0, 0, 0];
    for (size, value) in [(1, 0x10), (2, 0x3210), (4, 0x7654_3210), (8, 0xfedc_ba98_7654_3210_u64)] {
        // rbp is the value: DW_CFA_val_expression of rbp: breg7 0, deref_size.
        let expression = [0x16, 6, 4, 0x77, 0x00, 0x94, size];
        assert_eq!(caller(&expression, 0, &words).map(|(.., fp)| fp), Some(Some(value)), "{size} bytes");
    }
    // The last byte of the copy is there, the one behind it is not.
    let last = [0x16, 6, 4, 0x77, 0x27, 0x94, 1];
    assert_eq!(caller(&last, 0, &words).map(|(.., fp)| fp), Some(Some(0)));
    for behind in [
        [0x16, 6, 4, 0x77, 0x28, 0x94, 1],
        [0x16, 6, 4, 0x77, 0x25, 0x94, 4],
        [0x16, 6, 4, 0x77, 0x21, 0x94, 8],
    ] {
        let found = evaluated(&behind, 0, &words);
        assert!(matches!(found, Some(Evaluated::Unreadable(_))), "{behind:02x?}: {found:?}");
    }
}

#[test]
fn what_only_a_debugger_knows_gives_no_caller() {
    let words = [0x1000, 0x1001, 0x1002];
    for expression in [
        // The frame's own base, thread-local storage, the frame itself (in its own rule), an object that is passed along.
        &[0x91, 0x00][..],
        &[0x30, 0x9b],
        &[0x9c],
        &[0x97],
        // A register that nobody knows (xmm0), and one that the caller's rule lost before (rax).
        &[0x81, 0x00],
        &[0x70, 0x00],
        // A value, and two pieces.
        &[0x31, 0x9f],
        &[0x77, 0x00, 0x93, 0x04, 0x77, 0x00, 0x93, 0x04],
        // Less on the stack than is taken; division by zero; a branch out of the expression; nothing that anybody defined.
        &[0x22],
        &[0x31, 0x30, 0x1b],
        &[0x31, 0x28, 0x7f, 0x00],
        &[0x2f, 0xf0, 0xff],
        &[0x02],
        // Cut in a number.
        &[0x0e, 1, 2, 3],
        &[0x10, 0x80],
    ] {
        assert!(evaluated(&frame(expression), 0, &words).is_none(), "{expression:02x?}");
    }
}

/// Sums of addresses go round, and lead to no panic.
#[test]
fn numbers_wrap() {
    for (expression, at) in [
        (&[0x77, 0x00, 0x20, 0x20, 0x23, 0x08][..], STACK + 8),
        (&[0x77, 0x00, 0x1f, 0x1f, 0x23, 0x08], STACK + 8),
        (&[0x77, 0x00, 0x09, 0xff, 0x1c, 0x23, 0x07], STACK + 8),
        (
            &[0x0e, 8, 0, 0, 0, 0, 0, 0, 0x80, 0x77, 0x00, 0x22, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x22],
            STACK + 8,
        ),
    ] {
        assert_eq!(frame_at(expression, &[0x1000, 0x1001, 0x1002]), Some(at), "{expression:02x?}");
    }
    // A frame at the end of addresses: its return address is not on this stack.
    let round = evaluated(&frame(&[0x09, 0xff]), 0, &[1, 2, 3]);
    assert!(matches!(round, Some(Evaluated::Unreadable(_))), "{round:?}");
}
