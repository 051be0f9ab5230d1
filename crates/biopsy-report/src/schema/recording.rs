//! What was recorded, and how whole it is.

use serde::{Deserialize, Serialize};

/// What was recorded, when, and where.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Recording {
    /// Version of biopsy that recorded, or the name of the tool that wrote an imported file.
    pub tool: String,
    /// The command, redacted.
    pub command: Vec<String>,
    /// Name of the target.
    pub target_name: String,
    /// Its pid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_pid: Option<u32>,
    /// Its start, in clock ticks after boot: with the boot id and the pid, its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_start_ticks: Option<u64>,
    /// The boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Start of the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<Moment>,
    /// Its end; absent: it was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Moment>,
    /// Start of the window that all moments count from, CLOCK_MONOTONIC nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window_start_ns: Option<u64>,
    /// Length of the window.
    pub seconds: f64,
    /// `time`, `stopped`, `target-exited`, `disk-full`, `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<String>,
    /// The machine.
    pub host: Host,
}

/// A moment on both clocks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Moment {
    /// RFC 3339, with the offset of the recorded machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<String>,
    /// Time zone of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// CLOCK_MONOTONIC nanoseconds.
    pub monotonic_ns: u64,
}

/// The machine.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Host {
    /// Name, or its pseudonym.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub os: String,
    /// Architecture.
    pub architecture: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Memory.
    pub memory_bytes: u64,
    /// CPU model.
    pub cpu_model: String,
}

/// How whole the recording is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Completeness {
    /// It was cut short.
    pub partial: bool,
    /// There is a trace.
    pub has_trace: bool,
    /// There are metrics.
    pub has_metrics: bool,
    /// There are logs.
    pub has_logs: bool,
    /// How the trace was taken.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub method: String,
    /// Samples a second and CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_hz: Option<u32>,
    /// CPU samples.
    pub samples: u64,
    /// CPU time they stand for.
    pub sampled_ns: u64,
    /// Recorded waits.
    pub waits: u64,
    /// Off-CPU samples.
    pub off_cpu_samples: u64,
    /// Threads seen.
    pub threads: usize,
    /// Share of user stacks that reach the thread's root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reaching_root: Option<f64>,
    /// Share of frames without a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unnamed_frames: Option<f64>,
    /// Share of managed frames with a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_managed: Option<f64>,
    /// Share of native frames with a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_native: Option<f64>,
    /// Share of kernel frames with a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_kernel: Option<f64>,
    /// Modules with the most unnamed frames, and their shares.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unnamed_modules: Vec<(String, f64)>,
    /// The wall clock stepped by this much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_step_ms: Option<f64>,
    /// Losses by kind.
    pub losses: Vec<Loss>,
    /// What could not be determined, one sentence each.
    pub undetermined: Vec<String>,
}

/// What was lost: in an interval (`from`, `to`), or of one kind in all (`covered_ns`).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// `samples`, `waits`, `side-band`, `throttled`, `stacks-skipped`, `metrics`, `disk`, `allocations`, `switches`.
    pub kind: String,
    /// How many; absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// From, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<f64>,
    /// Until, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<f64>,
    /// The thread it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Time covered by losses of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub covered_ns: Option<u64>,
    /// Share of all things of this kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}

/// One process.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Pid.
    pub pid: u32,
    /// Parent.
    pub parent: u32,
    /// Name.
    pub name: String,
    /// Executable.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub exe: String,
    /// The executable is deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exe_deleted: bool,
    /// Arguments, redacted.
    pub command_line: Vec<String>,
    /// Real uid.
    pub uid: u32,
    /// `dotnet`, `jvm`, `node`, `python`, `go`, `interpreter`, `native`, `unknown`.
    pub runtime: String,
    /// Its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Entry assembly, main class, script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<String>,
    /// Pid in its own namespace, when another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_pid: Option<u32>,
    /// Control group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cgroup: String,
    /// Container id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// systemd unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// A mark.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mark {
    /// When, seconds.
    pub at: f64,
    /// Label.
    pub label: String,
}

/// Something a reader should know.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Warning {
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What can be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// When, seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<f64>,
}

/// What was redacted.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Redaction {
    /// Member of the recording.
    pub member: String,
    /// Rule.
    pub rule: String,
    /// Values masked.
    pub count: u64,
}

/// What was not gone over for secrets, or only in part.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NotSearched {
    /// What, for people.
    pub what: String,
    /// Why, and what would change it.
    pub why: String,
}

/// A small text about the target; only in the page, not in `report.json`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Context {
    /// Member of the recording.
    pub member: String,
    /// Text, redacted.
    pub text: String,
    /// Bytes left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<usize>,
}
