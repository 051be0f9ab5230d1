//! Running the recorders.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_model::capture::EndedBy;
use biopsy_model::loss::Warning;
use biopsy_model::metric::MetricTable;
use biopsy_model::process::{ProcessInfo, RuntimeKind};
use biopsy_record::context::Moment;
use biopsy_record::dotnet::DotNetRecorder;
use biopsy_record::favour::Turn;
use biopsy_record::logs::{self, LogWatch};
use biopsy_record::metrics::{self, FolderSink};
use biopsy_record::trace::{self, Control, TraceError, TraceHandle, TraceOptions, TraceSummary};
use biopsy_recording::layout;

use crate::failure::{Failure, FailureKind};
use crate::job::{Event, Job};
use crate::place::{Place, disk_is_nearly_full};
use crate::recording::{Draft, masking_for, output_failure};
use crate::tree::tree_of;

use super::before::{Asked, Known};
use super::plan::{CapturePlan, Remote, Wish};
use super::runtimes;
use super::stacks::Frozen;
use super::still::Beginning;
use super::subject::{Subject, Waiting};

/// How often the loop looks around.
const TICK: Duration = Duration::from_millis(200);
/// How often the tree is gone through for metrics, each walk being one of all of /proc.
const TREE_EVERY: Duration = Duration::from_secs(5);

/// A recording whose recorders have ended.
pub(super) struct Recorded {
    pub(super) draft: Draft,
    pub(super) trace: Option<TraceSummary>,
    /// Bundles made on the way.
    pub(super) snapshots: Vec<PathBuf>,
    /// Processes that stood still at the end.
    pub(super) frozen: Vec<Frozen>,
    /// It was stopped a second time meanwhile: no report, no bundle.
    pub(super) hurried: bool,
}

/// A recording whose recorders run.
pub(super) struct Recording<'a> {
    pub(super) plan: &'a CapturePlan,
    pub(super) place: &'a Place,
    pub(super) job: &'a Job,
    pub(super) remote: &'a Remote,
    pub(super) draft: Draft,
    pub(super) subject: Subject,
    pub(super) running: Running,
    pub(super) child: Option<Child>,
    pub(super) snapshots: Vec<PathBuf>,
    pub(super) tree: Vec<ProcessInfo>,
    /// Snapshots of the memory that were tried.
    pub(super) memory_looks: u32,
    /// When the last one began.
    pub(super) memory_looked: Option<Instant>,
    /// It was said that they take long.
    pub(super) memory_is_late: bool,
    /// What it was when it began.
    pub(super) beginning: Beginning,
}

pub(super) struct Running {
    pub(super) trace: Option<TraceHandle>,
    pub(super) metrics: Option<metrics::Handle>,
    pub(super) dotnet: Option<DotNetRecorder>,
    /// What is known of the time before.
    pub(super) before: Known,
    /// .NET processes that the trace knows the methods of.
    named: BTreeSet<Pid>,
}

/// Records until something ends it.
pub(super) fn record(
    plan: &CapturePlan,
    mut subject: Subject,
    before: Option<Asked>,
    place: &Place,
    reason: Option<&str>,
    remote: &Remote,
    job: &Job,
) -> Result<Recorded, Failure> {
    if job.is_asked() {
        return Err(Job::stopped("nothing was recorded"));
    }
    let mut tree = subject.target.tree(plan.children)?;
    let target = &subject.target;
    let masking = masking_for(plan.anonymize)?;
    let (key, name) = (&target.info.key, &target.name);
    let mut draft = Draft::begin_with(masking, job, &place.folder, key, name, &plan.command)?;

    // On a starved machine each step from here on waits for its turn; the threads that are started have what we have.
    biopsy_record::favour::all_threads();
    let turn = Turn::of_reader();
    let watch = LogWatch::begin(log_config(plan, Some(subject.pid())));
    if let Some(reason) = reason {
        let reason = draft.masking.text(layout::WARNINGS, reason).into_owned();
        draft.warn("recording.trigger", format!("recorded because: {reason}"));
    }
    let running = start(plan, &mut subject, before, &tree, &mut draft)?;
    subject.target.check_same()?;
    let (child, runs) = subject.release()?;
    draft.keep();
    if runs {
        tree = subject.target.tree(plan.children)?;
        describe(plan, &tree, &draft)?;
    }
    drop(turn);
    if plan.unattended {
        biopsy_record::favour::step_behind();
    }
    let (snapshots, memory_looks, beginning) = (Vec::new(), 0, Beginning::of(&tree));
    let mut recording = Recording {
        plan,
        place,
        job,
        remote,
        draft,
        subject,
        running,
        child,
        snapshots,
        tree,
        memory_looks,
        memory_looked: None,
        memory_is_late: false,
        beginning,
    };
    let ended_by = recording.watch();
    if ended_by != EndedBy::TargetExited {
        recording.memory_at_end();
    }
    if ended_by == EndedBy::Time {
        recording.tell_missing_memory();
    }
    recording.draft.header.ended_by = ended_by;
    recording.end(watch)
}

