//! Stacks of goroutines: by the sizes of frames, with lines, files and what was inlined.

use super::program::{CALL, FUNCTION, Go, Program, shown, strand};
use crate::StrandId;

/// A goroutine that waits in these functions, innermost first.
fn walked(made: impl FnOnce(&mut Program) -> Vec<u64>) -> (Vec<String>, bool) {
    let mut program = Program::new(24);
    let callers = made(&mut program);
    let go = program.waits(2, &callers, "sleep");
    program.goroutine(&go);
    let found = program.finish().read();
    let strand = strand(&found, StrandId(2));
    (shown(strand), strand.cut)
}

#[test]
fn frames_are_as_large_as_the_tables_say_at_each_instruction() {
    // A function whose frame grows at 16 and is gone at 64; the goroutine is in it at each of these places.
    for place in [1, 15, 16, 17, 40, 63, 64, 65, 200] {
        let (frames, cut) = walked(|program| {
            let caller = program.function("main.caller", 0x28);
            let grows = program.function("main.grows", 0);
            program.made(grows).sizes = vec![(0, 16), (0x40, 48), (8, 192)];
            vec![grows + place, caller + CALL]
        });
        let expected = ["runtime.gopark:20", "main.grows:50", "main.caller:40", "runtime.goexit:10"];
        assert_eq!((frames, cut), (expected.map(str::to_owned).to_vec(), false), "{place}");
    }
}

/// A return address is behind a call: the line is that of the call.
#[test]
fn lines_are_those_of_the_call_and_not_of_what_follows() {
    for (place, line) in [(1, 7), (10, 7), (11, 3), (30, 3), (31, 1_000_000), (32, 1_000_000)] {
        let (frames, _) = walked(|program| {
            let caller = program.function("main.caller", 0x18);
            program.made(caller).lines = vec![(7, 10), (3, 20), (1_000_000, 226)];
            vec![caller + place]
        });
        assert_eq!(frames[1], format!("main.caller:{line}"), "{place}");
    }
}

#[test]
fn what_is_before_the_first_instruction_is_looked_up_at_the_first() {
    // A goroutine that has not run yet is at the entry of its function.
    let mut program = Program::new(22);
    let starts = program.function("main.starts", 0x30);
    program.made(starts).sizes = vec![(0, 4), (0x30, 252)];
    program.made(starts).lines = vec![(5, 4), (6, 252)];
    let exit = program.exit;
    let go = Go { pcs: vec![starts, exit + 1], status: 1, start: Some(starts), ..program.waits(2, &[], "") };
    program.goroutine(&go);
    let found = program.finish().read();
    assert_eq!(shown(strand(&found, StrandId(2))), ["main.starts:5", "runtime.goexit:10"]);
}

#[test]
fn what_a_signal_interrupted_did_not_call() {
    for (name, line) in [
        ("runtime.sigpanic", 2),
        ("runtime.asyncPreempt", 2),
        ("runtime.debugCallV2", 2),
        ("runtime.sigpanic0", 1),
    ] {
        let (frames, _) = walked(|program| {
            let injected = program.function(name, 0x20);
            let caller = program.function("main.interrupted", 0x18);
            program.made(caller).lines = vec![(1, 10), (2, 246)];
            vec![injected + CALL, caller + 10]
        });
        assert_eq!(frames[2], format!("main.interrupted:{line}"), "{name}");
    }
}

#[test]
fn what_was_inlined_stands_before_the_function_it_was_put_into() {
    for minor in [19, 20, 21, 26] {
        let mut program = Program::new(minor);
        let outer = program.function("main.outer", 0x18);
        let made = program.made(outer);
        made.lines = vec![(100, 10), (200, 10), (300, 10), (400, 226)];
        // `inner` was put into `middle`, which was put in at 5 of the function.
        made.inlined = vec![("main.middle", 5), ("main.inner[int]", 15)];
        made.rows = vec![(-1, 10), (0, 10), (1, 10), (-1, 226)];
        let go = program.waits(2, &[outer + 25, outer + 15, outer + 5], "sleep");
        program.goroutine(&go);
        let found = program.finish().read();
        let strand = strand(&found, StrandId(2));
        let expected = [
            "runtime.gopark:20",
            "[main.inner[...]:300]",
            "[main.middle:200]",
            "main.outer:100",
            "[main.middle:200]",
            "main.outer:100",
            "main.outer:100",
            "runtime.goexit:10",
        ];
        assert_eq!(shown(strand), expected, "1.{minor}");
        let [_, inner, middle, outer, ..] = strand.frames.as_slice() else { panic!("{strand:?}") };
        assert_eq!((inner.address, inner.sp), (outer.address, outer.sp), "they share a frame");
        assert_eq!(middle.sp, outer.sp);
    }
}

