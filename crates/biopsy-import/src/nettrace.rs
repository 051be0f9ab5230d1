//! `.nettrace` files, as `dotnet-trace`, `dotnet-monitor`, PerfView's collectors or biopsy itself write them.
//!
//! | in the file | gives |
//! | --- | --- |
//! | events of the runtime, of ASP.NET Core, `HttpClient`, SqlClient, logging, counters | [`RuntimeTrace`] |
//! | samples of `Microsoft-DotNETCore-SampleProfiler` | samples of threads, running or not: wall clock, not CPU |
//! | methods listed at the end (rundown) or meanwhile | names of both |
//!
//! The file is streamed: what it takes in memory does not depend on its size, but on what is in it. Texts of the application are
//! redacted on the way, since nobody did before.

mod limits;
mod samples;

use crate::ImportError;
use biopsy_dotnet::events::Collector;
use biopsy_dotnet::methods::{MethodMap, feed_payload};
use biopsy_dotnet::nettrace::{self, End, Header, NettraceError, Reader};
use biopsy_model::capture::{Capture, CaptureHeader, EndedBy, HostInfo};
use biopsy_model::loss::Warning;
use biopsy_model::process::{ProcessInfo, Runtime, RuntimeKind};
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_model::{BootId, ClockPair, MonoNanos, Pid, ProcessKey};
use biopsy_redact::{RedactionLog, Redactor};
use samples::{Samples, is_sample};
use std::fs::File;
use std::io::Read;
use std::path::Path;

pub use limits::Limits;

/// First bytes of a file of this kind.
pub const MAGIC: &[u8; 8] = b"Nettrace";

/// Reads a file.
///
/// # Errors
/// When it cannot be read, or is something else.
pub fn read(path: impl AsRef<Path>, limits: &Limits) -> Result<Capture, ImportError> {
    let path = path.as_ref();
    let io = |source| ImportError::Io { path: path.to_owned(), source };
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| io(std::io::Error::other(error.to_string())))?;
    let file = File::open(path).map_err(io)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    read_from(file, &name, &redactor, limits).map_err(|error| match error {
        NettraceError::Io(source) => io(source),
        other => ImportError::Nettrace(other),
    })
}

/// Reads a stream. `name` is shown as where it came from.
///
/// # Errors
/// When it is no such stream, or the source fails.
pub fn read_from(
    source: impl Read,
    name: &str,
    redactor: &Redactor,
    limits: &Limits,
) -> Result<Capture, NettraceError> {
    let mut reader = Reader::new(source, &limits.stream)?;
    reader.sort_by_time(true);
    let log = RedactionLog::new();
    let redact = |text: &str| {
        let redacted = redactor.text(text);
        log.add(name, &redacted.hits);
        redacted.text.into_owned()
    };
    let pid = reader.header().pid.unwrap_or_default();
    let mut collector = Collector::new(pid, name.to_owned(), &limits.events, redact);
    let mut methods = MethodMap::new();
    let mut samples = Samples::new(limits);
    let mut told = Told::default();
    while let Some(event) = reader.next_event()? {
        let metadata = event.metadata;
        if is_sample(metadata) {
            samples.add(event.time, event.tid, event.stack);
        } else {
            feed_payload(
                &mut methods,
                &metadata.provider,
                metadata.id,
                metadata.version,
                event.payload,
                event.time,
            );
            told.take(&event);
        }
        collector.event(&event);
    }
    let end = reader.end();
    collector.lost(reader.lost(), reader.unknown(), end != Some(End::Complete));
    let late = reader.late();
    let header = reader.header().clone();
    let mut trace = collector.finish(&methods);
    if trace.runtime.version.is_none() {
        trace.runtime.version = told.version.take();
    }
    let mut warnings = warnings(&trace, end, late, &samples);
    let timeline = samples.finish(&methods, trace.pid, trace.span, &mut warnings);
    let capture_header = capture_header(&header, &trace, &told, end);
    Ok(Capture {
        processes: vec![process(&trace, &told, redactor)],
        header: capture_header,
        timeline,
        metrics: Vec::new(),
        runtimes: vec![trace],
        looks: Vec::new(),
        logs: Vec::new(),
        context: Vec::new(),
        warnings,
        redactions: log.counts(),
    })
}

