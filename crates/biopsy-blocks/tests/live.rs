//! Programs that keep what they make: what holds it and what it is, read from a frozen copy.

mod holders;

use std::process::Command;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{
    Privilege, TargetProcess, compile_c, compile_cpp, compile_rust, require_all, require_program, temp_dir,
};

/// The ways from roots to what the program keeps, by the type that is looked for, once there is something.
fn ways_to(command: Command, of: &str) -> Vec<String> {
    let target = TargetProcess::spawn(command);
    let started = Instant::now();
    let mut ways = Vec::new();
    while ways.is_empty() && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(200));
        let options = FreezeOptions { max_pause: Duration::from_secs(10), ..FreezeOptions::default() };
        let key = key_of(&ProcRoot::live(), Pid(target.pid())).expect("it runs");
        let plan = plan(&[key], &options).expect("it runs");
        let frozen = freeze(plan, &options).expect("it can be frozen").pop().expect("one");
        let memory = biopsy_allocators::with_blocks(&frozen, &[], biopsy_blocks::MOST_BLOCKS);
        let blocks = memory.blocks.expect("the allocator is understood");
        let heap = biopsy_blocks::read(
            &frozen,
            blocks,
            &memory.areas,
            &vec!["/".into()].into(),
            biopsy_blocks::MOST_BLOCKS,
        )
        .expect("memory");
        let end = format!(" → {of}");
        ways = holders::ways(&heap).into_iter().filter(|way| way.ends_with(&end)).collect();
        if ways.len() < 5 {
            ways.clear();
        }
        drop(frozen.release());
    }
    // These programs never end by themselves.
    drop(target);
    ways
}

#[track_caller]
fn is_held(ways: &[String], by: &str) {
    let held = ways.iter().filter(|way| way.starts_with(by)).count();
    // The one that is being made is held by nobody yet, and texts and blocks of libraries look like the program's.
    let others: std::collections::BTreeSet<_> = ways.iter().filter(|way| !way.starts_with(by)).collect();
    assert!(held * 10 >= ways.len() * 8 && held > 0, "{held} of {} by {by}: {others:#?}", ways.len());
}

const NEEDED: &[Privilege] = &[Privilege::Cc, Privilege::Ptrace];

#[test]
fn objects_of_cpp_have_their_class_and_the_variable_that_holds_them() {
    if !require_all(NEEDED) {
        return;
    }
    let source = include_str!("../../../fixtures/leaks/cpp/guests.cpp");
    let program = compile_cpp("guests", source, &["-O2"]);
    is_held(&ways_to(Command::new(program), "Session"), "global sessions → ");
    // Stripped, the class still is in its type information.
    let program = compile_cpp("guests-stripped", source, &["-O2", "-s"]);
    is_held(&ways_to(Command::new(program), "Session"), "global of guests-stripped");
    let shapes = compile_cpp("shapes", include_str!("../../../fixtures/leaks/cpp/shapes.cpp"), &["-O2"]);
    is_held(&ways_to(Command::new(shapes), "Circle"), "variable of main → ");
}

#[test]
fn what_a_program_of_musl_keeps_is_told_by_the_variable() {
    if !require_all(NEEDED) || !require_program("musl-gcc", &["--version"]) {
        return;
    }
    let folder = temp_dir("musl");
    let source = folder.path().join("minutes.c");
    let header = include_str!("../../biopsy-testkit/programs/target.h");
    std::fs::write(folder.path().join("target.h"), header).expect("it can be written");
    std::fs::write(&source, include_str!("../../../fixtures/leaks/c/minutes.c")).expect("it can be written");
    for flags in [&["-static"][..], &[]] {
        let program = folder.path().join(format!("minutes{}", flags.len()));
        let mut compiler = Command::new("musl-gcc");
        compiler
            .args(["-std=gnu11", "-g", "-O1", "-pthread"])
            .args(flags)
            .arg("-o")
            .args([&program, &source]);
        assert!(compiler.status().is_ok_and(|status| status.success()), "{compiler:?}");
        is_held(&ways_to(Command::new(program), "text"), "global minutes → ");
    }
}

