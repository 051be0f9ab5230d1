//! One .NET process: its sessions, read on one thread.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet::ipc::{Client, IpcError};
use biopsy_dotnet::methods::{MethodMap, feed_payload};
use biopsy_dotnet::nettrace::Event;
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_model::{MonoNanos, Pid};
use biopsy_recording::{RecordingFolder, layout};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::budget::{Advice, Throttle};
use super::gather::Gatherer;
use super::lane_stream::{LaneStream, is_final, stop_all};
use super::masked::MaskedWriter;
use super::memory_names::MemoryNames;
use super::meters::MeterNames;
use super::options::DotNetOptions;
use super::plan::{Lane, METRICS};
use super::sampling::Sampling;
use super::scanner::LazyScanner;
use crate::masking::Masking;

/// Wakes up so often when nothing comes.
const TICK: Duration = Duration::from_millis(100);
/// Meters of the application are asked for this long after the first session told their names.
const METERS_AFTER: Duration = Duration::from_secs(2);
/// First version of .NET whose methods are named from its memory; older ones have to tell them all at the end.
const NAMED_FROM_MEMORY: u32 = 8;

/// What is shared with the thread of a process.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) events: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Its sessions are open, or it is known that there are none.
    pub(crate) ready: AtomicBool,
}

/// What came of a process.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) pid: Pid,
    pub(crate) trace: Option<RuntimeTrace>,
    pub(crate) warnings: Vec<String>,
}

/// Whoever wants to see each event too: triggers.
pub(crate) type Sink = Box<dyn FnMut(&Event<'_>) + Send>;

/// What a process is recorded with.
pub(crate) struct Setup {
    pub(crate) pid: Pid,
    pub(crate) client: Client,
    pub(crate) options: DotNetOptions,
    pub(crate) folder: Arc<RecordingFolder>,
    pub(crate) masking: Masking,
    pub(crate) methods: Arc<Mutex<MethodMap>>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) shared: Arc<Shared>,
    /// It has just begun to start, and does not wait.
    pub(crate) starting: bool,
}

/// Records one process until it ends or is told to stop.
pub(crate) fn record(setup: Setup, opened: impl FnOnce()) -> Outcome {
    let mut recorder = ProcessRecorder::new(setup);
    // Sessions first where a runtime starts: it has loaded its own library some milliseconds later.
    let known = recorder.setup.starting && recorder.guess_version();
    if !known {
        recorder.learn_runtime();
    }
    recorder.open_all();
    if known {
        recorder.learn_runtime();
    }
    recorder.setup.shared.ready.store(true, Ordering::Release);
    // A runtime that waits at its start may go on now.
    opened();
    if !recorder.lanes.is_empty() {
        recorder.run();
    }
    recorder.conclude()
}

struct ProcessRecorder {
    setup: Setup,
    runtime: Runtime,
    scanner: Arc<LazyScanner>,
    lanes: Vec<LaneStream>,
    throttles: FxHashMap<Lane, Throttle>,
    sampling: Sampling,
    gatherer: Gatherer,
    meters: MeterNames,
    names: MemoryNames,
    /// How many streams of a kind there were.
    numbers: FxHashMap<Lane, u32>,
    begun: Instant,
    warnings: Vec<String>,
}

impl ProcessRecorder {
    fn new(setup: Setup) -> Self {
        let runtime = Runtime { kind: RuntimeKind::DotNet, version: None, entry: None };
        let source = layout::nettrace_member(setup.pid, "");
        let gatherer = Gatherer::new(setup.pid, source, setup.masking.clone());
        Self {
            runtime,
            scanner: LazyScanner::start(setup.pid),
            lanes: Vec::new(),
            throttles: FxHashMap::default(),
            sampling: Sampling::default(),
            gatherer,
            meters: MeterNames::default(),
            names: MemoryNames::new(setup.pid),
            numbers: FxHashMap::default(),
            begun: Instant::now(),
            warnings: Vec::new(),
            setup,
        }
    }

    fn open_all(&mut self) {
        for lane in Lane::wanted(&self.setup.options) {
            match self.open(lane) {
                Ok(()) => {
                    self.throttles.insert(lane, Throttle::new(self.setup.options.budget, Instant::now()));
                }
                Err(error) => {
                    let last = is_final(&error) || matches!(error, IpcError::Silent { .. });
                    if !error.is_end() {
                        self.warn(&error);
                    }
                    if last {
                        return;
                    }
                }
            }
        }
    }

