//! Code that a runtime compiled: who knows how to unwind it, and in which form such knowledge comes.
//!
//! Compilers of managed runtimes write no ELF files. What they know of a frame is in structures of their own, which the
//! unwinder does not read: somebody who does implements [`CompiledCode`], and gives back the same small [`FrameRule`] that
//! DWARF information becomes. .NET describes its frames as Windows does, on Linux too; [`windows_rule`] reads that.

mod codes;
mod epilogue;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

use biopsy_model::Avma;

use super::rule::{FrameRule, Rule};

pub use codes::{ReadMemory, RuntimeFunction, windows_rule};

/// How a frame of compiled code leads to its caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompiledRule {
    /// By a register plus an offset.
    Frame(FrameRule),
    /// Code without a frame of its own (a jump on its way to a method): the return address is at the stack pointer.
    NoFrame,
    /// By the frame pointer, as usual; the caller's stack pointer is not above it but in the word below (the interpreter of HotSpot).
    Linked,
    /// A stub: without a frame where compiled code has called it just now, else with a frame pointer.
    Stub,
    /// It is code of the runtime, and the runtime says nothing about it: its frame pointer is tried.
    Unknown,
}

impl CompiledRule {
    /// The rule of code without a frame of its own.
    const fn no_frame() -> FrameRule {
        FrameRule { cfa_register: 7, cfa_offset: 8, saved: [super::rule::UNCHANGED; 6] }
    }

    pub(crate) fn rule(self) -> Rule {
        match self {
            Self::Frame(rule) => Rule::Offsets(rule),
            Self::NoFrame => Rule::Offsets(Self::no_frame()),
            Self::Linked => Rule::Linked,
            Self::Stub => Rule::Stub,
            Self::Unknown => Rule::Nothing,
        }
    }
}

/// Knows how to unwind code that lies in no ELF file. Asked once for each address: what it says is cached until a mapping is
/// removed or replaced, or until [`super::ProcessUnwinder::forget_compiled`]. It should not allocate: it is asked while
/// samples are taken.
pub trait CompiledCode: Debug + Send {
    /// The rule for code at `address`; `None`: not code of this runtime. `exact`: the thread stands at the address, so that it
    /// may be in a prologue or an epilogue; else it lies inside a call.
    fn rule(&self, address: Avma, exact: bool) -> Option<CompiledRule>;
}
