//! Pure functions from a recording to findings: hot paths, waits, convoys, limits.
//!
//! [`analyze`] reads a [`Capture`] and returns an [`Analysis`]: the tables and trees a report draws, and the
//! [`Finding`]s an expert would state, best first. [`analyze_dump`] does the same for the memory of a process at one moment.
//! Both do no I/O, never panic on any recording, and their memory is bounded by the size of what they read plus the constants
//! in [`limits`].
//!
//! What they promise: every number in a finding is also in a table of the same analysis or in the recording;
//! what could not be determined is listed in [`Completeness::undetermined`] and never guessed.
//! What they do not: they do not look at this machine, so the same recording gives the same analysis anywhere.
//!
//! Facts first, then findings:
//!
//! * [`trace`], [`metrics`], [`logs`], [`runtimes`] and [`completeness`] work out facts of a recording, [`dump`] those of an image.
//!   None of them knows a rule.
//! * [`findings`] holds the rules over these facts, their ids, and the table of what explains what. Its `finding` and `ids` are
//!   words that the analyses carry, and use nothing but [`trace::function`].
//! * This file and `image` put both together.
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

mod analysis;
pub mod completeness;
pub mod dump;
pub mod findings;
mod image;
pub mod limits;
pub mod logs;
mod managed_names;
pub mod metrics;
pub mod runtimes;
mod syscalls;
pub mod trace;
mod words;

use biopsy_model::capture::Capture;
use trace::facts::Facts;

pub use analysis::Analysis;
pub use completeness::{Completeness, LossTotal, NamedShares};
pub use findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
pub use image::{analyze_dump, analyze_image, analyze_opened};
pub use logs::{LogSummary, LogTopic};
pub use metrics::{MetricSummary, Notable, NotableKind, Trend};
pub use runtimes::{
    AllocationRow, Coincidence, CollectionSummary, CommandRow, ContentionRow, CounterRow, ExceptionRow,
    GenerationRow, Meanwhile, MessageRow, PoolSummary, ProviderRow, RequestRow, RuntimePlace, RuntimeSummary,
};
pub use trace::flame::{FlameKind, FlameNode, FlamePair, FlameTree, Flames, ThreadFlames};
pub use trace::function::{FunctionHandle, FunctionKind, FunctionRow};
pub use trace::threads::{StripBucket, ThreadGroup, ThreadRow, ThreadTable};
pub use trace::waits::{
    Activation, Behind, Convoy, LongWait, Party, WaitFunctionRow, WaitReason, WaitReasonRow, Waits,
};

/// Analyses a recording.
#[must_use]
pub fn analyze(capture: &Capture) -> Analysis {
    let window = trace::window::window(capture);
    let mut analysis = Analysis {
        window,
        metrics: MetricSummary::new(capture),
        logs: LogSummary::new(capture),
        runtimes: RuntimeSummary::all(capture),
        ..Analysis::default()
    };
    let traced = capture.timeline.as_ref().map(|timeline| trace::read(capture, timeline, window));
    let frames = traced.as_ref().map(|traced| &traced.frames);
    analysis.completeness = Completeness::new(capture, window, frames);
    let mut facts = Facts::default();
    if let Some(traced) = traced {
        analysis.threads = traced.threads;
        analysis.flames = traced.flames;
        analysis.waits = traced.waits;
        analysis.functions = traced.frames.functions;
        facts = traced.facts;
    }
    analysis.findings = findings::of_recording(capture, &analysis, &facts);
    analysis
}
