//! A goroutine, a thread or a task.

use biopsy_model::Tid;

use crate::{StrandFrame, StrandId, StrandKind, StrandWait};

/// A strand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Strand {
    /// Which.
    pub id: StrandId,
    /// What it is.
    pub kind: StrandKind,
    /// The thread of the system that it is on, as the image numbers threads.
    pub tid: Option<Tid>,
    /// Its name, where it has one.
    pub name: Option<String>,
    /// What it does.
    pub state: StrandState,
    /// What it waits for.
    pub wait: Option<StrandWait>,
    /// Innermost first.
    pub frames: Vec<StrandFrame>,
    /// There are more frames than are listed: a limit, or memory that could not be read.
    pub cut: bool,
    /// Where it was started, where the runtime keeps that.
    pub started_at: Option<StrandFrame>,
    /// The text that it panics with; not redacted.
    pub panics_with: Option<String>,
    /// The pool whose tasks it runs: an address that its workers have in common.
    pub pool: Option<u64>,
    /// It is the runtime's own (a collector, a finalizer), and not of the program.
    pub of_runtime: bool,
}

impl Strand {
    /// One of which nothing else is known.
    #[must_use]
    pub fn new(id: StrandId, kind: StrandKind) -> Self {
        Self {
            id,
            kind,
            tid: None,
            name: None,
            state: StrandState::NotKnown,
            wait: None,
            frames: Vec::new(),
            cut: false,
            started_at: None,
            panics_with: None,
            pool: None,
            of_runtime: false,
        }
    }
}

/// What a strand does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum StrandState {
    /// It runs.
    Running,
    /// It could run and is not on a thread.
    Runnable,
    /// It is in a system call or in native code.
    Native,
    /// It waits.
    Waiting,
    /// It has ended, and is still listed.
    Ended,
    /// The runtime does not say, or something that is not understood.
    NotKnown,
}

impl StrandState {
    /// One word or two.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "runnable",
            Self::Native => "in native code",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
            Self::NotKnown => "not known",
        }
    }
}
