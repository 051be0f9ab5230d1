//! What may be typed after `biopsy capture` and `biopsy trace`.

use std::io::BufRead;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use biopsy_capture::capture::{
    CapturePlan, HeldProcess, RecentWish, StacksWish, Whom, event_budget, trigger,
};
use biopsy_capture::snapshot::{From, How};
use biopsy_capture::{Failure, FailureKind};
use biopsy_model::Pid;
use biopsy_record::dotnet::{AppLogLevel, DotNetOptions};
use biopsy_record::trace;
use biopsy_standby::commands::Coming;
use biopsy_standby::places;
use clap::{Args, ValueEnum};

use crate::typed::{duration, typed};

/// Arguments of `capture` and `trace`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    #[arg(required_unless_present = "program", conflicts_with = "program")]
    pub target: Option<String>,
    /// How long: `60s`, `3m`, `1h30m`. Without it, until Ctrl-C.
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    pub duration: Option<Duration>,
    /// Put the minutes before it first, which `biopsy watch --recent` keeps; without `--for` they are all that is recorded. [how
    /// many, if it is not said: 5m]
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = duration,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5m",
        conflicts_with_all = ["program", "on"]
    )]
    pub recent: Option<Duration>,
    /// The same if somebody keeps them; else without.
    #[arg(long, value_name = "DURATION", value_parser = duration, hide = true, conflicts_with = "recent")]
    pub recent_if_kept: Option<Duration>,
    /// The process is held before its first instruction: for `biopsy watch`, which reads at the other end of standard input.
    #[arg(long, hide = true, conflicts_with_all = ["program", "on", "recent"])]
    pub at_gate: bool,
    /// A rule asks, and nobody waits.
    #[arg(long, hide = true)]
    pub unattended: bool,
    /// Where the bundle goes; it must not exist. [default: biopsy-NAME-DATE-TIME.biopsy.zip here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Keep the recording as a folder instead of packing it.
    #[arg(long)]
    pub folder: bool,
    /// Do not record the processes that the target started and starts.
    #[arg(long)]
    pub no_children: bool,
    /// Samples per second and CPU. [default: 249, for `trace` 999; less on machines with many CPUs]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub frequency: Option<u32>,
    /// Waits at least this long are written one by one; shorter ones are counted.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1ms")]
    pub wait_threshold: Duration,
    /// How often waiting threads are looked at for their stacks.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "20ms", conflicts_with = "no_wait_stacks")]
    pub wait_period: Duration,
    /// Take no stacks of waiting threads.
    #[arg(long)]
    pub no_wait_stacks: bool,
    /// Use one way of tracing only, for comparisons; normally the best that works is chosen.
    #[arg(long, value_name = "METHOD", value_enum)]
    pub method: Option<Method>,
    /// Time between readings of metrics.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "1s")]
    pub metrics_every: Duration,
    /// Take these logs, cut to the time of the recording; may be repeated. Quote patterns.
    #[arg(long, value_name = "GLOB")]
    pub logs: Vec<String>,
    /// Take the journal of this systemd unit; may be repeated.
    #[arg(long, value_name = "UNIT")]
    pub journal: Vec<String>,
    /// Time before and after the recording that is taken of logs as well.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    pub log_margin: Duration,
    /// Of .NET processes: take log messages of this level and above, without changing what the application writes elsewhere.
    /// Trace, Debug, Information, Warning, Error, Critical, None.
    #[arg(long, value_name = "LEVEL", value_parser = log_level, default_value = "None")]
    pub log_level: AppLogLevel,
    /// Of .NET processes: only log messages of categories that begin like this; may be repeated.
    #[arg(long, value_name = "PREFIX")]
    pub log_category: Vec<String>,
    /// Of .NET processes: each request with its status and trace id, and the application's own request log.
    #[arg(long)]
    pub requests: bool,
    /// Who allocates: of .NET processes a sample with types and stacks; of native processes bytes by stack, and what of them is not given
    /// back, which takes at most a twenty-fifth of their CPU time. `full`: a program that is started here (`--launch`) counts each one.
    #[arg(long, value_name = "HOW", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "sampled")]
    pub allocations: Option<AllocationsHow>,
    /// Of .NET processes: counters of this EventSource, or instruments of this Meter, too; may be repeated. Meters of the
    /// application are found by themselves.
    #[arg(long, value_name = "SOURCE")]
    pub counters: Vec<String>,
    /// Do not speak with .NET runtimes.
    #[arg(long, conflicts_with_all = ["log_category", "requests", "counters"])]
    pub no_runtime_events: bool,
    /// At the end, freeze each process for milliseconds and read from its memory who holds which lock and what asynchronous
    /// operations await; as `biopsy stacks` does.
    #[arg(long, conflicts_with = "never_stop")]
    pub stacks: bool,
    /// Never freeze a process. Without it, a capture freezes those once at its end that did not move, where nothing that was recorded
    /// says why and they are predicted to stand still for less than 5 ms; a trace freezes none.
    #[arg(long, conflicts_with = "snapshots")]
    pub never_stop: bool,
    /// Take so many snapshots of the target's memory while recording: one at the end, one at the beginning, the others between, which
    /// needs `--for`. Three tell what leaks; with `--allocations`, who allocated it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100), conflicts_with = "launch")]
    pub snapshots: Option<u32>,
    /// Refuse a snapshot if the process would have to stand still longer than this.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "250ms", requires = "snapshots")]
    pub max_pause: Duration,
    /// Wait for this to happen before recording: what `biopsy dump --on` knows. May be repeated: any of them.
    #[arg(long = "on", value_name = "TRIGGER", conflicts_with = "program")]
    pub on: Vec<String>,
    /// Start a program (behind `--`) instead of attaching to a process; `--` alone says so too.
    #[arg(long, conflicts_with = "target", requires = "program")]
    pub launch: bool,
    /// Mask personal data, too: addresses of mail and network, names of users and machines, numbers of telephones, accounts and
    /// cards. The same value has the same pseudonym in all of the bundle; what it stands for leaves the machine nowhere.
    #[arg(long)]
    pub anonymize: bool,
    /// Record nothing: show the environment, the arguments and the last ten lines of each log as they would be recorded.
    #[arg(long)]
    pub dry_run: bool,
    /// Stop when the recording has this many megabytes.
    #[arg(long, value_name = "MB", default_value_t = 4096)]
    pub max_size: u64,
    /// For programs: print the result as one JSON document.
    #[arg(long)]
    pub json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
    /// Start this program with its arguments and record it from its first instruction.
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<std::ffi::OsString>,
}

