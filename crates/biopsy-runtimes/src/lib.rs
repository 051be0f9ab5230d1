//! Language runtimes other than .NET, read from the memory of a process, live or dead, without their help: no symbols, no
//! debug information, nothing sent to the process, no code of it loaded.
//!
//! ```text
//!  Image ─► Memory ─┬─► go      goroutines ─────────┐
//!                   ├─► python  threads, tasks ─────┤
//!                   ├─► jvm     threads of Java ────┤
//!                   └─► node    JavaScript ─────────┴─► RuntimeStrands: strands, their frames and waits, warnings
//! ```
//!
//! What the memory of a runtime is for is another question ([`read_heaps`]): of Go and Java, by pools and, of Go, by the size of objects.
//!
//! A *strand* is what a runtime calls a goroutine, a thread, a task or a coroutine: a stack of functions of the language, on a
//! thread of the system or on none. What a strand waits for, and who has it, is said with the confidence that it is known with
//! ([`Confidence`]).
//!
//! Where a runtime keeps its data depends on its version: layouts are data, chosen by the version that is in memory and believed
//! only after checks. A version that is not known is said in the warnings, never guessed. All of it is untrusted: what is
//! counted or linked in memory is bounded by [`Limits`], nothing recurses, nothing panics.

#![forbid(unsafe_code)]

mod areas;
mod find;
mod frame;
pub mod fuzz;
pub mod go;
mod heap;
pub mod jvm;
mod kind;
mod limits;
mod memory;
pub mod node;
pub mod python;
mod read;
mod runtime_strands;
mod strand;
mod strand_id;
mod wait;

pub use biopsy_model::Confidence;
pub use find::Module;
pub use frame::StrandFrame;
pub use heap::read_heaps;
pub use kind::{RuntimeKind, StrandKind};
pub use limits::Limits;
pub use memory::{Memory, MissingFiles};
pub use read::read_strands;
pub use runtime_strands::{InterpreterLock, RuntimeStrands};
pub use strand::{Strand, StrandState};
pub use strand_id::StrandId;
pub use wait::{Holder, Owner, StrandWait, WaitKind};
