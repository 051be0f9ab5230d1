//! What is read from a frozen process against what tcmalloc of gperftools counts itself.

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
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4";

fn sum(facts: &AllocatorFacts, of: fn(&ArenaFacts) -> u64) -> u64 {
    facts.arenas.iter().map(of).sum()
}

#[test]
fn a_program_is_counted_as_tcmalloc_counts() {
    if !require_that(Path::new(LIBRARY).exists(), "libtcmalloc-minimal4 is not installed")
        || !require(Privilege::Ptrace)
    {
        return;
    }
    let program = compile_c(
        "allocates-tcmalloc",
        include_str!("allocates_tcmalloc.c"),
        &["-O1", "-Wl,--no-as-needed", LIBRARY],
    );
    let mut target = TargetProcess::spawn(std::process::Command::new(program));
    let survival = Survival::before(target.pid());
    let line = target.line_starting_with("COUNTED ", Duration::from_secs(60)).expect("it counts");
    let counted: Vec<u64> = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
    let [in_use, threads, moved, system, returned] = counted[..] else { panic!("{line}") };
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
    let facts = footprint.allocators.iter().find(|facts| facts.name == "tcmalloc");
    let tcmalloc = facts.unwrap_or_else(|| panic!("{:#?}", footprint.warnings));
    assert!(tcmalloc.whole, "{:#?}", footprint.warnings);
    let used = sum(tcmalloc, |arena| arena.used.bytes);
    assert_eq!(tcmalloc.cached.bytes, threads + moved, "{line}");
    assert_eq!(used - tcmalloc.cached.bytes, in_use, "{line}");
    assert_eq!(sum(tcmalloc, |arena| arena.system), system - returned, "{line}");
    let blocks = memory.blocks.expect("they are few");
    let listed: u64 = blocks.iter().map(|block| block.size).sum();
    let of_glibc: u64 = footprint
        .allocators
        .iter()
        .filter(|facts| facts.name == "glibc")
        .map(|facts| sum(facts, |arena| arena.used.bytes) - facts.cached.bytes + facts.mapped.bytes)
        .sum();
    assert!(listed.abs_diff(in_use) <= of_glibc, "{listed} of {in_use}, {of_glibc}");
    assert!(blocks.windows(2).all(|pair| pair[0].start.0 + pair[0].size <= pair[1].start.0), "none overlap");
    let resident = footprint.resident(&MemoryKind::Allocated);
    assert!(resident > used / 2, "{resident} of {used}");
    assert!(!footprint.warnings.iter().any(|one| one.contains("tcmalloc")), "{:#?}", footprint.warnings);
    target.stop();
}
