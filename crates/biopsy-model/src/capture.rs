//! Everything one recording holds, as the read half sees it.

use crate::log::LogFile;
use crate::look::Look;
use crate::loss::Warning;
use crate::metric::MetricTable;
use crate::process::ProcessInfo;
use crate::runtime_trace::RuntimeTrace;
use crate::timeline::Timeline;
use crate::words::words;
use crate::{ClockPair, ProcessKey};

/// One recording, read.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Capture {
    /// What and when.
    pub header: CaptureHeader,
    /// The processes of the tree, the target first.
    pub processes: Vec<ProcessInfo>,
    /// The trace, where one was taken.
    pub timeline: Option<Timeline>,
    /// What the runtimes of the tree said of themselves, one entry a process.
    pub runtimes: Vec<RuntimeTrace>,
    /// What was seen in the memory of processes, where that was asked for.
    pub looks: Vec<Look>,
    /// Metrics; missing tables are absent.
    pub metrics: Vec<MetricTable>,
    /// Logs.
    pub logs: Vec<LogFile>,
    /// Context: small texts about the target (limits, maps, sockets ...), by member name, redacted.
    pub context: Vec<(String, String)>,
    /// What the recorders and the reader want said.
    pub warnings: Vec<Warning>,
    /// What was redacted: rule, and how often. Values never.
    pub redactions: Vec<RedactionCount>,
}

impl Capture {
    /// It holds something that was recorded over time: a trace, what runtimes said, metrics or logs.
    #[must_use]
    pub fn holds_time(&self) -> bool {
        self.timeline.is_some()
            || !self.runtimes.is_empty()
            || !self.metrics.is_empty()
            || !self.logs.is_empty()
    }
}

/// What was recorded, when, how, and whether it is whole.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CaptureHeader {
    /// Version of biopsy that wrote it, or the name of the tool that wrote an imported file.
    pub tool: String,
    /// The exact command, redacted.
    pub command: Vec<String>,
    /// Start.
    pub start: ClockPair,
    /// End; `None`: the recording was cut short (kill -9, power loss) and is partial.
    pub end: Option<ClockPair>,
    /// The process that was named.
    pub target: Option<ProcessKey>,
    /// Name of the target for headings.
    pub target_name: String,
    /// The machine.
    pub host: HostInfo,
    /// Why the recording ended; not known: it was cut short, or has not ended.
    pub ended_by: EndedBy,
}

words! {
    /// Why a recording ended.
    EndedBy {
        /// The time asked for was over.
        Time = "time",
        /// The user stopped it.
        Stopped = "stopped",
        /// The target exited.
        TargetExited = "target-exited",
        /// The disk was full.
        DiskFull = "disk-full",
        /// An error.
        Error = "error",
        /// It goes on; this is a copy of what there was, or one look at a process.
        Snapshot = "snapshot",
        /// The process was dumped.
        Dumped = "dumped",
    }
}

/// The machine a recording was taken on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HostInfo {
    /// Host name (a pseudonym when redacted).
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release.
    pub os: String,
    /// `x86_64`, `aarch64`.
    pub architecture: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// CPU model name.
    pub cpu_model: String,
}

/// How often a rule fired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedactionCount {
    /// Member of the recording.
    pub member: String,
    /// Rule id.
    pub rule: String,
    /// Values masked.
    pub count: u64,
}