    fn open(&mut self, lane: Lane) -> Result<(), IpcError> {
        let setup = &self.setup;
        let major = self.runtime.version.as_ref().and_then(|version| version.split('.').next()?.parse().ok());
        let rundown = major.is_none_or(|major: u32| major < NAMED_FROM_MEMORY);
        let config = lane.config(&setup.options, self.meters.found(), rundown);
        let session = setup.client.start_session(&config)?;
        let number = self.numbers.entry(lane).or_insert(0);
        *number += 1;
        let name = match (lane.name(), *number) {
            (name, 1) => name.to_owned(),
            ("", number) => number.to_string(),
            (name, number) => format!("{name}-{number}"),
        };
        let member = layout::nettrace_member(setup.pid, &name);
        let file = match setup.folder.create_member(&member) {
            Ok(file) => {
                Some(MaskedWriter::new(file, Arc::clone(&self.scanner), setup.options.budget.stream_bytes))
            }
            Err(error) => {
                self.warnings.push(format!("the event stream of process {} is not kept: {error}", setup.pid));
                None
            }
        };
        let pid = setup.pid;
        let stream = LaneStream::new(lane, session, file).map_err(|source| IpcError::Io {
            pid,
            command: "CollectTracing",
            source,
        })?;
        let tells = rundown && lane == Lane::Runtime;
        self.lanes.push(if tells { stream.with_rundown() } else { stream });
        Ok(())
    }

    /// The version, by the folder that the runtime's library is in, as far as that says it.
    fn guess_version(&mut self) -> bool {
        self.runtime.version = version_by_folder(self.setup.pid);
        self.runtime.version.is_some()
    }

    /// What the runtime says of itself. .NET Core 3.1 cannot say; its files do.
    fn learn_runtime(&mut self) {
        if let Ok(info) = self.setup.client.process_info() {
            self.runtime.version = info.version.filter(|version| !version.is_empty());
            self.runtime.entry = info.entry_assembly.filter(|entry| !entry.is_empty());
        }
        let seen = biopsy_target::runtime::detect(self.setup.pid);
        if seen.kind == RuntimeKind::DotNet {
            self.runtime.version = self.runtime.version.take().or(seen.version);
            self.runtime.entry = self.runtime.entry.take().or(seen.entry);
        }
        let loaded = runtimes_loaded(self.setup.pid);
        if loaded > 1 {
            let heard = self.runtime.version.as_deref().unwrap_or("unknown version");
            self.warnings.push(format!(
                "process {} has loaded {loaded} .NET runtimes: only one can have the diagnostics socket, so events are those of .NET {heard}",
                self.setup.pid
            ));
        }
    }

    fn run(&mut self) {
        let mut told = false;
        loop {
            if self.setup.shared.stop.load(Ordering::Relaxed) && !told {
                told = true;
                stop_all(&mut self.lanes);
            }
            let busy = self.wait_and_pump();
            self.lanes.iter().for_each(LaneStream::cut_if_late);
            if self.lanes.iter().all(LaneStream::has_ended) && (told || !self.is_between_turns()) {
                return;
            }
            if !told {
                // Also when there is no end of events: then most of all.
                self.throttle();
            }
            if !told && !busy {
                self.open_meters();
                self.names.tick();
            }
        }
    }

    /// Some kind is closed and will be opened again; and the process is still there.
    fn is_between_turns(&self) -> bool {
        self.throttles.values().any(|throttle| throttle.share().is_some())
            && std::path::Path::new(&format!("/proc/{}", self.setup.pid)).exists()
    }

    /// Takes what has come, after waiting for it. Returns whether there is more.
    fn wait_and_pump(&mut self) -> bool {
        let open: Vec<usize> =
            self.lanes.iter().enumerate().filter(|(_, lane)| !lane.has_ended()).map(|(at, _)| at).collect();
        let ready: Vec<usize> = {
            let mut waiting: Vec<PollFd<'_>> = open
                .iter()
                .map(|at| PollFd::from_borrowed_fd(self.lanes[*at].as_fd(), PollFlags::IN))
                .collect();
            let tick = Timespec { tv_sec: 0, tv_nsec: TICK.subsec_nanos().into() };
            if poll(&mut waiting, Some(&tick)).is_err() {
                return false;
            }
            open.into_iter()
                .zip(&waiting)
                .filter(|(_, fd)| !fd.revents().is_empty())
                .map(|(at, _)| at)
                .collect()
        };
        let Self { lanes, gatherer, meters, names, setup, throttles, .. } = self;
        let mut more = false;
        for at in ready {
            let Some(stream) = lanes.get_mut(at) else { continue };
            let (events, bytes) = (stream.events, stream.bytes());
            let sinks = &mut setup.sinks;
            let methods = &setup.methods;
            more |= stream.pump(&mut |lane, event| {
                names.see(event.stack);
                take(lane, event, gatherer, meters, methods);
                sinks.iter_mut().for_each(|sink| sink(event));
            });
            let (events, bytes) = (stream.events - events, stream.bytes() - bytes);
            setup.shared.events.fetch_add(events, Ordering::Relaxed);
            setup.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
            if let Some(throttle) = throttles.get_mut(&stream.lane) {
                throttle.count(events, bytes);
            }
        }
        more
    }

