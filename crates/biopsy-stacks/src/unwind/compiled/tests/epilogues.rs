//! Epilogues as a compiler could make them, against the processor's rules followed step by step.

use proptest::prelude::*;

use super::super::epilogue;
use crate::unwind::rule::UNCHANGED;

const FUNCTION: std::ops::Range<u64> = 0x1000..0x1400;
const HERE: u64 = 0x1200;

/// How the stack pointer gets to the saved registers.
#[derive(Clone, Copy, Debug)]
enum Down {
    Nothing,
    /// `add rsp`
    Add(i32),
    /// `lea rsp, [rbp + n]`
    Lea(i32),
    /// `mov rsp, rbp`, in both of its forms.
    Move(bool),
}

/// How it ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Return,
    /// `rep ret`
    OldReturn,
    /// A jump to so far behind it.
    Jump(i32),
    ShortJump(i8),
    /// Through memory: `jmp [rip + n]`.
    Import,
    /// `rex.w jmp rax`
    Tail,
    /// `jmp rax`: the end of a function only where something was taken down before it.
    Register,
    /// Something else.
    Other,
}

/// One instruction.
type Bytes = Vec<u8>;

fn down(down: Down) -> Option<Bytes> {
    let small = |operation: &[u8], large: &[u8], number: i32| match i8::try_from(number) {
        Ok(number) => [operation, &number.to_le_bytes()].concat(),
        Err(_) => [large, &number.to_le_bytes()].concat(),
    };
    match down {
        Down::Nothing => None,
        Down::Add(number) => Some(small(&[0x48, 0x83, 0xc4], &[0x48, 0x81, 0xc4], number)),
        Down::Lea(number) => Some(small(&[0x48, 0x8d, 0x65], &[0x48, 0x8d, 0xa5], number)),
        Down::Move(true) => Some(vec![0x48, 0x8b, 0xe5]),
        Down::Move(false) => Some(vec![0x48, 0x89, 0xec]),
    }
}

/// Position in `CALLEE_SAVED`: rbx, rbp, r12 to r15.
fn pop(position: usize) -> Bytes {
    match position {
        0 => vec![0x5b],
        1 => vec![0x5d],
        other => vec![0x41, 0x5c + (other - 2) as u8],
    }
}

fn end(end: End) -> Bytes {
    match end {
        End::Return => vec![0xc3],
        End::OldReturn => vec![0xf3, 0xc3],
        End::Jump(distance) => [&[0xe9][..], &distance.to_le_bytes()].concat(),
        End::ShortJump(distance) => vec![0xeb, distance.to_le_bytes()[0]],
        End::Import => vec![0xff, 0x25, 0, 0, 0, 0],
        End::Tail => vec![0x48, 0xff, 0xe0],
        End::Register => vec![0xff, 0xe0],
        End::Other => vec![0x90],
    }
}

fn downs() -> impl Strategy<Value = Down> {
    prop_oneof![
        Just(Down::Nothing),
        (1..0x4000_i32).prop_map(|words| Down::Add(words * 8)),
        (-0x4000..0_i32).prop_map(|words| Down::Lea(words * 8)),
        any::<bool>().prop_map(Down::Move),
    ]
}

fn ends() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Return),
        Just(End::OldReturn),
        prop_oneof![-0x800..0x800_i32, any::<i32>()].prop_map(End::Jump),
        any::<i8>().prop_map(End::ShortJump),
        Just(End::Import),
        Just(End::Tail),
        Just(End::Register),
        Just(End::Other),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn what_lies_before_a_return_leads_to_the_caller(
        zeroupper in any::<bool>(),
        first in downs(),
        pops in prop::sample::subsequence(vec![0_usize, 2, 3, 4, 5, 1], 0..=6),
        last in ends(),
    ) {
        let mut code = if zeroupper { vec![0xc5, 0xf8, 0x77] } else { Vec::new() };
        code.extend(down(first).unwrap_or_default());
        pops.iter().for_each(|position| code.extend(pop(*position)));
        let jump = code.len() as u64;
        code.extend(end(last));
        let found = epilogue::rule(HERE, &code, &FUNCTION);
        // What the processor does, from the register that the stack pointer is made of.
        let begun = !matches!(first, Down::Nothing) || !pops.is_empty();
        let leaves = |length: u64, distance: i64| !FUNCTION.contains(&(HERE + jump + length).wrapping_add_signed(distance));
        let is_end = match last {
            End::Return | End::OldReturn | End::Import | End::Tail => true,
            End::Jump(distance) => leaves(5, distance.into()),
            End::ShortJump(distance) => leaves(2, distance.into()),
            End::Register => begun,
            End::Other => false,
        };
        if !is_end {
            prop_assert_eq!(found, None);
            return Ok(());
        }
        let (register, mut offset) = match first {
            Down::Nothing => (7, 0),
            Down::Add(bytes) => (7, i64::from(bytes)),
            Down::Lea(bytes) => (6, i64::from(bytes)),
            Down::Move(_) => (6, 0),
        };
        let mut places = [None; 6];
        for position in &pops {
            places[*position] = Some(offset);
            offset += 8;
        }
        let found = found.expect("it is one");
        prop_assert_eq!((found.cfa_register, i64::from(found.cfa_offset)), (register, offset + 8));
        for (place, saved) in places.iter().zip(found.saved) {
            // Words from the frame's top.
            let expected = place.map_or(UNCHANGED, |place| ((place - offset - 8) / 8) as i16);
            prop_assert_eq!(saved, expected);
        }
        // Cut before its end it is none.
        for length in 0..code.len().min(jump as usize + 1) {
            prop_assert_eq!(epilogue::rule(HERE, &code[..length], &FUNCTION), None, "{} of {:02x?}", length, code);
        }
    }

    #[test]
    fn any_code_has_an_answer(code in prop::collection::vec(any::<u8>(), 0..40), address in any::<u64>()) {
        let found = epilogue::rule(address, &code, &(address..address.saturating_add(0x100)));
        prop_assert!(found.is_none_or(|rule| matches!(rule.cfa_register, 6 | 7)));
    }
}
