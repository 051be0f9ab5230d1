//! Stacks as they are read: what is folded away, what stands for it, and how much room there is.

use super::*;
use biopsy_model::stack::StackEnd;
use biopsy_model::{Avma, Svma};
use biopsy_stacks::unwind::FoundBy;

/// `module!function`; with `jit` for a module it is managed, `?` has no name, and `module!function@file:line` a source.
fn row(text: &str) -> FrameRow {
    let (module, rest) = text.split_once('!').expect("a module");
    let (function, source) =
        rest.split_once('@').map_or((rest, None), |(function, source)| (function, Some(source)));
    let source = source.map(|source| {
        let (file, line) = source.split_once(':').expect("a line");
        (file.to_owned(), line.parse().ok())
    });
    FrameRow {
        function: (function != "?").then(|| function.to_owned()),
        inlined: false,
        managed: module == "jit",
        whose: Whose::Program,
        module: module.to_owned(),
        offset: Svma(0x40),
        start: None,
        address: Avma(0x7f40),
        source,
        found: FoundBy::UnwindInfo,
        repeats: (1, 1),
        skipped: 0,
    }
}

fn group(rows: Vec<FrameRow>) -> StackGroup {
    StackGroup {
        members: vec![0],
        depth: rows.len(),
        frames: rows,
        end: StackEnd::Root,
        cut: false,
        crashed: false,
        in_cycle: false,
        running: 0,
        doing: String::new(),
    }
}

fn stack(rows: &[&str]) -> StackGroup {
    group(rows.iter().map(|one| row(one)).collect())
}

fn shown(group: &StackGroup, native: bool) -> Vec<String> {
    let label = |line: &Line<'_>| match line {
        Line::Frame(row) => row.label(),
        Line::Note(note) => format!("({note})"),
    };
    lines(group, native).iter().map(label).collect()
}

fn options(width: Option<usize>, frames: usize) -> StacksOptions {
    StacksOptions { width, color: false, all: false, native: false, frames }
}

fn printed(group: &StackGroup, width: Option<usize>, frames: usize) -> Vec<String> {
    let mut out = Out { text: String::new(), options: options(width, frames) };
    out.frames(group, 2);
    out.text.lines().map(str::to_owned).collect()
}

#[test]
fn names_are_cut_where_they_tell_least() {
    for (name, width, expected) in [
        ("App.Server.Deployments.Locks.Take", 20, "…Locks.Take"),
        ("App.Take", 20, "App.Take"),
        ("App.Take", 8, "App.Take"),
        // The next part is too short to know it by.
        ("Server.Deployment.Take", 10, "…ment.Take"),
        ("größe_der_warteschlange", 12, "…rteschlange"),
        ("x", 0, "…"),
    ] {
        assert_eq!(cut_start(name, width), expected, "{name} {width}");
    }
    assert_eq!(cut_end("a monitor of something", 10), "a monitor…");
    assert!(cut_start(&"x".repeat(100), 20).chars().count() <= 20);
}

#[test]
fn native_frames_between_managed_ones_are_one_line() {
    let mixed = stack(&[
        "libc.so.6!?",
        "libcoreclr.so!WaitHandle",
        "jit!App.Wait",
        "libcoreclr.so!Invoke",
        "jit!App.Main",
    ]);
    assert_eq!(
        shown(&mixed, false),
        ["(2 native frames in libc.so.6, libcoreclr.so: WaitHandle)", "App.Wait", "Invoke", "App.Main"]
    );
    assert_eq!(shown(&mixed, true), ["libc.so.6+0x40", "WaitHandle", "App.Wait", "Invoke", "App.Main"]);
    // A thread without managed code has nothing else to show.
    assert_eq!(shown(&stack(&["libc.so.6!poll", "server!run"]), false), ["poll", "run"]);
    let many = stack(&["a!?", "b!?", "c!?", "d!?", "!?", "jit!App.Main"]);
    assert_eq!(shown(&many, false), ["(5 native frames in a, b, c and 2 more)", "App.Main"]);
    assert_eq!(shown(&stack(&[]), false), Vec::<String>::new());
}

#[test]
fn what_compilers_add_to_async_methods_is_folded_away() {
    let frames = [
        "jit!App.Store.SaveAsync (async)",
        "jit!System.Runtime.CompilerServices.AsyncTaskMethodBuilder`1.Start<App.Store>",
        "jit!App.Store.SaveAsync",
        "jit!System.Threading.ExecutionContext.RunInternal",
        "jit!System.Runtime.CompilerServices.AsyncTaskMethodBuilder.AsyncStateMachineBox<App.Main>.MoveNext",
        "jit!App.Main",
    ];
    assert_eq!(shown(&stack(&frames), false), ["App.Store.SaveAsync (async)", "App.Main"]);
    assert_eq!(shown(&stack(&frames), true).len(), frames.len());
    // Only the method that started it goes: one of the same name further up was called for itself.
    let again = ["jit!App.F (async)", "jit!App.F", "jit!App.F", "jit!App.G (async)", "jit!App.F"];
    assert_eq!(shown(&stack(&again), false), ["App.F (async)", "App.F", "App.G (async)", "App.F"]);
    // A class of the program may be called alike.
    assert_eq!(shown(&stack(&["jit!My.System.Threading.ExecutionContext.Run"]), false).len(), 1);
}

