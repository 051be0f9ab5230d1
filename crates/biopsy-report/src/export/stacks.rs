//! What all exports share: names of frames, stacks as calls, and which thread an event belongs to.

use biopsy_model::capture::Capture;
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::stack::{FrameHandle, FrameSpace, StackHandle};
use biopsy_model::symbol::place_name;
use biopsy_model::timeline::{Timeline, WaitSample};
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// Calls of one stack at most. A recorder writes 512; a hostile recording shall not make every sample a megabyte.
const DEPTH: usize = 1_024;

/// What kind of code a call is in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum CallKind {
    Kernel,
    Native,
    Jit,
    Unknown,
}

/// One call: a function, in a frame; inlined functions have calls of their own.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) file: Option<&'a str>,
    pub(crate) line: Option<u32>,
    pub(crate) kind: CallKind,
    pub(crate) frame: FrameHandle,
}

/// File name of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

/// The functions of a frame, innermost inlined one first. Never empty: a frame without a name is module + offset.
pub(crate) fn calls_of_frame(timeline: &Timeline, handle: FrameHandle) -> Vec<Call<'_>> {
    let Some(frame) = timeline.frames.get(handle.0 as usize) else { return Vec::new() };
    let module = timeline.module_of(handle).map(|(_, module)| module);
    let kind = match (frame.space, module.map(|module| module.kind)) {
        (FrameSpace::Kernel, _) | (_, Some(ModuleKind::Kernel)) => CallKind::Kernel,
        (_, Some(ModuleKind::Elf | ModuleKind::Vdso)) => CallKind::Native,
        (_, Some(ModuleKind::Jit | ModuleKind::OtherFile | ModuleKind::Source)) => CallKind::Jit,
        (_, None) => CallKind::Unknown,
    };
    let symbols = timeline.symbols.get(handle.0 as usize).and_then(Option::as_ref);
    let mut calls: Vec<Call<'_>> = symbols
        .map_or(&[][..], |symbols| &symbols.functions)
        .iter()
        .filter(|function| !function.name.is_empty())
        .map(|function| Call {
            name: Cow::Borrowed(function.name.as_str()),
            file: function.file.as_deref(),
            line: function.line,
            kind,
            frame: handle,
        })
        .collect();
    if calls.is_empty() {
        calls.push(Call {
            name: Cow::Owned(unnamed(module, frame.address.0)),
            file: None,
            line: None,
            kind,
            frame: handle,
        });
    }
    calls
}

/// The calls of a stack, outermost first.
pub(crate) fn calls(timeline: &Timeline, stack: Option<StackHandle>) -> Vec<Call<'_>> {
    // The innermost frames matter most: a stack that is too deep loses its outermost calls.
    let frames = timeline.frames_of(stack).take(DEPTH);
    let mut calls: Vec<Call<'_>> = frames.flat_map(|frame| calls_of_frame(timeline, frame)).collect();
    calls.reverse();
    calls
}

/// As the report calls it.
fn unnamed(module: Option<&Module>, address: u64) -> String {
    place_name(module.map_or("", |module| &module.path), address)
}

/// A thread of the export.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Thread {
    pub(crate) tid: Tid,
    pub(crate) pid: Pid,
    pub(crate) name: String,
    pub(crate) start: MonoNanos,
    pub(crate) end: Option<MonoNanos>,
}

/// The threads of a trace. Ids are reused: an event belongs to the life it falls into.
pub(crate) struct Threads {
    pub(crate) all: Vec<Thread>,
    lives: FxHashMap<Tid, Vec<usize>>,
}

impl Threads {
    /// All threads with a life, and those that only events tell of.
    pub(crate) fn new(capture: &Capture, timeline: &Timeline) -> Self {
        let mut threads = Threads { all: Vec::new(), lives: FxHashMap::default() };
        for life in &timeline.threads {
            let name = if life.info.name.is_empty() {
                format!("thread {}", life.info.tid)
            } else {
                life.info.name.clone()
            };
            threads.add(Thread {
                tid: life.info.tid,
                pid: life.info.pid,
                name,
                start: life.start,
                end: life.exit,
            });
        }
        let home = capture.header.target.as_ref().map_or(Pid(0), |target| target.pid);
        let samples = timeline.samples.iter().map(|sample| (sample.tid, sample.time));
        let looks = timeline.wait_samples.iter().map(|look| (look.tid, look.time));
        let waits = timeline.waits.iter().map(|wait| (wait.tid, wait.start));
        let events = samples.chain(looks).chain(waits).map(|(tid, time)| (tid, time, home));
        let allocations = timeline.allocations.iter().map(|one| (one.tid, one.time, one.pid));
        let counts = timeline.allocation_counts.iter().map(|one| (Tid(one.pid.0), one.time, one.pid));
        for (tid, time, pid) in events.chain(allocations).chain(counts) {
            if !threads.lives.contains_key(&tid) {
                threads.add(Thread { tid, pid, name: format!("thread {tid}"), start: time, end: None });
            }
        }
        threads
    }

