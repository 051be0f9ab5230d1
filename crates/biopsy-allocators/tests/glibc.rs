//! What is read from a frozen process against what its C library counts itself.

use std::time::Duration;

use biopsy_allocators::footprint;
use biopsy_model::Pid;
use biopsy_model::footprint::{AllocatorFacts, Blocks, Footprint, MemoryKind};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Privilege, Survival, TargetProcess, compile_c, require};

fn footprint_of(pid: u32) -> Footprint {
    let options = FreezeOptions { max_pause: Duration::from_secs(10), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it runs");
    let frozen = freeze(plan, &options).unwrap_or_else(|error| panic!("{error}")).pop().expect("one process");
    footprint(&frozen, &[])
}

fn sum(glibc: &AllocatorFacts, of: fn(&biopsy_model::footprint::ArenaFacts) -> u64) -> u64 {
    glibc.arenas.iter().map(of).sum()
}

/// Of a program that was linked in this way.
fn is_counted_as_the_library_counts(name: &str, flags: &[&str]) {
    if !require(Privilege::Ptrace) {
        return;
    }
    let program = compile_c(name, include_str!("allocates.c"), flags);
    let mut target = TargetProcess::spawn(std::process::Command::new(program));
    let survival = Survival::before(target.pid());
    let line = target.line_starting_with("COUNTED ", Duration::from_secs(60)).expect("it counts");
    let counted: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
    let footprint = footprint_of(target.pid());
    survival.assert_unharmed();
    let [glibc] = footprint.allocators.as_slice() else { panic!("{name}: {footprint:#?}") };
    assert!(glibc.whole && footprint.warnings.is_empty(), "{name}: {:#?}", footprint.warnings);
    assert_eq!(glibc.arenas.len(), 4, "{name}: one for each thread that allocates, and the main one");
    let free = sum(glibc, |arena| arena.free.bytes + arena.fast.bytes + arena.top);
    let found = [
        sum(glibc, |arena| arena.system),
        free,
        sum(glibc, |arena| arena.fast.count),
        sum(glibc, |arena| arena.fast.bytes),
        glibc.mapped.count,
        glibc.mapped.bytes,
    ];
    assert_eq!(found.as_slice(), counted, "{name}");
    // What threads keep looks used to the library; by size it is free.
    assert!(glibc.cached.count > 0, "{name}");
    let by_size = |of: fn(&biopsy_model::footprint::SizeClass) -> Blocks| -> u64 {
        glibc.classes.iter().map(|class| of(class).bytes).sum()
    };
    let used = sum(glibc, |arena| arena.used.bytes) - glibc.cached.bytes + glibc.mapped.bytes;
    assert_eq!(by_size(|class| class.used), used, "{name}");
    let in_bins = sum(glibc, |arena| arena.free.bytes + arena.fast.bytes);
    assert_eq!(by_size(|class| class.free), in_bins + glibc.cached.bytes, "{name}");
    let allocated = footprint.resident(&MemoryKind::Allocated);
    assert!(allocated <= used && allocated > used / 2, "{name}: {allocated} of {used}");
    target.stop();
}

#[test]
fn a_program_is_counted_as_its_c_library_counts() {
    is_counted_as_the_library_counts("allocates", &["-O1"]);
}

#[test]
fn a_stripped_static_program_is_counted_too() {
    is_counted_as_the_library_counts("allocates-static", &["-O1", "-static", "-s"]);
}

/// Its data segment is three mappings.
#[test]
fn a_program_that_keeps_a_page_of_its_heap_out_of_dumps_is_counted_too() {
    is_counted_as_the_library_counts("allocates-splits", &["-O1", "-DSPLITS"]);
}

#[test]
fn a_program_with_large_blocks_at_round_addresses_is_counted_too() {
    is_counted_as_the_library_counts("allocates-aligns", &["-O1", "-DALIGNS"]);
}

/// What is in the parts is what the kernel counts, as far as both mean the same.
#[test]
fn the_parts_are_the_memory_of_the_process() {
    if !require(Privilege::Ptrace) {
        return;
    }
    let program = compile_c("allocates", include_str!("allocates.c"), &["-O1"]);
    let mut target = TargetProcess::spawn(std::process::Command::new(program));
    let footprint = footprint_of(target.pid());
    let status = std::fs::read_to_string(format!("/proc/{}/status", target.pid())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("Linux has it");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    let parts: u64 = footprint.parts.iter().map(|part| part.resident).sum();
    let difference = parts.abs_diff(kilobytes * 1024);
    assert!(difference < 1 << 20, "{parts} of {} KiB: {footprint:#?}", kilobytes);
    target.stop();
}
