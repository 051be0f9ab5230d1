//! End to end: the program captures sick programs with a known cause, names the cause, and the patient lives.

mod allocations;
mod allocations_full;
mod allocations_middle;
mod allocations_own;
mod bad_days;
mod bad_files;
mod dump;
mod dump_bad_days;
mod dump_contents;
mod dump_waits;
mod exports;
#[cfg(target_arch = "x86_64")]
mod faults;
mod flight_kills;
mod footprint;
mod footprint_runtimes;
mod harm;
mod kept_secrets;
mod recent;
mod secrets;
mod setuid;
mod shapes;
mod sick;
mod signals;
mod stacks;
mod stacks_bad_days;
mod support;
mod watching;
