//! A made-up recording with everything in it, and its analysis: a database under load whose workers queue for one
//! lock, whose disk is busy for a while, and whose cgroup throttles it. Deterministic.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    unused_imports,
    reason = "shared by several test programs, each uses a part"
)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small made-up numbers"
)]

#[allow(clippy::needless_update, reason = "an analysis that learns something new does not break the tests")]
mod analysis;
pub mod commonmark;
mod hostile;
mod metrics;
pub mod named;
mod renamed;
mod runtimes;
mod trace;

use biopsy_analyze::{Analysis, Diagnosis, Recorded};
use biopsy_model::capture::{Capture, CaptureHeader, EndedBy, HostInfo, RedactionCount};
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::loss::Warning;
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind};
use biopsy_model::{BootId, ClockPair, MonoNanos, Pid, ProcessKey};

pub use analysis::analysis;
pub use hostile::{NAMES, hostile};
pub use renamed::rename;

/// What a recording alone says.
pub fn diagnose(capture: &Capture, analysis: &Analysis) -> Diagnosis {
    let recorded = Recorded { capture: capture.clone(), analysis: analysis.clone() };
    Diagnosis::new(Some(recorded), Vec::new(), Vec::new())
}

/// Start of the recording on CLOCK_MONOTONIC: the machine has been up for a while.
pub const START: u64 = 86_400_000_000_000;
/// Length of the recording, seconds.
pub const SECONDS: u64 = 60;
/// Wall clock at the start.
const WALL: i128 = 1_763_720_823_512_000_000;

/// A moment of the recording.
pub fn at(seconds: f64) -> MonoNanos {
    MonoNanos(START + (seconds * 1e9) as u64)
}

/// Small deterministic random numbers.
pub struct Dice(pub u64);

impl Dice {
    /// 0 to 1.
    pub fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1u32 << 31)
    }
}

fn key(pid: u32) -> ProcessKey {
    ProcessKey {
        boot_id: BootId("0c9f6d3e-5f1c-4be0-8f07-3f2f6f0f7a11".into()),
        pid: Pid(pid),
        start_ticks: 123_456,
    }
}

fn clock(seconds: f64) -> ClockPair {
    ClockPair {
        mono: at(seconds),
        wall_unix_nanos: WALL + (seconds * 1e9) as i128,
        utc_offset_seconds: 3600,
        zone: "Europe/Berlin".into(),
    }
}

/// Only a header: a recording that was cut short before anything was written.
pub fn empty() -> Capture {
    Capture {
        header: CaptureHeader {
            tool: "biopsy 0.1.0".into(),
            command: ["biopsy", "capture", "mariadbd", "--for", "60s"].map(String::from).to_vec(),
            start: clock(0.0),
            end: None,
            target: Some(key(4711)),
            target_name: "mariadbd".into(),
            host: HostInfo {
                hostname: "db-7.example".into(),
                kernel: "6.1.0-28-amd64".into(),
                os: "Debian GNU/Linux 12 (bookworm)".into(),
                architecture: "x86_64".into(),
                cpus: 4,
                memory: 16 << 30,
                cpu_model: "AMD EPYC 7B13".into(),
            },
            ended_by: EndedBy::Unknown,
        },
        processes: vec![],
        timeline: None,
        looks: Vec::new(),
        runtimes: Vec::new(),
        metrics: vec![],
        logs: vec![],
        context: vec![],
        warnings: vec![],
        redactions: vec![],
    }
}

/// Everything.
pub fn capture() -> Capture {
    let mut capture = empty();
    capture.header.end = Some(clock(SECONDS as f64));
    capture.header.ended_by = "time".into();
    capture.processes = vec![
        process(
            4711,
            1,
            "mariadbd",
            RuntimeKind::Native,
            &["/usr/sbin/mariadbd", "--password=«redacted:3f9a»"],
        ),
        process(4802, 4711, "node", RuntimeKind::Node, &["node", "/opt/exporter/index.js"]),
    ];
    capture.timeline = Some(trace::timeline());
    capture.metrics = metrics::tables();
    capture.logs = logs();
    capture.context = vec![
        ("target/4711/limits".into(), "Max open files   1048576   1048576   files\n".repeat(8)),
        ("target/4711/cgroup".into(), "0::/system.slice/mariadb.service\n".into()),
    ];
    capture.warnings = vec![Warning {
        code: "trace.no-pmu".into(),
        message: "hardware cycles could not be counted, the software clock was used: perf_event_open refused (ENOENT)"
            .into(),
        hint: Some("virtual machines often have no PMU; samples are still taken 999 times a second".into()),
        time: None,
    }];
    capture.redactions = vec![
        RedactionCount { member: "target/4711/cmdline".into(), rule: "key.password".into(), count: 1 },
        RedactionCount { member: "logs/error.log".into(), rule: "url.credentials".into(), count: 4 },
    ];
    capture
}

fn process(pid: u32, parent: u32, name: &str, kind: RuntimeKind, arguments: &[&str]) -> ProcessInfo {
    ProcessInfo {
        key: key(pid),
        parent: Pid(parent),
        name: name.into(),
        exe: arguments[0].into(),
        exe_deleted: false,
        command_line: arguments.iter().map(|text| (*text).to_owned()).collect(),
        uid: 105,
        runtime: Runtime {
            kind,
            version: (kind == RuntimeKind::Node).then(|| "20.11.1".into()),
            entry: (kind == RuntimeKind::Node).then(|| "/opt/exporter/index.js".into()),
        },
        ns_pid: None,
        cgroup: "/system.slice/mariadb.service".into(),
        container_id: None,
        unit: Some("mariadb.service".into()),
    }
}

fn logs() -> Vec<LogFile> {
    let mut dice = Dice(11);
    let mut lines = Vec::new();
    for second in 0..SECONDS {
        let time = Some(at(second as f64 + dice.roll()));
        if dice.roll() < 0.15 || (31..34).contains(&second) {
            lines.push(LogLine {
                time,
                level: LogLevel::Error,
                text: format!(
                    "[ERROR] InnoDB: Lock wait timeout exceeded; try restarting transaction {second}"
                ),
            });
        } else if dice.roll() < 0.2 {
            lines.push(LogLine {
                time,
                level: LogLevel::Warning,
                text: format!("[Warning] Aborted connection {second} to db: 'shop' user: 'app'"),
            });
        } else {
            lines.push(LogLine { time, level: LogLevel::Info, text: format!("[Note] checkpoint {second}") });
        }
    }
    lines.push(LogLine { time: None, level: LogLevel::Unknown, text: "  (continued)".into() });
    vec![LogFile {
        source: "/var/log/mysql/error.log".into(),
        member: "logs/error.log".into(),
        assumed_zone: "Europe/Berlin".into(),
        lines,
    }]
}

/// The same, of a server on .NET whose runtime was heard, and an analysis that nobody made up.
pub fn dotnet() -> Capture {
    let mut capture = capture();
    capture.header.target_name = "Shop.Server".into();
    capture.processes = vec![process(4711, 1, "dotnet", RuntimeKind::DotNet, &["dotnet", "Shop.Server.dll"])];
    capture.runtimes = vec![runtimes::runtime()];
    capture
}
