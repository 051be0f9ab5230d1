//! Threads and tasks of CPython.

use crate::{Limits, Memory, Module, RuntimeStrands};

/// The Python runtime in this module with its threads and tasks; `None` when there is none.
#[must_use]
pub fn read(_memory: &Memory<'_>, _module: &Module<'_>, _limits: &Limits) -> Option<RuntimeStrands> {
    None
}
