//! One .NET process: its sessions, read on one thread.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use biopsy_dotnet::events::Limits;
use biopsy_dotnet::methods::{MethodMap, feed_payload};
use biopsy_dotnet::nettrace::Event;
use biopsy_dotnet_ipc::{Client, IpcError};
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::RuntimeTrace;
use biopsy_model::{MonoNanos, Pid};
use biopsy_recording::{RecordingFolder, layout};
use rustc_hash::FxHashMap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::budget::{Advice, Throttle};
use super::gather::Gatherer;
use super::lane_stream::{LaneStream, is_final, stop_all};
use super::masked::MaskedWriter;
use super::memory_names::MemoryNames;
use super::meters::MeterNames;
use super::options::DotNetOptions;
use super::plan::{Ask, Group, Lane, Layout};
use super::providers::{METRICS, RUNTIME};
use super::rates::RequestRates;
use super::recent::{self, RecentTraces};
use super::sampling::Sampling;
use super::scanner::LazyScanner;
use crate::favour::Turn;
use crate::masking::Masking;

/// Wakes up so often when nothing comes.
const TICK: Duration = Duration::from_millis(100);
/// A runtime hands its events over ten times a second, in several pieces each. Who stands by for days lets them come together: to be
/// woken by each of them was 67 times a second, and takes a processor from whoever uses all of them.
const GATHER: Duration = Duration::from_millis(100);
/// Meters that the application has when the recording begins are asked for at once, those that it makes later only so often:
/// their session has to be replaced.
const METERS_AFTER: Duration = Duration::from_secs(5);
/// How long a runtime gets to tell its meters: it does at once, if it has any.
const LOOK_FOR_METERS: Duration = Duration::from_millis(500);
/// How often the turn of the thread is looked after.
const RENEW: Duration = Duration::from_secs(1);
/// A process that ends has spoken less than this before: each session has something that comes every second.
const SILENCE: Duration = Duration::from_secs(3);
/// A session that could not be opened is tried again after this.
const RETRY: Duration = Duration::from_secs(1);
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

/// Where it goes.
#[derive(Clone)]
pub(crate) enum Keeping {
    /// Into a recording, with the streams.
    Folder(Arc<RecordingFolder>),
    /// Into memory, for as long as it is young.
    Recent(RecentTraces),
}

/// What a process is recorded with.
pub(crate) struct Setup {
    pub(crate) pid: Pid,
    pub(crate) client: Client,
    pub(crate) options: DotNetOptions,
    pub(crate) keeping: Keeping,
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

impl Keeping {
    fn limits(&self) -> Limits {
        match self {
            Self::Folder(_) => Limits::default(),
            Self::Recent(_) => recent::LIMITS,
        }
    }
}

struct ProcessRecorder {
    setup: Setup,
    runtime: Runtime,
    scanner: Arc<LazyScanner>,
    lanes: Vec<LaneStream>,
    /// How kinds are put into sessions.
    layout: Layout,
    /// Kinds that are closed because they are above the budget.
    closed: BTreeSet<Lane>,
    /// Sessions that are opened when those that they replace have ended, and when to try.
    opening: Vec<Group>,
    open_at: Instant,
    throttles: FxHashMap<Lane, Throttle>,
    rates: RequestRates,
    sampling: Sampling,
    gatherer: Gatherer,
    meters: MeterNames,
    names: MemoryNames,
    /// How many streams of a kind there were.
    numbers: FxHashMap<&'static str, u32>,
    /// When the session of meters may be replaced.
    meters_at: Instant,
    warnings: Vec<String>,
}

impl ProcessRecorder {
    fn new(setup: Setup) -> Self {
        let runtime = Runtime { kind: RuntimeKind::DotNet, version: None, entry: None };
        let source = layout::nettrace_member(setup.pid, "");
        let gatherer = Gatherer::new(setup.pid, source, setup.masking.clone(), &setup.keeping.limits());
        Self {
            runtime,
            scanner: LazyScanner::start(setup.pid),
            lanes: Vec::new(),
            layout: Layout::Separate,
            closed: BTreeSet::new(),
            opening: Vec::new(),
            open_at: Instant::now(),
            throttles: FxHashMap::default(),
            rates: RequestRates::new(setup.options.budget, Instant::now()),
            sampling: Sampling::default(),
            gatherer,
            meters: MeterNames::default(),
            names: MemoryNames::new(setup.pid, setup.options.gentle),
            numbers: FxHashMap::default(),
            meters_at: Instant::now(),
            warnings: Vec::new(),
            setup,
        }
    }

