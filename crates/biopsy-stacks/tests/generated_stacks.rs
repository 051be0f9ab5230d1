//! Stacks of generated functions, unwound by what is known of each: the calls are made here as a processor would make them, and what
//! every caller had in its registers is known.

#![cfg(target_arch = "x86_64")]

use std::sync::Arc;

use biopsy_elf::raw::{SHF_ALLOC, SHF_EXECINSTR, SHT_PROGBITS};
use biopsy_elf::testing::ElfBuilder;
use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, FileOffset};
use biopsy_stacks::elf::{ElfFile, Limits};
use biopsy_stacks::unwind::{
    CompiledCode, CompiledRule, ExecutableMapping, FoundBy, FrameRule, LOST, ProcessUnwinder, StackMemory,
    UNCHANGED, Unwound, UserRegisters, WalkedFrame,
};
use proptest::prelude::*;

/// Highest address of the stack.
const TOP: u64 = 0x7fff_0001_0000;
const CODE: u64 = 0x10_0000;
/// Bytes of a function.
const FUNCTION: u64 = 0x100;
/// Position of `rbp` among the registers that a function gives back: rbx, rbp, r12 to r15.
const RBP: usize = 1;

/// How a function makes its frame.
#[derive(Clone, Debug)]
enum Frame {
    /// So many words below the return address. Of each register: where in the frame it is saved, or that it is lost.
    Fixed { words: u64, saved: Vec<(usize, Option<u64>)> },
    /// A frame pointer is pushed, and set; the others are saved below it.
    Pointer { words: u64, saved: Vec<(usize, u64)> },
    /// None at all.
    Bare,
    /// As the interpreter of HotSpot does: so many words are between the return address and where the caller's stack was.
    Linked { words: u64, between: u64 },
    /// A stub, without a frame or with one by its frame pointer.
    Stub { frame: Option<u64> },
}

/// Distinct places among `words`, for some registers.
fn saved(words: u64) -> impl Strategy<Value = Vec<(usize, u64)>> {
    let places: Vec<u64> = (0..words).collect();
    let registers = prop::sample::subsequence(vec![0_usize, 1, 2, 3, 4, 5], 0..=(words as usize).min(6));
    (registers, Just(places).prop_shuffle())
        .prop_map(|(registers, places)| registers.into_iter().zip(places).collect())
}

fn frames() -> impl Strategy<Value = Frame> {
    let fixed = (0..20_u64).prop_flat_map(|words| {
        (saved(words), any::<[bool; 6]>()).prop_map(move |(saved, lost)| {
            let mut all: Vec<(usize, Option<u64>)> =
                saved.iter().map(|(one, place)| (*one, Some(*place))).collect();
            // Frame pointers are never lost here: a caller that needs one would end the walk, rightly.
            let spare =
                (0..6).filter(|one| *one != RBP && lost[*one] && saved.iter().all(|(other, _)| other != one));
            all.extend(spare.take(1).map(|one| (one, None)));
            Frame::Fixed { words, saved: all }
        })
    });
    let pointer = (0..20_u64).prop_flat_map(|words| {
        saved(words).prop_map(move |saved| {
            let saved = saved.into_iter().filter(|(register, _)| *register != RBP).collect();
            Frame::Pointer { words, saved }
        })
    });
    prop_oneof![
        4 => fixed,
        4 => pointer,
        1 => Just(Frame::Bare),
        1 => (1..12_u64, 0..6_u64).prop_map(|(words, between)| Frame::Linked { words, between }),
        1 => prop::option::of(1..12_u64).prop_map(|frame| Frame::Stub { frame }),
    ]
}

impl Frame {
    /// What the runtime that compiled it says of it.
    fn rule(&self) -> CompiledRule {
        let mut rule = FrameRule { cfa_register: 7, cfa_offset: 8, saved: [UNCHANGED; 6] };
        match self {
            Self::Fixed { words, saved } => {
                rule.cfa_offset = 8 + 8 * *words as i32;
                for (register, place) in saved {
                    // Words from the frame's top, of which the first is the return address.
                    rule.saved[*register] = place.map_or(LOST, |place| -2 - place as i16);
                }
            }
            Self::Pointer { saved, .. } => {
                (rule.cfa_register, rule.cfa_offset) = (6, 16);
                rule.saved[RBP] = -2;
                for (register, place) in saved {
                    rule.saved[*register] = -3 - *place as i16;
                }
            }
            Self::Bare => return CompiledRule::NoFrame,
            Self::Linked { .. } => return CompiledRule::Linked,
            Self::Stub { .. } => return CompiledRule::Stub,
        }
        CompiledRule::Frame(rule)
    }
}

