//! What is read from a frozen process against what mimalloc counts itself.

use std::path::Path;
use std::time::Duration;

use biopsy_allocators::with_blocks;
use biopsy_model::Pid;
use biopsy_model::footprint::{AllocatorFacts, ArenaFacts, MemoryKind};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::{Privilege, Survival, TargetProcess, compile_c, require, require_that};

/// Where Debian has it.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2";

fn sum(facts: &AllocatorFacts, of: fn(&ArenaFacts) -> u64) -> u64 {
    facts.arenas.iter().map(of).sum()
}

#[test]
fn a_program_is_counted_as_mimalloc_counts() {
    if !require_that(Path::new(LIBRARY).exists(), "libmimalloc2.0 is not installed")
        || !require(Privilege::Ptrace)
    {
        return;
    }
    let program = compile_c(
        "allocates-mimalloc",
        include_str!("allocates_mimalloc.c"),
        &["-O1", "-Wl,--no-as-needed", LIBRARY],
    );
    let mut target = TargetProcess::spawn(std::process::Command::new(program));
    let survival = Survival::before(target.pid());
    let line = target.line_starting_with("COUNTED ", Duration::from_secs(60)).expect("it counts");
    let counted: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
    let [blocks, bytes, others, others_bytes, ended, ended_bytes] = counted[..] else { panic!("{line}") };
    let options = FreezeOptions { max_pause: Duration::from_secs(10), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(target.pid())).expect("it runs");
    let frozen = freeze(plan(&[key], &options).expect("it runs"), &options)
        .unwrap_or_else(|error| panic!("{error}"))
        .pop()
        .expect("one process");
    let memory = with_blocks(&frozen, &[], usize::MAX);
    drop(frozen.release());
    survival.assert_unharmed();
    let footprint = memory.footprint;
    let facts = footprint.allocators.iter().find(|facts| facts.name == "mimalloc");
    let mimalloc = facts.unwrap_or_else(|| panic!("{:#?}", footprint.warnings));
    assert!(mimalloc.whole, "{:#?}", footprint.warnings);
    let used = sum(mimalloc, |arena| arena.used.bytes);
    assert_eq!(sum(mimalloc, |arena| arena.used.count), blocks + ended, "{line}");
    assert_eq!(used, bytes + ended_bytes, "{line}");
    assert_eq!((mimalloc.cached.count, mimalloc.cached.bytes), (others, others_bytes), "{line}");
    let listed = memory.blocks.expect("they are few");
    let of_glibc: u64 = footprint
        .allocators
        .iter()
        .filter(|facts| facts.name == "glibc")
        .map(|facts| sum(facts, |arena| arena.used.count) + facts.mapped.count)
        .sum();
    let expected = blocks + ended - others;
    assert!((listed.len() as u64).abs_diff(expected) <= of_glibc, "{} of {expected}", listed.len());
    assert!(listed.windows(2).all(|pair| pair[0].start.0 + pair[0].size <= pair[1].start.0), "none overlap");
    let resident = footprint.resident(&MemoryKind::Allocated);
    assert!(resident > used / 4, "{resident} of {used}");
    assert!(!footprint.warnings.iter().any(|one| one.contains("mimalloc")), "{:#?}", footprint.warnings);
    target.stop();
}
