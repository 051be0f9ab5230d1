//! What is said of a dump: each part that may be absent, one and many, and numbers that no sum could hold.

use super::*;
use biopsy_analyze::Whose;
use biopsy_analyze::dump::Looks;
use biopsy_model::{Avma, Pid, Svma, Tid};
use biopsy_stacks::unwind::FoundBy;

fn thread(tid: u32, name: Option<&str>) -> DumpThread {
    DumpThread {
        tid: Tid(tid),
        name: name.map_or_else(|| format!("thread {tid}"), str::to_owned),
        named: name.is_some(),
        ..DumpThread::default()
    }
}

fn group(members: std::ops::Range<usize>) -> StackGroup {
    StackGroup {
        members: members.collect(),
        frames: Vec::new(),
        depth: 0,
        end: StackEnd::Root,
        cut: false,
        crashed: false,
        in_cycle: false,
        running: 0,
        doing: String::new(),
    }
}

fn row(function: Option<&str>) -> FrameRow {
    FrameRow {
        function: function.map(str::to_owned),
        inlined: false,
        managed: false,
        whose: Whose::Program,
        module: "server".to_owned(),
        offset: Svma(0x40),
        start: None,
        address: Avma(0x7f40),
        source: None,
        found: FoundBy::UnwindInfo,
        repeats: (1, 1),
        skipped: 0,
    }
}

#[test]
fn numbered_threads_share_a_pattern() {
    for (name, shown) in [
        ("worker-17", "worker-*"),
        ("main", "main"),
        ("17", "17"),
        ("v2-17", "v2-*"),
        ("grüße7", "grüße*"),
        ("pool 3 thread", "pool 3 thread"),
        ("", ""),
    ] {
        assert_eq!(pattern(name), shown);
    }
}

/// Names of the threads of a stack; `-` has none.
fn named(names: &[&str]) -> String {
    let threads: Vec<DumpThread> =
        (10..).zip(names).map(|(tid, name)| thread(tid, Some(*name).filter(|name| *name != "-"))).collect();
    let group = group(0..threads.len());
    super::names(&DumpAnalysis { threads, ..DumpAnalysis::default() }, &group)
}

#[test]
fn threads_of_a_stack_are_named_the_most_frequent_first() {
    for (threads, expected) in [
        (&["timer-1"][..], "timer-1"),
        (&["-"], "thread 10"),
        (&["timer-1", "timer-2"], "timer-* ×2"),
        (&["main", "io-1", "io-2"], "io-* ×2, main"),
        (&["a", "b", "c"], "a, b, c"),
        (&["a", "b", "c", "d"], "a, b, c, and 1 more name"),
        (&["a", "b", "c", "d", "e"], "a, b, c, and 2 more names"),
        // Those without a name are no more names.
        (&["-", "-", "a", "b", "c"], "a, b, c"),
        (&["-", "-"], "threads 10, 11"),
        (&["-"; 6], "threads 10, 11, 12, 13, 14, 15"),
        (&["-"; 8], "threads 10, 11, 12, 13, 14, 15 and 2 more"),
    ] {
        assert_eq!(named(threads), expected, "{threads:?}");
    }
}

#[test]
fn of_more_threads_than_are_looked_at_no_number_is_said() {
    assert_eq!(named(&vec!["worker-7"; 2_000]), "worker-* ×2000");
    assert_eq!(named(&vec!["worker-7"; 2_001]), "worker-*");
}

#[test]
fn members_that_are_no_threads_have_no_name() {
    let analysis = DumpAnalysis { threads: vec![thread(7, Some("main"))], ..DumpAnalysis::default() };
    assert_eq!(names(&analysis, &group(0..3)), "main");
    assert_eq!(names(&analysis, &group(5..7)), "threads  and 2 more");
}

