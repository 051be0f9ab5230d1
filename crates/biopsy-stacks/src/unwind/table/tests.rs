//! Unwind information put together by hand: what each instruction of it means, and that every way to it leads to the same.

mod expressions;

use gimli::BaseAddresses;
use proptest::prelude::*;

use super::super::evaluate::{Evaluated, Evaluator};
use super::super::registers::{RBP, RIP, RSP, Registers, UserRegisters};
use super::super::rule::{FrameRule, LOST, UNCHANGED};
use super::super::stack::{Reader, StackMemory};
use super::*;

/// Where the sections say they are.
const SECTION: u64 = 0x10_0000;
const HEADER: u64 = 0x20_0000;

/// A function and the instructions of its entry.
#[derive(Clone, Debug)]
pub(super) struct Function {
    pub(super) start: u64,
    pub(super) length: u64,
    instructions: Vec<u8>,
}

pub(super) fn function(start: u64, length: u64, instructions: &[u8]) -> Function {
    Function { start, length, instructions: instructions.to_vec() }
}

fn record(id: u32, contents: &[u8]) -> Vec<u8> {
    let mut bytes = [&id.to_le_bytes()[..], contents].concat();
    bytes.resize(bytes.len().next_multiple_of(8) + 4, 0);
    [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
}

/// `.eh_frame` with one common entry (the frame is at `rsp` + 8, the return address below it), and where each entry begins.
fn eh_frame(functions: &[Function]) -> (Vec<u8>, Vec<u64>) {
    // Version, "zR", alignments 1 and -8, column 16, absolute addresses; then DW_CFA_def_cfa and DW_CFA_offset.
    let mut section = record(0, b"\x01zR\0\x01\x78\x10\x01\0\x0c\x07\x08\x90\x01");
    let mut places = Vec::new();
    for one in functions {
        places.push(section.len() as u64);
        let contents =
            [&one.start.to_le_bytes()[..], &one.length.to_le_bytes(), &[0], &one.instructions].concat();
        let to_common = section.len() as u32 + 4;
        section.extend(record(to_common, &contents));
    }
    section.extend([0; 4]);
    (section, places)
}

/// `.eh_frame_hdr`: version, encodings (u32, u32, i32 from its own address), then the sorted table.
fn header(functions: &[Function], places: &[u64]) -> Vec<u8> {
    let mut bytes = vec![1, 0x03, 0x03, 0x3b];
    bytes.extend((SECTION as u32).to_le_bytes());
    bytes.extend((functions.len() as u32).to_le_bytes());
    let mut rows: Vec<(u64, u64)> =
        functions.iter().map(|one| one.start).zip(places.iter().copied()).collect();
    rows.sort_unstable();
    for (start, place) in rows {
        for address in [start, SECTION + place] {
            bytes.extend((address.wrapping_sub(HEADER) as i32).to_le_bytes());
        }
    }
    bytes
}

pub(super) fn table(functions: &[Function], with_header: bool) -> UnwindTable {
    let (section, places) = eh_frame(functions);
    let index = with_header.then(|| header(functions, &places));
    let bases = BaseAddresses::default().set_eh_frame(SECTION).set_eh_frame_hdr(HEADER);
    let table = UnwindTable::new(Kind::EhFrame, section, index, bases);
    assert_eq!(matches!(table.index, Index::File(_)), with_header, "the header is used where there is one");
    table
}

/// The rule at the first byte of a function with these instructions.
fn rule(instructions: &[u8]) -> Rule {
    table(&[function(0x40_0000, 16, instructions)], false).rule(&mut Context::new(), 0x40_0000)
}

const AT_ENTRY: FrameRule = FrameRule { cfa_register: 7, cfa_offset: 8, saved: [UNCHANGED; 6] };

#[test]
fn a_function_with_a_frame_pointer_has_a_rule_at_each_instruction() {
    // push rbp; mov rbp, rsp; ten bytes; leave; ret
    let entry = [0x41, 0x0e, 0x10, 0x86, 0x02, 0x43, 0x0d, 0x06, 0x4a, 0x0c, 0x07, 0x08];
    let table = table(&[function(0x40_0000, 15, &entry)], true);
    let saved = [UNCHANGED, -2, UNCHANGED, UNCHANGED, UNCHANGED, UNCHANGED];
    let pushed = FrameRule { cfa_offset: 16, saved, ..AT_ENTRY };
    let set = FrameRule { cfa_register: 6, ..pushed };
    let left = FrameRule { saved, ..AT_ENTRY };
    for (offset, expected) in [(0, AT_ENTRY), (1, pushed), (3, pushed), (4, set), (13, set), (14, left)] {
        let found = table.rule(&mut Context::new(), 0x40_0000 + offset);
        assert_eq!(found, Rule::Offsets(expected), "at byte {offset}");
    }
    for outside in [0, 0x3f_ffff, 0x40_000f, u64::MAX] {
        assert_eq!(table.rule(&mut Context::new(), outside), Rule::Nothing, "{outside:#x}");
        assert_eq!(table.function_start(outside), None, "{outside:#x}");
    }
    assert_eq!(table.function_start(0x40_000e), Some(0x40_0000));
    assert!(!table.is_signal_trampoline(0x40_0000));
}

#[test]
fn what_is_not_the_usual_case_is_told_apart() {
    assert_eq!(rule(&[]), Rule::Offsets(AT_ENTRY));
    assert_eq!(rule(&[0x07, 0x10]), Rule::Root, "an undefined return address");
    assert_eq!(rule(&[0x90, 0x02]), Rule::Evaluate, "a return address elsewhere");
    assert_eq!(rule(&[0x0f, 0x02, 0x77, 0x08]), Rule::Evaluate, "a frame by an expression");
    assert_eq!(rule(&[0x09, 0x06, 0x00]), Rule::Evaluate, "rbp is in rax");
    assert_eq!(rule(&[0x87, 0x02]), Rule::Evaluate, "rsp is on the stack");
    assert_eq!(rule(&[0x80, 0x02]), Rule::Offsets(AT_ENTRY), "rax is nobody's to give back");
    let lost = FrameRule { saved: [LOST, UNCHANGED, UNCHANGED, UNCHANGED, UNCHANGED, UNCHANGED], ..AT_ENTRY };
    assert_eq!(rule(&[0x07, 0x03]), Rule::Offsets(lost), "rbx is undefined");
    let far = FrameRule { cfa_offset: i32::MAX, ..AT_ENTRY };
    assert_eq!(
        rule(&[0x0e, 0xff, 0xff, 0xff, 0xff, 0x07]),
        Rule::Offsets(far),
        "the largest frame of a rule"
    );
    assert_eq!(rule(&[0x0e, 0x80, 0x80, 0x80, 0x80, 0x08]), Rule::Evaluate, "a frame of 2 GiB");
    assert_eq!(rule(&[0x83, 0x80, 0x80, 0x02]), Rule::Evaluate, "rbx is further away than a rule can say");
    assert_eq!(rule(&[0x17]), Rule::Nothing, "an instruction that nobody defined");
}

/// The caller by the full rules, of a thread at 0x400000 plus `offset` with `rsp` at the first of these words.
fn evaluated(instructions: &[u8], offset: u64, words: &[u64]) -> Option<Evaluated> {
    const STACK: u64 = 0x7000;
    let table = table(&[function(0x40_0000, 64, instructions)], true);
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut stack = Reader::new(StackMemory { base: STACK, bytes: &bytes });
    let registers = Registers::new(&UserRegisters::new(0x40_0000 + offset, STACK, 0x5555));
    let evaluator = Evaluator { registers: &registers, stack: &mut stack, bias: 0 };
    table.with_row(&mut Context::new(), 0x40_0000 + offset, evaluator)
}

/// Instruction, stack and frame pointer of the caller.
fn caller(instructions: &[u8], offset: u64, words: &[u64]) -> Option<(u64, u64, Option<u64>)> {
    match evaluated(instructions, offset, words)? {
        Evaluated::Caller { registers, interrupted: false } => {
            Some((registers.get(RIP)?, registers.get(RSP)?, registers.get(RBP)))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_stub_is_one_word_higher_behind_its_push() {
    // What linkers write for PLT stubs: rsp + 8, and 8 more where rip & 15 is 11 or above.
    let stub = [0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
    for offset in 0..64 {
        let pushed = u64::from(offset % 16 >= 11);
        let expected = (0x1000 + pushed, 0x7008 + pushed * 8, Some(0x5555));
        assert_eq!(caller(&stub, offset, &[0x1000, 0x1001, 0x1002]), Some(expected), "at byte {offset}");
    }
}

#[test]
fn registers_come_from_where_the_rules_say() {
    let words = [0x1000, 0x1001, 0x1002];
    assert_eq!(caller(&[], 0, &words), Some((0x1000, 0x7008, Some(0x5555))));
    // rbp is at the frame less 8 (by an expression), is the frame less 8 (by a value), is undefined.
    assert_eq!(caller(&[0x10, 6, 2, 0x38, 0x1c], 0, &words), Some((0x1000, 0x7008, Some(0x1000))));
    assert_eq!(caller(&[0x16, 6, 2, 0x38, 0x1c], 0, &words), Some((0x1000, 0x7008, Some(0x7000))));
    assert_eq!(caller(&[0x14, 6, 1], 0, &words), Some((0x1000, 0x7008, Some(0x7000))));
    assert_eq!(caller(&[0x07, 6], 0, &words), Some((0x1000, 0x7008, None)));
    // The return address is in rbp.
    assert_eq!(caller(&[0x09, 0x10, 6], 0, &words), Some((0x5555, 0x7008, Some(0x5555))));
    assert!(matches!(evaluated(&[0x07, 0x10], 0, &words), Some(Evaluated::Root)));
}

#[test]
fn rules_that_ask_for_too_much_give_no_caller() {
    let words = [0x1000];
    // The frame is by rbx, which is not known; by a jump that never ends; by nothing that is left on the stack of values.
    for instructions in [&[0x0c, 3, 8][..], &[0x0f, 3, 0x2f, 0xfd, 0xff], &[0x0f, 0], &[0x0f, 1, 0x22]] {
        assert!(evaluated(instructions, 0, &words).is_none(), "{instructions:02x?}");
    }
    // The return address is above the copy; the frame is what is at address 0.
    let above = evaluated(&[0x0e, 0x20], 0, &words);
    assert!(matches!(above, Some(Evaluated::Unreadable(_))), "{above:?}");
    let nowhere = evaluated(&[0x0f, 2, 0x30, 0x06], 0, &words);
    assert!(matches!(nowhere, Some(Evaluated::Unreadable(_))), "{nowhere:?}");
}

/// Functions by address with gaps between them, in any order.
fn functions() -> impl Strategy<Value = Vec<Function>> {
    let one = (0..20_u64, 1..40_u64, 1..60_u8);
    let in_order = prop::collection::vec(one, 1..24).prop_map(|rows| {
        let mut at = 0x40_0000;
        let place = |(gap, length, words): (u64, u64, u8)| {
            let start = at + gap;
            at = start + length;
            function(start, length, &[0x0e, words])
        };
        rows.into_iter().map(place).collect::<Vec<_>>()
    });
    in_order.prop_shuffle()
}

proptest! {
    #[test]
    fn the_index_of_the_file_one_that_was_built_and_a_search_agree(functions in functions(), asked in 0..1_600_u64) {
        let svma = 0x3f_fff8 + asked;
        let expected = functions.iter().find(|one| (one.start..one.start + one.length).contains(&svma));
        let rule_of = |one: &Function| {
            Rule::Offsets(FrameRule { cfa_offset: i32::from(one.instructions[1]), ..AT_ENTRY })
        };
        for with_header in [true, false] {
            let table = table(&functions, with_header);
            let found = table.rule(&mut Context::new(), svma);
            prop_assert_eq!(found, expected.map_or(Rule::Nothing, rule_of), "header: {}", with_header);
            prop_assert_eq!(table.function_start(svma), expected.map(|one| one.start));
        }
    }

    /// Sections of a hostile file: nothing is known then, and nothing else happens.
    #[test]
    fn damage_anywhere_is_no_panic(
        functions in functions(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        asked in 0..1_600_u64, cut in any::<prop::sample::Index>(),
    ) {
        let (mut section, places) = eh_frame(&functions);
        let mut index = header(&functions, &places);
        for (at, value) in changes {
            let bytes = if value % 2 == 0 { &mut section } else { &mut index };
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        section.truncate(cut.index(section.len() * 2));
        let bases = BaseAddresses::default().set_eh_frame(SECTION).set_eh_frame_hdr(HEADER);
        for index in [None, Some(index)] {
            for kind in [Kind::EhFrame, Kind::DebugFrame] {
                let table = UnwindTable::new(kind, section.clone(), index.clone(), bases.clone());
                let svma = 0x3f_fff8 + asked;
                let found = table.rule(&mut Context::new(), svma);
                prop_assert!(table.function_start(svma).is_none_or(|start| start <= svma), "{:?}", found);
                table.is_signal_trampoline(svma);
            }
        }
    }
}