#[test]
fn what_c_keeps_is_told_by_the_variable() {
    if !require_all(NEEDED) {
        return;
    }
    let minutes = compile_c("minutes", include_str!("../../../fixtures/leaks/c/minutes.c"), &["-O1"]);
    is_held(&ways_to(Command::new(minutes), "text"), "global minutes → ");
    let desks = compile_c("desks", include_str!("../../../fixtures/leaks/c/desks.c"), &["-O1"]);
    is_held(&ways_to(Command::new(desks), "block of 5121 to 6144 bytes"), "thread static on_desk → ");
    let claims = compile_c("claims", include_str!("../../../fixtures/leaks/c/claims.c"), &["-O1"]);
    is_held(&ways_to(Command::new(claims), "block of 7169 to 8192 bytes"), "lost → ");
}

#[test]
fn trait_objects_of_rust_have_their_type() {
    if !require_all(&[Privilege::Rustc, Privilege::Ptrace]) {
        return;
    }
    let source = include_str!("../../../fixtures/leaks/rust/guards.rs");
    let guards = compile_rust("guards", source, &[]);
    is_held(&ways_to(Command::new(guards), "guards::Sentry"), "global guards::POSTED → ");
}

#[test]
fn objects_of_python_have_their_class_and_the_attribute_that_holds_them() {
    if !require_all(&[Privilege::Ptrace]) || !require_program("python3", &["--version"]) {
        return;
    }
    for (program, of, by) in [
        ("invoices", "Invoice", "static Invoice.printed → "),
        ("tours", "Tour", "static __main__.bills → "),
        ("jobs", "Job", "variable pending of main → "),
        ("pages", "Page", "static __main__.render_page → "),
        ("bus", "Screen", "static __main__.the_bus → "),
    ] {
        let mut command = Command::new("python3");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/leaks/python");
        command.arg(format!("{folder}/{program}.py"));
        is_held(&ways_to(command, of), by);
    }
}

#[test]
fn words_that_look_like_addresses_do_not_hold_what_is_in_a_list() {
    if !require_all(&[Privilege::Ptrace]) || !require_program("python3", &["--version"]) {
        return;
    }
    // The number is the address of the list's items, the bytes have those of all entries; both are nearer to a variable than the list.
    let program = "
import array, ctypes, struct, time
class Entry:
    pass
kept = {'of the day': {'early': [Entry() for _ in range(2000)]}}
items = ctypes.c_void_p.from_address(id(kept['of the day']['early']) + 24).value
astray = array.array('Q', [items])
words = struct.pack('2000Q', *map(id, kept['of the day']['early']))
print('READY', flush=True)
time.sleep(1000)
";
    let mut command = Command::new("python3");
    command.args(["-c", program]);
    is_held(&ways_to(command, "Entry"), "static __main__.kept → dict → dict entries → ");
}

#[test]
fn emptied_blocks_of_a_deque_and_words_astray_do_not_hold_what_is_in_it() {
    if !require_all(&[Privilege::Ptrace]) || !require_program("python3", &["--version"]) {
        return;
    }
    // One block was emptied and is kept by the interpreter; the number is the address of one in the middle, and nearer to a variable.
    let program = "
import array, collections, ctypes, time
class Entry:
    pass
kept = {'of the day': collections.deque(Entry() for _ in range(3000))}
for _ in range(200):
    kept['of the day'].popleft()
word = lambda at: ctypes.c_void_p.from_address(at).value
astray = array.array('Q', [word(word(word(id(kept['of the day']) + 24) + 520) + 520)])
print('READY', flush=True)
time.sleep(1000)
";
    let mut command = Command::new("python3");
    command.args(["-c", program]);
    let by = "static __main__.kept → dict → dict entries → collections.deque → deque block → ";
    is_held(&ways_to(command, "Entry"), by);
}
