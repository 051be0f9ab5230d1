//! Signatures held against those of Mozilla's siggen, and what is added to its rules.

use super::*;
use biopsy_model::{Avma, Svma};
use biopsy_stacks::unwind::FoundBy;

/// Made by siggen itself, see `fixtures/signatures/README.md`.
const SIGGEN: &str = include_str!("../../../../../fixtures/signatures/siggen.txt");

/// A frame, as `function`, `module`, `file` that tabs separate.
fn made(text: &str) -> FrameRow {
    let mut parts = text.split('\t');
    let mut part = || parts.next().unwrap_or_default().to_owned();
    let (function, module, file) = (part(), part(), part());
    FrameRow {
        function: Some(function).filter(|name| !name.is_empty()),
        inlined: false,
        managed: false,
        whose: if module.contains(".so") { Whose::Library } else { Whose::Program },
        module,
        offset: Svma(0x40),
        start: None,
        address: Avma(0x7f00_1234_5678),
        source: Some((file, None)).filter(|(file, _)| !file.is_empty()),
        found: FoundBy::UnwindInfo,
        repeats: (1, 1),
        skipped: 0,
    }
}

fn of(frames: &[&str]) -> Signature {
    let rows: Vec<FrameRow> = frames.iter().map(|frame| made(frame)).collect();
    of_rows(&rows, false, None).unwrap()
}

#[test]
fn the_rules_of_socorro_give_what_siggen_gives() {
    let mut cases: Vec<(&str, Vec<FrameRow>)> = Vec::new();
    for line in SIGGEN.lines() {
        if line.starts_with("= ") || line.starts_with("! ") {
            cases.push((line, Vec::new()));
        } else if let Some((_, rows)) = cases.last_mut() {
            rows.push(made(line));
        }
    }
    assert!(cases.len() > 300, "{}", cases.len());
    for (expected, rows) in &cases {
        let signature = of_rows(rows, expected.starts_with('!'), None).unwrap();
        let ours = signature.socorro.as_ref().unwrap_or(&signature.text);
        let names: Vec<_> = rows.iter().map(|row| row.function.as_deref().unwrap_or(&row.module)).collect();
        assert_eq!(ours, &expected[2..], "{names:#?}");
    }
}

#[test]
fn what_is_added_tells_the_program() {
    let thrown = of(&[
        "raise\tlibc.so.6",
        "abort\tlibc.so.6",
        "__gnu_cxx::__verbose_terminate_handler()\tlibstdc++.so.6",
        "\tlibstdc++.so.6",
        "std::terminate()\tlibstdc++.so.6",
        "__cxa_throw\tlibstdc++.so.6",
        "shop::settle(int)\tshop",
        "main\tshop",
    ]);
    assert_eq!(thrown.text, "raise | abort | shop::settle");
    assert_eq!(thrown.socorro.as_deref(), Some("raise | abort | __gnu_cxx::__verbose_terminate_handler"));
    assert_eq!(thrown.how(), "of the stack; frames left out: 4, gone past: 2");
    assert!(!thrown.is_coarse());
    let unwrapped = of(&[
        "core::panicking::panic_fmt\tshop\t/rustc/1/library/core/src/panicking.rs",
        "core::option::unwrap_failed\tshop\t/rustc/1/library/core/src/option.rs",
        "shop::work::h0123456789abcdef\tshop\t/src/work.rs",
    ]);
    assert_eq!(unwrapped.text, "core::option::unwrap_failed | shop::work");
}

#[test]
fn copies_and_parts_of_a_function_are_the_function() {
    for name in ["shop::settle(int) [cold]", "shop::settle(int)", "shop::settle.part.0.constprop.1"] {
        assert_eq!(of(&[&format!("{name}\tshop\t/src/settle.cc")]).text, "shop::settle");
    }
    assert_eq!(of(&["settle.part.0\tshop"]).socorro.as_deref(), Some("settle.part.0"));
    assert_eq!(of(&["main.coldStart\trelay"]).text, "main.coldStart");
    assert_eq!(of(&["operator new(unsigned long)\tlibstdc++.so.6"]).text, "operator new");
}

