//! Everything .NET: the conversation with a running process, the traces it writes, and the runtime as it stands in memory.
//!
//! ```text
//! running process ─► ipc ─► nettrace ─► events ─► biopsy_model::runtime_trace
//!                                  └──► methods ─► names
//! image (frozen, core) ─► layout ─► runtime ─┬─► heap ─► graph ─► gcdump
//!                            metadata ─► names ├─► stack
//!                                              └─► locks, tasks
//! ```
//!
//! The upper half needs the runtime's help; the lower half needs nothing but memory, so it works when a process hangs, and
//! on cores. No foreign code is loaded in either.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod events;
pub mod gcdump;
pub mod graph;
pub mod heap;
pub mod ipc;
pub mod layout;
pub mod locks;
pub mod metadata;
pub mod methods;
pub mod names;
pub mod nettrace;
pub mod runtime;
pub mod stack;
pub mod tasks;
