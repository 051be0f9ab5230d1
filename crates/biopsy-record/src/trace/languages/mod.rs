//! Functions of interpreted languages in the stacks of samples: who runs an interpreter, and what its calls are called.
//!
//! ```text
//! process starts ─► finder (a thread) ─► where frames are ─► the sampling program
//! sample ─► frames as they were at that moment ─► runs of calls ─► names (memory, cached) ─► in place of the interpreter's own function
//! ```
//!
//! The process does nothing for it and is not stopped. Frames are read by the sampling program while the thread is interrupted, or
//! while it sleeps; code objects afterwards, with a check each second that they are still the same.

mod finder;
mod java;
mod language;
mod mix;
mod named;
mod node;
mod python;

pub(crate) use finder::{Finder, FoundLanguage};
pub(crate) use java::Java;
pub(crate) use language::Language;
pub(crate) use mix::Unmixed;
pub(crate) use named::Timeline;
pub(crate) use node::Node;
pub(crate) use python::Python;
