//! Prints the goroutines, Python threads and the like of a running process, from a frozen copy of its memory.
//!
//! `cargo run -p biopsy-runtimes --example strands -- PID`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use biopsy_model::Pid;
use biopsy_runtimes::{Limits, read_strands};
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;

fn main() {
    let pid = std::env::args().nth(1).and_then(|pid| pid.parse().ok()).expect("the pid of a process");
    let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it can be frozen");
    let frozen = freeze(plan, &options).expect("it is frozen").pop().expect("one process");
    let start = std::time::Instant::now();
    for runtime in read_strands(&frozen, None, &Limits::default()) {
        println!("{}: {} strands", runtime.label(), runtime.total);
        for warning in &runtime.warnings {
            println!("  warning: {warning}");
        }
        if let Some(lock) = &runtime.interpreter_lock {
            println!("  interpreter lock: locked {}, holder {:?}", lock.locked, lock.holder);
        }
        for strand in &runtime.strands {
            println!(
                "{} {} {:?} {} [{}]{}",
                strand.kind.word(),
                strand.id,
                strand.name.as_deref().unwrap_or_default(),
                strand.tid.map_or_else(String::new, |tid| format!("on {tid}")),
                strand.state.words(),
                if strand.of_runtime { " of the runtime" } else { "" },
            );
            if let Some(wait) = &strand.wait {
                println!(
                    "  waits for {} {:x?} {:x?} ({}) {:?} {:?}",
                    wait.kind.words(),
                    wait.address,
                    wait.others,
                    wait.reason,
                    wait.descriptor,
                    wait.since,
                );
                for owner in &wait.owners {
                    let Some(confidence) = Some(owner.confidence.words()) else { continue };
                    println!("    {confidence} {:?} frame {:?}: {}", owner.holder, owner.frame, owner.proof);
                }
            }
            for (number, frame) in strand.frames.iter().enumerate() {
                println!(
                    "  {number} {}{} {}:{}",
                    frame.function,
                    if frame.inlined { " (inlined)" } else { "" },
                    frame.file.as_deref().unwrap_or("?"),
                    frame.line.unwrap_or(0)
                );
            }
            if strand.cut {
                println!("  ...");
            }
            if let Some(start) = &strand.started_at {
                println!("  started by {}:{}", start.function, start.line.unwrap_or(0));
            }
        }
    }
    println!("read in {:?}", start.elapsed());
}
