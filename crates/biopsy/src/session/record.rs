//! Running the recorders.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::capture::CaptureHeader;
use biopsy_model::loss::Warning;
use biopsy_model::process::ProcessInfo;
use biopsy_model::{ClockPair, Pid, ProcessKey};
use biopsy_record::context::{self, Moment, clock_pair, host_info};
use biopsy_record::dotnet::DotNetRecorder;
use biopsy_record::logs::{self, LogWatch};
use biopsy_record::masking::Masking;
use biopsy_record::metrics::{self, FolderSink};
use biopsy_record::trace::{self, Control, TraceError, TraceHandle, TraceOptions, TraceSummary};
use biopsy_recording::{RecordingFolder, WriteError, layout};
use biopsy_redact::{RedactionLog, Redactor};

use crate::cli::CaptureArgs;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt::{self, Leaving};
use crate::render::terminal::Terminal;

use super::Kind;
use super::controls::{Controls, Wish};
use super::output::{Place, disk_is_nearly_full};
use super::progress::Display;
use super::seal;
use super::subject::Subject;

/// How often the loop looks around.
const TICK: Duration = Duration::from_millis(200);

/// A recording whose recorders have ended.
pub(crate) struct Recorded {
    pub(crate) folder: Arc<RecordingFolder>,
    pub(crate) masking: Masking,
    pub(crate) trace: Option<TraceSummary>,
    /// Bundles of snapshots made on the way.
    pub(crate) snapshots: Vec<std::path::PathBuf>,
    /// A second Ctrl-C: no report, no bundle.
    pub(crate) hurried: bool,
    /// The folder, until something is made of it.
    pub(crate) leaving: Leaving,
}

/// What is common to the recording and to snapshots of it.
pub(crate) struct Session {
    pub(crate) folder: Arc<RecordingFolder>,
    pub(crate) masking: Masking,
    pub(crate) header: CaptureHeader,
}

/// Records until the time is over, the user says so, the target ends, or the disk is nearly full.
pub(crate) fn record(
    args: &CaptureArgs,
    kind: Kind,
    mut subject: Subject,
    place: &Place,
    reason: Option<&str>,
    terminal: Terminal,
) -> Result<Recorded, Failure> {
    if interrupt::is_asked() {
        return Err(interrupt::failure("nothing was recorded"));
    }
    let controls = Controls::listen(!args.quiet && args.program.is_empty())
        .map_err(|error| Failure::new(Code::Memory, format!("cannot listen to signals: {error}")))?;
    let tree = subject.tree(args).map_err(|error| crate::dump::subject::not_listed(subject.pid(), &error))?;
    let masking = new_masking()?;
    let folder = Arc::new(RecordingFolder::create(&place.folder).map_err(output_failure)?);
    let leaving = interrupt::keeping(&place.folder);
    let session = Session { header: header(&subject.info.key, &subject.name, &masking), folder, masking };
    session.folder.header(&session.header).map_err(output_failure)?;

    // On a starved machine each step from here on waits for its turn; the threads that are started have what we have.
    biopsy_record::favour::all_threads();
    let watch = LogWatch::begin(log_config(args, subject.pid()));
    if let Some(reason) = reason {
        let reason = session.masking.text(layout::WARNINGS, reason).into_owned();
        warn_all(&session.folder, &[warning("recording.trigger", format!("recorded because: {reason}"))]);
    }
    let running = match start(args, kind, &mut subject, &tree, &session) {
        Ok(running) => running,
        Err(failure) => {
            // Nothing was recorded: an empty folder would only puzzle.
            let _ = session.folder.remove();
            return Err(failure);
        }
    };
    if let Err(failure) = subject.check_same() {
        drop(running);
        let _ = session.folder.remove();
        return Err(failure);
    }
    let child = subject.release().inspect_err(|_| {
        let _ = session.folder.remove();
    })?;
    let mut recording = Recording {
        args,
        kind,
        place,
        session,
        running,
        controls,
        child,
        snapshots: Vec::new(),
        tree,
        leaving,
    };
    let ended_by = recording.watch(terminal, &subject);
    recording.session.header.ended_by = ended_by.to_owned();
    recording.finish(watch, &subject)
}

