//! What is read from frozen processes that use musl's malloc against what they count themselves.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use biopsy_allocators::{NativeMemory, with_blocks};
use biopsy_model::footprint::{Blocks, MemoryKind};
use biopsy_model::{Avma, Pid};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Privilege, Survival, TargetProcess, TempDir, require, require_program, temp_dir};

fn memory_of(pid: u32) -> NativeMemory {
    let options = FreezeOptions { max_pause: Duration::from_secs(10), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it runs");
    let frozen = freeze(plan, &options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process");
    with_blocks(&frozen, &[], usize::MAX)
}

/// Compiles the program with musl; the folder it is in goes with the value.
fn compiled(flags: &[&str]) -> (TempDir, PathBuf) {
    let folder = temp_dir("musl");
    let source = folder.path().join("allocates.c");
    let header = include_str!("../../biopsy-testkit/programs/target.h");
    std::fs::write(folder.path().join("target.h"), header).expect("it can be written");
    std::fs::write(&source, include_str!("allocates_musl.c")).expect("it can be written");
    let program = folder.path().join("allocates");
    let mut command = Command::new("musl-gcc");
    command
        .args(["-std=gnu11", "-Wall", "-O1", "-g", "-pthread"])
        .args(flags)
        .arg("-o")
        .args([&program, &source]);
    assert!(command.status().is_ok_and(|status| status.success()), "{command:?}");
    (folder, program)
}

/// Numbers of the line in which the program tells what it holds, and what is read of it.
fn counted_and_read(program: &PathBuf) -> (Vec<u64>, NativeMemory) {
    let target = TargetProcess::spawn(Command::new(program));
    let survival = Survival::before(target.pid());
    let line = target.line_starting_with("COUNTED ", Duration::from_secs(60)).expect("it counts");
    let counted = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
    let memory = memory_of(target.pid());
    survival.assert_unharmed();
    (counted, memory)
}

/// Few blocks more than the program's, as the loader has, and few bytes.
#[track_caller]
fn is_about(name: &str, found: u64, counted: u64) {
    assert!(found >= counted && (found - counted) * 1000 <= counted, "{name}: {found}, {counted} counted");
}

#[track_caller]
fn is_read_whole(name: &str, memory: &NativeMemory) -> [Blocks; 2] {
    let [musl] = memory.footprint.allocators.as_slice() else { panic!("{name}: {:#?}", memory.footprint) };
    assert_eq!(musl.name, "musl", "{name}");
    assert!(musl.whole && memory.footprint.warnings.is_empty(), "{name}: {:#?}", memory.footprint.warnings);
    let [arena] = musl.arenas.as_slice() else { panic!("{name}: {musl:#?}") };
    assert_eq!(arena.unknown, 0, "{name}");
    // Bookkeeping and what is left at the ends of groups is little beside what is handed out and free.
    let known = arena.used.bytes + arena.free.bytes;
    assert!(known <= arena.system && arena.system - known < arena.system / 6, "{name}: {arena:#?}");
    let by_size = |of: fn(&biopsy_model::footprint::SizeClass) -> Blocks| -> u64 {
        musl.classes.iter().map(|class| of(class).bytes).sum()
    };
    assert_eq!(by_size(|class| class.used), arena.used.bytes + musl.mapped.bytes, "{name}");
    assert_eq!(by_size(|class| class.free), arena.free.bytes, "{name}");
    let kernel: u64 = memory.footprint.resident(&MemoryKind::Unaccounted);
    assert!(kernel < 1 << 20, "{name}: {:#?}", memory.footprint.parts);
    [arena.used, musl.mapped]
}

#[test]
fn a_program_of_musl_is_counted_as_it_counts_itself() {
    if !require(Privilege::Ptrace) || !require_program("musl-gcc", &["--version"]) {
        return;
    }
    for (name, flags) in [("static", &["-static"][..]), ("stripped", &["-static", "-s"]), ("dynamic", &[])] {
        let (_folder, program) = compiled(flags);
        let (counted, memory) = counted_and_read(&program);
        let [used, mapped] = is_read_whole(name, &memory);
        let [count, bytes, large, large_bytes] = counted[..] else { panic!("{name}: {counted:?}") };
        let blocks = memory.blocks.unwrap_or_default();
        assert_eq!(blocks.len() as u64, used.count + mapped.count, "{name}");
        is_about(name, blocks.len() as u64, count);
        is_about(name, blocks.iter().map(|block| block.size).sum(), bytes);
        let is_large = |size: &u64| *size >= 131_052;
        let sizes: Vec<u64> = blocks.iter().map(|block| block.size).filter(is_large).collect();
        assert_eq!((sizes.len() as u64, sizes.iter().sum::<u64>()), (large, large_bytes), "{name}");
        // The one that begins on four mebibytes.
        let is_aligned = |start: Avma| start.0.is_multiple_of(4 << 20);
        assert!(blocks.iter().any(|one| is_aligned(one.start) && one.size == 1_000_000), "{name}");
    }
}