    fn throttle(&mut self) {
        let now = Instant::now();
        let mut changes = Vec::new();
        for (lane, throttle) in &mut self.throttles {
            if lane.sampled().is_empty() {
                continue;
            }
            match throttle.look(now) {
                Advice::Stay => {}
                advice => changes.push((*lane, advice, throttle.clone())),
            }
        }
        for (lane, advice, throttle) in changes {
            let time = crate::context::clock_pair().mono;
            match advice {
                Advice::Close => {
                    self.sampling.closed(lane, time, &throttle.why());
                    self.lanes.iter_mut().filter(|stream| stream.lane == lane).for_each(LaneStream::stop);
                }
                Advice::Open => {
                    self.forget_ended(lane);
                    match self.open(lane) {
                        Ok(()) => self.sampling.opened(lane, time),
                        // The next turn tries again, unless the process is gone.
                        Err(error) => tracing::debug!(%error, "not opened again"),
                    }
                }
                Advice::Stay => {}
            }
        }
    }

    /// Takes what is known of streams that have ended, so that they do not add up.
    fn forget_ended(&mut self, lane: Lane) {
        let (ended, open) = std::mem::take(&mut self.lanes)
            .into_iter()
            .partition(|stream| stream.lane == lane && stream.has_ended());
        self.lanes = open;
        for stream in ended {
            self.account(&stream);
        }
    }

    /// Opens a session for meters that the application has beyond those of the framework.
    fn open_meters(&mut self) {
        if self.begun.elapsed() < METERS_AFTER || !self.meters.has_new() {
            return;
        }
        self.meters.take_new();
        if let Err(error) = self.open(Lane::Meters)
            && !error.is_end()
        {
            self.warn(&error);
        }
    }

    fn account(&mut self, stream: &LaneStream) {
        let result = stream.result();
        let gone = !std::path::Path::new(&format!("/proc/{}", self.setup.pid)).exists();
        // A stream that ends with its process is as whole as it can be.
        self.gatherer.stream_ended(result.lost, result.unknown, result.cut && !gone);
        let pid = self.setup.pid;
        if let Some(warning) = &stream.warning {
            self.warnings.push(format!("events of process {pid}: {warning}"));
        }
        if let Some(error) = stream.raw_error() {
            self.warnings.push(format!("the event stream of process {pid} is not whole: {error}"));
        }
    }

    fn warn(&mut self, error: &dyn std::error::Error) {
        let mut text = error.to_string();
        let mut cause = error.source();
        while let Some(one) = cause {
            text = format!("{text}: {one}");
            cause = one.source();
        }
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    fn conclude(mut self) -> Outcome {
        let lanes = std::mem::take(&mut self.lanes);
        let heard = !lanes.is_empty() || !self.numbers.is_empty();
        for stream in &lanes {
            self.account(stream);
        }
        let end = crate::context::clock_pair().mono;
        let sampled = self.sampling.finish(end);
        self.names.finish();
        let Self { gatherer, runtime, setup, names, warnings, .. } = self;
        let trace = heard.then(|| gatherer.finish(runtime, sampled, &setup.methods, &names));
        Outcome { pid: setup.pid, trace, warnings }
    }
}

/// One event, to all that gather.
fn take(
    lane: Lane,
    event: &Event<'_>,
    gatherer: &mut Gatherer,
    meters: &mut MeterNames,
    methods: &Mutex<MethodMap>,
) {
    if event.metadata.provider == METRICS {
        meters.event(event);
    }
    if !lane.has_counters() && event.metadata.name == "EventCounters" {
        return;
    }
    // The rundown of old runtimes comes at the end of the first session.
    if matches!(lane, Lane::Base | Lane::Runtime) {
        let metadata = event.metadata;
        let time = MonoNanos(event.time.0);
        if metadata.provider.starts_with(super::plan::RUNTIME) {
            let mut methods = methods.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = feed_payload(
                &mut methods,
                &metadata.provider,
                metadata.id,
                metadata.version,
                event.payload,
                time,
            );
        }
    }
    gatherer.event(event);
}

/// `.../shared/Microsoft.NETCore.App/10.0.12/libcoreclr.so`.
fn version_by_folder(pid: Pid) -> Option<String> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.split(|byte| *byte == b'\n').find(|line| line.ends_with(b"/libcoreclr.so"))?;
    let folder = std::str::from_utf8(line).ok()?.rsplit('/').nth(1)?;
    let is_version = folder.starts_with(|c: char| c.is_ascii_digit()) && folder.contains('.');
    is_version.then(|| folder.to_owned())
}

/// How many different files of the name of the runtime's library are mapped. One file can hold one runtime only.
fn runtimes_loaded(pid: Pid) -> usize {
    const NAME: &[u8] = b"/libcoreclr.so";
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = maps.split(|byte| *byte == b'\n').filter(|line| line.ends_with(NAME));
    // Address, rights, offset, device, inode, path.
    let files: BTreeSet<&[u8]> =
        paths.filter_map(|line| line.get(line.iter().position(|byte| *byte == b'/')?..)).collect();
    files.len()
}