struct Running {
    trace: Option<TraceHandle>,
    metrics: Option<metrics::Handle>,
    dotnet: Option<DotNetRecorder>,
    /// .NET processes that the trace knows the methods of.
    told: BTreeSet<Pid>,
}

struct Recording<'a> {
    args: &'a CaptureArgs,
    kind: Kind,
    place: &'a Place,
    session: Session,
    running: Running,
    controls: Controls,
    child: Option<Child>,
    snapshots: Vec<std::path::PathBuf>,
    tree: Vec<ProcessInfo>,
    leaving: Leaving,
}

/// Starts everything. Without a trace, `capture` goes on with metrics; `trace` does not.
fn start(
    args: &CaptureArgs,
    kind: Kind,
    subject: &mut Subject,
    tree: &[ProcessInfo],
    session: &Session,
) -> Result<Running, Failure> {
    let Session { folder, masking, .. } = session;
    let pids: Vec<Pid> = tree.iter().map(|process| process.key.pid).collect();
    // First, because it learns the secrets of the environment that everything else is masked with.
    if kind == Kind::Capture && subject.held.is_none() {
        let summary = context::collect(&context::Config::default(), Moment::Start, &pids, folder, masking)
            .map_err(output_failure)?;
        warn_all(folder, &summary.warnings);
    }
    write_processes(folder, masking, tree)?;
    let trace = match start_trace(args, kind, &pids, folder, masking) {
        Ok(trace) => Some(trace),
        Err(error) => {
            let failure = trace_failure(&error);
            if kind == Kind::Trace || !matches!(error, TraceError::NoMethod { .. }) {
                return Err(failure);
            }
            let warning = Warning {
                code: "trace.not-possible".to_owned(),
                message: error.to_string(),
                hint: trace_hint(&error),
                time: None,
            };
            warn_all(folder, &[warning]);
            None
        }
    };
    let metrics = (kind == Kind::Capture).then(|| start_metrics(args, subject, session)).transpose()?;
    let dotnet =
        super::dotnet::start(args, subject.pid(), subject.port.take(), session).unwrap_or_else(|warning| {
            warn_all(folder, &[warning]);
            None
        });
    Ok(Running { trace, metrics, dotnet, told: BTreeSet::new() })
}

fn start_trace(
    args: &CaptureArgs,
    kind: Kind,
    pids: &[Pid],
    folder: &RecordingFolder,
    masking: &Masking,
) -> Result<TraceHandle, TraceError> {
    let file = folder.create_member(layout::TIMELINE).map_err(std::io::Error::other)?;
    let options = TraceOptions {
        pids: pids.to_vec(),
        follow_children: !args.no_children,
        frequency_hz: args.frequency.or_else(|| (kind == Kind::Capture).then(trace::gentle_frequency)),
        wait_threshold: args.wait_threshold,
        wait_period: (!args.no_wait_stacks).then_some(args.wait_period),
        method: args.method.map(|method| method.name().to_owned()),
        max_bytes: args.max_size.saturating_mul(1 << 20),
    };
    trace::start(&options, file, Some(masking.clone()))
}

fn start_metrics(
    args: &CaptureArgs,
    subject: &Subject,
    session: &Session,
) -> Result<metrics::Handle, Failure> {
    let (pid, alone) = (subject.pid(), args.no_children);
    // The tree is asked for at each reading, but walking all of /proc once in five seconds is enough.
    let known: Mutex<(Instant, Vec<Pid>)> = Mutex::new((Instant::now(), Vec::new()));
    let processes = Arc::new(move || {
        if alone {
            return vec![pid];
        }
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.1.is_empty() || known.0.elapsed() > Duration::from_secs(5) {
            let own = Pid(std::process::id());
            // What fails is done again at the next reading; until then it is those that were known, and the target.
            if let Ok(mut tree) = biopsy_target::list::tree_pids(&biopsy_target::ProcRoot::live(), pid) {
                tree.retain(|&process| process != own);
                *known = (Instant::now(), tree);
            } else if known.1.is_empty() {
                return vec![pid];
            }
        }
        known.1.clone()
    });
    let config = metrics::Config { interval: args.metrics_every, ..metrics::Config::new(processes) };
    let sink = FolderSink::new(Arc::clone(&session.folder), session.masking.clone());
    metrics::Recorder::start(config, Box::new(sink))
        .map_err(|error| Failure::new(Code::Memory, format!("cannot start the metrics recorder: {error}")))
}

