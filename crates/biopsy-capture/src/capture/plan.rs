//! What a capture or a trace is to do.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use biopsy_model::Pid;
use biopsy_record::dotnet::{AppLogLevel, Budget, DotNetOptions};
use biopsy_record::trace::Method;
use biopsy_record::triggers::Trigger;

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::snapshot::How;

/// Whom to record.
#[derive(Clone, Debug)]
pub enum Whom {
    /// A running process: pid, name, .NET entry assembly, systemd unit or container id.
    Running(String),
    /// A program, with its arguments, that is started for it.
    Started(Vec<OsString>),
    /// A process that somebody holds.
    Held(Box<HeldProcess>),
}

/// A process that is held in its call of execve.
#[derive(Clone, Debug)]
pub struct HeldProcess {
    /// Which.
    pub pid: Pid,
    /// What it is about to be called.
    pub name: String,
    /// What it executes ...
    pub exe: String,
    /// ... with these arguments.
    pub arguments: Vec<String>,
    /// Whoever holds it lets it go when he reads a byte here, or the end.
    pub gate: Arc<OwnedFd>,
}

/// What is recorded, of whom, for how long, and where it goes.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    /// Whom.
    pub whom: Whom,
    /// What the user typed, for the header of the recording, which masks it.
    pub command: Vec<String>,
    /// The timeline alone: no metrics, no context.
    pub trace_only: bool,
    /// How long; `None`: until it is stopped.
    pub length: Option<Duration>,
    /// The minutes before belong to it.
    pub recent: Option<RecentWish>,
    /// The bundle; `None`: named after the target and the time, in the working directory.
    pub output: Option<PathBuf>,
    /// Keep the folder instead of packing it.
    pub folder: bool,
    /// Also the processes that the target started and starts.
    pub children: bool,
    /// Samples per second and CPU; `None`: what is gentle, or usual for a trace alone.
    pub frequency_hz: Option<u32>,
    /// Waits at least this long are written one by one; shorter ones are counted.
    pub wait_threshold: Duration,
    /// How often waiting threads are sampled for their stacks; `None`: never.
    pub wait_period: Option<Duration>,
    /// One way of tracing only; `None`: the best that works.
    pub method: Option<Method>,
    /// Time between readings of metrics.
    pub metrics_every: Duration,
    /// Logs to take, as patterns.
    pub logs: Vec<String>,
    /// Systemd units whose journal is taken.
    pub journal: Vec<String>,
    /// Time before and after the recording that is taken of logs as well.
    pub log_margin: Duration,
    /// What runtimes are listened to for; `None`: they are not spoken with.
    pub dotnet: Option<DotNetOptions>,
    /// Personal data is masked, too.
    pub anonymize: bool,
    /// Who allocates: what runtimes tell of it, and of native processes what malloc and free are called with.
    pub allocations: bool,
    /// The program that is started counts all of its allocations.
    pub every_allocation: bool,
    /// Whether stacks, locks and asynchronous operations are read at the end from the memory of processes, which stand still for it.
    pub stacks: StacksWish,
    /// So many snapshots of the target's memory: the last at the end, the first at the beginning, the others between.
    pub memory_snapshots: u32,
    /// How these are taken.
    pub memory_how: How,
    /// Recording begins when one of these happens; empty: at once.
    pub on: Vec<Trigger>,
    /// It ends when the timeline has this many bytes.
    pub max_bytes: u64,
    /// Nobody waits for it: a rule has asked. Its threads come behind those of the machine once it has begun.
    pub unattended: bool,
}

impl CapturePlan {
    /// Whether samples are taken at the gentle rate if no other is said.
    pub(super) fn is_gentle(&self) -> bool {
        !self.trace_only || self.unattended
    }
}

/// When processes are frozen at the end of a recording, for what their memory says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StacksWish {
    /// Never.
    Never,
    /// Once, where nothing moved, the recording does not say why, and the pause is predicted to be [below 5 ms](UNASKED_PAUSE).
    WhereNothingMoves,
    /// Each of them.
    Always,
}

impl StacksWish {
    /// Its word in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::WhereNothingMoves => "where-nothing-moves",
            Self::Always => "always",
        }
    }
}

/// The longest pause, as it is predicted, of a process that is frozen without having been asked for.
pub const UNASKED_PAUSE: Duration = Duration::from_millis(5);

/// What is wished of the minutes before a recording.
#[derive(Clone, Debug)]
pub struct RecentWish {
    /// How many.
    pub length: Duration,
    /// The folder of those who keep them.
    pub folder: PathBuf,
    /// Without them there is to be no recording.
    pub is_needed: bool,
    /// Nothing else is wished: the recording ends when they are there.
    pub is_all: bool,
}

/// How much may be taken of runtimes' events: whoever asked for requests or messages in detail gets them up to a high rate;
/// unasked, they may cost next to nothing.
#[must_use]
pub fn event_budget(requests: bool, allocations: bool, log_level: AppLogLevel) -> Budget {
    let asked = requests || allocations || log_level != AppLogLevel::None;
    let all = Budget::default();
    if asked { all } else { Budget { events_per_second: 500, ..all } }
}

/// A trigger that a recording can begin with.
///
/// # Errors
/// [`FailureKind::Usage`]: it is none, or one at which nothing is left to record.
pub fn trigger(text: &str) -> Result<Trigger, Failure> {
    let trigger = crate::dump::trigger(text)?;
    if trigger.needs_tracing() {
        let message = format!("a recording cannot begin with `{trigger}`: nothing is left to record then");
        return Err(Failure::new(FailureKind::Usage, message)
            .with_hint(Some("`biopsy dump --on` holds a process at its end")));
    }
    Ok(trigger)
}

/// What is wished of a recording while it runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Stop and keep.
    Stop,
    /// A usable recording of what there is, and go on.
    Snapshot,
    /// Note this moment.
    Mark,
}

/// The way for wishes to a recording.
#[derive(Debug)]
pub struct Remote {
    sender: Sender<Wish>,
    wishes: Receiver<Wish>,
}

impl Remote {
    /// Also a job that is asked to end stops the recording.
    #[must_use]
    pub fn new(job: &Job) -> Self {
        let (sender, wishes) = channel();
        let asked = sender.clone();
        // Nobody listens any more: then nothing is left to stop.
        job.when_asked(move || {
            let _ = asked.send(Wish::Stop);
        });
        Self { sender, wishes }
    }

    /// For those who wish.
    #[must_use]
    pub fn sender(&self) -> Sender<Wish> {
        self.sender.clone()
    }

    /// The next wish within this time.
    pub(super) fn wait(&self, time: Duration) -> Option<Wish> {
        // It holds a sender itself: there always may be a wish.
        self.wishes.recv_timeout(time).ok()
    }
}