/// How allocations of native code are seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum AllocationsHow {
    /// Samples by bytes, at a small part of the CPU time.
    Sampled,
    /// Each one, counted in the program that is started.
    Full,
}

/// Ways of tracing, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Method {
    /// Programs in the kernel count states and take samples.
    Bpf,
    /// Events of each CPU, filtered by biopsy.
    PerfPerCpu,
    /// Events of each thread.
    PerfPerTask,
    /// Events of each thread without the kernel's part.
    PerfUserOnly,
}

impl Method {
    fn of_trace(self) -> trace::Method {
        match self {
            Self::Bpf => trace::Method::Bpf,
            Self::PerfPerCpu => trace::Method::PerCpu,
            Self::PerfPerTask => trace::Method::PerTask,
            Self::PerfUserOnly => trace::Method::UserOnly,
        }
    }
}

impl CaptureArgs {
    /// Every allocation is to be counted, which only a program can that is started for it.
    fn counts_all(&self) -> Result<bool, Failure> {
        let is_full = self.allocations == Some(AllocationsHow::Full);
        if is_full && self.program.is_empty() {
            let message = "all allocations can be counted only from the start of a program";
            let hint = "start it: `biopsy trace --launch --allocations=full -- PROGRAM`; of one that runs, `--allocations` takes samples";
            return Err(Failure::new(FailureKind::Usage, message).with_hint(Some(hint)));
        }
        Ok(is_full)
    }