/// DWARF numbers of the registers that a function gives back.
const DWARF: [u8; 6] = [3, 6, 12, 13, 14, 15];

impl Frame {
    /// The same as instructions of unwind information; `None`: compilers write no such code.
    fn instructions(&self) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match self {
            Self::Fixed { words, saved } => {
                // DW_CFA_def_cfa_offset, DW_CFA_offset (in words downwards), DW_CFA_undefined.
                out.push(0x0e);
                uleb(&mut out, 8 + 8 * words);
                for (register, place) in saved {
                    match place {
                        Some(place) => out.extend([0x80 | DWARF[*register], *place as u8 + 2]),
                        None => out.extend([0x07, DWARF[*register]]),
                    }
                }
            }
            Self::Pointer { saved, .. } => {
                // DW_CFA_def_cfa: the frame is at rbp + 16, rbp two words below it.
                out.extend([0x0c, 6, 16, 0x80 | 6, 2]);
                saved
                    .iter()
                    .for_each(|(register, place)| out.extend([0x80 | DWARF[*register], *place as u8 + 3]));
            }
            Self::Bare => {}
            Self::Linked { .. } | Self::Stub { .. } => return None,
        }
        Some(out)
    }
}

fn uleb(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A file with these functions from `CODE` on, and what its unwind information says of them.
fn file(functions: &[Frame]) -> (Arc<ElfFile>, ExecutableMapping) {
    let record = |id: u32, contents: &[u8]| {
        let mut bytes = [&id.to_le_bytes()[..], contents].concat();
        bytes.resize(bytes.len().next_multiple_of(8) + 4, 0);
        [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat()
    };
    // Version, "zR", alignments 1 and -8, column 16, absolute addresses; the frame is at rsp + 8, the return address below it.
    let mut section = record(0, b"\x01zR\0\x01\x78\x10\x01\0\x0c\x07\x08\x90\x01");
    for (number, function) in (0..).zip(functions) {
        let place = [CODE + number * FUNCTION, FUNCTION].map(u64::to_le_bytes).concat();
        let instructions = function.instructions().expect("unwind information can say it");
        let to_common = section.len() as u32 + 4;
        section.extend(record(to_common, &[place.as_slice(), &[0], &instructions].concat()));
    }
    section.extend([0; 4]);
    // So that the code is where it is to be.
    let head = ElfBuilder::new(0).append(&[]);
    let code = vec![0x90; functions.len() * FUNCTION as usize];
    let bytes = ElfBuilder::new(CODE - head)
        .section(".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, &code)
        .section(".eh_frame", SHT_PROGBITS, SHF_ALLOC, 0, &section)
        .build();
    let end = CODE - head + bytes.len() as u64;
    let mapping =
        ExecutableMapping { start: Avma(CODE - head), end: Avma(end), file_offset: FileOffset(0), tag: 0 };
    (Arc::new(ElfFile::from_bytes("made", bytes, &Limits::default()).expect("a file")), mapping)
}

/// Functions, one behind the other.
#[derive(Debug)]
struct Known(Vec<Frame>);

impl CompiledCode for Known {
    fn rule(&self, address: Avma, _exact: bool) -> Option<CompiledRule> {
        let number = usize::try_from(address.0.checked_sub(CODE)? / FUNCTION).ok()?;
        Some(self.0.get(number)?.rule())
    }
}

/// A thread that called these functions, the last of which it is in.
struct Thread {
    /// Words, from the highest address on downwards.
    words: Vec<u64>,
    registers: [u64; 6],
}

impl Thread {
    fn sp(&self) -> u64 {
        TOP - 8 * self.words.len() as u64
    }

    fn set(&mut self, address: u64, word: u64) {
        let at = ((TOP - address) / 8) as usize - 1;
        self.words[at] = word;
    }

    /// Calls a function and runs its beginning: what it saves it then uses for something else.
    fn call(&mut self, frame: &Frame, ip: u64, scratch: &mut u64) {
        // The caller as it is now: where it goes on is what was pushed for the call.
        let room = |thread: &mut Self, words: u64| thread.words.extend((0..words).map(|word| word % 7));
        let mut other = || {
            *scratch = scratch.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *scratch | 1
        };
        let above = self.sp();
        if let Frame::Linked { between, .. } = frame {
            room(self, *between);
        }
        self.words.push(ip);
        let entered = self.sp();
        match frame {
            Frame::Bare | Frame::Stub { frame: None } => {}
            Frame::Fixed { words, saved } => {
                room(self, *words);
                for (register, place) in saved {
                    if let Some(place) = place {
                        self.set(entered - 8 - 8 * place, self.registers[*register]);
                    }
                    self.registers[*register] = other();
                }
            }
            Frame::Pointer { words, saved } => {
                self.words.push(self.registers[RBP]);
                self.registers[RBP] = self.sp();
                room(self, *words);
                for (register, place) in saved {
                    self.set(entered - 16 - 8 * place, self.registers[*register]);
                    self.registers[*register] = other();
                }
            }
            Frame::Linked { words, .. } => {
                self.words.push(self.registers[RBP]);
                self.registers[RBP] = self.sp();
                self.words.push(above);
                room(self, *words);
                self.registers =
                    [0, 1, 2, 3, 4, 5].map(|one| if one == RBP { self.registers[RBP] } else { other() });
            }
            Frame::Stub { frame: Some(words) } => {
                self.words.push(self.registers[RBP]);
                self.registers[RBP] = self.sp();
                room(self, *words);
            }
        }
    }
}

/// Makes calls, outermost first, and gives the thread with what a walk is to find, innermost first.
fn thread(functions: &[Frame], calls: &[usize], mut scratch: u64) -> (Thread, Vec<WalkedFrame>) {
    let mut thread = Thread { words: Vec::new(), registers: [11, 12, 13, 14, 15, 16] };
    // Nobody called the outermost.
    let mut return_address = 0;
    let mut entered = Vec::new();
    for number in calls {
        thread.call(&functions[*number], return_address, &mut scratch);
        return_address = CODE + *number as u64 * FUNCTION + 0x20;
        entered.push((thread.sp(), thread.registers, return_address, &functions[*number]));
    }
    // Then back: who knows which registers, seen from the innermost.
    let mut known = [true; 6];
    let mut found = FoundBy::Registers;
    let mut expected = Vec::new();
    for (number, (sp, registers, ip, frame)) in entered.iter().rev().enumerate() {
        let (ip, lookup) = if number == 0 { (ip - 0x10, ip - 0x10) } else { (*ip, ip - 1) };
        let value = |one: usize| Some(registers[one]).filter(|_| known[one]);
        expected.push(WalkedFrame {
            ip: Avma(ip),
            lookup: Avma(lookup),
            sp: Avma(*sp),
            fp: value(RBP),
            saved: [0, 2, 3, 4, 5].map(value),
            found,
        });
        found = FoundBy::UnwindInfo;
        match frame {
            Frame::Fixed { saved, .. } => {
                saved.iter().for_each(|(register, place)| known[*register] = place.is_some());
            }
            Frame::Pointer { saved, .. } => {
                known[RBP] = true;
                saved.iter().for_each(|(register, _)| known[*register] = true);
            }
            Frame::Bare | Frame::Stub { frame: None } => {}
            Frame::Linked { .. } => known = std::array::from_fn(|one| one == RBP),
            Frame::Stub { frame: Some(_) } => {
                known = std::array::from_fn(|one| one == RBP);
                found = FoundBy::FramePointer;
            }
        }
    }
    (thread, expected)
}

fn bytes(thread: &Thread) -> Vec<u8> {
    thread.words.iter().rev().flat_map(|word| word.to_le_bytes()).collect()
}

fn walk(functions: &[Frame], thread: &Thread, ip: u64, stack: &[u8]) -> (Vec<WalkedFrame>, Unwound) {
    walk_with(&mut compiled(functions), thread, ip, stack)
}

/// Who knows the functions as code that a runtime compiled.
fn compiled(functions: &[Frame]) -> ProcessUnwinder {
    let mut unwinder = ProcessUnwinder::new();
    let end = CODE + functions.len() as u64 * FUNCTION;
    let mapping = ExecutableMapping { start: Avma(CODE), end: Avma(end), file_offset: FileOffset(0), tag: 0 };
    unwinder.add_module(&mapping, None);
    unwinder.set_compiled(Some(Box::new(Known(functions.to_vec()))));
    unwinder
}

fn walk_with(
    unwinder: &mut ProcessUnwinder,
    thread: &Thread,
    ip: u64,
    stack: &[u8],
) -> (Vec<WalkedFrame>, Unwound) {
    let [rbx, fp, r12, r13, r14, r15] = thread.registers;
    let registers = UserRegisters { ip, sp: thread.sp(), fp, saved: Some([rbx, r12, r13, r14, r15]) };
    let mut frames = Vec::new();
    let memory = StackMemory { base: thread.sp(), bytes: stack };
    let unwound = unwinder.unwind_frames(&registers, memory, &mut frames);
    (frames, unwound)
}

/// Functions and calls of them; the outermost has a frame of its own.
fn programs() -> impl Strategy<Value = (Vec<Frame>, Vec<usize>, u64)> {
    (
        prop::collection::vec(frames(), 1..8),
        prop::collection::vec(any::<prop::sample::Index>(), 0..24),
        any::<u64>(),
    )
        .prop_map(|(mut functions, calls, scratch)| {
            functions[0] = Frame::Fixed { words: 3, saved: vec![(0, Some(1))] };
            let calls =
                std::iter::once(0).chain(calls.iter().map(|one| one.index(functions.len()))).collect();
            (functions, calls, scratch)
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn every_caller_is_found_as_it_was((functions, calls, scratch) in programs()) {
        let (thread, expected) = thread(&functions, &calls, scratch);
        let (found, unwound) = walk(&functions, &thread, expected[0].ip.0, &bytes(&thread));
        prop_assert_eq!(&found, &expected, "{:?} of {:?}", calls, functions);
        prop_assert_eq!((unwound.end, unwound.needed_beyond), (StackEnd::Root, false));
        let by_pointer = expected.iter().filter(|frame| frame.found == FoundBy::FramePointer).count();
        // The root's own caller may have been found so too, and is no frame.
        prop_assert_eq!(unwound.by_frame_pointer as usize, by_pointer);
    }

    /// The same functions in a file, by its unwind information, whose rules are kept from one walk to the next.
    #[test]
    fn a_file_says_the_same_as_a_runtime((mut functions, calls, scratch) in programs()) {
        functions.iter_mut().filter(|one| one.instructions().is_none()).for_each(|one| *one = Frame::Bare);
        let (thread, expected) = thread(&functions, &calls, scratch);
        let (file, mapping) = file(&functions);
        let mut unwinder = ProcessUnwinder::new();
        unwinder.add_module(&mapping, Some(file));
        for _ in 0..2 {
            let (found, unwound) = walk_with(&mut unwinder, &thread, expected[0].ip.0, &bytes(&thread));
            prop_assert_eq!(&found, &expected, "{:?} of {:?}", calls, functions);
            prop_assert_eq!((unwound.end, unwound.by_frame_pointer), (StackEnd::Root, 0));
        }
    }

    /// A copy up to what was needed unwinds the same stack; a shorter one says that it was too short, and is right so far.
    #[test]
    fn a_copy_has_to_be_as_long_as_what_was_needed(
        (functions, calls, scratch) in programs(), cut in any::<prop::sample::Index>(),
    ) {
        let (thread, expected) = thread(&functions, &calls, scratch);
        let (ip, all) = (expected[0].ip.0, bytes(&thread));
        let (_, unwound) = walk(&functions, &thread, ip, &all);
        let needed = (unwound.top.0 - thread.sp()) as usize;
        let (found, again) = walk(&functions, &thread, ip, &all[..needed]);
        prop_assert_eq!((&found, again.end), (&expected, StackEnd::Root));
        let (found, shorter) = walk(&functions, &thread, ip, &all[..cut.index(needed)]);
        // A stub whose word at the stack pointer is not there is taken for one with a frame pointer.
        if !functions.iter().any(|frame| matches!(frame, Frame::Stub { .. })) {
            prop_assert_eq!(&found[..], &expected[..found.len()]);
            prop_assert_eq!((shorter.end, shorter.needed_beyond), (StackEnd::Truncated, true));
        }
    }

    /// Words of the stack that are anything: the walk ends, upwards.
    #[test]
    fn a_stack_that_was_written_over_ends(
        (functions, calls, scratch) in programs(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u64>(), TOP - 0x1000..TOP, CODE..CODE + 8 * FUNCTION, Just(0),
        ]), 1..6),
    ) {
        let (mut thread, expected) = thread(&functions, &calls, scratch);
        for (at, word) in changes {
            let at = at.index(thread.words.len());
            thread.words[at] = word;
        }
        let (found, _) = walk(&functions, &thread, expected[0].ip.0, &bytes(&thread));
        prop_assert_eq!(found[0], expected[0]);
        prop_assert!(found.len() <= thread.words.len() + 2);
        prop_assert!(found.is_sorted_by_key(|frame| frame.sp), "{:?}", found);
    }
}
