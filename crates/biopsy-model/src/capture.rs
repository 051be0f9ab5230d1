//! Everything one recording holds, as the read half sees it.

use crate::log::LogFile;
use crate::look::Look;
use crate::loss::Warning;
use crate::metric::MetricTable;
use crate::process::ProcessInfo;
use crate::runtime_trace::RuntimeTrace;
use crate::timeline::Timeline;
use crate::{ClockPair, ProcessKey};

/// One recording, read.
#[derive(Clone, PartialEq, Debug)]
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
    /// Why the recording ended.
    pub ended_by: EndedBy,
}

/// Why a recording ended.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub enum EndedBy {
    /// Not known: it was cut short, or has not ended.
    #[default]
    Unknown,
    /// The time asked for was over.
    Time,
    /// The user stopped it.
    Stopped,
    /// The target exited.
    TargetExited,
    /// The disk was full.
    DiskFull,
    /// An error.
    Error,
    /// It goes on; this is a copy of what there was, or one look at a process.
    Snapshot,
    /// The process was dumped.
    Dumped,
    /// Of a newer version.
    Other(String),
}

impl EndedBy {
    /// In a word; empty: not known.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unknown => "",
            Self::Time => "time",
            Self::Stopped => "stopped",
            Self::TargetExited => "target-exited",
            Self::DiskFull => "disk-full",
            Self::Error => "error",
            Self::Snapshot => "snapshot",
            Self::Dumped => "dumped",
            Self::Other(word) => word,
        }
    }
}

impl From<&str> for EndedBy {
    fn from(word: &str) -> Self {
        let known = [
            Self::Unknown,
            Self::Time,
            Self::Stopped,
            Self::TargetExited,
            Self::DiskFull,
            Self::Error,
            Self::Snapshot,
            Self::Dumped,
        ];
        known.into_iter().find(|one| one.as_str() == word).unwrap_or_else(|| Self::Other(word.to_owned()))
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

#[cfg(test)]
mod tests {
    use super::EndedBy;

    #[test]
    fn words_that_are_not_known_are_kept() {
        let known = ["", "time", "stopped", "target-exited", "disk-full", "error", "snapshot", "dumped"];
        for word in known {
            let ended_by = EndedBy::from(word);
            assert!(!matches!(ended_by, EndedBy::Other(_)), "{word}");
            assert_eq!(ended_by.as_str(), word);
        }
        assert_eq!(EndedBy::from("of-tomorrow").as_str(), "of-tomorrow");
        assert_eq!(EndedBy::from(""), EndedBy::default());
    }
}