    fn memory_snapshots(&self) -> Result<u32, Failure> {
        let count = self.snapshots.unwrap_or(0);
        if count > 2 && self.duration.is_none() {
            let message =
                format!("{count} snapshots are spread over the recording, whose length is not known");
            return Err(Failure::new(FailureKind::Usage, message).with_hint(Some("say how long: `--for 5m`")));
        }
        Ok(count)
    }

    /// What is to be done. `trace_only`: it was `trace`.
    pub fn plan(&self, trace_only: bool) -> Result<CapturePlan, Failure> {
        let dotnet = || DotNetOptions {
            log_level: self.log_level,
            log_categories: self.log_category.clone(),
            requests: self.requests,
            allocations: self.allocations.is_some(),
            counters: self.counters.clone(),
            gentle: false,
            budget: event_budget(self.requests, self.allocations.is_some(), self.log_level),
        };
        Ok(CapturePlan {
            whom: match &self.target {
                Some(target) if self.at_gate => held(target)?,
                Some(target) => Whom::Running(target.clone()),
                None => Whom::Started(self.program.clone()),
            },
            command: typed(),
            trace_only,
            length: self.duration,
            recent: self.recent()?,
            output: self.output.clone(),
            folder: self.folder,
            children: !self.no_children,
            frequency_hz: self.frequency,
            wait_threshold: self.wait_threshold,
            wait_period: (!self.no_wait_stacks).then_some(self.wait_period),
            method: self.method.map(Method::of_trace),
            metrics_every: self.metrics_every,
            logs: self.logs.clone(),
            journal: self.journal.clone(),
            log_margin: self.log_margin,
            dotnet: (!self.no_runtime_events).then(dotnet),
            allocations: self.allocations.is_some(),
            every_allocation: self.counts_all()?,
            stacks: match (self.stacks, self.never_stop || trace_only) {
                (true, _) => StacksWish::Always,
                (false, true) => StacksWish::Never,
                (false, false) => StacksWish::WhereNothingMoves,
            },
            memory_snapshots: self.memory_snapshots()?,
            memory_how: How { max_pause: self.max_pause, from: From::Auto },
            on: self.on.iter().map(|text| trigger(text)).collect::<Result<_, _>>()?,
            anonymize: self.anonymize,
            max_bytes: self.max_size.saturating_mul(1 << 20),
            unattended: self.unattended,
        })
    }
}

impl CaptureArgs {
    fn recent(&self) -> Result<Option<RecentWish>, Failure> {
        let Some(length) = self.recent.or(self.recent_if_kept) else { return Ok(None) };
        let is_needed = self.recent.is_some();
        let is_all = is_needed && self.duration.is_none();
        Ok(Some(RecentWish { length, folder: places::recent_folder()?, is_needed, is_all }))
    }
}

/// A process that is held: standard input says what it is about to be, and whoever holds it reads from it.
fn held(target: &str) -> Result<Whom, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(FailureKind::Usage, format!("cannot take over process {target} at the gate: {why}"))
    };
    let pid = target.parse().map_err(|error| failed(&error))?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(|error| failed(&error))?;
    let Coming { name, exe, arguments } = serde_json::from_str(&line).map_err(|error| failed(&error))?;
    let gate = std::io::stdin().as_fd().try_clone_to_owned().map_err(|error| failed(&error))?;
    Ok(Whom::Held(Box::new(HeldProcess { pid: Pid(pid), name, exe, arguments, gate: Arc::new(gate) })))
}

fn log_level(text: &str) -> Result<AppLogLevel, String> {
    AppLogLevel::parse(text)
        .ok_or_else(|| "a level is Trace, Debug, Information, Warning, Error, Critical or None".to_owned())
}