#[test]
fn what_an_interpreter_runs_ends_it() {
    let rows = [made("abort\tlibc.so.6"), made("MemAllocator::allocate\tlibjvm.so"), made("run\tshop")];
    let signature = of_rows(&rows[..2], false, Some("Scenes.load")).unwrap();
    assert_eq!(signature.text, "abort | MemAllocator::allocate | Scenes.load");
    assert_eq!(signature.frames.last().unwrap().role, Role::Last);
    // It has frames of its own.
    assert_eq!(of_rows(&rows, false, Some("run")).unwrap().text, "abort | MemAllocator::allocate");
}

#[test]
fn panics_of_go_are_told_on_native_stacks_too() {
    let frames = ["runtime.raise.abi0", "runtime.gopanic", "runtime.panicmem", "main.settle"];
    let rows: Vec<String> = frames.iter().map(|name| format!("{name}\trelay")).collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    assert_eq!(of(&rows).text, "runtime.gopanic | runtime.panicmem | main.settle");
}

#[test]
fn functions_without_names_are_told_by_where_they_begin() {
    let mut rows = [made("abort\tlibc.so.6"), made("\tshop"), made("\tshop")];
    let of = |rows: &[FrameRow]| of_rows(rows, false, None).unwrap();
    assert_eq!(of(&rows).text, "abort | shop");
    assert!(of(&rows).is_coarse());
    rows[1].start = Some(Svma(0x1240));
    assert_eq!(of(&rows).text, "abort | shop+0x1240");
    assert_eq!(of(&rows).socorro.as_deref(), Some("abort | shop"));
    assert!(!of(&rows).is_coarse());
}

#[test]
fn an_overflow_says_so_and_no_stack_has_none() {
    let rows = [made("compare\tlibc.so.6"), made("walk\tshop")];
    assert_eq!(of_rows(&rows, true, None).unwrap().text, "stackoverflow | compare");
    let told = of_rows(&rows, true, Some("walk")).unwrap();
    assert_eq!(
        (told.text.as_str(), told.socorro.as_deref()),
        ("stackoverflow | walk", Some("stackoverflow | compare"))
    );
    assert_eq!(of_rows(&[], false, None), None);
}

#[test]
fn goroutines_keep_how_the_runtime_was_told() {
    let go = |names: &[&str]| {
        let frames = names.iter().map(|name| biopsy_runtimes::StrandFrame {
            function: (*name).into(),
            ..biopsy_runtimes::StrandFrame::default()
        });
        let id = biopsy_runtimes::StrandId(1);
        let mut strand = Strand::new(id, biopsy_runtimes::StrandKind::Goroutine);
        strand.frames = frames.collect();
        of_goroutine(&strand).unwrap().text
    };
    let dies = ["runtime.raise", "runtime.fatalpanic", "runtime.gopanic"];
    let with = |rest: &[&'static str]| go(&[&dies[..], rest].concat());
    assert_eq!(with(&["main.settle", "main.main"]), "runtime.gopanic | main.settle");
    assert_eq!(
        with(&["runtime.panicmem", "runtime.sigpanic", "main.settle"]),
        "runtime.gopanic | runtime.panicmem | main.settle"
    );
    assert_eq!(
        go(&["runtime.throw", "runtime.mapassign_faststr", "main.put"]),
        "runtime.throw | runtime.mapassign_faststr | main.put"
    );
}

#[test]
fn exceptions_are_told_by_the_first_of_their_chain() {
    let row = |name: &str, methods: &[&str]| ExceptionRow {
        type_name: name.to_owned(),
        thrown_in: methods.iter().map(|&method| method.to_owned()).collect(),
        ..ExceptionRow::default()
    };
    let mut exception = row("System.AggregateException", &["Shop.Desk.Serve(int32)"]);
    assert_eq!(of_exception(&exception).text, "System.AggregateException: at Shop.Desk.Serve");
    exception.inner = vec![row("System.TimeoutException", &["Shop.Store.Load (async)"])];
    assert_eq!(of_exception(&exception).text, "System.TimeoutException: at Shop.Store.Load");
    exception.inner = vec![row("System.TimeoutException", &[])];
    assert_eq!(of_exception(&exception).text, "System.TimeoutException: at Shop.Desk.Serve");
    assert_eq!(of_exception(&row("X", &[])).text, "X");
}