#[test]
fn rows_of_what_was_inlined_that_lead_to_each_other_end() {
    let (frames, cut) = walked(|program| {
        let outer = program.function("main.outer", 0x18);
        let made = program.made(outer);
        made.inlined = vec![("main.again", 5)];
        made.rows = vec![(0, FUNCTION as u32)];
        vec![outer + CALL]
    });
    let inlined = frames.iter().filter(|frame| frame.starts_with('[')).count();
    assert!((1..=64).contains(&inlined) && (cut || frames.len() == 67), "{inlined} {cut}");
}

#[test]
fn files_are_counted_from_those_of_the_unit() {
    for (number, expected) in
        [(0, Some("/src/made.go")), (1, Some("/src/other.go")), (2, None), (-2, None), (1 << 20, None)]
    {
        let mut program = Program::new(25);
        let caller = program.function("main.caller", 0x18);
        program.made(caller).files = vec![(number, FUNCTION as u32)];
        let go = program.waits(2, &[caller + CALL], "sleep");
        program.goroutine(&go);
        let found = program.finish().read();
        assert_eq!(strand(&found, StrandId(2)).frames[1].file.as_deref(), expected, "{number}");
    }
}

#[test]
fn names_of_functions_are_those_that_go_prints() {
    let long = "main.".to_owned() + &"x".repeat(500);
    for (name, printed) in [
        ("main.plain", "main.plain"),
        ("main.Map[go.shape.int,go.shape.string]", "main.Map[...]"),
        ("main.(*List[go.shape.[]uint8]).Push", "main.(*List[...]).Push"),
        ("main.odd]name[", "main.odd]name["),
        ("main.half[", "main.half["),
        ("main.größe", "main.größe"),
        (&long, &long[..200]),
    ] {
        let (frames, _) = walked(|program| vec![program.function(name, 8) + CALL]);
        assert_eq!(frames[1], format!("{printed}:40"));
    }
}

#[test]
fn a_stack_is_cut_where_it_is_not_understood() {
    type Callers = fn(&mut Program) -> Vec<u64>;
    let cases: [(&str, Callers, usize); 5] = [
        ("a caller that is no function", |_| vec![0x30_0000], 1),
        ("a caller behind all functions", |_| vec![0x40_3fff], 1),
        ("a frame of less than nothing", |program| vec![program.function("main.odd", -8) + CALL], 2),
        ("a frame larger than the stack", |program| vec![program.function("main.odd", 0x800) + CALL], 2),
        (
            "a table without the instruction",
            |program| {
                let odd = program.function("main.odd", 8);
                program.made(odd).sizes = vec![(8, 4)];
                vec![odd + CALL]
            },
            2,
        ),
    ];
    for (what, callers, count) in cases {
        let mut program = Program::new(23);
        let callers = callers(&mut program);
        // What follows is not reached.
        let mut go = program.waits(2, &callers[..callers.len() - 1], "sleep");
        go.start = Some(super::program::TEXT + 2 * FUNCTION);
        let g = program.goroutine(&go);
        let park = g.sps[0] + 0x10;
        program.image.word(park, callers[0]);
        let found = program.finish().read();
        let strand = strand(&found, StrandId(2));
        assert_eq!((strand.frames.len(), strand.cut), (count, true), "{what}: {:?}", shown(strand));
    }
}

#[test]
fn no_more_frames_are_listed_than_the_limits_say() {
    let mut program = Program::new(24);
    let again = program.function("main.again", 0);
    let callers = vec![again + CALL; 40];
    for id in 2..6 {
        let go = program.waits(id, &callers, "sleep");
        program.goroutine(&go);
    }
    let mut finished = program.finish();
    finished.limits.frames_per_strand = 20;
    // The first goroutine has three.
    finished.limits.frames = 3 + 20 + 20 + 7;
    let found = finished.read();
    let counts: Vec<_> = found.strands.iter().map(|strand| (strand.frames.len(), strand.cut)).collect();
    assert_eq!(counts, [(3, false), (20, true), (20, true), (7, true), (0, true)]);
}

#[test]
fn a_goroutine_is_started_by_the_line_of_its_go_statement() {
    let mut program = Program::new(24);
    let worker = program.function("main.worker", 0x18);
    let go = program.waits(2, &[worker + CALL], "sleep");
    let g = program.goroutine(&go);
    let starts = program.function("main.start", 0x18);
    program.made(starts).lines = vec![(1, 9), (2, 247)];
    let layout = program.layout;
    program.image.word(g.at + layout.g_go_pc, starts + 9);
    let found = program.finish().read();
    let frame = strand(&found, StrandId(2)).started_at.clone().expect("it was started");
    assert_eq!((&*frame.function, frame.line), ("main.start", Some(1)), "the call is before");
    // The runtime starts the first one.
    let mut program = Program::new(24);
    let newproc = program.function("runtime.newproc", 8);
    program.image.word(super::program::HEAP + layout.g_go_pc, newproc + CALL);
    assert_eq!(strand(&program.finish().read(), StrandId(1)).started_at, None);
}
