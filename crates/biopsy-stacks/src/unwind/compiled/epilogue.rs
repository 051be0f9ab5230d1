//! The last instructions of a function, where its frame is being taken down.
//!
//! ```text
//! c5 f8 77                 vzeroupper
//! 48 83 c4 20              add rsp, 0x20        or   48 8d 65 d8   lea rsp, [rbp-0x28]   or   48 8b e5   mov rsp, rbp
//! 5b  41 5e  5d            pop rbx, r14, rbp
//! c3                       ret                  or a jump out of the function (a tail call)
//! ```
//!
//! What lies straight before a `ret` is what will be executed, so following it gives the caller exactly, whatever it is part
//! of. No unwind information describes it: readers of the format look at the code as well.

use std::ops::Range;

use crate::unwind::registers::{CALLEE_SAVED, RBP, RSP};
use crate::unwind::rule::FrameRule;

/// The rule for a thread that stands at `address`, whose code is `code`, in a function that spans `function`; `None`: this is
/// not an epilogue.
pub(super) fn rule(address: u64, code: &[u8], function: &Range<u64>) -> Option<FrameRule> {
    let mut rest = code.strip_prefix(&[0xc5, 0xf8, 0x77]).unwrap_or(code);
    // Where the stack pointer will be, from what the register holds now.
    let (mut register, mut offset) = (RSP, 0_i64);
    let mut begun = false;
    if let Some((place, after)) = take_down(rest) {
        (register, offset) = place;
        rest = after;
        begun = true;
    }
    let mut saved: [Option<(u16, i64)>; CALLEE_SAVED.len()] = [None; CALLEE_SAVED.len()];
    while let Some((popped, after)) = pop(rest) {
        let position = CALLEE_SAVED.iter().position(|one| *one == popped)?;
        saved[position] = Some((register, offset));
        offset += 8;
        rest = after;
        begun = true;
    }
    if !is_end(rest, address, code, function, begun) {
        return None;
    }
    FrameRule::below(register, offset, |slot| saved[slot])
}

/// What moves the stack pointer to the saved registers.
fn take_down(code: &[u8]) -> Option<((u16, i64), &[u8])> {
    match code {
        [0x48, 0x83, 0xc4, small, rest @ ..] if *small < 0x80 => Some(((RSP, i64::from(*small)), rest)),
        [0x48, 0x81, 0xc4, a, b, c, d, rest @ ..] => {
            let bytes = i32::from_le_bytes([*a, *b, *c, *d]);
            (bytes > 0).then(|| ((RSP, i64::from(bytes)), rest))
        }
        [0x48, 0x8d, 0x65, small, rest @ ..] => Some(((RBP, i64::from(small.cast_signed())), rest)),
        [0x48, 0x8d, 0xa5, a, b, c, d, rest @ ..] => {
            Some(((RBP, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))), rest))
        }
        [0x48, 0x8b, 0xe5, rest @ ..] | [0x48, 0x89, 0xec, rest @ ..] => Some(((RBP, 0), rest)),
        _ => None,
    }
}

/// The register that is popped, by DWARF number, if it is one that a function must give back.
fn pop(code: &[u8]) -> Option<(u16, &[u8])> {
    match code {
        [0x5b, rest @ ..] => Some((3, rest)),
        [0x5d, rest @ ..] => Some((RBP, rest)),
        [0x41, register @ 0x5c..=0x5f, rest @ ..] => Some((u16::from(register - 0x58) + 8, rest)),
        _ => None,
    }
}

/// A return, or a jump out of the function. `begun`: something was taken down before it; a jump alone may be any jump, and
/// one through a register or memory is a tail call only behind an epilogue.
fn is_end(rest: &[u8], address: u64, code: &[u8], function: &Range<u64>, begun: bool) -> bool {
    let here = address.wrapping_add((code.len() - rest.len()) as u64);
    let leaves = |length: u64, distance: i64| {
        !function.contains(&here.wrapping_add(length).wrapping_add_signed(distance))
    };
    match rest {
        [0xc3, ..] | [0xc2, ..] | [0xf3, 0xc3, ..] => true,
        [0xe9, a, b, c, d, ..] => leaves(5, i64::from(i32::from_le_bytes([*a, *b, *c, *d]))),
        [0xeb, small, ..] => leaves(2, i64::from(small.cast_signed())),
        // Through memory: `jmp [rip+x]`, and with the prefix by which compilers mark tail calls.
        [0xff, 0x25, ..] => true,
        [0x48, 0xff, kind, ..] => kind >> 3 & 7 == 4,
        [0xff, kind, ..] | [0x41, 0xff, kind, ..] => begun && kind >> 3 & 7 == 4,
        _ => false,
    }
}
