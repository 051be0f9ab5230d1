//! Stacks of JavaScript: functions, glue, native code that was called and that called again.

use proptest::prelude::*;

use super::{Heap, STACK, STACK_BYTES, smi};
use crate::Limits;
use crate::node::frames::Walk;

const RANGE: std::ops::Range<u64> = STACK..STACK + STACK_BYTES as u64;
/// Bytes of a frame here.
const FRAME: u64 = 96;
const FRAMES: usize = 12;
/// Numbers of types of frames in the made V8: 1, 2 enter JavaScript, 3 leaves it, 26 is built in.
const ENTRY: u64 = 1;
const EXIT: u64 = 3;
const BUILTIN: u64 = 26;
const INTERNAL: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Interpreted,
    Compiled,
    /// Without a name and a script.
    Glue,
    Builtin,
    Internal,
    /// Native code called JavaScript here, and was itself called by it at the frame that is next.
    EntryAndExit,
}

struct Made {
    heap: Heap,
    function: u64,
    glue: u64,
    byte_code: u64,
}

fn made() -> Made {
    let mut heap = Heap::new();
    let (name, path, source) = (heap.string("work"), heap.string("/srv/main.js"), heap.string("a\nb\n"));
    let script = heap.object(heap.layout.types.script, &[source, path]);
    let shared = heap.object(heap.layout.types.shared, &[0, name, 0, script]);
    let nothing = heap.string("");
    let glue = heap.object(heap.layout.types.shared, &[0, nothing, 0, 0]);
    let function = heap.object(1_000, &[0, 0, 0, shared]);
    let glue = heap.object(1_000, &[0, 0, 0, glue]);
    // From its first instruction on: character 2, which is on line 2.
    let table = heap.object(heap.layout.types.bytes[1], &[smi(2), 0]);
    heap.image.put(table - 1 + heap.layout.array_data, &[2, 12]);
    let byte_code = heap.object(heap.layout.types.bytecode, &[0, 0, table, 0, 0, 0, 0, 0]);
    Made { heap, function, glue, byte_code }
}

fn fp_of(number: usize) -> u64 {
    STACK + FRAME * (number as u64 + 1)
}

/// Puts frames of these kinds above each other, the last one an entry from nothing.
fn stack(made: &mut Made, kinds: &[Kind]) {
    for (number, kind) in kinds.iter().enumerate() {
        let fp = fp_of(number);
        let marker = match kind {
            Kind::Interpreted | Kind::Compiled => made.function,
            Kind::Glue => made.glue,
            Kind::Builtin => BUILTIN << 1,
            Kind::Internal => INTERNAL << 1,
            Kind::EntryAndExit => ENTRY << 1,
        };
        let image = &mut made.heap.image;
        image.word(fp, fp + FRAME);
        image.word(fp + 8, 0x4000 + number as u64);
        image.word(fp - 8, marker);
        image.word(fp - 16, if *kind == Kind::Glue { made.glue } else { made.function });
        if *kind == Kind::Interpreted {
            image.word(fp - 32, made.byte_code);
            image.word(fp - 40, smi(63));
        }
        if *kind == Kind::Builtin {
            image.word(fp + 24, made.function);
        }
        if *kind == Kind::EntryAndExit {
            // Its caller is native code without a frame of ours; the exit before it is the frame that is next but one.
            image.word(fp, fp + 16);
            image.word(fp - 64, fp + FRAME);
        }
    }
    let last = fp_of(kinds.len());
    made.heap.image.word(last - 8, ENTRY << 1);
    made.heap.image.word(last, last + 32);
}

fn walk(made: &Made, most: usize) -> Walk {
    made.heap.read(&Limits::default(), |objects| objects.walk(fp_of(0), Some(0x3fff), &RANGE, most))
}

/// What a frame of a kind is shown as.
fn shown(kind: Kind) -> Option<(&'static str, Option<u32>)> {
    match kind {
        Kind::Interpreted => Some(("work", Some(2))),
        Kind::Compiled | Kind::Builtin => Some(("work", None)),
        Kind::Glue | Kind::Internal | Kind::EntryAndExit => None,
    }
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = prop::sample::select(vec![
        Kind::Interpreted,
        Kind::Compiled,
        Kind::Glue,
        Kind::Builtin,
        Kind::Internal,
        Kind::EntryAndExit,
    ]);
    prop::collection::vec(kind, 1..FRAMES).prop_map(|mut kinds| {
        // An exit follows what was entered from JavaScript, and a frame of the builtin kind needs what is above it left alone.
        for number in 0..kinds.len() {
            if kinds[number] == Kind::EntryAndExit {
                match kinds.get_mut(number + 1) {
                    Some(next) => *next = Kind::Builtin,
                    None => kinds[number] = Kind::Internal,
                }
            }
        }
        kinds
    })
}

