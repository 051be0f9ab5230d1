//! Measures going through the heap of a running process: `chunk_walk PID`. Tells bytes of all arenas, and processor time, with and without a list
//! of the blocks in use; what a program prints with `malloc_info`, or `malloc_stats_print` of jemalloc, says whether they are right.

#![expect(clippy::print_stdout, reason = "it is a program")]

use std::time::Duration;

use biopsy_allocators::{footprint, with_blocks};
use biopsy_model::Pid;
use biopsy_model::footprint::{ArenaFacts, Footprint};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;
use biopsy_testkit::proc_usage;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let pid: u32 = std::env::args().nth(1).ok_or("chunk_walk PID")?.parse()?;
    let options = FreezeOptions { max_pause: Duration::from_secs(10), ..FreezeOptions::default() };
    let plan = plan(&[key_of(&ProcRoot::live(), Pid(pid)).ok_or("no such process")?], &options)?;
    let frozen = freeze(plan, &options)?.pop().ok_or("no process")?;
    let own = std::process::id();
    for round in 0..4 {
        let before = proc_usage::cpu_seconds(own);
        let (what, found) = match round % 2 {
            0 => ("sums", footprint(&frozen, &[])),
            _ => ("blocks", with_blocks(&frozen, &[], usize::MAX).footprint),
        };
        tell(what, &found, proc_usage::cpu_seconds(own) - before);
    }
    drop(frozen.release());
    Ok(())
}

fn tell(what: &str, found: &Footprint, seconds: f64) {
    for facts in &found.allocators {
        let sum = |of: fn(&ArenaFacts) -> u64| facts.arenas.iter().map(of).sum::<u64>();
        let system = sum(|arena| arena.system);
        #[expect(clippy::cast_precision_loss, reason = "a measurement")]
        let rate = system as f64 / seconds / 1e9;
        println!(
            "{what}, {}: {} arenas, system {system}, used {}, free {}, fast {}, top {}, cached {}, mapped {} of {}: {seconds:.2} s, {rate:.2} GB/s",
            facts.name,
            facts.arenas.len(),
            sum(|arena| arena.used.bytes),
            sum(|arena| arena.free.bytes),
            sum(|arena| arena.fast.bytes),
            sum(|arena| arena.top),
            facts.cached.bytes,
            facts.mapped.bytes,
            facts.mapped.count,
        );
    }
    found.warnings.iter().for_each(|warning| println!("warning: {warning}"));
}
