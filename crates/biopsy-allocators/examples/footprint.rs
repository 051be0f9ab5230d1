//! Prints where the memory of a running process went, from a frozen copy of it.
//!
//! `cargo run -p biopsy-allocators --example footprint -- PID`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_target::ProcRoot;
use biopsy_target::freeze::{FreezeOptions, freeze, plan};
use biopsy_target::identity::key_of;

fn main() {
    let pid = std::env::args().nth(1).and_then(|pid| pid.parse().ok()).expect("the pid of a process");
    let options = FreezeOptions { max_pause: Duration::from_secs(5), ..FreezeOptions::default() };
    let key = key_of(&ProcRoot::live(), Pid(pid)).expect("it runs");
    let plan = plan(&[key], &options).expect("it can be frozen");
    let frozen = freeze(plan, &options).expect("it is frozen").pop().expect("one process");
    let start = Instant::now();
    let footprint = biopsy_allocators::footprint(&frozen, &[]);
    println!("{footprint:#?}\nread in {:?}", start.elapsed());
}
