//! Unwinds the blocked threads of a real process to their roots and names their functions.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]
#![cfg(target_arch = "x86_64")]

mod support;

use std::sync::Arc;

use biopsy_model::Avma;
use biopsy_model::stack::StackEnd;
use biopsy_stacks::elf::ElfCache;
use biopsy_stacks::symbols::{Options, Symbolizer};
use biopsy_stacks::unwind::StackMemory;
use support::live;

/// Outer functions that each thread must show, inner first, between the C library's ends.
const EXPECTED: [(&str, &[&str]); 7] = [
    ("deep", &["rest", "descend", "descend"]),
    ("signal", &["rest", "handler", "<signal handler called>", "interrupted", "in_signal"]),
    ("altstack", &["rest", "handler", "<signal handler called>"]),
    ("callback", &["rest", "compare", "in_callback"]),
    ("realigned", &["rest", "realigned_inner", "realigned_outer", "realigned"]),
    ("bare", &["rest", "bare", "without_unwind_info"]),
    ("main", &["rest", "main", "_start"]),
];

fn check(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = support::compile(folder.path(), "stacks.c", "stacks", flags);
    let target = live::Target::start(&program, EXPECTED.len());
    let cache = Arc::new(ElfCache::default());
    let (mut unwinder, sources) = target.unwinder(&cache);
    let mut symbolizer = Symbolizer::new(Options::default(), cache);
    for (name, expected) in EXPECTED {
        let tid =
            target.threads.iter().find(|(thread, _)| thread == name).expect("thread has written its name").1;
        let (registers, stack) = target.state(tid);
        let mut frames = Vec::new();
        let unwound =
            unwinder.unwind(&registers, StackMemory { base: registers.sp, bytes: &stack }, &mut frames);
        let names = live::names(&frames, &unwinder, &sources, &mut symbolizer);
        if name == "altstack" {
            // The handler's stack was copied; the interrupted one is another, which no copy from `sp` upwards has.
            assert_eq!((unwound.end, unwound.needed_beyond), (StackEnd::Truncated, false), "{names:?}");
        } else {
            assert_eq!(unwound.end, StackEnd::Root, "{name}: {unwound:?} {names:?}");
            let root = if name == "main" { "_start" } else { "clone3" };
            // Static and dynamic C libraries differ in underscores, and a stripped one has no name for its own functions.
            let named = |last: &String| last.ends_with(root) || last.starts_with("libc.so.6+0x");
            assert!(names.last().is_some_and(named), "{name}: {names:?}");
        }
        let mut rest = names.iter();
        for function in expected {
            assert!(
                rest.any(|name| name == function),
                "{name}: {function} is missing or out of order in {names:?}"
            );
        }
        if name == "deep" {
            assert_eq!(names.iter().filter(|name| *name == "descend").count(), 201);
        }
        assert_eq!(unwound.by_frame_pointer, u32::from(name == "bare"), "{name}: {names:?}");
    }
    assert!(symbolizer.take_problems().is_empty());
}

#[test]
fn threads_without_frame_pointers() {
    check(&["-O2", "-g", "-fomit-frame-pointer", "-pthread"]);
}

#[test]
fn a_program_at_a_fixed_address() {
    check(&["-O2", "-fomit-frame-pointer", "-pthread", "-no-pie", "-Wl,-z,noseparate-code"]);
}

#[test]
fn a_statically_linked_program() {
    check(&["-O2", "-fomit-frame-pointer", "-pthread", "-static"]);
}

#[test]
fn a_function_that_is_on_no_stack_is_told_by_the_call_that_entered_it() {
    for flags in [&["-O2"][..], &["-O2", "-static"], &["-O2", "-fcf-protection=full"]] {
        let folder = tempfile::tempdir().unwrap();
        let program = support::compile(folder.path(), "tail.c", "tail", flags);
        let target = live::Target::start(&program, 1);
        let cache = Arc::new(ElfCache::default());
        let (mut unwinder, sources) = target.unwinder(&cache);
        let mut symbolizer = Symbolizer::new(Options::default(), cache);
        let (registers, stack) = target.state(target.threads[0].1);
        let (mut frames, stack) = (Vec::new(), StackMemory { base: registers.sp, bytes: &stack });
        unwinder.unwind(&registers, stack, &mut frames);
        let on_stack = live::names(&frames, &unwinder, &sources, &mut symbolizer);
        let entered: Vec<Option<String>> = frames
            .iter()
            .map(|frame| {
                let (start, _) = unwinder.entered(Avma(frame.0 + 1))?;
                live::names(&[start], &unwinder, &sources, &mut symbolizer).pop()
            })
            .collect();
        let at = |name: &str| on_stack.iter().position(|one| one == name);
        let (Some(wait), Some(live), Some(main)) = (at("wait_here"), at("live"), at("main")) else {
            panic!("{flags:?}: {on_stack:?}");
        };
        assert_eq!((live, main), (wait + 1, wait + 2), "{flags:?}: {on_stack:?}");
        assert_eq!(entered[live].as_deref(), Some("think"), "{flags:?}: {entered:?}");
        assert_eq!(entered[main].as_deref(), Some("live"), "{flags:?}: {entered:?}");
        // Through the table of functions of other files nobody can tell.
        let is_static = flags.contains(&"-static");
        assert_eq!(entered[wait].is_some(), is_static, "{flags:?}: {entered:?}");
    }
}

/// `lld` saves space in the file: there the offset of code is not its address, unlike with the GNU linker.
#[test]
fn a_program_whose_file_offsets_are_not_its_addresses() {
    let sysroot = support::run(std::process::Command::new("rustc").args(["--print", "sysroot"]));
    let folder = format!("{}/lib/rustlib/x86_64-unknown-linux-gnu/bin/gcc-ld", sysroot.trim());
    let linker = format!("-B{folder}");
    // Debian's own Rust comes without it.
    let installed = std::process::Command::new("ld.lld").arg("--version").output().is_ok();
    let there = installed || std::path::Path::new(&folder).join("ld.lld").exists();
    if !biopsy_testkit::require_that(there, "needs Rust's or another `ld.lld`, and neither is installed") {
        return;
    }
    check(&["-O2", "-fomit-frame-pointer", "-pthread", "-fuse-ld=lld", &linker]);
}
