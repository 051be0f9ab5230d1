//! Processes held at a chosen moment of their life: at their end, at a fatal signal, after a time.
//!
//! [`Catcher`] holds what starts, from before its first instruction on, so that a program that lives a millisecond can
//! be dumped; [`Follower`] follows one that runs. Both hand out [`Caught`], an [`Image`](biopsy_image::Image) of the process
//! as it stands, which goes on when the value is dropped. [`StartGate`] holds programs before their first instruction, untraced, for
//! whoever is about to record them.
//!
//! There are two ways to get hold of what starts, see [`Way`]:
//!
//! - **the gate**: the kernel asks us before each execution on the file systems where programs are (fanotify(7)). We read
//!   from the process what it is about to execute, and seize it only if it may be what is waited for. Nothing else is
//!   traced, and nobody waits for longer than 100 ms, whatever hangs. Needs CAP_SYS_ADMIN and CAP_SYS_PTRACE, and Linux 6.8.
//! - **the parent**: it and all its descendants are traced. Needs no more than the right to trace them.
//!
//! What they have in common: nobody is ever stopped by SIGSTOP; signals are passed on as they came; a process stopped by
//! job control stays stopped; when biopsy dies, be it by SIGKILL, everything goes on.
//!
//! The process that uses this module must not itself wait for children that it traces here: waitid(2) does not tell a
//! traced process from a child, and takes the stop away.
//!
//! Limits. A process under a tracer cannot be traced by another one: a debugger that is started below a process is
//! recognised by its name, and the process is let go for it; one that is started elsewhere is refused by the kernel. A
//! signal that the process ignores wakes its threads for a moment, as with every tracer. With the gate, a container
//! that starts later is seen after at most two seconds, and a program that is a copy of its parent without exec is not.

mod catcher;
mod caught;
mod command;
mod engine;
mod error;
mod follower;
mod gate;
mod inspector;
mod launch;
mod marks;
mod options;
mod pending;
mod signals;
mod start_gate;
mod statistics;
mod tracer;

pub use catcher::{Catcher, ChosenWay, disarms_setuid};
pub use caught::{Caught, Cause, Release};
pub use error::CatchError;
pub use follower::{Followed, Follower};
pub use options::{CatchOn, CatchOptions, Way};
pub use start_gate::{Arriving, StartGate, Wanted};
pub use statistics::CatchStatistics;

/// The end of what was followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its wait status (wait(2)), where it was seen.
    pub status: Option<i32>,
}
