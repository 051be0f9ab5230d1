//! All .NET processes of a tree, also those that start later.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use biopsy_dotnet::events::join;
use biopsy_dotnet::methods::MethodMap;
use biopsy_dotnet_ipc::{Arrival, Client, IpcError, NoSocket, ReversePort};
use biopsy_model::Pid;
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_recording::RecordingFolder;
use biopsy_target::{ProcRoot, identity};
use rustc_hash::FxHashMap;

use super::options::DotNetOptions;
use super::process::{self, Keeping, Outcome, Setup, Shared, Sink};
use super::recent::RecentTraces;
use crate::masking::Masking;

/// How often processes are looked for that have started: of those that live shorter, little is heard without a port for
/// starting runtimes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between looks at a process that has no runtime: it may load one.
const PATIENCE: Duration = Duration::from_secs(5);
/// A process that is younger has perhaps not come to its runtime yet, and is looked at each time.
const YOUNG: f64 = 10.0;
/// How long a runtime may take to go on after it was told to.
const RESUME_WITHIN: Duration = Duration::from_secs(5);
/// How long a runtime that waits is kept for its sessions.
const OPEN_WITHIN: Duration = Duration::from_secs(1);
/// Most processes that are recorded at the same time.
const MOST: usize = 64;

/// Processes of the tree at this moment, the target first.
pub type Tree = Arc<dyn Fn() -> Vec<Pid> + Send + Sync>;

/// What came of it.
#[derive(Debug, Default)]
pub struct DotNetSummary {
    /// Processes whose events are in the recording.
    pub processes: Vec<Pid>,
    /// What could not be done.
    pub warnings: Vec<String>,
    /// Events that came.
    pub events: u64,
}

/// What is going on, for whoever shows progress.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DotNetProgress {
    /// Processes with open sessions.
    pub processes: usize,
    /// Events that have come.
    pub events: u64,
    /// Bytes that have come.
    pub bytes: u64,
}

/// Makes a sink for the events of a process.
pub(crate) type SinkMaker = Arc<dyn Fn(Pid) -> Vec<Sink> + Send + Sync>;

/// Records what the .NET runtimes of a tree say, until it is stopped or dropped. All that it switched on is off then; if
/// this process is killed, the runtimes end their sessions themselves, as soon as they find that nobody reads.
#[derive(Debug)]
pub struct DotNetRecorder {
    state: Arc<State>,
    watcher: Option<JoinHandle<()>>,
    doorman: Option<JoinHandle<()>>,
}

struct State {
    stop: AtomicBool,
    options: DotNetOptions,
    keeping: Keeping,
    masking: Masking,
    sinks: Option<SinkMaker>,
    processes: Mutex<FxHashMap<Pid, Process>>,
    /// Held while a process is looked at.
    looking: Mutex<()>,
    warnings: Mutex<Vec<String>>,
    /// Runtimes that connected and were let go.
    released: Mutex<BTreeSet<Pid>>,
    /// Processes were looked for once.
    looked: AtomicBool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("options", &self.options).finish_non_exhaustive()
    }
}

enum Process {
    Recorded(Recorded),
    /// It has no port now; look again at this time, or when it executes another program.
    Waiting {
        again: Instant,
        program: Option<PathBuf>,
    },
    /// It will never have one.
    Hopeless,
}

struct Recorded {
    shared: Arc<Shared>,
    methods: Arc<Mutex<MethodMap>>,
    thread: Option<JoinHandle<Outcome>>,
}

