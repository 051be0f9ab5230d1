//! What was lost, and what a reader of the recording should know. Loss is data.

use crate::{MonoNanos, Pid, Tid};

/// What was lost.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LossKind {
    /// CPU samples that did not fit the kernel's buffer.
    Samples,
    /// Records of waits and wake-ups.
    Waits,
    /// Records of process, thread and mapping changes.
    SideBand,
    /// The kernel throttled the sampling interrupt.
    Throttled,
    /// Samples whose stack the recorder skipped because it was behind.
    StacksSkipped,
    /// Metric readings that came late or not at all.
    Metrics,
    /// Events that were not written because the disk was full or the size limit was reached.
    Disk,
    /// Sampled allocations of native code, or their releases.
    Allocations,
    /// Context switches that nobody watched, on purpose, because they are many: what threads used is counted, of their waits only those are
    /// told that reach over two looks at the threads.
    Switches,
}

impl LossKind {
    /// It was left out on purpose, and nothing has gone wrong.
    #[must_use]
    pub fn is_meant(self) -> bool {
        self == Self::Switches
    }
}

/// An interval in which `count` things of a kind were lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loss {
    /// What.
    pub kind: LossKind,
    /// From when (the last moment known to be whole).
    pub from: MonoNanos,
    /// Until when.
    pub to: MonoNanos,
    /// How many; 0 where the number is not known.
    pub count: u64,
    /// The thread or process, where the loss belongs to one.
    pub pid: Option<Pid>,
    /// The thread, where the loss belongs to one.
    pub tid: Option<Tid>,
}

/// Something a reader should know: a soft error of a recorder, kept in the recording and shown in the report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Warning {
    /// Stable machine-readable code, `part.what`, for example `trace.no-bpf`.
    pub code: String,
    /// One sentence for people: what was being done, to which object, what went wrong.
    pub message: String,
    /// What the reader can do, where that was checked.
    pub hint: Option<String>,
    /// When, if it belongs to a moment.
    pub time: Option<MonoNanos>,
}

impl Warning {
    /// Without a hint, of the recording as a whole.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None, time: None }
    }

    /// On one line that commands no terminal, the hint behind it.
    #[must_use]
    pub fn in_words(&self) -> String {
        let message = crate::printable::printable(&self.message);
        match &self.hint {
            Some(hint) => format!("{message} ({})", crate::printable::printable(hint)),
            None => message,
        }
    }
}