impl Running {
    /// Hands what runtimes tell of their methods to the trace, which names frames by it.
    fn tell_methods(&mut self) {
        let (Some(trace), Some(dotnet)) = (&self.trace, &self.dotnet) else { return };
        for (pid, methods) in dotnet.all_methods() {
            if self.told.insert(pid) {
                trace.send(Control::Methods(pid, methods));
            }
        }
    }
}

impl Recording<'_> {
    /// The time of the recording. Returns why it ended.
    fn watch(&mut self, terminal: Terminal, subject: &Subject) -> &'static str {
        let started = Instant::now();
        let display = Display::start(self.args.duration, self.args.quiet, terminal);
        if !self.args.quiet {
            display.say(&self.greeting(subject));
        }
        let ended = loop {
            let left = self.args.duration.map(|length| length.saturating_sub(started.elapsed()));
            if left.is_some_and(|left| left.is_zero()) {
                break "time";
            }
            match self.controls.wait(left.map_or(TICK, |left| left.min(TICK))) {
                Some(Wish::Stop) => break "stopped",
                Some(Wish::Mark) => self.mark(&display),
                Some(Wish::Snapshot) => self.snapshot(&display),
                None => {}
            }
            if self.running.trace.as_ref().is_some_and(TraceHandle::is_done)
                || !biopsy_target::is_same(&subject.info.key)
            {
                break "target-exited";
            }
            biopsy_record::favour::all_threads();
            self.running.tell_methods();
            if disk_is_nearly_full(self.session.folder.path()) {
                break "disk-full";
            }
            let latest = self.running.metrics.as_ref().and_then(metrics::Handle::latest);
            let progress = self.running.trace.as_ref().map(|trace| trace.progress.as_ref());
            display.update(progress, latest.as_ref());
        };
        display.finish();
        ended
    }

    fn greeting(&self, subject: &Subject) -> String {
        let what = if self.kind == Kind::Trace { "tracing" } else { "capturing" };
        let processes = match self.tree.len() {
            1 => String::new(),
            more => format!(" and {} processes below it", more - 1),
        };
        let keys = if self.controls.has_keys() {
            "; keys: s snapshot and go on, m mark this moment, q stop"
        } else {
            ""
        };
        format!("{what} {} (pid {}){processes}{keys}", self.session.header.target_name, subject.pid())
    }

    fn mark(&self, display: &Display) {
        if let Some(trace) = &self.running.trace {
            let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
            trace.send(Control::Mark(format!("marked at {time}")));
            display.say(&format!("marked {time}"));
        }
    }

    /// A usable bundle of everything so far; the recording goes on.
    fn snapshot(&mut self, display: &Display) {
        let number = u32::try_from(self.snapshots.len() + 1).unwrap_or(u32::MAX);
        let place = self.place.snapshot(number);
        let cut = self.running.trace.as_ref().and_then(TraceHandle::cut);
        let header = CaptureHeader {
            end: Some(clock_pair()),
            ended_by: "snapshot".to_owned(),
            ..self.session.header.clone()
        };
        let made = seal::snapshot(&self.session, &header, cut.as_ref(), &place);
        match made {
            Ok(path) => {
                display.say(&format!("snapshot {number}: {}; recording goes on", path.display()));
                self.snapshots.push(path);
            }
            Err(failure) => {
                display.say(&format!("snapshot {number} failed; recording goes on"));
                failure.print(crate::render::terminal::ColorChoice::Auto);
            }
        }
    }

    /// Stops the recorders and takes what is taken at the end.
    fn finish(mut self, watch: LogWatch, subject: &Subject) -> Result<Recorded, Failure> {
        // Somebody waits from here on: on a starved machine, for minutes.
        biopsy_record::favour::all_threads();
        let trace = self.running.trace.take().map(TraceHandle::stop);
        biopsy_record::favour::all_threads();
        // What the recorder held must not add to what reading the recording needs.
        biopsy_sys::limits::return_free_memory();
        let mut warnings = Vec::new();
        if let Some(cut) = trace.as_ref().and_then(|summary| summary.cut_short.as_ref()) {
            warnings.push(warning("trace.cut-short", format!("the timeline ends early: {cut}")));
        }
        if let Some(recorder) = self.running.dotnet.take() {
            warnings.extend(super::dotnet::stop(recorder));
        }
        if let Some(handle) = self.running.metrics.take() {
            let summary = handle.stop();
            if let Some(error) = summary.error {
                warnings.push(warning("metrics.cut-short", format!("the metrics end early: {error}")));
            }
            warnings.extend(summary.warnings);
        }
        let end = clock_pair();
        let hurried = self.controls.wait(Duration::ZERO) == Some(Wish::Stop);
        let session = &mut self.session;
        if self.args.stacks && !hurried {
            // As it is now: those that were started meanwhile are looked at, too.
            let tree = subject.tree(self.args).unwrap_or_else(|error| {
                let message =
                    format!("stacks of processes that were started meanwhile are not taken: {error}");
                warnings.push(warning("stacks.not-listed", message));
                self.tree.clone()
            });
            warnings.extend(super::look::at_all(&tree, session));
        }
        if self.kind == Kind::Capture && !hurried {
            let alive: Vec<Pid> = self
                .tree
                .iter()
                .filter(|process| biopsy_target::is_same(&process.key))
                .map(|process| process.key.pid)
                .collect();
            match context::collect(
                &context::Config::default(),
                Moment::End,
                &alive,
                &session.folder,
                &session.masking,
            ) {
                Ok(summary) => warnings.extend(summary.warnings),
                Err(error) => warnings.push(failed("context.not-written", &error)),
            }
        }
        let wants_logs = !self.args.logs.is_empty() || !self.args.journal.is_empty();
        if wants_logs && !hurried {
            match watch.collect(&session.header.start, &end, &session.folder, &session.masking) {
                Ok(summary) => warnings.extend(summary.warnings),
                Err(error) => warnings.push(failed("logs.not-written", &error)),
            }
        }
        if subject.info.key.pid.0 != 0 && session.header.ended_by == "disk-full" {
            let message = "the disk was nearly full: the recording was ended to leave room for the server";
            warnings.push(warning("recording.disk-full", message.to_owned()));
        }
        if let Some(mut child) = self.child.take() {
            // It goes on by itself if it still runs; if it has ended, nobody else would collect it.
            let name = &session.header.target_name;
            warnings.push(match child.try_wait() {
                Ok(Some(status)) => warning("target.ended", format!("`{name}` ended: {status}")),
                _ => warning(
                    "target.goes-on",
                    format!("`{name}` was still running at the end of the recording"),
                ),
            });
        }
        let wall = clock_step(&session.header.start, &end);
        warnings.extend(wall);
        warn_all(&session.folder, &warnings);
        session.header.end = Some(end);
        session.folder.redactions(&session.masking.log().counts()).map_err(output_failure)?;
        session.folder.header(&session.header).map_err(output_failure)?;
        biopsy_record::favour::all_threads();
        let Session { folder, masking, .. } = self.session;
        Ok(Recorded { folder, masking, trace, snapshots: self.snapshots, hurried, leaving: self.leaving })
    }
}