impl DotNetRecorder {
    /// Starts to look for .NET processes, and records each of them into the folder. `arrivals`: a port that runtimes which
    /// start connect to; they go on as soon as their sessions are open.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn start(
        tree: Tree,
        options: DotNetOptions,
        arrivals: Option<ReversePort>,
        folder: Arc<RecordingFolder>,
        masking: Masking,
    ) -> io::Result<Self> {
        Self::start_with(tree, options, arrivals, Keeping::Folder(folder), masking, None)
    }

    /// The same of what costs next to nothing, for days: the last minutes stay in memory.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub fn stand_by(tree: Tree, recent: RecentTraces, masking: Masking) -> io::Result<Self> {
        Self::start_with(tree, DotNetOptions::gentle(), None, Keeping::Recent(recent), masking, None)
    }

    pub(crate) fn start_with(
        tree: Tree,
        options: DotNetOptions,
        arrivals: Option<ReversePort>,
        keeping: Keeping,
        masking: Masking,
        sinks: Option<SinkMaker>,
    ) -> io::Result<Self> {
        let state = Arc::new(State {
            stop: AtomicBool::new(false),
            options,
            keeping,
            masking,
            sinks,
            processes: Mutex::default(),
            looking: Mutex::default(),
            warnings: Mutex::default(),
            released: Mutex::default(),
            looked: AtomicBool::new(false),
        });
        let mut recorder = Self { state: Arc::clone(&state), watcher: None, doorman: None };
        if let Some(port) = arrivals {
            let state = Arc::clone(&state);
            let doorman = std::thread::Builder::new().name("biopsy-net-door".to_owned());
            recorder.doorman = Some(doorman.spawn(move || state.welcome(&port))?);
        }
        let watcher = std::thread::Builder::new().name("biopsy-net".to_owned());
        recorder.watcher = Some(watcher.spawn(move || state.watch(&tree))?);
        Ok(recorder)
    }

    /// What is going on.
    #[must_use]
    pub fn progress(&self) -> DotNetProgress {
        let processes = self.state.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut progress = DotNetProgress::default();
        for process in processes.values() {
            let Process::Recorded(recorded) = process else { continue };
            progress.processes += usize::from(recorded.thread.as_ref().is_some_and(|one| !one.is_finished()));
            progress.events += recorded.shared.events.load(Ordering::Relaxed);
            progress.bytes += recorded.shared.bytes.load(Ordering::Relaxed);
        }
        progress
    }

    /// Methods of a process, as its runtime tells of them while it compiles them. For naming code addresses.
    #[must_use]
    pub fn methods(&self, pid: Pid) -> Option<Arc<Mutex<MethodMap>>> {
        match self.state.processes.lock().unwrap_or_else(PoisonError::into_inner).get(&pid)? {
            Process::Recorded(recorded) => Some(Arc::clone(&recorded.methods)),
            Process::Waiting { .. } | Process::Hopeless => None,
        }
    }

    /// The same of all processes that are recorded.
    #[must_use]
    pub fn all_methods(&self) -> Vec<(Pid, Arc<Mutex<MethodMap>>)> {
        let processes = self.state.processes.lock().unwrap_or_else(PoisonError::into_inner);
        let recorded = processes.iter().filter_map(|(pid, process)| match process {
            Process::Recorded(recorded) => Some((*pid, Arc::clone(&recorded.methods))),
            Process::Waiting { .. } | Process::Hopeless => None,
        });
        recorded.collect()
    }

    /// Waits until the processes that are there now have their sessions, or it is known that they will not.
    pub fn wait_until_ready(&self, within: Duration) -> bool {
        let deadline = Instant::now() + within;
        loop {
            let ready = self.state.looked.load(Ordering::Acquire)
                && self.state.processes.lock().unwrap_or_else(PoisonError::into_inner).values().all(
                    |process| match process {
                        Process::Recorded(recorded) => recorded.shared.ready.load(Ordering::Acquire),
                        Process::Waiting { .. } | Process::Hopeless => true,
                    },
                );
            if ready || Instant::now() >= deadline {
                return ready;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends all sessions, and writes what was gathered of each process into the recording.
    #[must_use]
    pub fn stop(self) -> DotNetSummary {
        self.stop_behind(Vec::new())
    }

    /// The same, with what was said before the recording began.
    #[must_use]
    pub fn stop_behind(mut self, mut before: Vec<RuntimeTrace>) -> DotNetSummary {
        self.end_threads();
        let mut summary = DotNetSummary::default();
        let processes =
            std::mem::take(&mut *self.state.processes.lock().unwrap_or_else(PoisonError::into_inner));
        for (pid, process) in processes {
            let Process::Recorded(mut recorded) = process else { continue };
            summary.events += recorded.shared.events.load(Ordering::Relaxed);
            let Some(outcome) = recorded.thread.take().map(JoinHandle::join) else { continue };
            let Ok(outcome) = outcome else {
                let lost = "the events of its runtime are missing (their recorder panicked)";
                summary.warnings.push(format!("process {pid}: {lost}"));
                continue;
            };
            summary.warnings.extend(outcome.warnings);
            let Some(trace) = outcome.trace else { continue };
            summary.processes.push(outcome.pid);
            let earlier =
                before.iter().position(|one| one.pid == outcome.pid).map(|at| before.swap_remove(at));
            let trace = match earlier {
                Some(earlier) => join(earlier, trace),
                None => trace,
            };
            self.write(trace, &mut summary);
        }
        // Of those that have ended since.
        for trace in before {
            summary.processes.push(trace.pid);
            self.write(trace, &mut summary);
        }
        summary.processes.sort_unstable();
        summary.warnings.append(&mut self.state.warnings.lock().unwrap_or_else(PoisonError::into_inner));
        summary.warnings.sort();
        summary.warnings.dedup();
        summary
    }

    fn write(&self, trace: RuntimeTrace, summary: &mut DotNetSummary) {
        let Keeping::Folder(folder) = &self.state.keeping else { return };
        let pid = trace.pid;
        if let Err(error) = folder.runtime_trace(trace) {
            let message = format!("the events of the runtime of process {pid} are not written: {error}");
            summary.warnings.push(message);
        }
    }

    /// Tells all to end, and waits for those who could begin something.
    fn end_threads(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        for thread in [self.doorman.take(), self.watcher.take()].into_iter().flatten() {
            thread.thread().unpark();
            if thread.join().is_err() {
                let lost = "runtimes that started later may be missing (what looks for them panicked)";
                self.state.warnings.lock().unwrap_or_else(PoisonError::into_inner).push(lost.to_owned());
            }
        }
        for process in self.state.processes.lock().unwrap_or_else(PoisonError::into_inner).values() {
            if let Process::Recorded(recorded) = process {
                recorded.shared.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Drop for DotNetRecorder {
    fn drop(&mut self) {
        self.end_threads();
        let mut processes = self.state.processes.lock().unwrap_or_else(PoisonError::into_inner);
        for process in processes.values_mut() {
            if let Process::Recorded(Recorded { thread, .. }) = process
                && let Some(thread) = thread.take()
            {
                let _ = thread.join();
            }
        }
    }
}

/// The program that a process runs, by its path.
fn program_of(pid: Pid) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{pid}/exe")).ok()
}

fn is_young(pid: Pid) -> bool {
    let key = identity::key_of(&ProcRoot::live(), pid);
    key.is_some_and(|key| identity::seconds_since(key.start_ticks) < YOUNG)
}

impl State {
    /// Looks for processes until told to stop.
    fn watch(self: &Arc<Self>, tree: &Tree) {
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            for pid in tree() {
                // A look takes some milliseconds, and thousands of children that nobody waited for are a minute of them.
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                if self.is_worth_a_look(pid, now) {
                    self.look(pid, None);
                }
            }
            self.looked.store(true, Ordering::Release);
            // Whoever ends it wakes it up.
            let next = now + LOOK_EVERY;
            while !self.stop.load(Ordering::Relaxed) && Instant::now() < next {
                std::thread::park_timeout(next.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// Takes in runtimes that start.
    fn welcome(self: &Arc<Self>, port: &ReversePort) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Some(arrival) = port.next(Duration::from_millis(50)) {
                self.arrived(port, arrival);
            }
        }
        // Whoever has connected meanwhile is let go, once: a runtime connects again after each command.
        while let Some(arrival) = port.next(Duration::ZERO) {
            if !self.released.lock().unwrap_or_else(PoisonError::into_inner).insert(arrival.pid) {
                break;
            }
            let _ = arrival.resume(RESUME_WITHIN);
        }
    }

    fn arrived(self: &Arc<Self>, port: &ReversePort, arrival: Arrival) {
        let pid = arrival.pid;
        let known = match self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(&pid) {
            Some(Process::Recorded(recorded)) => Some(Arc::clone(&recorded.shared)),
            Some(Process::Waiting { .. } | Process::Hopeless) | None => None,
        };
        let first = self.released.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
        if let Some(shared) = known {
            if !first {
                // It connects again after each command, and is kept waiting for the next one so that it does not poll.
                return self.keep(arrival);
            }
            // It was found before it came here, and may wait to be let go.
            let deadline = Instant::now() + OPEN_WITHIN;
            while !shared.ready.load(Ordering::Acquire) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            let _ = arrival.resume(RESUME_WITHIN);
            return;
        }
        // Processes that it starts announce themselves too, and must not wait for a tool that may be gone by then. Where none
        // waits, each question less before the first session is a little more that is heard of its start.
        if port.suspends()
            && let Ok(client) = Client::of(pid)
            && let Err(error) = client.set_variable("DOTNET_DiagnosticPorts", &port.variable(false))
        {
            tracing::debug!(%error, pid = pid.0, "its children may wait");
        }
        self.look(pid, Some(arrival));
    }

    /// Holds the connection of a runtime open for as long as the recording lasts: dropped, it would connect again.
    fn keep(&self, arrival: Arrival) {
        const MOST_KEPT: usize = 4096;
        static KEPT: Mutex<Vec<Arrival>> = Mutex::new(Vec::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(arrival);
        }
    }

    fn is_worth_a_look(&self, pid: Pid, now: Instant) -> bool {
        match self.processes.lock().unwrap_or_else(PoisonError::into_inner).get(&pid) {
            Some(Process::Waiting { again, program }) => now >= *again || *program != program_of(pid),
            Some(Process::Recorded(_) | Process::Hopeless) => false,
            None => true,
        }
    }

    fn look(self: &Arc<Self>, pid: Pid, arrival: Option<Arrival>) {
        // One at a time, so that none is begun twice. The table is not held meanwhile: finding a socket takes its time where many
        // processes start at once, and whoever else asks (the recording itself, at each tick) must not wait for it.
        let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, running) = {
            let processes = self.processes.lock().unwrap_or_else(PoisonError::into_inner);
            let is_recorded = |one: &Process| matches!(one, Process::Recorded(_));
            (
                processes.get(&pid).is_some_and(is_recorded),
                processes.values().filter(|one| is_recorded(one)).count(),
            )
        };
        if known {
            drop(looking);
            if let Some(arrival) = arrival {
                let _ = arrival.resume(RESUME_WITHIN);
            }
            return;
        }
        let found = if running >= MOST { None } else { Some(Client::of(pid)) };
        let process = match found {
            None => {
                self.warn(format!(
                    "more than {MOST} .NET processes: process {pid} and later ones are not heard"
                ));
                Process::Hopeless
            }
            Some(Ok(client)) => match self.begin(pid, client, arrival) {
                Ok(recorded) => Process::Recorded(recorded),
                Err(error) => {
                    self.warn(format!("process {pid} is not heard: {error}"));
                    Process::Hopeless
                }
            },
            Some(Err(error)) => self.without_port(pid, &error),
        };
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, process);
    }

    fn without_port(&self, pid: Pid, error: &IpcError) -> Process {
        let now = Instant::now();
        let waiting = |again| Process::Waiting { again, program: program_of(pid) };
        let IpcError::NoSocket { why, .. } = error else { return waiting(now + PATIENCE) };
        match why {
            // Processes of other kinds are most of a tree; a runtime may be loaded late. One that is held at the gate has not even
            // executed its program.
            NoSocket::NoRuntime if !is_young(pid) => waiting(now + PATIENCE),
            NoSocket::NoRuntime | NoSocket::Starting => waiting(now),
            NoSocket::Exiting | NoSocket::NotPermitted => Process::Hopeless,
            _ => {
                let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
                self.warn(format!("{error}{hint}"));
                Process::Hopeless
            }
        }
    }

    fn begin(self: &Arc<Self>, pid: Pid, client: Client, arrival: Option<Arrival>) -> io::Result<Recorded> {
        let shared = Arc::new(Shared::default());
        let methods = Arc::new(Mutex::new(MethodMap::new()));
        let setup = Setup {
            pid,
            client,
            options: self.options.clone(),
            keeping: self.keeping.clone(),
            masking: self.masking.clone(),
            methods: Arc::clone(&methods),
            sinks: self.sinks.as_ref().map(|make| make(pid)).unwrap_or_default(),
            shared: Arc::clone(&shared),
            starting: arrival.is_some(),
        };
        let opened = move || {
            if let Some(arrival) = arrival
                && let Err(error) = arrival.resume(RESUME_WITHIN)
            {
                tracing::debug!(%error, "a runtime could not be let go");
            }
        };
        let thread = std::thread::Builder::new()
            .name(format!("biopsy-net-{pid}"))
            .spawn(move || process::record(setup, opened))?;
        Ok(Recorded { shared, methods, thread: Some(thread) })
    }

    fn warn(&self, warning: String) {
        if let Keeping::Recent(recent) = &self.keeping {
            recent.note(&warning);
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}
