//! From registers and stack bytes to code addresses (unwinding), and from code addresses to names (symbols).
//!
//! ```text
//!  mappings ─┐
//!  ELF files ┼─► elf::ElfCache ─► unwind::ProcessUnwinder ─► addresses ─► symbols::Symbolizer ─► functions
//!  registers + stack bytes ──────────────┘                                   ▲
//!                                     debug files, kallsyms, perf maps, jitdumps
//! ```
//!
//! [`ahead`] walks the machine code that frames will run next, to tell who holds a lock that does not say it.
//!
//! The crate makes no system calls beyond opening and reading the files it is told about, has no unsafe code, and
//! treats each of those files as hostile: sizes are checked before memory is taken, nothing recurses on input,
//! and damage is an error or a missing name, never a panic.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open what they wrote"))]

pub mod ahead;
pub mod elf;
pub mod fuzz;
pub mod image;
pub mod symbols;
pub mod unwind;
