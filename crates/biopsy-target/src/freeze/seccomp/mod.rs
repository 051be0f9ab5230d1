//! What seccomp filters would say to a system call, without making it.
//!
//! A filter may kill the process for a call that it does not expect, so calls are led through a process only after its
//! own filters were run here, on the very numbers and arguments (P3 of the measured pitfalls). Reading filters needs a
//! stopped thread that we trace: it is done in the window, on the thread that is to carry the call.

mod answer;
mod carry;
mod interpreter;
#[cfg(test)]
mod tests;

use std::io;

use biopsy_model::Tid;
use biopsy_sys::ptrace::seccomp::{Instruction, filter};

pub use answer::{Answer, Call};
pub(super) use carry::{Allowed, may_carry};
pub use interpreter::MAX_INSTRUCTIONS;

/// Most filters on one thread that are run. The kernel bounds the sum of their lengths to 32,768 instructions.
const MAX_FILTERS: usize = 1024;

/// A call that must not be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("its seccomp filter {answer}, asked for system call {number}")]
pub struct Denied {
    /// Number of the call.
    pub number: u32,
    /// What the filters say to it.
    pub answer: Answer,
}

/// What the filters of a thread answer to a call: the severest of their answers. Without filters, all is allowed.
#[must_use]
pub fn answer(filters: &[Vec<Instruction>], call: &Call) -> Answer {
    let data = call.bytes();
    filters.iter().map(|filter| interpreter::run(filter, &data)).min().unwrap_or(Answer::Allow)
}

/// Whether the filters of a thread let all these calls through.
///
/// # Errors
/// The first one that they do not.
pub fn allows(filters: &[Vec<Instruction>], calls: &[Call]) -> Result<(), Denied> {
    for call in calls {
        let answer = answer(filters, call);
        if !answer.is_allowed() {
            return Err(Denied { number: call.number, answer });
        }
    }
    Ok(())
}

/// The filters of a thread that we trace and that stands still, the newest first.
///
/// # Errors
/// EACCES without CAP_SYS_ADMIN or under a seccomp filter of our own; EMEDIUMTYPE for a filter that cannot be told; `InvalidData` for
/// more filters than are run.
pub fn read_filters(tid: Tid) -> io::Result<Vec<Vec<Instruction>>> {
    let mut filters = Vec::new();
    while let Some(found) = filter(tid, filters.len())? {
        filters.push(found);
        if filters.len() > MAX_FILTERS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("more than {MAX_FILTERS} filters"),
            ));
        }
    }
    Ok(filters)
}
