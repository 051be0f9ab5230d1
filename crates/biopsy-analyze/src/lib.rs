//! Pure functions from a recording to findings: hot paths, waits, convoys, limits.
//!
//! [`Diagnosis`] is what all evidence of one incident says. [`analyze`] reads a [`Capture`](biopsy_model::capture::Capture) and returns an
//! [`Analysis`]: the tables and trees a report draws, and the [`Finding`]s an expert would state, best first. [`analyze_dump`] does the
//! same for the memory of a process at one moment, [`HeapSummary`] sums up a managed heap. They never panic on any recording, and their
//! memory is bounded by the size of what they read plus the constants in [`limits`].
//!
//! What they promise: every number in a finding is also in a table of the same analysis or in the recording;
//! what could not be determined is listed in [`Completeness::undetermined`] and never guessed.
//! What they do not: they do not look at this machine, so the same recording gives the same analysis anywhere.
//!
//! Facts first, then findings:
//!
//! * [`trace`], [`metrics`], [`logs`], [`runtimes`] and [`completeness`] work out facts of a recording, [`dump`] those of an image,
//!   [`heap`] those of a managed heap. None of them knows a rule.
//! * [`findings`] holds the rules over these facts, their ids, and the table of what explains what. Its `finding` and `ids` are
//!   words that the analyses carry, and use nothing but [`trace::function`].
//! * `recorded`, `image` and `diagnosis` put both together.
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
pub mod compare;
pub mod completeness;
mod diagnosis;
pub mod dump;
pub mod findings;
pub mod footprint;
pub mod heap;
mod image;
mod keyed;
pub mod limits;
pub mod log_lines;
pub mod logs;
mod managed_names;
pub mod metrics;
mod ratio;
mod recorded;
pub mod runtimes;
mod sockets;
mod syscalls;
pub mod trace;
mod whose;
mod words;

pub use analysis::Analysis;
pub use completeness::{Completeness, LossTotal, NamedShares};
pub use diagnosis::{Diagnosis, SeveralRecordings, Source};
pub use findings::catalogue::{About, Kind, Said};
pub use findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
pub use footprint::FootprintSummary;
pub use heap::{HeapSummary, HeapTypeRow};
pub use image::{Beside, analyze_dump, analyze_image, analyze_opened, join_looks};
pub use logs::{LogSummary, LogTopic};
pub use metrics::{MetricSummary, Notable, NotableKind, Trend};
pub use recorded::{Recorded, analyze};
pub use runtimes::{
    AllocationRow, Coincidence, CollectionSummary, CommandRow, ContentionRow, CounterRow, ExceptionRow,
    GenerationRow, Meanwhile, MessageRow, PoolSummary, ProviderRow, RequestRow, RuntimePlace, RuntimeSummary,
};
pub use trace::allocations::{AllocationSite, AllocationSummary};
pub use trace::flame::{FlameKind, FlameNode, FlamePair, FlameTree, Flames, ThreadFlames};
pub use trace::function::{FunctionHandle, FunctionKind, FunctionRow};
pub use trace::threads::{StripBucket, ThreadGroup, ThreadRow, ThreadTable};
pub use trace::waits::{
    Activation, Behind, Convoy, LongWait, Party, WaitFunctionRow, WaitReason, WaitReasonRow, Waits,
};
pub use whose::Whose;
