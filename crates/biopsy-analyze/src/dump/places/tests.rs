//! Places of stacks that were made by hand.

use super::*;
use biopsy_model::{Avma, Svma, Tid};
use biopsy_runtimes::{StrandId, StrandKind};
use biopsy_stacks::unwind::FoundBy;

/// `module!function`, `jit!function` for methods; whose it is by the first letter: `p:`, `l:`, `x:` for plumbing.
fn made(text: &str) -> FrameRow {
    let (whose, text) = text.split_once(':').unwrap();
    let (module, function) = text.split_once('!').unwrap();
    FrameRow {
        function: Some(function.to_owned()).filter(|name| !name.is_empty()),
        inlined: false,
        managed: module == "jit",
        whose: match whose {
            "p" => Whose::Program,
            "l" => Whose::Library,
            _ => Whose::Plumbing,
        },
        module: module.to_owned(),
        offset: Svma(0x40),
        start: None,
        address: Avma(0),
        source: None,
        found: FoundBy::UnwindInfo,
        repeats: (1, 1),
        skipped: 0,
    }
}

fn words(stack: &[&str]) -> String {
    let rows: Vec<FrameRow> = stack.iter().map(|row| made(row)).collect();
    of(&rows, None).map_or(String::new(), |place| place.words())
}

#[test]
fn the_program_is_named_with_the_way_behind_it() {
    assert_eq!(
        words(&["x:libc.so.6!pthread_mutex_lock", "x:a!std::mutex::lock", "p:a!route_parcel", "p:a!main"]),
        "`route_parcel` → `std::mutex::lock` → `pthread_mutex_lock`, called by `main`"
    );
    assert_eq!(words(&["x:c!a", "x:c!b", "x:c!c", "l:c!d", "l:c!e", "p:a!work"]), "`work` → `e` → … → `a`");
    assert_eq!(words(&["x:c!__GI_raise", "x:c!raise", "x:c!_Z", "p:a!work"]), "`work` → `raise`");
    assert_eq!(words(&["x:c!__lll_lock", "p:a!work"]), "`work` → `__lll_lock`");
    // Stripped: the module and where in it.
    assert_eq!(words(&["x:libc.so.6!", "p:router!", "x:libc.so.6!start"]), "`router+0x40`");
    // Nothing of the program: a library is better than the C library.
    assert_eq!(words(&["x:libc.so.6!poll", "l:libuv.so.1!uv_run"]), "`uv_run` → `poll`");
    assert_eq!(words(&["x:libc.so.6!clone"]), "`clone`");
    assert_eq!(words(&[]), "");
}

#[test]
fn who_hosts_a_runtime_is_not_the_place() {
    assert_eq!(
        words(&["x:libcoreclr.so!Wait", "l:jit!System.Join", "p:Shop!main"]),
        "`System.Join` → `Wait`"
    );
    assert_eq!(words(&["p:Shop!JIT_Monitor", "p:jit!Shop.Run", "p:Shop!main"]), "`Shop.Run` → `JIT_Monitor`");
    assert_eq!(words(&["p:libshop.so!price", "p:jit!Shop.Run"]), "`price`, called by `Shop.Run`");
}

/// A Python thread in `app.run`, and the native rows below it.
fn in_python(stack: &[&str], file: &str) -> StackPlace {
    let mut runtime = RuntimeStrands::new(RuntimeKind::Python, b"/usr/bin/python3.11", 0);
    let mut strand = Strand::new(StrandId(1), StrandKind::Thread);
    strand.tid = Some(Tid(1));
    strand.frames = vec![StrandFrame {
        function: "run".into(),
        file: Some(file.into()),
        line: Some(7),
        ..StrandFrame::default()
    }];
    runtime.strands.push(strand);
    let rows: Vec<FrameRow> = stack.iter().map(|row| made(row)).collect();
    of(&rows, strand_place::on_thread([&runtime].into_iter(), Tid(1))).unwrap()
}

#[test]
fn a_thread_of_a_language_is_where_its_program_is() {
    let run = |stack: &[&str]| in_python(stack, "/app/app.py").name();
    assert_eq!(run(&["x:libc.so.6!memcpy", "l:python3.11!_Py_dict_lookup"]), "run (app.py:7)");
    // An extension of the program that Python called; a program that hosts Python.
    assert_eq!(run(&["p:_fast.so!price", "l:python3.11!_PyEval_EvalFrameDefault"]), "`price`");
    assert_eq!(run(&["l:python3.11!_PyEval_EvalFrameDefault", "p:server!main"]), "run (app.py:7)");
    assert!(in_python(&[], "/app/app.py").own);
    assert!(!in_python(&[], "/usr/lib/python3.11/threading.py").own);
}

#[test]
fn what_recurses_is_named() {
    let mut stack = vec!["x:libc.so.6!strtod", "p:a!number"];
    let cells = ["p:a!evaluate"; 50];
    stack.extend(cells);
    let rows: Vec<FrameRow> = stack.iter().map(|row| made(row)).collect();
    let innermost = of(&rows, None).unwrap();
    assert_eq!(innermost.function, "number");
    let recursing = recursing(&rows, None, &innermost).unwrap();
    assert_eq!(recursing.name(), "`evaluate`");
    assert_eq!(super::recursing(&rows, None, &recursing), None);
}