/// Starts everything. Without a trace, a capture goes on with metrics; a trace alone does not.
fn start(
    plan: &CapturePlan,
    subject: &mut Subject,
    before: Option<Asked>,
    tree: &[ProcessInfo],
    draft: &mut Draft,
) -> Result<Running, Failure> {
    // First, because it learns the secrets of the environment that everything else is masked with.
    match &subject.held {
        None => describe(plan, tree, draft)?,
        // It is not yet who will be recorded.
        Some(Waiting::Forked(_) | Waiting::AtGate(..)) => draft.write_processes(tree)?,
    }
    let trace = match start_trace(plan, subject, tree, draft) {
        Ok(trace) => Some(trace),
        Err(error) if plan.trace_only || !matches!(error, TraceError::NoMethod { .. }) => {
            return Err(trace_failure(&error));
        }
        Err(error) => {
            draft.warn_all(&[Warning {
                code: "trace.not-possible".to_owned(),
                message: error.to_string(),
                hint: trace_hint(&error),
                time: None,
            }]);
            None
        }
    };
    let before = match (before, &trace) {
        (Some(before), Some(trace)) => before.put_before(trace, draft)?,
        _ => Known::default(),
    };
    let metrics =
        (!plan.trace_only).then(|| start_metrics(plan, subject.pid(), draft, &before.tables)).transpose()?;
    let dotnet = runtimes::start(plan, subject.pid(), subject.port.take(), draft).unwrap_or_else(|warning| {
        draft.warn_all(&[warning]);
        None
    });
    Ok(Running { trace, metrics, dotnet, before, named: BTreeSet::new() })
}

/// Who is recorded.
fn describe(plan: &CapturePlan, tree: &[ProcessInfo], draft: &Draft) -> Result<(), Failure> {
    if !plan.trace_only {
        draft.context(tree, Moment::Start).map_err(output_failure)?;
    }
    draft.write_processes(tree)
}

/// Samples a second beside a program that counts its allocations, which is what the recording is for.
const BESIDE_COUNTING: u32 = 49;

fn start_trace(
    plan: &CapturePlan,
    subject: &Subject,
    tree: &[ProcessInfo],
    draft: &Draft,
) -> Result<TraceHandle, TraceError> {
    let file = draft.folder.create_member(layout::TIMELINE).map_err(std::io::Error::other)?;
    let options = TraceOptions {
        pids: tree.iter().map(|process| process.key.pid).collect(),
        follow_children: plan.children,
        frequency_hz: plan.frequency_hz.or_else(|| {
            if plan.every_allocation {
                return Some(BESIDE_COUNTING);
            }
            plan.is_gentle().then(trace::gentle_frequency)
        }),
        wait_threshold: plan.wait_threshold,
        wait_period: plan.wait_period,
        wakeups: !plan.every_allocation,
        method: plan.method,
        allocations: if plan.allocations && !plan.every_allocation { native(tree) } else { Vec::new() },
        counted: subject.counted.clone(),
        max_bytes: plan.max_bytes,
    };
    trace::start(&options, file, Some(draft.masking.clone()))
}

/// Processes whose memory is handed out by an allocator of native code; runtimes tell of theirs by themselves.
fn native(tree: &[ProcessInfo]) -> Vec<Pid> {
    let is_native = |process: &&ProcessInfo| {
        matches!(process.runtime.kind, RuntimeKind::Native | RuntimeKind::Unknown | RuntimeKind::Python)
    };
    tree.iter().filter(is_native).map(|process| process.key.pid).collect()
}

