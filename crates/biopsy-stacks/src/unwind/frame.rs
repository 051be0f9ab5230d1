//! Frames as a walk finds them, and how it ended.

use biopsy_model::Avma;
use biopsy_model::stack::StackEnd;

/// How one unwinding ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unwound {
    /// How far it got.
    pub end: StackEnd,
    /// End of the highest stack word that was needed: a copy from `sp` up to here unwinds the same stack again. With
    /// `StackEnd::Root` this is the thread's root, which is the same for all stacks of the thread.
    pub top: Avma,
    /// The copy was too short: with more bytes it would have gone on.
    pub needed_beyond: bool,
    /// Frames whose caller was found by frame pointer, for want of unwind information.
    pub by_frame_pointer: u32,
}

/// How a frame was found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FoundBy {
    /// By the thread's registers: the innermost frame.
    Registers,
    /// By the unwind information of its callee.
    UnwindInfo,
    /// By a frame pointer: right for code that keeps one, and a guess otherwise.
    FramePointer,
    /// By the word at the stack pointer, which lies behind a call instruction.
    CallSite,
    /// The kernel saved its registers when a signal interrupted it.
    SignalFrame,
    /// By what a managed runtime noted when it left its own code: what lies between could not be walked.
    ExplicitFrame,
}

/// A frame as the walk finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkedFrame {
    /// Instruction pointer: a return address in callers.
    pub ip: Avma,
    /// The address to look names up by: inside the call, in callers.
    pub lookup: Avma,
    /// Stack pointer.
    pub sp: Avma,
    /// `rbp`, where it is known.
    pub fp: Option<u64>,
    /// `rbx`, `r12` to `r15`, where they are known.
    pub saved: [Option<u64>; 5],
    /// How it was found.
    pub found: FoundBy,
}