/// The wall clock moved against the monotonic one: times in logs may be off.
fn clock_step(start: &ClockPair, end: &ClockPair) -> Option<Warning> {
    const TOLERATED_NANOS: i128 = 500_000_000;
    let mono = i128::from(end.mono.since(start.mono).0);
    let step = end.wall_unix_nanos - start.wall_unix_nanos - mono;
    (step.abs() > TOLERATED_NANOS).then(|| {
        let seconds = step / 1_000_000_000;
        let message = format!(
            "the wall clock stepped by {seconds} s during the recording: log lines may lie that far beside their place"
        );
        warning("recording.clock-step", message)
    })
}

/// A redactor for one recording, with a key of its own.
pub(crate) fn new_masking() -> Result<Masking, Failure> {
    let redactor = Redactor::new(biopsy_redact::Options::default())
        .map_err(|error| Failure::from_error(Code::Bug, &error))?;
    Ok(Masking::new(Arc::new(redactor), Arc::new(RedactionLog::new())))
}

/// The header of a recording that begins now.
pub(crate) fn header(target: &ProcessKey, name: &str, masking: &Masking) -> CaptureHeader {
    let typed: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let redacted = masking.redactor().command_line(&typed);
    masking.log().add(layout::HEADER, &redacted.hits);
    CaptureHeader {
        tool: format!("biopsy {}", env!("CARGO_PKG_VERSION")),
        command: redacted.args,
        start: clock_pair(),
        end: None,
        target: Some(target.clone()),
        target_name: masking.text(layout::HEADER, name).into_owned(),
        host: host_info(Path::new("/proc"), masking),
        ended_by: String::new(),
    }
}

