//! The program with its 1st, 2nd, 3rd ... n-th system call failing, from outside: a supervisor answers its calls
//! (`SECCOMP_RET_USER_NOTIF`), so that those of all libraries are reached, nothing is changed in the program, and its own use of
//! ptrace is not disturbed.
//!
//! [`run`](fn@run) makes one run, [`Trial`] looks at what came of it.

mod calls;
mod run;
mod shape;
mod standby;
mod trial;

pub use calls::{FAILING_CALLS, FailingCall, errno_name, occurrences};
pub use run::{Fault, Ran, run};
pub use trial::{Patient, Problem, Trial, Verb};