#[test]
fn rows_that_are_missing_are_said() {
    let skipped = |count| FrameRow { skipped: count, ..row("server!run") };
    assert_eq!(shown(&group(vec![skipped(1)]), false), ["(… 1 frame left out)", "run"]);
    assert_eq!(shown(&group(vec![skipped(90)]), false), ["(… 90 frames left out)", "run"]);
    let deep = stack(&["a!f"; 5]);
    assert_eq!(printed(&deep, None, 5), ["  f  a"; 5]);
    assert_eq!(printed(&deep, None, 4).last().map(String::as_str), Some("  … 1 more frame"));
    assert_eq!(printed(&deep, None, 3).last().map(String::as_str), Some("  … 2 more frames"));
    assert_eq!(printed(&deep, None, 0), ["  … 5 more frames"]);
    let early = StackGroup { end: StackEnd::NoUnwindInfo, ..stack(&["a!f"]) };
    assert_eq!(printed(&early, None, 9), ["  f  a", "  (no unwind information from here on)"]);
}

#[test]
fn where_there_is_no_room_the_function_stays() {
    let of = |text: &str, width| printed(&stack(&[text]), Some(width), 9).remove(0);
    for (text, width, expected) in [
        ("server!transfer@/src/bank.c:52", 40, "  transfer  bank.c:52"),
        ("server!transfer@/src/bank.c:52", 21, "  transfer  bank.c:52"),
        ("server!transfer@/src/bank.c:52", 20, "  transfer"),
        ("server!transfer@bank.c:?", 40, "  transfer  bank.c"),
        ("server!transfer", 40, "  transfer  server"),
        ("server!?", 40, "  server+0x40"),
        ("server!App.Deployments.Locks.Transfer", 20, "  …Locks.Transfer"),
    ] {
        let line = of(text, width);
        assert_eq!(line, expected, "{text} in {width}");
        assert!(line.chars().count() <= width);
    }
}

#[test]
fn repeated_and_inlined_rows_say_so() {
    for (row, expected) in [
        (FrameRow { repeats: (7, 1), ..row("a!f") }, "  f (7 times)  a"),
        (FrameRow { repeats: (7, 2), ..row("a!f") }, "  f (these 2 frames 7 times)  a"),
        (FrameRow { repeats: (1, 3), ..row("a!f") }, "  f  a"),
        (FrameRow { inlined: true, repeats: (2, 1), ..row("a!f") }, "  f (inlined) (2 times)  a"),
        (row("a\u{1b}[2J!f\ng"), "  f g  a\\u{1b}[2J"),
    ] {
        assert_eq!(printed(&group(vec![row]), None, 9), [expected]);
    }
}

#[test]
fn what_a_thread_holds_is_said_up_to_a_limit() {
    let lock = |number: u64, waiters: usize| ManagedLock {
        object: number,
        type_name: "App.Lock".to_owned(),
        kind: if number == 1 {
            biopsy_analyze::dump::LockKind::Mutex
        } else {
            biopsy_analyze::dump::LockKind::Monitor
        },
        owner: Some(Tid(7)),
        recursion: 1,
        waiters: vec![Tid(8); waiters],
        pulse_waiters: Vec::new(),
    };
    let said = |count: u64| {
        let managed = biopsy_analyze::dump::managed::Managed {
            locks: (0..count).map(|number| lock(number, number as usize)).collect(),
            ..Default::default()
        };
        let thread = DumpThread { tid: Tid(7), ..DumpThread::default() };
        let analysis =
            DumpAnalysis { threads: vec![thread], managed: Some(managed), ..DumpAnalysis::default() };
        facts(&analysis, &stack(&["jit!App.Main"]), &[&analysis.threads[0]])
    };
    assert_eq!(said(0), Vec::<String>::new());
    assert_eq!(
        said(3),
        [
            "holds the monitor of App.Lock at 0x0",
            "holds a App.Lock at 0x1, which 1 thread waits for",
            "holds the monitor of App.Lock at 0x2, which 2 threads wait for",
        ]
    );
    assert_eq!(said(6).len(), 6);
    assert_eq!(said(7).last().map(String::as_str), Some("and holds 1 more lock"));
    assert_eq!(said(9).last().map(String::as_str), Some("and holds 3 more locks"));
}
