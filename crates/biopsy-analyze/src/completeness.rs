//! What was recorded, how whole it is, and what could not be determined.

use biopsy_model::Nanos;
use biopsy_model::loss::LossKind;

/// How whole a recording is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Completeness {
    /// Length of the window.
    pub seconds: f64,
    /// The recording was cut short: it has no end.
    pub partial: bool,
    /// There is a trace.
    pub has_trace: bool,
    /// There are metrics.
    pub has_metrics: bool,
    /// There are logs.
    pub has_logs: bool,
    /// How the trace was taken: see `TraceSettings::method`.
    pub method: String,
    /// CPU samples.
    pub samples: u64,
    /// CPU time the samples stand for.
    pub sampled: Nanos,
    /// Recorded waits.
    pub waits: u64,
    /// Looks at waiting threads.
    pub wait_looks: u64,
    /// Threads seen.
    pub threads: usize,
    /// Lost, by kind: kind, number of losses known (0: not known how many), time covered by them.
    pub losses: Vec<LossTotal>,
    /// Share of user stacks that reach the thread's root, 0 to 1; `None`: no user stacks.
    pub reaching_root: Option<f64>,
    /// Share of frames (weighted by samples) without a name, 0 to 1; `None`: no frames.
    pub unnamed_frames: Option<f64>,
    /// Modules with the most unnamed frames: name, share of all frames (at most 5).
    pub unnamed_modules: Vec<(String, f64)>,
    /// The wall clock stepped by this many milliseconds during the recording; zero: it did not.
    pub clock_step_ms: f64,
    /// What could not be determined, one sentence each. A report always shows this section.
    pub undetermined: Vec<String>,
}

/// Losses of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct LossTotal {
    /// What.
    pub kind: LossKind,
    /// How many; 0 where no number is known.
    pub count: u64,
    /// Length of the intervals they were lost in, overlaps counted once.
    pub time: Nanos,
    /// Share of all things of this kind that was lost, 0 to 1, where that can be told.
    pub share: Option<f64>,
}