#[test]
fn the_file_is_said_as_far_as_it_is_known() {
    let identity = Identity {
        format: "ELF core".to_owned(),
        kind: Some("full".to_owned()),
        file_bytes: Some(12_897_485),
        writer: Some("gcore".to_owned()),
        scrubbed: Some(false),
        pid: Pid(7),
        ..Identity::default()
    };
    assert_eq!(file(&identity), "ELF core, kind full, 12.3 MiB, written by gcore, not scrubbed");
    let scrubbed = Identity { scrubbed: Some(true), format: String::new(), ..identity };
    assert_eq!(file(&scrubbed), "kind full, 12.3 MiB, written by gcore, scrubbed");
    assert_eq!(file(&Identity::default()), "");
}

#[test]
fn the_moment_of_a_dump_is_a_date_or_nothing() {
    let taken = |nanos| taken(&Identity { taken_at_unix_nanos: nanos, ..Identity::default() });
    for (nanos, expected) in [
        (Some(1_763_720_823_999_999_999), Some("2025-11-21 10:27:03 UTC")),
        (Some(0), Some("1970-01-01 00:00:00 UTC")),
        (Some(-1), Some("1969-12-31 23:59:59 UTC")),
        (Some(i64::MAX), Some("2262-04-11 23:47:16 UTC")),
        (None, None),
    ] {
        assert_eq!(taken(nanos).as_deref(), expected, "{nanos:?}");
    }
}

#[test]
fn looks_say_how_long_how_often_and_what_did_not_move() {
    let analysis = |looks: Option<Looks>, movements: &[Movement]| DumpAnalysis {
        looks,
        threads: movements.iter().map(|one| DumpThread { movement: Some(*one), ..thread(1, None) }).collect(),
        ..DumpAnalysis::default()
    };
    let looks = Looks { count: 3, span: None, pauses: Vec::new(), lasting: Vec::new() };
    assert_eq!(super::looks(&analysis(None, &[Movement::Stuck])), None);
    for (span, pauses, movements, expected) in [
        (None, vec![], vec![], "3 looks · 0 of 0 threads did not run in between"),
        (
            Some(Nanos(4_000_000_000)),
            vec![],
            vec![Movement::Stuck],
            "3 looks over 4 s · 1 of 1 thread did not run in between",
        ),
        (
            Some(Nanos(4_000_000_000)),
            vec![Nanos(4_000_000), Nanos(3_500_000), Nanos(4_600_000)],
            vec![Movement::Stuck, Movement::Moved, Movement::Again, Movement::New],
            "3 looks over 4 s, stood still 12.1 ms in all · 1 of 4 threads did not run in between",
        ),
        // Where it is not known of one, it is said of none.
        (
            None,
            vec![Nanos(u64::MAX), Nanos(u64::MAX)],
            vec![Movement::Stuck, Movement::SamePlace, Movement::Moved],
            "3 looks, stood still 5,124,095 h 34 min in all · 2 of 3 threads in the same place each time (whether they ran in \
             between is not known)",
        ),
    ] {
        let looks = Looks { span, pauses, ..looks.clone() };
        let said = super::looks(&analysis(Some(looks), &movements)).expect("there were looks");
        assert_eq!(said.replace(',', ""), expected.replace(',', ""));
    }
}

#[test]
fn what_threads_did_is_said_where_all_did_the_same() {
    let one = |movement| DumpThread { movement, ..thread(1, None) };
    let (stuck, moved) = (one(Some(Movement::Stuck)), one(Some(Movement::Moved)));
    for (threads, expected) in [
        (vec![], None),
        (vec![&stuck], Some(Movement::Stuck.words())),
        (vec![&stuck, &stuck], Some(Movement::Stuck.words())),
        (vec![&stuck, &moved], None),
        (vec![&one(None), &stuck], None),
        (vec![&stuck, &one(None)], None),
    ] {
        assert_eq!(movement(threads.into_iter()), expected);
    }
}

#[test]
fn a_stack_that_is_not_whole_says_why() {
    let end = |end, cut| super::end(&StackGroup { end, cut, ..group(0..1) });
    assert_eq!(end(StackEnd::Root, false), None);
    assert_eq!(end(StackEnd::Root, true), Some("deeper than the limit: cut here"));
    let words: std::collections::BTreeSet<_> = [
        StackEnd::Truncated,
        StackEnd::FramePointers,
        StackEnd::NoUnwindInfo,
        StackEnd::Skipped,
        StackEnd::KernelOnly,
    ]
    .into_iter()
    .filter_map(|one| end(one, false))
    .collect();
    assert_eq!(words.len(), 5, "each end has words of its own: {words:?}");
}

