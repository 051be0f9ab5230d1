//! One thing that was checked, and how it came out.

use std::path::PathBuf;

/// How a check came out.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Status {
    /// Nothing is in the way.
    Ok,
    /// It works with less.
    Limited,
    /// It does not work.
    Missing,
}

impl Status {
    /// A word for people and for JSON: `ok`, `limited`, `missing`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Missing => "missing",
        }
    }
}

/// One thing that was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Check {
    /// Stable name, lower case with hyphens: `cpu-sampling`.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found, and what that means for a recording. One line.
    pub detail: String,
    /// What would allow more: commands as they are to be typed here.
    pub hint: Option<String>,
}

impl Check {
    pub(crate) fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, detail: detail.into(), hint: None }
    }

    pub(crate) fn limited(name: &'static str, detail: impl Into<String>, hint: Option<String>) -> Self {
        Self { name, status: Status::Limited, detail: detail.into(), hint }
    }

    pub(crate) fn missing(name: &'static str, detail: impl Into<String>, hint: Option<String>) -> Self {
        Self { name, status: Status::Missing, detail: detail.into(), hint }
    }
}

/// What somebody wants to record.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Wanted {
    /// A timeline trace.
    pub trace: bool,
    /// Metrics.
    pub metrics: bool,
    /// The memory of the process (snapshots, dumps).
    pub memory: bool,
    /// Where the recording is to be written; `None`: not checked.
    pub output: Option<PathBuf>,
    /// Bytes the recording will need at most, where that is known; otherwise a small minimum is asked for.
    pub output_bytes: Option<u64>,
}
