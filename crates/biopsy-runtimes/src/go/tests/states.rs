//! What a goroutine does: by its status, its thread, and where that is.

use biopsy_image::GeneralRegisters;
use biopsy_model::Tid;

use super::program::{CALL, FUNCTION, G, Go, HEAP, Program, TEXT, shown, strand};
use crate::go::layout::g;
use crate::{StrandId, StrandState};

#[test]
fn each_status_of_the_runtime_is_a_state() {
    use StrandState::{Native, NotKnown, Runnable, Running, Waiting};
    let table = [
        (1, Some(Runnable), 3),
        (2, Some(Running), 0),
        // Where it entered the kernel is not where it was saved.
        (3, Some(Native), 0),
        (4, Some(Waiting), 3),
        (5, Some(NotKnown), 3),
        (7, Some(NotKnown), 3),
        (8, Some(Running), 0),
        (9, Some(Runnable), 3),
        (10, Some(Waiting), 3),
        (0, None, 0),
        (6, None, 0),
        (11, None, 0),
    ];
    for (status, state, frames) in table {
        // The collector looks at its stack meanwhile.
        for scanned in [0, 0x1000] {
            let mut program = Program::new(24);
            let work = program.function("main.work", 0x18);
            let go = Go { status: status | scanned, ..program.waits(2, &[work + CALL], "sleep") };
            program.goroutine(&go);
            let found = program.finish().read();
            let strand = found.strand(StrandId(2));
            assert_eq!(strand.map(|strand| strand.state), state, "{status}");
            assert_eq!(strand.map_or(0, |strand| strand.frames.len()), frames, "{status}");
            assert_eq!(strand.is_some_and(|strand| strand.wait.is_some()), state == Some(Waiting));
            assert_eq!(strand.is_some_and(|strand| strand.cut), state.is_some() && frames == 0, "{status}");
            assert_eq!(found.total, 1 + u64::from(state.is_some()));
            assert_eq!(found.warnings, Vec::<String>::new());
        }
    }
}

#[test]
fn a_goroutine_in_a_system_call_is_where_it_entered_it() {
    for minor in [19, 22, 23, 25] {
        let mut program = Program::new(minor);
        let read = program.function("syscall.read", 0x20);
        let work = program.function("main.work", 0x18);
        let exit = program.exit;
        let go = Go { status: 3, pcs: vec![read + CALL, work + CALL, exit + 1], ..program.waits(2, &[], "") };
        let made = program.goroutine(&go);
        let layout = program.layout;
        program.image.word(made.at + layout.g_syscall_pc, read + CALL);
        program.image.word(made.at + layout.g_syscall_sp, made.sps[0]);
        // What was saved when it last waited is old.
        program.image.word(made.at + g::PC, TEXT + 2 * FUNCTION + CALL);
        let found = program.finish().read();
        let strand = strand(&found, StrandId(2));
        assert_eq!(shown(strand), ["syscall.read:40", "main.work:50", "runtime.goexit:10"], "1.{minor}");
        assert!(!strand.cut);
    }
}

/// A program with one goroutine that is on a thread of number 77; `m`, and the goroutine.
fn on_thread(minor: u32) -> (Program, u64, G, u64) {
    let mut program = Program::new(minor);
    let work = program.function("main.work", 0x18);
    let (m, g0) = (program.room(0x800), program.room(0x100));
    let exit = program.exit;
    let go = Go { status: 2, m, pcs: vec![work + 20, exit + 1], ..program.waits(2, &[], "") };
    let made = program.goroutine(&go);
    program.image.word(m, g0);
    program.image.word(g0 + g::M, m);
    let layout = program.layout;
    program.image.word(m + layout.m_current, made.at);
    program.made(work).lines = vec![(1, 20), (2, 236)];
    (program, m, made, work)
}

#[test]
fn a_goroutine_that_runs_is_where_its_thread_is() {
    for minor in 19..=26 {
        let (mut program, m, made, work) = on_thread(minor);
        let local = program.room(0x10);
        program.image.word(local, made.at);
        let layout = program.layout;
        // The number that it has in a namespace of its own does not matter.
        program.image.word(m + layout.m_thread, 5);
        let registers =
            GeneralRegisters { rip: work + 20, rsp: made.sps[0], fs_base: local + 8, ..Default::default() };
        program.thread(77, registers);
        let found = program.finish().read();
        let strand = strand(&found, StrandId(2));
        assert_eq!(strand.tid, Some(Tid(77)), "1.{minor}");
        // Its instruction is next: the line is not that of the one before.
        assert_eq!(shown(strand), ["main.work:2", "runtime.goexit:10"], "1.{minor}");
    }
}

