//! Starting, steering and ending a trace.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::masking::Masking;
use biopsy_model::Pid;

use super::allocations::CountedProgram;
use super::attach::{Attempt, Method, Plan, attach};
use super::commands::{Control, Cut, TraceSummary};
use super::languages::Finder;
use super::pace::Pace;
use super::recorder::Recorder;
use super::sink::{Destination, Progress, Sink};

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct TraceOptions {
    /// The processes that are there, the named one first.
    pub pids: Vec<Pid>,
    /// Record the processes that they start, too.
    pub follow_children: bool,
    /// Samples per second and CPU; `None`: 999, less on machines with very many CPUs.
    pub frequency_hz: Option<u32>,
    /// Waits at least this long are written down one by one.
    pub wait_threshold: Duration,
    /// How often waiting threads are looked at; `None`: never.
    pub wait_period: Option<Duration>,
    /// Record who woke whom, and since when a thread that was woken could have run. More than half of what states cost a server that
    /// switches often.
    pub wakeups: bool,
    /// Use only this method.
    pub method: Option<Method>,
    /// Watch who allocates native memory, of these of the processes.
    pub allocations: Vec<Pid>,
    /// The first of the processes counts its allocations by itself.
    pub counted: Option<CountedProgram>,
    /// Write the timeline up to this many bytes.
    pub max_bytes: u64,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self {
            pids: Vec::new(),
            follow_children: true,
            frequency_hz: None,
            wait_threshold: Duration::from_millis(1),
            wait_period: Some(Duration::from_millis(20)),
            wakeups: true,
            method: None,
            allocations: Vec::new(),
            counted: None,
            max_bytes: 4 << 30,
        }
    }
}

/// Why no trace could be started.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Every method was refused.
    #[error("cannot trace process {pid}: {}", list(.attempts))]
    NoMethod {
        /// The process.
        pid: Pid,
        /// Each method with the kernel's answer.
        attempts: Vec<Attempt>,
    },
    /// The timeline cannot be written.
    #[error("cannot write the timeline")]
    Write(#[from] io::Error),
}

fn list(attempts: &[Attempt]) -> String {
    let lines: Vec<String> =
        attempts.iter().map(|attempt| format!("{}: {}", attempt.method, attempt.error)).collect();
    lines.join("; ")
}

/// A running trace.
#[derive(Debug)]
pub struct TraceHandle {
    control: Sender<Control>,
    done: Receiver<()>,
    thread: JoinHandle<TraceSummary>,
    /// Live counters.
    pub progress: Arc<Progress>,
}

/// Attaches and starts recording into `timeline`. When this returns, events are being recorded.
///
/// # Errors
/// When no method works, or the file cannot be written.
pub fn start(
    options: &TraceOptions,
    timeline: impl Into<Destination>,
    masking: Option<Masking>,
) -> Result<TraceHandle, TraceError> {
    let timeline = timeline.into();
    let cpus = biopsy_sys::limits::online_cpus().map_or(1, |cpus| cpus.len());
    let pace = match timeline {
        Destination::File(_) if options.counted.is_some() => Pace::BESIDE,
        Destination::File(_) => Pace::USUAL,
        Destination::Ring(_) => Pace::CALM,
    };
    let mut plan = Plan {
        pids: options.pids.iter().map(|pid| pid.0).collect(),
        follow_children: options.follow_children,
        frequency_hz: options.frequency_hz.unwrap_or_else(|| default_frequency(cpus)),
        wait_threshold: nanos(options.wait_threshold),
        wakeups: options.wakeups,
        only: options.method,
        pace,
    };
    let interpreters = Finder::start(plan.pids.clone())?;
    let attached = attach(&plan).map_err(|attempts| TraceError::NoMethod {
        pid: options.pids.first().copied().unwrap_or_default(),
        attempts,
    })?;
    plan.pids.retain(|pid| !attached.left_out.contains_key(pid));
    let progress = Arc::new(Progress::default());
    let sink = Sink::new(timeline, masking, Arc::clone(&progress))?;
    let mut recorder =
        Recorder::new(attached, interpreters, plan, options.wait_period.map(nanos), options.max_bytes, sink)?;
    let watched: Vec<u32> = options.allocations.iter().map(|pid| pid.0).collect();
    if !watched.is_empty() {
        recorder.watch_allocations(&watched)?;
    }
    if let (Some(program), Some(pid)) = (&options.counted, options.pids.first()) {
        recorder.count_allocations(program.clone(), *pid);
    }
    let (control, commands) = channel();
    let (finished, done) = channel();
    let thread = std::thread::Builder::new().name("biopsy-trace".to_owned()).spawn(move || {
        let summary = recorder.run(&commands);
        drop(finished);
        summary
    })?;
    Ok(TraceHandle { control, done, thread, progress })
}

/// 999 samples per second and CPU; on large machines so many that all CPUs together give about 16,000, which one
/// recorder thread can unwind.
fn default_frequency(cpus: usize) -> u32 {
    match cpus {
        0..=16 => 999,
        17..=32 => 499,
        33..=64 => 249,
        65..=128 => 125,
        _ => 61,
    }
}

/// What a recording with many other lanes takes where nobody asked for a frequency: a tick of the timer interrupts whoever runs,
/// the target or not, and in a virtual machine costs some 25 µs each. At 999 Hz that was 2 to 3 % of all CPUs, and unwinding
/// as much of the recorder's time as everything else together.
#[must_use]
pub fn gentle_frequency() -> u32 {
    const GENTLE: u32 = 249;
    let cpus = biopsy_sys::limits::online_cpus().map_or(1, |cpus| cpus.len());
    default_frequency(cpus).min(GENTLE)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Has a running trace write what it knows by now, names included.
#[derive(Clone, Debug)]
pub struct Settler(Sender<Control>);

impl Settler {
    /// Waits for that; a trace that has ended has written all.
    pub fn settle(&self) {
        // What is kept in memory has no length of a file.
        let _ = cut(&self.0);
    }
}

fn cut(control: &Sender<Control>) -> Option<Cut> {
    let (answer, wait) = channel();
    let _ = control.send(Control::Cut(answer));
    wait.recv_timeout(Duration::from_secs(10)).ok()
}

impl TraceHandle {
    /// Asks for something. A trace that has already ended ignores it.
    pub fn send(&self, control: Control) {
        let _ = self.control.send(control);
    }

    /// Whether it has ended by itself (all processes gone, or the disk full).
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.done.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Disconnected)
    }

    /// Makes everything so far readable while the trace goes on.
    #[must_use]
    pub fn cut(&self) -> Option<Cut> {
        cut(&self.control)
    }

    /// For somebody else who asks while this is held.
    #[must_use]
    pub fn settler(&self) -> Settler {
        Settler(self.control.clone())
    }

    /// Ends it and waits for the last byte.
    #[must_use]
    pub fn stop(self) -> TraceSummary {
        self.send(Control::Stop);
        self.thread.join().unwrap_or_else(|_| TraceSummary {
            cut_short: Some("the recorder panicked: this is a bug".to_owned()),
            ..TraceSummary::default()
        })
    }
}