    fn open_all(&mut self) {
        self.layout = Layout::of(self.major());
        // What starts must not be made to wait; it has no meters yet.
        let may_look = !self.setup.starting;
        let wants_meters = !self.setup.options.gentle;
        if self.layout == Layout::United && may_look && wants_meters {
            self.look_for_meters(&[Lane::Base, Lane::Meters]);
            if self.meters.is_listed() {
                self.layout = Layout::Split;
            }
        }
        for group in self.groups() {
            let is_new = self.layout == Layout::Split && !self.meters.is_listed();
            if may_look && is_new && group.has(Lane::Meters) {
                self.look_for_meters(&[Lane::Meters]);
            }
            match self.open(&group) {
                Ok(()) => {
                    let budget = self.setup.options.budget;
                    let throttled = group.lanes().filter(|lane| lane.has_budget(&self.setup.options));
                    self.throttles
                        .extend(throttled.map(|lane| (lane, Throttle::new(budget, Instant::now()))));
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

    /// Which meters there are, and so whether they can be a sign of life for a session of their own: asked before requests and
    /// messages are, so that their session need not be replaced as soon as it has begun.
    fn look_for_meters(&mut self, lanes: &[Lane]) {
        let Some(look) = Layout::United.groups(&lanes.iter().copied().collect()).pop() else { return };
        if let Err(error) = self.open(&look) {
            tracing::debug!(%error, "no look for meters");
            return;
        }
        let is_over = |lanes: &[LaneStream]| {
            lanes.iter().filter(|stream| stream.group == look).all(LaneStream::has_ended)
        };
        let deadline = Instant::now() + LOOK_FOR_METERS;
        while !self.meters.is_listed() && !is_over(&self.lanes) && Instant::now() < deadline {
            self.wait_and_pump();
        }
        self.lanes.iter_mut().filter(|stream| stream.group == look).for_each(LaneStream::stop);
        while !is_over(&self.lanes) {
            self.wait_and_pump();
            self.lanes.iter().for_each(LaneStream::cut_if_late);
        }
        self.forget_ended();
        self.meters.take_new();
    }

    /// First number of the version.
    fn major(&self) -> Option<u32> {
        self.runtime.version.as_ref().and_then(|version| version.split('.').next()?.parse().ok())
    }

    /// The sessions that there should be.
    fn groups(&self) -> Vec<Group> {
        let mut lanes = Lane::wanted(&self.setup.options);
        lanes.retain(|lane| !self.closed.contains(lane));
        self.layout.groups(&lanes)
    }

    fn open(&mut self, group: &Group) -> Result<(), IpcError> {
        let setup = &self.setup;
        let major = self.major();
        let rundown = major.is_none_or(|major| major < NAMED_FROM_MEMORY);
        let config = group.config(&Ask {
            options: &setup.options,
            major,
            meters: self.meters.found(),
            rundown,
            starting: setup.starting,
        });
        let session = setup.client.start_session(&config)?;
        let number = self.numbers.entry(group.name()).or_insert(0);
        *number += 1;
        let name = match (group.name(), *number) {
            (name, 1) => name.to_owned(),
            ("", number) => number.to_string(),
            (name, number) => format!("{name}-{number}"),
        };
        let file = match &setup.keeping {
            Keeping::Recent(_) => None,
            Keeping::Folder(folder) => match folder.create_member(&layout::nettrace_member(setup.pid, &name))
            {
                Ok(file) => {
                    let most = setup.options.budget.stream_bytes;
                    Some(MaskedWriter::new(file, Arc::clone(&self.scanner), most))
                }
                Err(error) => {
                    let message = format!("the event stream of process {} is not kept: {error}", setup.pid);
                    self.warnings.push(message);
                    None
                }
            },
        };
        let pid = setup.pid;
        let stream = LaneStream::new(group.clone(), session, file).map_err(|source| IpcError::Io {
            pid,
            command: "CollectTracing",
            source,
        })?;
        let tells = rundown && group.has(Lane::Runtime);
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
        // What is not fetched in time is lost: a process that ends takes it along.
        let (mut turn, mut renewed) = (Turn::of_reader(), Instant::now());
        if let Keeping::Recent(recent) = &self.setup.keeping {
            recent.begin(self.setup.pid, crate::context::clock_pair().mono);
        }
        loop {
            if self.setup.shared.stop.load(Ordering::Relaxed) && !told {
                told = true;
                stop_all(&mut self.lanes);
            }
            let busy = self.wait_and_pump();
            self.lanes.iter().for_each(LaneStream::cut_if_late);
            if !told {
                self.open_replacements();
            }
            if self.lanes.iter().all(LaneStream::has_ended) && (told || !self.is_between_turns()) {
                return;
            }
            if !told && self.opening.is_empty() {
                // Also when there is no end of events: then most of all.
                self.throttle();
            }
            if !told && !busy {
                self.listen_to_new_meters();
                self.names.tick();
            }
            self.cut_if_due();
            if renewed.elapsed() >= RENEW {
                renewed = Instant::now();
                turn.renew();
            }
            if self.setup.options.gentle && !told && !busy {
                std::thread::sleep(GATHER);
            }
        }
    }

    /// Hands what was gathered over to who keeps the last minutes, every few seconds, and begins anew.
    fn cut_if_due(&mut self) {
        let Keeping::Recent(recent) = &self.setup.keeping else { return };
        let (recent, pid, now) = (recent.clone(), self.setup.pid, crate::context::clock_pair().mono);
        if !recent.is_due(pid, now, true) {
            return;
        }
        // The runtime hands events over ten times a second; what is put in order waits for much longer.
        self.lanes.iter_mut().for_each(LaneStream::release);
        let open = self.lanes.iter().enumerate().filter(|(_, lane)| lane.reads_without_waiting());
        let open: Vec<usize> = open.map(|(at, _)| at).collect();
        self.pump(&open);
        if recent.is_due(pid, now, self.gatherer.is_between_collections()) {
            let trace = self.gathered(now);
            recent.cut(pid, now, trace);
        }
    }

    /// What was gathered up to now.
    fn gathered(&mut self, now: MonoNanos) -> RuntimeTrace {
        let setup = &self.setup;
        let source = layout::nettrace_member(setup.pid, "");
        let next = Gatherer::new(setup.pid, source, setup.masking.clone(), &setup.keeping.limits());
        self.names.catch_up();
        let sampled = self.sampling.up_to(now);
        let gatherer = std::mem::replace(&mut self.gatherer, next);
        gatherer.finish(self.runtime.clone(), sampled, &setup.methods, &self.names)
    }

    /// Some session will be opened again; and the process is still there.
    fn is_between_turns(&self) -> bool {
        let in_turns =
            self.rates.is_in_turns() || self.throttles.values().any(|throttle| throttle.share().is_some());
        (!self.opening.is_empty() || in_turns) && is_there(self.setup.pid)
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
            match poll(&mut waiting, Some(&tick)) {
                Ok(_) => {
                    let has_come = |(_, fd): &(usize, &PollFd<'_>)| !fd.revents().is_empty();
                    open.into_iter().zip(&waiting).filter(has_come).map(|(at, _)| at).collect()
                }
                Err(Errno::INTR) => return false,
                // Nobody says what has come: what can be asked without waiting is asked, so that it goes on and ends all the same.
                Err(_) => {
                    std::thread::sleep(TICK);
                    open.into_iter().filter(|at| self.lanes[*at].reads_without_waiting()).collect()
                }
            }
        };
        self.pump(&ready)
    }

    /// Takes what has come of these sessions.
    fn pump(&mut self, ready: &[usize]) -> bool {
        let Self { lanes, gatherer, meters, names, setup, throttles, rates, .. } = self;
        let mut more = false;
        for &at in ready {
            let Some(stream) = lanes.get_mut(at) else { continue };
            let (events, bytes) = (stream.events, stream.bytes());
            let arrived: Vec<(Lane, (u64, u64))> =
                throttles.keys().map(|lane| (*lane, stream.arrived(*lane))).collect();
            let sinks = &mut setup.sinks;
            let methods = &setup.methods;
            more |= stream.pump(&mut |group, event| {
                names.see(event.stack);
                rates.see(event);
                take(group, event, gatherer, meters, methods);
                sinks.iter_mut().for_each(|sink| sink(event));
            });
            let (events, bytes) = (stream.events - events, stream.bytes() - bytes);
            setup.shared.events.fetch_add(events, Ordering::Relaxed);
            setup.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
            for (lane, before) in arrived {
                let after = stream.arrived(lane);
                if let Some(throttle) = throttles.get_mut(&lane) {
                    throttle.count(after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
                }
            }
        }
        more
    }

    fn throttle(&mut self) {
        let now = Instant::now();
        let mut changed = false;
        let Self { throttles, rates, closed, sampling, .. } = self;
        let mut follow = |lane: Lane, advice: Advice, why: &dyn Fn() -> String| match advice {
            Advice::Stay => {}
            Advice::Close => {
                closed.insert(lane);
                sampling.closed(lane, crate::context::clock_pair().mono, &why());
                changed = true;
            }
            Advice::Open => {
                closed.remove(&lane);
                changed = true;
            }
        };
        follow(Lane::Rates, rates.look(now), &|| rates.why());
        for (lane, throttle) in throttles {
            follow(*lane, throttle.look(now), &|| throttle.why());
        }
        if !changed {
            return;
        }
        // From now on there is something to replace: what the runtime itself does need not be part of it, where meters are a sign of
        // life for the rest.
        if self.layout == Layout::United && self.meters.has_spoken() {
            self.layout = Layout::Split;
        }
        self.replace(None);
    }

    /// Ends sessions that are not as they should be, to open others in their place as soon as they have ended: no provider is
    /// ever in two sessions. `anew`: also the one with this kind.
    fn replace(&mut self, anew: Option<Lane>) {
        let wanted = self.groups();
        let is_anew = |group: &Group| anew.is_some_and(|lane| group.has(lane));
        let time = crate::context::clock_pair().mono;
        let mut gone = Vec::new();
        for stream in &mut self.lanes {
            if stream.has_ended() || stream.is_stopping() {
                continue;
            }
            if wanted.contains(&stream.group) && !is_anew(&stream.group) {
                continue;
            }
            gone.extend(stream.group.lanes());
            stream.stop();
        }
        for lane in gone {
            if !self.closed.contains(&lane) {
                self.sampling.replaced(lane, time);
            }
        }
        let is_open = |group: &Group| {
            let mut open = self.lanes.iter().filter(|stream| !stream.has_ended() && !stream.is_stopping());
            open.any(|stream| stream.group == *group)
        };
        self.opening = wanted.into_iter().filter(|group| !is_open(group)).collect();
        self.open_at = Instant::now();
    }

    /// Opens what replaces sessions that have ended.
    fn open_replacements(&mut self) {
        if self.opening.is_empty()
            || Instant::now() < self.open_at
            || self.lanes.iter().any(|stream| stream.is_stopping() && !stream.has_ended())
        {
            return;
        }
        self.forget_ended();
        for group in std::mem::take(&mut self.opening) {
            match self.open(&group) {
                Ok(()) => {
                    let time = crate::context::clock_pair().mono;
                    group.lanes().for_each(|lane| self.sampling.opened(lane, time));
                }
                // Unless the process is gone.
                Err(error) => {
                    tracing::debug!(%error, "not opened again");
                    self.opening.push(group);
                    self.open_at = Instant::now() + RETRY;
                }
            }
        }
    }

    /// Takes what is known of streams that were told to end and have, so that they do not add up.
    fn forget_ended(&mut self) {
        let (ended, open) = std::mem::take(&mut self.lanes)
            .into_iter()
            .partition(|stream| stream.is_stopping() && stream.has_ended());
        self.lanes = open;
        for stream in ended {
            self.account(&stream);
        }
    }

    /// Asks for meters that the application has beyond those of the framework.
    fn listen_to_new_meters(&mut self) {
        if !self.meters.has_new() || !self.opening.is_empty() || Instant::now() < self.meters_at {
            return;
        }
        self.meters.take_new();
        self.meters_at = Instant::now() + METERS_AFTER;
        self.replace(Some(Lane::Meters));
    }

    fn account(&mut self, stream: &LaneStream) {
        let result = stream.result();
        let gone = !is_there(self.setup.pid);
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

    /// The process has ended, and the last of what its runtime said never came.
    fn tell_silence(&mut self, end: MonoNanos) {
        let Some(last) = self.gatherer.last() else { return };
        let silence = Duration::from_nanos(end.since(last).0);
        if silence < SILENCE || is_there(self.setup.pid) {
            return;
        }
        self.gatherer.stream_ended(0, 0, true);
        self.warnings.push(format!(
            "process {} ended, and nothing came of what its runtime said in the last {silence:.1?} before: \
             it hung, or was not heard in time",
            self.setup.pid
        ));
    }

    fn conclude(mut self) -> Outcome {
        let lanes = std::mem::take(&mut self.lanes);
        let heard = !lanes.is_empty() || !self.numbers.is_empty();
        for stream in &lanes {
            self.account(stream);
        }
        let end = crate::context::clock_pair().mono;
        self.tell_silence(end);
        let sampled = self.sampling.finish(end);
        self.names.finish();
        let Self { gatherer, runtime, setup, names, warnings, .. } = self;
        let trace = heard.then(|| gatherer.finish(runtime, sampled, &setup.methods, &names));
        if let Keeping::Recent(recent) = &setup.keeping {
            if let Some(trace) = trace {
                recent.cut(setup.pid, end, trace);
            }
            recent.end(setup.pid);
            warnings.iter().for_each(|warning| recent.note(warning));
            return Outcome { pid: setup.pid, trace: None, warnings };
        }
        Outcome { pid: setup.pid, trace, warnings }
    }
}

/// Whether a process still runs: one that has ended is listed until somebody collects it.
fn is_there(pid: Pid) -> bool {
    biopsy_target::identity::key_of(&biopsy_target::ProcRoot::live(), pid)
        .is_some_and(|key| biopsy_target::is_same(&key))
}

/// One event, to all that gather.
fn take(
    group: &Group,
    event: &Event<'_>,
    gatherer: &mut Gatherer,
    meters: &mut MeterNames,
    methods: &Mutex<MethodMap>,
) {
    if event.metadata.provider == METRICS {
        meters.event(event);
    }
    if !group.has_counters() && event.metadata.name == "EventCounters" {
        return;
    }
    // The rundown of old runtimes comes at the end of the first session.
    if group.has(Lane::Base) || group.has(Lane::Runtime) {
        let metadata = event.metadata;
        let time = MonoNanos(event.time.0);
        if metadata.provider.starts_with(RUNTIME) {
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
    let maps = biopsy_files::read_kernels(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.split(|byte| *byte == b'\n').find(|line| line.ends_with(b"/libcoreclr.so"))?;
    let folder = std::str::from_utf8(line).ok()?.rsplit('/').nth(1)?;
    let is_version = folder.starts_with(|c: char| c.is_ascii_digit()) && folder.contains('.');
    is_version.then(|| folder.to_owned())
}

/// How many different files of the name of the runtime's library are mapped. One file can hold one runtime only.
fn runtimes_loaded(pid: Pid) -> usize {
    const NAME: &[u8] = b"/libcoreclr.so";
    let maps = biopsy_files::read_kernels(format!("/proc/{pid}/maps")).unwrap_or_default();
    let paths = maps.split(|byte| *byte == b'\n').filter(|line| line.ends_with(NAME));
    // Address, rights, offset, device, inode, path.
    let files: BTreeSet<&[u8]> =
        paths.filter_map(|line| line.get(line.iter().position(|byte| *byte == b'/')?..)).collect();
    files.len()
}
