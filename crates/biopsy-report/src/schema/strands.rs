//! Language runtimes other than .NET in a dump: goroutines, threads and tasks.

use serde::{Deserialize, Serialize};

/// A language runtime other than .NET.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Runtime {
    /// `Go 1.22.10`.
    pub name: String,
    /// Path of the executable or library that it is in.
    pub path: String,
    /// Goroutines, threads and tasks.
    pub strands: u64,
    /// What was not understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Number of the strand that has the interpreter's lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreter_lock: Option<String>,
    /// Circles: numbers of strands, each waits for the next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<Vec<String>>,
    /// Equal ones together.
    pub groups: Vec<Group>,
}

/// Strands that stand in the same place.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Group {
    /// How many.
    pub count: usize,
    /// `goroutine`, `thread`, `task`.
    pub kind: String,
    /// Their numbers, the first of them.
    pub ids: Vec<String>,
    /// Their names, as far as they have any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// Threads of the system that they are on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<u32>,
    /// `running`, `runnable`, `in native code`, `waiting`.
    pub state: String,
    /// What the first of them waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// There are more frames.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The function that started them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by: Option<Frame>,
    /// They are the runtime's own.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub of_runtime: bool,
}

/// What is waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// In words: `a mutex`.
    pub kind: String,
    /// Where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The runtime's words.
    pub reason: String,
    /// Type of the thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The descriptor, for input and output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<u32>,
    /// Since when at the latest, on `CLOCK_MONOTONIC`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ns: Option<u64>,
    /// Nothing can end it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub never_ends: bool,
    /// Who has it, candidates too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<WaitOwner>,
}

/// Who has what is waited for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitOwner {
    /// Number of the strand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strand: Option<String>,
    /// Thread of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u32>,
    /// `certainly`, `almost certainly`, `very likely`, `possibly`.
    pub confidence: String,
    /// What it was read from.
    pub proof: String,
}

/// A call.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Frame {
    /// The function.
    pub function: String,
    /// Path of the source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Put into the next one by the compiler.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}
