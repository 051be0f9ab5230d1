//! The timeline trace.

pub(crate) mod events;
pub(crate) mod kernel;
