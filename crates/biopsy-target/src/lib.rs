//! Find a process, identify it safely, tell its tree and runtime, and say what may be recorded of it.
//!
//! Everything here but [`mod@freeze`] and [`catch`] reads `/proc` and `/sys` and nothing else: no process is stopped, traced
//! or signalled. Processes vanish while they are read; that is normal and never an error of a list. Text from `/proc` is
//! hostile input: names hold spaces, parentheses, newlines, escape sequences and bytes that are not UTF-8.
//!
//! - [`selector`] and [`find`](mod@find): from what the user typed to one process, or a clear refusal
//! - [`identity`]: a process is boot + pid + start, checked again after every attach
//! - [`list`](mod@list): all processes, trees, threads; [`usage`]: what they use
//! - [`runtime`]: .NET, JVM, Node, Python, Go ... and their versions
//! - [`glance`]: who a process is, cheap enough for every program that starts; [`starts`]: which do
//! - [`cgroup`]: container id, systemd unit, limits
//! - [`access`](mod@access): what may be captured of one process, tried rather than guessed
//! - [`preflight`](mod@preflight): checks of the machine and the account, each with a hint that holds here
//! - [`address_space`]: mappings and memory of a process, live or frozen
//! - [`mod@freeze`]: all memory of one moment, for a pause of milliseconds
//! - [`catch`]: processes held at their end or at a fatal signal, short-lived ones included
//! - [`peers`]: what a process waits for in others
//! - [`proc_root`]: where `/proc` and `/sys` are, so that tests build their own
//!
//! ```no_run
//! use biopsy_target::{Selector, find, is_same};
//!
//! let target = find(&Selector::parse("Octopus.Server")?)?;
//! assert!(is_same(&target.info.key));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod address_space;
pub mod catch;
#[cfg(test)]
mod fake_proc;
pub mod find;
pub mod freeze;
pub mod glance;
mod last_words;
pub mod list;
mod oom_policy;
pub mod peers;
mod polled;
pub mod preflight;
mod printable;
mod process;
pub mod runtime;
pub mod selector;
pub mod starts;
pub mod stillness;

pub use find::{Candidate, FindError, Target, find, find_in};
pub use glance::Glance;
pub use last_words::last_words;
pub use list::{Surveyed, list, survey, threads, tree};
pub use preflight::access::{Access, Allowed, access};
pub use preflight::{Check, Container, Facts, Status, Trial, Wanted, access, doctor, preflight};
pub use printable::printable;
pub use process::command::short_command;
pub use process::identity::{IdentityError, check_same, is_same};
pub use process::proc_root::ProcRoot;
pub use process::runs::Runs;
pub use process::usage::{CpuReading, Usage, up_time_short, up_time_text};
pub use process::users::user_name;
pub use process::{cgroup, identity, proc_root, usage};
pub use selector::{ParseSelectorError, Selector};
pub use starts::{Started, Starts};