#[test]
fn a_frame_has_its_module_its_line_and_how_often_it_is_there() {
    let source = |file: &str, line| Some((file.to_owned(), line));
    for (row, expected) in [
        (row(Some("run")), "run  server"),
        (FrameRow { module: String::new(), ..row(Some("run")) }, "run"),
        (
            FrameRow { source: source("/src/Program.cs", Some(12)), ..row(Some("App.Run")) },
            "App.Run  server  Program.cs:12",
        ),
        (
            FrameRow { source: source("Program.cs", None), ..row(Some("App.Run")) },
            "App.Run  server  Program.cs",
        ),
        (FrameRow { inlined: true, ..row(Some("run")) }, "run  server  (inlined)"),
        (FrameRow { repeats: (7, 1), ..row(Some("fib")) }, "fib  server  (7 times)"),
        (FrameRow { repeats: (7, 2), ..row(Some("odd")) }, "odd  server  (these 2 frames 7 times)"),
        // The module is in the place already.
        (row(None), "server+0x40"),
        (FrameRow { start: Some(Svma(0x30)), ..row(None) }, "server+0x30"),
        (FrameRow { module: String::new(), ..row(None) }, "0x7f40"),
    ] {
        assert_eq!(frame(&row), expected);
    }
}

#[test]
fn shares_are_those_of_threads_and_count_repeated_frames() {
    let nothing = DumpAnalysis::default();
    assert_eq!((whole_stacks(&nothing), named_frames(&nothing)), (None, None));
    let of = |end, members, frames| StackGroup { end, frames, ..group(members) };
    let threads = (0..10).map(|tid| thread(tid, None)).collect();
    let analysis = DumpAnalysis {
        threads,
        groups: vec![
            // Six threads whose stack was cut are whole as far as they were wanted.
            StackGroup { cut: true, ..of(StackEnd::Truncated, 0..6, vec![row(Some("f")), row(None)]) },
            of(StackEnd::Root, 6..7, vec![FrameRow { repeats: (8, 1), ..row(Some("g")) }]),
            of(StackEnd::NoUnwindInfo, 7..10, Vec::new()),
        ],
        ..DumpAnalysis::default()
    };
    assert_eq!(whole_stacks(&analysis), Some(0.7));
    assert_eq!(named_frames(&analysis), Some((6.0 + 8.0) / (12.0 + 8.0)));
    // Counts of a hostile file do not overflow.
    let many = FrameRow { repeats: (u32::MAX, 1), ..row(Some("f")) };
    let huge = DumpAnalysis {
        groups: vec![of(StackEnd::Root, 0..100_000, vec![many; 100_000])],
        ..DumpAnalysis::default()
    };
    assert_eq!(named_frames(&huge), Some(1.0));
}

#[test]
fn a_managed_heap_in_one_line() {
    let heap =
        HeapTable { types: 12, objects: 300, bytes: 1_258_291, is_server: true, ..HeapTable::default() };
    assert_eq!(heap_total(&heap), "1.2 MiB in 300 objects, 12 types of the server collector");
    let one = HeapTable { types: 1, objects: 1, bytes: 24, ..HeapTable::default() };
    assert_eq!(heap_total(&one), "24 B in 1 object, 1 type of the workstation collector");
}

#[test]
fn a_chain_names_what_all_of_it_awaits_only_where_there_are_several() {
    let group =
        |count, object| OperationGroup { count, methods: Vec::new(), awaits: "an answer".to_owned(), object };
    let object = Some((Avma(0x7f10), "SemaphoreSlim".to_owned()));
    assert_eq!(awaits(&group(2, object.clone())), "an answer, all on one SemaphoreSlim at 0x7f10");
    assert_eq!(awaits(&group(1, object)), "an answer");
    assert_eq!(awaits(&group(2, None)), "an answer");
}
