//! Everything .NET that is read from bytes: the traces a runtime writes, and the runtime as it stands in memory.
//!
//! ```text
//! stream of a session, .nettrace ─► nettrace ─► events ─► biopsy_model::runtime_trace
//!                                          └──► methods ─► names
//! image (frozen, core) ─► layout ─► runtime ─┬─► heap ─► graph ─► gcdump, heapsnapshot
//!                            metadata ─► names ├─► stack
//!                                              └─► locks, tasks
//! ```
//!
//! The upper half needs what the runtime sent (`biopsy-dotnet-ipc` asks it to); the lower half needs nothing but memory, so it
//! works when a process hangs, and on cores. No foreign code is loaded in either.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod events;
pub mod gcdump;
pub mod graph;
pub mod heap;
pub mod heapsnapshot;
pub mod layout;
pub mod locks;
mod made_up;
pub mod metadata;
pub mod methods;
pub mod names;
pub mod nettrace;
pub mod runtime;
pub mod stack;
pub mod tasks;
