//! What stands by: the watcher, which starts commands of biopsy as the settings say, and all that it leaves on this machine.
//!
//! ```text
//! settings (machine, user) ─► watch: processes that start or change ─► engine of biopsy-watch ─► a command of biopsy for each
//!                               │ written down before it takes effect                                     │
//!                               ▼                                                                         ▼
//!            journal ─► restore: switches off what is on            results ─► kept, removed, sent to who asked for them
//! ```
//!
//! `biopsy-watch` decides, and looks at nothing; this crate looks, starts and ends. It prints nothing: the watcher tells its
//! [`Listener`], the others give back what they did. What a command line takes only the program knows: it says so by a function.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod commands;
mod happened;
pub mod journal;
pub mod kill;
mod observed;
pub mod places;
mod report;
pub mod restore;
pub mod results;
pub mod service;
pub mod settings;
mod unit;
pub mod watch;
mod whole;

pub use happened::{Happened, Listener};