#[test]
fn a_thread_of_c_is_known_by_its_number() {
    let (mut program, m, made, work) = on_thread(24);
    let layout = program.layout;
    program.image.word(m + layout.m_thread, 77);
    program.thread(77, GeneralRegisters { rip: work + 20, rsp: made.sps[0], ..Default::default() });
    assert_eq!(strand(&program.finish().read(), StrandId(2)).tid, Some(Tid(77)));
    // One that the image does not have.
    let (mut program, m, ..) = on_thread(24);
    program.image.word(m + layout.m_thread, 78);
    program.thread(77, GeneralRegisters::default());
    let found = program.finish().read();
    let strand = strand(&found, StrandId(2));
    assert_eq!((strand.tid, strand.frames.len(), strand.cut), (None, 0, true));
}

/// While its thread is on another stack, a goroutine is where it left its own.
#[test]
fn a_goroutine_whose_thread_is_on_another_stack_is_where_it_left() {
    for minor in [20, 24, 26] {
        // In the kernel's clock; on the scheduler's stack; on that of another goroutine by now.
        for (in_clock, current, expected) in
            [(true, true, Some("main.work:1")), (false, true, Some("main.work:2")), (false, false, None)]
        {
            let (mut program, m, made, work) = on_thread(minor);
            let layout = program.layout;
            program.image.word(m + layout.m_thread, 77);
            if in_clock {
                program.image.word(m + layout.m_vdso_pc, work + 7);
                program.image.word(m + layout.m_vdso_sp, made.sps[0]);
            }
            program.image.word(made.at + g::PC, work + 21);
            if !current {
                program.image.word(m + layout.m_current, HEAP);
            }
            program.thread(77, GeneralRegisters { rip: work, rsp: HEAP + 0x3_8000, ..Default::default() });
            let found = program.finish().read();
            let strand = strand(&found, StrandId(2));
            let first = strand.frames.first().map(|_| shown(strand).remove(0));
            assert_eq!(first.as_deref(), expected, "1.{minor}");
            assert_eq!(strand.cut, expected.is_none());
        }
    }
}

#[test]
fn goroutines_of_the_runtime_are_told_from_those_of_the_program() {
    for (name, of_runtime) in
        [("runtime.bgsweep", true), ("main.work", false), ("runtimes.work", false), ("runtime.main", false)]
    {
        let mut program = Program::new(24);
        let work = program.function(name, 0x18);
        let go = program.waits(2, &[work + CALL], "sleep");
        program.goroutine(&go);
        assert_eq!(strand(&program.finish().read(), StrandId(2)).of_runtime, of_runtime, "{name}");
    }
}

/// A text that a goroutine panics with: value of the panic's interface, of which type.
#[test]
fn a_text_that_a_goroutine_panics_with_is_read() {
    use super::program::TYPES;
    const STRING: u8 = 24;
    let long = "y".repeat(300);
    // Kind, where the value is in the panic, the text, how long it is said to be, whether it is read.
    let table: [(u8, u64, &str, u64, bool); 9] = [
        (STRING, 8, "boom", 4, true),
        (STRING | 32, 8, "boom", 4, true),
        (STRING, 0, "boom", 4, true),
        (23, 8, "boom", 4, false),
        (STRING, 8, "boom", 0, false),
        (STRING, 8, &long, 200, true),
        (STRING, 8, &long, 201, false),
        (STRING, 8, "boom", u64::MAX, false),
        (STRING, 8, "\u{ff}", 1, false),
    ];
    for (kind, place, text, length, read) in table {
        let mut program = Program::new(24);
        let work = program.function("main.work", 0x18);
        let go = program.waits(2, &[work + CALL], "sleep");
        let made = program.goroutine(&go);
        let (panic, string, bytes) = (program.room(0x40), program.room(16), program.room(400));
        program.image.put(bytes, text.as_bytes());
        program.image.word(string, bytes);
        program.image.word(string + 8, length);
        program.image.put(TYPES + 23, &[kind]);
        program.image.word(panic + place, TYPES);
        program.image.word(panic + place + 8, string);
        program.image.word(made.at + 32, panic);
        let expected = read.then(|| text[..length as usize].to_owned());
        assert_eq!(strand(&program.finish().read(), StrandId(2)).panics_with, expected, "{kind} {length}");
    }
}

#[test]
fn a_panic_of_a_type_that_is_none_has_no_text() {
    use super::program::TYPES;
    // Before and behind the types of the program, at its last, and nowhere.
    for (kind, read) in [(TYPES - 8, false), (TYPES + 0x3e0, true), (TYPES + 0x400, false), (8, false)] {
        let mut program = Program::new(24);
        let work = program.function("main.work", 0x18);
        let go = program.waits(2, &[work + CALL], "sleep");
        let made = program.goroutine(&go);
        let (panic, string) = (program.room(0x40), program.room(16));
        program.image.put(string + 8, &[3]);
        program.image.word(string, TEXT);
        program.image.put(TEXT, b"bad");
        if kind > 0x1000 {
            program.image.put(kind + 23, &[24]);
        }
        program.image.word(panic + 8, kind);
        program.image.word(panic + 16, string);
        program.image.word(made.at + 32, panic);
        let found = program.finish().read();
        assert_eq!(strand(&found, StrandId(2)).panics_with.is_some(), read, "{kind:#x}");
    }
}
