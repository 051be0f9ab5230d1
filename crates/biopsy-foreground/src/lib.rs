//! A command while it runs, in front of whoever started it.
//!
//! ```text
//! signals ─► interrupt ─► Job::ask          keys, SIGUSR1 and 2 ─► controls ─► Wish
//! Job ─► events ─► Screen ─► standard error   outcome ─► out ─► standard output, Code
//! ```
//!
//! A [`Job`](biopsy_capture::Job) prints nothing and exits nowhere. Here it is connected with the process that it is in: what it tells is
//! shown, signals ask it to end, and one that does not end in time is ended. There is one of these in a process.

#![forbid(unsafe_code)]

mod arrivals;
mod controls;
mod exit_codes;
mod forecast;
pub mod interrupt;
pub mod out;
mod screen;

pub use controls::SignalWishes;
pub use exit_codes::Code;
pub use screen::Screen;