proptest! {
    #[test]
    fn frames_are_those_of_functions(kinds in kinds()) {
        let mut made = made();
        stack(&mut made, &kinds);
        let walk = walk(&made, 100);
        let read: Vec<(&str, Option<u32>)> =
            walk.frames.iter().map(|frame| (&*frame.function, frame.line)).collect();
        let expected: Vec<_> = kinds.iter().copied().filter_map(shown).collect();
        prop_assert_eq!(read, expected);
        prop_assert!(!walk.cut);
        // Each is at the frame it was read of, and its instruction is where the one below returns to.
        for (frame, number) in walk.frames.iter().zip((0..kinds.len()).filter(|one| shown(kinds[*one]).is_some())) {
            prop_assert_eq!(frame.sp.map(|sp| sp.0), Some(fp_of(number)));
        }
        let compiled = kinds.iter().filter(|kind| **kind == Kind::Compiled).count();
        prop_assert_eq!(walk.optimized, compiled);
    }

    #[test]
    fn a_walk_lists_no_more_than_is_asked_for(kinds in kinds(), most in 1..5_usize) {
        let mut made = made();
        stack(&mut made, &kinds);
        let walk = walk(&made, most);
        let all = kinds.iter().copied().filter_map(shown).count();
        prop_assert_eq!(walk.frames.len(), all.min(most));
        prop_assert!(walk.cut || all <= most);
    }

    /// A frame whose caller is anywhere but above it on this stack ends the walk, and says so.
    #[test]
    fn a_caller_is_above(kinds in kinds(), which in any::<prop::sample::Index>(), to in prop_oneof![
        any::<u64>(), STACK..STACK + FRAME, Just(0), Just(u64::MAX - 7),
    ]) {
        let mut made = made();
        stack(&mut made, &kinds);
        let number = which.index(kinds.len());
        // An exit that leads nowhere is not taken for one, and the walk ends at the entry before it.
        let is_exit = number > 0 && kinds[number - 1] == Kind::EntryAndExit;
        if kinds[number] != Kind::EntryAndExit && !is_exit && !RANGE.contains(&to) {
            made.heap.image.word(fp_of(number), to);
            let walk = walk(&made, 100);
            prop_assert!(walk.cut);
            prop_assert_eq!(walk.frames.len(), kinds[..=number].iter().copied().filter_map(shown).count());
        }
    }
}

/// Frames that are not listed; there may be no more of them than steps.
#[test]
fn a_walk_that_ends_before_the_stack_does_says_so() {
    for (internal, most, cut) in [(3, 1, false), (60, 1, true), (0, 0, true), (60, 20, false)] {
        let mut made = made();
        stack(&mut made, &vec![Kind::Internal; internal]);
        let walk = walk(&made, most);
        assert_eq!((walk.frames.len(), walk.cut), (0, cut), "{internal} {most}");
    }
}

#[test]
fn what_is_no_frame_ends_a_walk_and_is_none_to_begin_with() {
    for (marker, function) in [(65 << 1, 0), (7, 0), (1, 1), (u64::MAX, u64::MAX), (u64::MAX - 1, 0)] {
        let mut made = made();
        stack(&mut made, &[Kind::Compiled, Kind::Compiled, Kind::Compiled]);
        let fp = fp_of(1);
        made.heap.image.word(fp - 8, marker);
        made.heap.image.word(fp - 16, function);
        let walk = walk(&made, 100);
        assert_eq!((walk.frames.len(), walk.cut), (1, true), "{marker:#x}");
        let is_frame = |at: u64| made.heap.read(&Limits::default(), |objects| objects.is_frame(at, &RANGE));
        assert!(!is_frame(fp), "{marker:#x}");
        assert!(is_frame(fp_of(0)) && is_frame(fp_of(2)));
        for at in [fp_of(0) + 1, 0, 8, STACK - 8, RANGE.end, u64::MAX - 7] {
            assert!(!is_frame(at), "{at:#x}");
        }
    }
}

/// An entry keeps the frame pointer of the exit before it: one below itself, or one that is no exit, is not followed.
#[test]
fn an_entry_leads_to_an_exit_above_it_or_to_nothing() {
    for (before, frames) in [(fp_of(2), 2), (fp_of(3), 1), (fp_of(0), 1), (0, 1), (u64::MAX - 7, 1)] {
        let mut made = made();
        stack(&mut made, &[Kind::Compiled, Kind::EntryAndExit, Kind::Builtin, Kind::Internal]);
        made.heap.image.word(fp_of(1) - 64, before);
        let walk = walk(&made, 100);
        assert_eq!((walk.frames.len(), walk.cut), (frames, false), "{before:#x}");
    }
    // An exit, but one that is further in.
    let mut made = made();
    stack(&mut made, &[Kind::Builtin, Kind::EntryAndExit, Kind::Builtin]);
    made.heap.image.word(fp_of(1) - 64, fp_of(0));
    let found = walk(&made, 100);
    assert_eq!((found.frames.len(), found.cut), (1, false));
    let mut made = self::made();
    stack(&mut made, &[Kind::Compiled]);
    made.heap.image.word(fp_of(0) - 8, EXIT << 1);
    let walk = walk(&made, 100);
    assert_eq!((walk.frames.len(), walk.cut), (0, false), "an exit is no function");
}