fn start_metrics(
    plan: &CapturePlan,
    pid: Pid,
    draft: &Draft,
    before: &[MetricTable],
) -> Result<metrics::Handle, Failure> {
    let tree = tree_of(pid, plan.children, TREE_EVERY);
    let config = metrics::Config { interval: plan.metrics_every, ..metrics::Config::new(tree) };
    let mut sink = FolderSink::new(Arc::clone(&draft.folder), draft.masking.clone());
    sink.rows_before(before).map_err(|error| Failure::from_error(FailureKind::Output, &error))?;
    metrics::Recorder::start(config, Box::new(sink)).map_err(|error| {
        Failure::new(FailureKind::Memory, format!("cannot start the metrics recorder: {error}"))
    })
}

pub(super) fn log_config(plan: &CapturePlan, target: Option<Pid>) -> logs::Config {
    let config = logs::Config::new(plan.logs.clone(), plan.journal.clone());
    // In a container, a log may be at a path that only the target sees.
    logs::Config { margin: plan.log_margin, inside: target, ..config }
}

fn trace_failure(error: &TraceError) -> Failure {
    let kind = match error {
        TraceError::NoMethod { .. } => FailureKind::Permission,
        TraceError::Write(_) => FailureKind::Output,
    };
    Failure::from_error(kind, error).with_hint(trace_hint(error))
}

fn trace_hint(error: &TraceError) -> Option<String> {
    matches!(error, TraceError::NoMethod { .. }).then(|| {
        "`biopsy doctor` says what this account may do, and the command that would allow more".to_owned()
    })
}

impl Running {
    /// Hands what runtimes tell of their methods to the trace, which names frames by it.
    fn pass_methods(&mut self) {
        let (Some(trace), Some(dotnet)) = (&self.trace, &self.dotnet) else { return };
        for (pid, methods) in dotnet.all_methods() {
            if self.named.insert(pid) {
                trace.send(Control::Methods(pid, methods));
            }
        }
    }
}

impl Recording<'_> {
    /// The time of the recording. Returns why it ended.
    fn watch(&mut self) -> EndedBy {
        let started = Instant::now();
        let mut turn = Turn::of_clock();
        self.job.tell(Event::Recording {
            name: &self.draft.header.target_name,
            pid: self.subject.pid(),
            processes: self.tree.len(),
            length: self.plan.length,
            trace_only: self.plan.trace_only,
        });
        let length = match &self.plan.recent {
            Some(recent) if recent.is_all => Some(Duration::ZERO),
            _ => self.plan.length,
        };
        let ended = loop {
            self.memory_by(started.elapsed());
            let left = length.map(|length| length.saturating_sub(started.elapsed()));
            let is_over = left.is_some_and(|left| left.is_zero());
            if is_over && !self.memory_needs_time(started.elapsed(), length) {
                break EndedBy::Time;
            }
            match self.remote.wait(left.filter(|_| !is_over).map_or(TICK, |left| left.min(TICK))) {
                Some(Wish::Stop) => break EndedBy::Stopped,
                Some(Wish::Mark) => self.mark(),
                Some(Wish::Snapshot) => self.snapshot(),
                None => {}
            }
            if self.running.trace.as_ref().is_some_and(TraceHandle::is_done)
                || !biopsy_target::is_same(&self.subject.target.info.key)
            {
                break EndedBy::TargetExited;
            }
            turn.renew();
            biopsy_record::favour::all_threads();
            self.running.pass_methods();
            if disk_is_nearly_full(self.draft.folder.path()) {
                break EndedBy::DiskFull;
            }
            let latest = self.running.metrics.as_ref().and_then(metrics::Handle::latest);
            let trace = self.running.trace.as_ref().map(|trace| trace.progress.as_ref());
            self.job.tell(Event::Recorded { trace, metrics: latest.as_ref() });
        };
        self.job.tell(Event::RecordingEnded);
        ended
    }

    fn mark(&self) {
        if let Some(trace) = &self.running.trace {
            let time = jiff::Zoned::now().strftime("%H:%M:%S").to_string();
            trace.send(Control::Mark(format!("marked at {time}")));
            self.job.step(format!("marked {time}"));
        }
    }
}
