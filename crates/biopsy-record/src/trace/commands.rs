//! What may be asked of a running trace, and what it answers.

use std::sync::mpsc::Sender;

use biopsy_model::Pid;
use biopsy_model::timeline::TraceMethod;

use super::before::Before;
use super::managed::SharedMethods;

/// What may be asked of a running trace.
#[derive(Debug)]
pub enum Control {
    /// End it.
    Stop,
    /// Note this moment.
    Mark(String),
    /// Make everything so far readable; the answer says how much of the file that is. The trace goes on.
    Cut(Sender<Cut>),
    /// What another recorder has of the time before belongs to this timeline.
    Before(Box<Before>),
    /// What an event session tells of the methods of a process: its frames are named by it where memory does not say.
    Methods(Pid, SharedMethods),
}

/// A place where a copy of the timeline may end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cut {
    /// So many bytes of the file.
    pub bytes: u64,
    /// And then these.
    pub end: Vec<u8>,
}

/// What was recorded.
#[derive(Clone, Debug, Default)]
pub struct TraceSummary {
    /// Method that was used.
    pub method: TraceMethod,
    /// Samples per second and CPU.
    pub frequency_hz: u32,
    /// CPU samples.
    pub samples: u64,
    /// Of them, those whose user stack reached the root.
    pub rooted: u64,
    /// Long waits.
    pub waits: u64,
    /// Off-CPU samples that found a stack.
    pub wait_stacks: u64,
    /// Things lost.
    pub lost: u64,
    /// Bytes of the timeline.
    pub bytes: u64,
    /// Distinct frames, and those with a name.
    pub frames: (u64, u64),
    /// Every recorded process ended before the trace was stopped.
    pub all_exited: bool,
    /// Writing failed, or the size limit was reached: the timeline ends early.
    pub cut_short: Option<String>,
}
