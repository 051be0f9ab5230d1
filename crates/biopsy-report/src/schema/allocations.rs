//! Who allocates native memory.

use serde::{Deserialize, Serialize};

/// Allocations of native code, estimated for the whole time from what was watched.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Allocations {
    /// From the first look to the end.
    pub seconds: f64,
    /// Share of it in which allocations were watched; 1: all the time.
    pub watched_share: f64,
    /// Allocations counted while they were watched.
    pub calls: u64,
    /// Their bytes.
    pub counted_bytes: u64,
    /// Those that were looked at one by one.
    pub samples: u64,
    /// Bytes allocated in all the time.
    pub allocated_bytes: u64,
    /// Of these, not given back, as far as that was seen.
    pub kept_bytes: u64,
    /// Each was counted from the start of the program (`--allocations=full`): nothing is estimated, and `samples` are calls.
    pub exact: bool,
    /// Where each was counted: those given back before the same thread allocated anything else.
    pub temporary_calls: u64,
    /// Where each was counted: the most bytes that were there at one time.
    pub peak_bytes: u64,
    /// Where each was counted: bytes that were there, over time.
    pub live: Vec<LiveBytes>,
    /// Where each was counted: seconds since the beginning, of the moment that `then_bytes` are of; absent: places were not read near the middle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then_seconds: Option<f64>,
    /// By place, what is kept most first.
    pub sites: Vec<AllocationSite>,
}

/// What is allocated at one place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocationSite {
    /// The program's innermost function; a library's where there is none.
    pub function: String,
    /// Its module.
    pub module: String,
    /// The stack with most of it, innermost first.
    pub stack: Vec<String>,
    /// Bytes.
    pub allocated_bytes: u64,
    /// Of these, not given back.
    pub kept_bytes: u64,
    /// Samples it is estimated from.
    pub samples: u64,
    /// Samples that were not given back.
    pub kept_samples: u64,
    /// Where each was counted: those given back before the same thread allocated anything else.
    pub temporary_calls: u64,
    /// Where each was counted: the most bytes that were there at one time, of its stack with most.
    pub peak_bytes: u64,
    /// Where each was counted: bytes that were there at `then_seconds`; `kept_bytes` above them have come since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then_bytes: Option<u64>,
}

/// What was there at a moment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LiveBytes {
    /// Seconds since the beginning of the recording.
    pub seconds: f64,
    /// Bytes.
    pub bytes: u64,
}
