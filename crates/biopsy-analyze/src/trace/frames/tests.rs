//! What becomes of frames: kinds, names, inlined calls and tiers.

use super::*;
use crate::trace::made::Made;
use biopsy_model::symbol::Function;

fn rows(made: &Made) -> (FrameTable, Vec<(FunctionKind, String, String, bool)>) {
    let table = FrameTable::new(&made.timeline);
    let told = table
        .functions
        .iter()
        .map(|row| (row.kind, row.module.clone(), row.name.clone(), row.named))
        .collect();
    (table, told)
}

#[test]
fn a_module_tells_what_kind_of_code_a_frame_is() {
    for (frame, kind, module, name, named) in [
        ("k:read", FunctionKind::Kernel, "[kernel.kallsyms]", "read", true),
        ("work", FunctionKind::Native, "server", "work", true),
        ("[vdso]!clock_gettime", FunctionKind::Native, "[vdso]", "clock_gettime", true),
        ("jit!Shop.Run", FunctionKind::Jit, "jit", "Shop.Run", true),
        ("Shop.dll!Shop.Run", FunctionKind::Jit, "Shop.dll", "Shop.Run", true),
        ("menu.py!render", FunctionKind::Jit, "menu.py", "render", true),
        ("server!", FunctionKind::Native, "server", "server+0x1000", false),
        ("?", FunctionKind::Unknown, "", "0x1000", false),
    ] {
        let mut made = Made::default();
        made.frame(frame);
        let (_, told) = rows(&made);
        assert_eq!(told, [(kind, module.to_owned(), name.to_owned(), named)], "{frame}");
    }
}

#[test]
fn functions_are_one_however_many_frames_they_have() {
    let mut made = Made::default();
    let [one, other] = ["push<run", "run"].map(|text| made.frame(text));
    made.frame("libshop.so!run");
    let (table, told) = rows(&made);
    let names: Vec<_> = told.iter().map(|row| (row.1.as_str(), row.2.as_str())).collect();
    assert_eq!(names, [("server", "push"), ("server", "run"), ("libshop.so", "run")]);
    assert_eq!(table.of(one), [FunctionHandle(0), FunctionHandle(1)], "what was inlined comes first");
    assert_eq!(table.of(other), [FunctionHandle(1)]);
    assert_eq!(table.of(FrameHandle(3)), [], "a frame that is not there");
    assert_eq!(table.of(FrameHandle(u32::MAX)), []);
    assert_eq!(table.role(FunctionHandle(99)), Role::Plain);
}

#[test]
fn a_name_that_only_says_where_a_function_begins_is_none() {
    let mut made = Made::default();
    made.frame("work");
    let symbols = made.timeline.symbols[0].as_mut().expect("a symbol");
    symbols.source = SymbolSource::FunctionStart;
    symbols.functions[0].name = "server+0x40".to_owned();
    let (_, told) = rows(&made);
    assert_eq!(told, [(FunctionKind::Native, "server".to_owned(), "server+0x40".to_owned(), false)]);
    // Names without letters are not taken for names, and what follows is.
    let symbols = made.timeline.symbols[0].as_mut().expect("a symbol");
    symbols.functions[0].name = String::new();
    assert_eq!(rows(&made).1[0].2, "server+0x1000");
    let function = |name: &str, line| Function {
        name: name.to_owned(),
        file: Some("/src/work.c".to_owned()),
        line: Some(line),
    };
    symbols_of(&mut made, vec![function("", 1), function("work", 7), function("main", 9)]);
    let (table, _) = rows(&made);
    let told: Vec<_> = table.functions.iter().map(|row| (row.name.as_str(), row.line)).collect();
    assert_eq!(told, [("work", Some(7)), ("main", Some(9))]);
    assert_eq!(table.functions[0].file.as_deref(), Some("/src/work.c"));
}

fn symbols_of(made: &mut Made, functions: Vec<Function>) {
    let symbols = made.timeline.symbols[0].as_mut().expect("a symbol");
    (symbols.functions, symbols.source) = (functions, SymbolSource::Dwarf);
}

#[test]
fn tiers_stand_behind_the_module_with_their_shares() {
    const TIER_0: &str = "jit!Shop.Run [tier-0]";
    const TIER_1: &str = "jit!Shop.Run [tier-1]";
    const OF_FILE: &str = "Shop.dll!Shop.Run [OSR]";
    for (frames, samples, module) in [
        (&[TIER_0][..], &[][..], "jit [tier-0]"),
        (&[TIER_0, TIER_1], &[], "jit [tier-0, tier-1]"),
        (&[TIER_0, TIER_1], &[(TIER_1, 30), (TIER_0, 70)], "jit [tier-0 70 %, tier-1 30 %]"),
        (&[TIER_0, TIER_1], &[(TIER_1, 5)], "jit [tier-1]"),
        (&[TIER_0, TIER_1], &[(TIER_1, 1000), (TIER_0, 1)], "jit [tier-1 99 %]"),
        (&[TIER_0, TIER_1], &[(TIER_1, 9), (TIER_0, 9)], "jit [tier-0 50 %, tier-1 50 %]"),
        (&[OF_FILE], &[(OF_FILE, 5)], "Shop.dll [OSR]"),
        (&["server!Shop.Run [tier-0]"], &[], "server"),
    ] {
        let mut made = Made::default();
        for frame in frames {
            made.frame(frame);
        }
        for (frame, ms) in samples {
            let stack = made.stack(&["main", frame]);
            made.cpu(1, 0, *ms, stack);
        }
        let mut table = FrameTable::new(&made.timeline);
        table.mark_tiers(&made.timeline);
        assert_eq!(table.functions[0].module, module, "{frames:?} {samples:?}");
    }
    // As modules of code that was compiled are called in a recording.
    let mut made = Made::default();
    made.frame(TIER_0);
    made.timeline.modules[0].path = "[jit]".to_owned();
    let mut table = FrameTable::new(&made.timeline);
    table.mark_tiers(&made.timeline);
    assert_eq!(table.functions[0].module, "[jit tier-0]");
    assert_eq!(table.functions[0].name, "Shop.Run");
}

#[test]
fn roles() {
    let mut table = FrameTable::default();
    let mut role = |name| {
        let function = table.intern(FunctionKind::Kernel, "", name, true);
        table.role(function)
    };
    assert_eq!(role("finish_task_switch.isra.0"), Role::Scheduler);
    assert_eq!(role("_raw_spin_unlock_irqrestore"), Role::InterruptsOn);
    assert_eq!(role("futex_wait"), Role::Plain);
}

#[test]
fn what_one_frame_knows_holds_for_all() {
    let mut table = FrameTable::default();
    let function = table.intern(FunctionKind::Native, "server", "push", true);
    for (whose, role) in
        [(Whose::Program, Role::Plain), (Whose::Plumbing, Role::Plumbing), (Whose::Program, Role::Plumbing)]
    {
        table.belongs_to(function, whose);
        assert_eq!(table.role(function), role);
    }
}

#[test]
fn base_names() {
    assert_eq!(base_name("/usr/lib/libc.so.6"), "libc.so.6");
    assert_eq!(base_name("/tmp/a (deleted)"), "a");
    assert_eq!(base_name("[vdso]"), "[vdso]");
    assert_eq!(base_name("/"), "/");
}
