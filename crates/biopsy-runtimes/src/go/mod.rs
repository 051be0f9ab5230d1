//! Goroutines of Go.

use crate::{Limits, Memory, Module, RuntimeStrands};

/// The Go runtime in this module with its goroutines; `None` when there is none.
#[must_use]
pub fn read(_memory: &Memory<'_>, _module: &Module<'_>, _limits: &Limits) -> Option<RuntimeStrands> {
    None
}