fn log_config(args: &CaptureArgs, target: Pid) -> logs::Config {
    let config = logs::Config::new(args.logs.clone(), args.journal.clone());
    // In a container, a log may be at a path that only the target sees.
    logs::Config { margin: args.log_margin, inside: Some(target), ..config }
}

/// `target/processes.json`, with masked command lines.
pub(crate) fn write_processes(
    folder: &RecordingFolder,
    masking: &Masking,
    tree: &[ProcessInfo],
) -> Result<(), Failure> {
    let member = layout::PROCESSES;
    let mut tree = tree.to_vec();
    for process in &mut tree {
        let redacted = masking.redactor().command_line(&process.command_line);
        masking.log().add(member, &redacted.hits);
        process.command_line = redacted.args;
        for text in [&mut process.name, &mut process.exe, &mut process.cgroup] {
            *text = masking.text(member, text).into_owned();
        }
    }
    folder.processes(&tree).map_err(output_failure)
}

pub(crate) fn warn_all(folder: &RecordingFolder, warnings: &[Warning]) {
    for warning in warnings {
        if let Err(error) = folder.warn(warning) {
            tracing::warn!(%error, message = warning.message, "a warning could not be written");
        }
    }
}

pub(crate) fn warning(code: &str, message: String) -> Warning {
    Warning { code: code.to_owned(), message, hint: None, time: None }
}

fn failed(code: &str, error: &WriteError) -> Warning {
    warning(code, error.to_string())
}

pub(crate) fn output_failure(error: WriteError) -> Failure {
    Failure::from_error(Code::Output, &error).with_hint(error.hint())
}

fn trace_failure(error: &TraceError) -> Failure {
    let code = match error {
        TraceError::NoMethod { .. } => Code::Permission,
        TraceError::UnknownMethod(_) => Code::Usage,
        TraceError::Write(_) => Code::Output,
    };
    Failure::from_error(code, error).with_hint(trace_hint(error))
}

fn trace_hint(error: &TraceError) -> Option<String> {
    match error {
        TraceError::NoMethod { .. } => Some(
            "`biopsy doctor` says what this account may do, and the command that would allow more".to_owned(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::MonoNanos;

    fn at(mono_seconds: u64, wall_seconds: i128) -> ClockPair {
        ClockPair {
            mono: MonoNanos(mono_seconds * 1_000_000_000),
            wall_unix_nanos: wall_seconds * 1_000_000_000,
            ..ClockPair::default()
        }
    }

    #[test]
    fn a_stepped_wall_clock_is_said() {
        assert_eq!(clock_step(&at(10, 1000), &at(70, 1060)), None);
        let warning = clock_step(&at(10, 1000), &at(70, 4660)).unwrap();
        assert!(warning.message.contains("stepped by 3600 s"), "{}", warning.message);
        assert!(clock_step(&at(10, 1000), &at(70, 900)).unwrap().message.contains("-160 s"));
    }
}
