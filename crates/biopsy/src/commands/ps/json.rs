//! `biopsy ps --json`.

use std::time::Duration;

use biopsy_capture::survey::Row;
use biopsy_model::process::RuntimeKind;
use biopsy_target::Allowed;
use serde::Serialize;

/// Grows when a field changes its meaning or goes away; new fields may come at any time.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: u32,
    /// Seconds over which `cpu_cores` was taken.
    cpu_interval_seconds: f64,
    processes: Vec<Process<'a>>,
}

#[derive(Serialize)]
struct Process<'a> {
    pid: u32,
    parent: u32,
    start_ticks: u64,
    boot_id: &'a str,
    name: &'a str,
    exe: &'a str,
    exe_deleted: bool,
    command_line: &'a [String],
    user: &'a str,
    uid: u32,
    kernel_thread: bool,
    zombie: bool,
    runtime: &'static str,
    runtime_version: Option<&'a str>,
    entry: Option<&'a str>,
    unit: Option<&'a str>,
    container_id: Option<&'a str>,
    cgroup: &'a str,
    namespace_pid: Option<u32>,
    /// 1.0 is one processor; null: it started within the interval.
    cpu_cores: Option<f64>,
    cpu_seconds: f64,
    resident_bytes: u64,
    threads: u64,
    up_seconds: f64,
    capture: Capture<'a>,
}

#[derive(Serialize)]
struct Capture<'a> {
    trace: Part<'a>,
    metrics: Part<'a>,
    memory: Part<'a>,
    /// Only of .NET processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_events: Option<Part<'a>>,
}

/// `allowed` is `full`, `limited` or `no`.
#[derive(Serialize)]
struct Part<'a> {
    allowed: &'static str,
    why: Option<&'a str>,
    hint: Option<&'a str>,
}

impl<'a> Part<'a> {
    fn of(allowed: &'a Allowed) -> Self {
        let hint = match allowed {
            Allowed::Full => None,
            Allowed::Limited { hint, .. } | Allowed::No { hint, .. } => hint.as_deref(),
        };
        Self { allowed: allowed.word(), why: allowed.why(), hint }
    }
}

fn runtime_word(kind: RuntimeKind) -> &'static str {
    match kind {
        RuntimeKind::DotNet => "dotnet",
        RuntimeKind::Jvm => "jvm",
        RuntimeKind::Node => "node",
        RuntimeKind::Python => "python",
        RuntimeKind::Go => "go",
        RuntimeKind::OtherInterpreter => "other",
        RuntimeKind::Native => "native",
        RuntimeKind::Unknown => "unknown",
    }
}

pub(super) fn document(rows: &[Row], interval: Duration) -> Document<'_> {
    let processes = rows.iter().map(|row| {
        let (info, usage, access) = (&row.process.info, &row.process.usage, &row.process.access);
        Process {
            pid: info.key.pid.0,
            parent: info.parent.0,
            start_ticks: info.key.start_ticks,
            boot_id: &info.key.boot_id.0,
            name: &info.name,
            exe: &info.exe,
            exe_deleted: info.exe_deleted,
            command_line: &info.command_line,
            user: &row.process.user,
            uid: info.uid,
            kernel_thread: row.process.is_kernel_thread,
            zombie: row.process.is_zombie,
            runtime: runtime_word(info.runtime.kind),
            runtime_version: info.runtime.version.as_deref(),
            entry: info.runtime.entry.as_deref(),
            unit: info.unit.as_deref(),
            container_id: info.container_id.as_deref(),
            cgroup: &info.cgroup,
            namespace_pid: info.ns_pid,
            cpu_cores: row.cores,
            cpu_seconds: usage.cpu_seconds,
            resident_bytes: usage.resident_bytes,
            threads: usage.threads,
            up_seconds: usage.up_seconds,
            capture: Capture {
                trace: Part::of(&access.trace),
                metrics: Part::of(&access.metrics),
                memory: Part::of(&access.memory),
                runtime_events: row.events.as_ref().map(Part::of),
            },
        }
    });
    Document { schema: SCHEMA, cpu_interval_seconds: interval.as_secs_f64(), processes: processes.collect() }
}