/// What the stream says of the process and its machine.
#[derive(Default)]
struct Told {
    command_line: Vec<String>,
    os: String,
    architecture: String,
    version: Option<String>,
}

impl Told {
    fn take(&mut self, event: &nettrace::Event<'_>) {
        if event.metadata.provider != "Microsoft-DotNETCore-EventPipe" {
            return;
        }
        for (name, value) in event.values() {
            let Some(text) = value.text().map(|text| text.to_string_of(4_096)) else { continue };
            match name {
                "CommandLine" => self.command_line = text.split_whitespace().map(str::to_owned).collect(),
                "OSInformation" => self.os = text,
                "ArchInformation" => self.architecture = text,
                _ => (),
            }
        }
    }
}

/// The file does not say which boot; an empty boot id is equal to no real one.
fn key(pid: Pid) -> ProcessKey {
    ProcessKey { boot_id: BootId::default(), pid, start_ticks: 0 }
}

fn name_of(trace: &RuntimeTrace, told: &Told) -> String {
    let base = |path: &str| path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned();
    let entry = trace.runtime.entry.as_deref().map(|entry| entry.trim_end_matches(".dll").to_owned());
    entry.or_else(|| told.command_line.first().map(|path| base(path))).unwrap_or_default()
}

fn process(trace: &RuntimeTrace, told: &Told, redactor: &Redactor) -> ProcessInfo {
    ProcessInfo {
        key: key(trace.pid),
        parent: Pid::default(),
        name: name_of(trace, told),
        exe: told.command_line.first().cloned().unwrap_or_default(),
        exe_deleted: false,
        command_line: redactor.command_line(&told.command_line).args,
        uid: 0,
        runtime: Runtime { kind: RuntimeKind::DotNet, ..trace.runtime.clone() },
        ns_pid: None,
        cgroup: String::new(),
        container_id: None,
        unit: None,
    }
}

fn capture_header(header: &Header, trace: &RuntimeTrace, told: &Told, end: Option<End>) -> CaptureHeader {
    let start = header.start();
    let clock = |mono: MonoNanos| {
        let since = i128::from(mono.0) - i128::from(start.mono.0);
        ClockPair { mono, wall_unix_nanos: start.wall_unix_nanos + since, ..start.clone() }
    };
    let (from, to) = trace.span.unwrap_or((start.mono, start.mono));
    CaptureHeader {
        tool: format!("nettrace version {}", header.version),
        command: Vec::new(),
        start: clock(from.min(start.mono)),
        end: (end == Some(End::Complete)).then(|| clock(to)),
        target: (trace.pid != Pid(0)).then(|| key(trace.pid)),
        target_name: name_of(trace, told),
        host: HostInfo {
            os: told.os.clone(),
            architecture: told.architecture.clone(),
            cpus: header.processors.unwrap_or(0),
            ..HostInfo::default()
        },
        ended_by: EndedBy::Unknown,
    }
}

fn warnings(trace: &RuntimeTrace, end: Option<End>, late: u64, samples: &Samples) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String, hint: Option<&str>| {
        warnings.push(Warning { hint: hint.map(str::to_owned), ..Warning::new(code, message) });
    };
    match end {
        Some(End::Complete) => (),
        Some(End::Damaged(error)) => {
            warn("import.damaged", format!("the event stream is damaged, the rest was not read: {error}"), None);
        }
        Some(End::Cut) | None => warn(
            "import.cut-short",
            "the event stream is cut short: its writer did not finish, so methods that are listed at the end have no \
             names"
                .to_owned(),
            None,
        ),
    }
    if trace.lost > 0 {
        warn(
            "import.lost-events",
            format!("{} events were lost: the process wrote them faster than they were fetched", trace.lost),
            Some("record fewer kinds of events, or with a larger buffer"),
        );
    }
    if trace.unknown > 0 {
        warn(
            "import.unknown-events",
            format!("{} blocks or events were not understood", trace.unknown),
            None,
        );
    }
    if late > 0 {
        warn("import.late-events", format!("{late} events were read out of order"), None);
    }
    if !samples.is_empty() {
        warn(
            "import.wall-clock",
            "the samples are of the runtime's own profiler, which samples all managed threads whether they run or wait: \
             they measure wall-clock time, not CPU time, and were taken while all threads were stopped"
                .to_owned(),
            Some("for CPU time record the process with `biopsy capture` or `biopsy trace`"),
        );
    }
    warnings
}
