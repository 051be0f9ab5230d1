//! Pure functions from a recording to findings: hot paths, waits, convoys, limits.
//!
//! [`analyze`] reads a [`Capture`] and returns an [`Analysis`]: the tables and trees a report draws, and the
//! [`Finding`]s an expert would state, best first. It does no I/O, never panics on any recording, and its memory is
//! bounded by the size of the recording plus the constants in [`limits`].
//!
//! What it promises: every number in a finding is also in a table of the same analysis or in the recording;
//! what could not be determined is listed in [`Completeness::undetermined`] and never guessed.
//! What it does not: it does not look at this machine, so the same recording gives the same analysis anywhere.
//!
//! ```
//! use biopsy_model::capture::{Capture, CaptureHeader};
//! let capture = Capture {
//!     header: CaptureHeader::default(), processes: vec![], timeline: None, runtimes: vec![], looks: vec![], metrics: vec![], logs: vec![],
//!     context: vec![], warnings: vec![], redactions: vec![],
//! };
//! let analysis = biopsy_analyze::analyze(&capture);
//! assert!(!analysis.completeness.undetermined.is_empty());
//! ```

#![forbid(unsafe_code)]

mod calls;
pub mod completeness;
pub mod dump;
pub mod finding;
mod findings;
pub mod flame;
mod frames;
pub mod function;
pub mod limits;
pub mod logs;
mod managed;
mod managed_waits;
pub mod metrics;
mod names;
mod places;
mod roles;
pub mod runtimes;
mod series;
mod syscalls;
pub mod threads;
mod trace;
mod wait_sums;
pub mod waits;
mod window;

use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;

pub use completeness::{Completeness, LossTotal, NamedShares};
pub use finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
pub use flame::{FlameKind, FlameNode, FlamePair, FlameTree, Flames, ThreadFlames};
pub use function::{FunctionHandle, FunctionKind, FunctionRow};
pub use logs::{LogSummary, LogTopic};
pub use metrics::{MetricSummary, Notable, NotableKind, Trend};
pub use runtimes::{
    AllocationRow, Coincidence, CollectionSummary, CommandRow, ContentionRow, CounterRow, ExceptionRow,
    GenerationRow, Meanwhile, MessageRow, PoolSummary, ProviderRow, RequestRow, RuntimePlace, RuntimeSummary,
};
pub use threads::{StripBucket, ThreadGroup, ThreadRow, ThreadTable};
pub use waits::{
    Activation, Behind, Convoy, LongWait, Party, WaitFunctionRow, WaitReason, WaitReasonRow, Waits,
};

/// Everything a report draws.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Analysis {
    /// The time axis all charts share: first and last moment of the recording. `None`: nothing was recorded.
    pub window: Option<(MonoNanos, MonoNanos)>,
    /// What was recorded and how whole it is.
    pub completeness: Completeness,
    /// Every function seen, by CPU total (then waiting total), largest first. [`FunctionHandle`]s index this table.
    pub functions: Vec<FunctionRow>,
    /// Flame graphs.
    pub flames: Flames,
    /// Threads and groups of threads.
    pub threads: ThreadTable,
    /// What waits for what, and who woke whom.
    pub waits: Waits,
    /// Metrics in brief, with the intervals worth looking at.
    pub metrics: MetricSummary,
    /// Log lines of interest.
    pub logs: LogSummary,
    /// What the runtimes of the tree said of themselves.
    pub runtimes: Vec<RuntimeSummary>,
    /// What an expert would say, the most important first. Never empty.
    pub findings: Vec<Finding>,
}

impl Analysis {
    /// The row of a function.
    #[must_use]
    pub fn function(&self, handle: FunctionHandle) -> Option<&FunctionRow> {
        self.functions.get(handle.0 as usize)
    }
}

/// Analyses a recording.
#[must_use]
pub fn analyze(capture: &Capture) -> Analysis {
    let window = window::window(capture);
    let mut analysis = Analysis {
        window,
        metrics: MetricSummary::new(capture),
        logs: LogSummary::new(capture),
        runtimes: RuntimeSummary::all(capture),
        ..Analysis::default()
    };
    let facts = match &capture.timeline {
        Some(timeline) => {
            let (frames, facts) = trace::analyze(capture, timeline, &mut analysis);
            analysis.completeness = Completeness::new(capture, window, Some(&frames));
            analysis.functions = frames.functions;
            facts
        }
        None => {
            analysis.completeness = Completeness::new(capture, window, None);
            trace::Facts::default()
        }
    };
    analysis.findings = findings::find(capture, &analysis, &facts);
    analysis
}