    fn add(&mut self, thread: Thread) {
        self.lives.entry(thread.tid).or_default().push(self.all.len());
        self.all.push(thread);
    }

    /// Position in `all` of the thread that had this id at that time.
    pub(crate) fn at(&self, tid: Tid, time: MonoNanos) -> Option<usize> {
        let lives = self.lives.get(&tid)?;
        lives.iter().rev().find(|life| self.all[**life].start <= time).or(lives.first()).copied()
    }

    /// Name of a thread for people, wherever it is from.
    pub(crate) fn name(&self, tid: Tid) -> String {
        match self.lives.get(&tid).and_then(|lives| lives.last()) {
            Some(life) => format!("{} ({tid})", self.all[*life].name),
            None if tid.0 == 0 => "an interrupt".to_owned(),
            None => format!("thread {tid} of another process"),
        }
    }
}

/// Name of a process.
pub(crate) fn process_name(capture: &Capture, pid: Pid) -> String {
    match capture.processes.iter().find(|process| process.key.pid == pid) {
        Some(process) if !process.name.is_empty() => process.name.clone(),
        _ if capture.header.target.as_ref().is_some_and(|target| target.pid == pid)
            && !capture.header.target_name.is_empty() =>
        {
            capture.header.target_name.clone()
        }
        _ => format!("process {pid}"),
    }
}

/// Waiting time with its stack: off-CPU samples, or else the waits with stacks.
pub(crate) struct WaitShare {
    pub(crate) tid: Tid,
    pub(crate) time: MonoNanos,
    pub(crate) stack: Option<StackHandle>,
    pub(crate) weight: Nanos,
}

/// All waiting time that has a place, in the order of the recording.
pub(crate) fn wait_shares(timeline: &Timeline) -> Vec<WaitShare> {
    if timeline.wait_samples.is_empty() {
        let waits = timeline.waits.iter().filter(|wait| wait.stack.is_some());
        return waits
            .map(|wait| WaitShare {
                tid: wait.tid,
                time: wait.start,
                stack: wait.stack,
                weight: wait.end.since(wait.start),
            })
            .collect();
    }
    let looks = timeline.wait_samples.iter();
    looks
        .map(|look| WaitShare { tid: look.tid, time: look.time, stack: look.stack, weight: look.weight })
        .collect()
}

/// Looks at threads where there is nothing else: event streams of .NET have looks at all threads, running or not. Formats of samples
/// show them as samples, which stand for time on the clock.
pub(crate) fn looks_for_samples(timeline: &Timeline) -> &[WaitSample] {
    if timeline.samples.is_empty() { &timeline.wait_samples } else { &[] }
}

/// Whether a trace has nothing that an export of time could show.
pub(crate) fn is_empty(timeline: &Timeline) -> bool {
    timeline.samples.is_empty() && timeline.wait_samples.is_empty() && timeline.waits.is_empty()
}

/// Where moments of the export count from, and until where they go: the recording, and whatever lies outside of it.
pub(crate) fn span(capture: &Capture, timeline: Option<&Timeline>) -> (MonoNanos, MonoNanos) {
    let header = &capture.header;
    let mut from = timeline.and_then(|timeline| timeline.span).map_or(header.start.mono, |span| span.0);
    if header.start.mono.0 > 0 {
        from = from.min(header.start.mono);
    }
    let to = timeline.and_then(|timeline| timeline.span).map_or(from, |span| span.1);
    (from, header.end.as_ref().map_or(to, |end| end.mono.max(to)).max(from))
}

/// Modules that frames lie in, with the highest address used in each.
pub(crate) fn used_modules(timeline: &Timeline) -> FxHashMap<ModuleHandle, u64> {
    let mut used: FxHashMap<ModuleHandle, u64> = FxHashMap::default();
    for frame in &timeline.frames {
        if let Some(handle) = frame.module.filter(|handle| (handle.0 as usize) < timeline.modules.len()) {
            let highest = used.entry(handle).or_default();
            *highest = frame.address.0.max(*highest);
        }
    }
    used
}

/// A build id in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
