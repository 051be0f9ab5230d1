//! Samples of the runtime's own profiler, as off-CPU samples.

use super::limits::Limits;
use biopsy_dotnet::methods::MethodMap;
use biopsy_dotnet::nettrace::EventMetadata;
use biopsy_model::loss::Warning;
use biopsy_model::module::{Module, ModuleHandle, ModuleKind};
use biopsy_model::order::Order as _;
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{ThreadLife, Timeline, TraceMethod, TraceSettings, WaitSample, WaitState};
use biopsy_model::{Avma, FileOffset, MonoNanos, Nanos, Pid, Tid};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Frames of one stack that are kept. The runtime walks 100.
const DEPTH: usize = 128;
/// Longest time one sample may stand for, in periods: a thread without a sample for longer was not there.
const PERIODS: u64 = 10;
/// What the runtime aims at, for files that do not show it.
const PERIOD: Nanos = Nanos(1_000_000);

/// Whether events of this kind are such samples.
pub(super) fn is_sample(metadata: &EventMetadata) -> bool {
    metadata.provider == "Microsoft-DotNETCore-SampleProfiler"
}

/// Samples as they come.
#[derive(Debug)]
pub(super) struct Samples {
    /// Time, thread, stack.
    taken: Vec<(MonoNanos, Tid, Option<u32>)>,
    stacks: FxHashMap<Arc<[Avma]>, u32>,
    order: Vec<Arc<[Avma]>>,
    /// Every how many-th of a thread is kept: the profiler samples all threads in turn, so every second of all could be always
    /// the same thread.
    stride: u64,
    seen_of: FxHashMap<Tid, u64>,
    seen: u64,
    limits: Limits,
}

impl Samples {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            taken: Vec::new(),
            stacks: FxHashMap::default(),
            order: Vec::new(),
            stride: 1,
            seen_of: FxHashMap::default(),
            seen: 0,
            limits: *limits,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seen == 0
    }

    pub(super) fn add(&mut self, time: MonoNanos, tid: Tid, stack: &[Avma]) {
        self.seen += 1;
        // More threads than samples are kept: those that come late share a count.
        let tid_counted = if self.seen_of.len() < self.limits.samples { tid } else { Tid(0) };
        let seen = self.seen_of.entry(tid_counted).or_default();
        *seen += 1;
        if !seen.is_multiple_of(self.stride) {
            return;
        }
        let stack = self.intern(stack);
        self.taken.push((time, tid, stack));
        if self.taken.len() >= self.limits.samples.max(2) {
            let mut kept: FxHashMap<Tid, bool> = FxHashMap::default();
            self.taken.retain(|(_, tid, _)| {
                let keep = kept.entry(*tid).or_insert(true);
                *keep = !*keep;
                *keep
            });
            self.stride = self.stride.saturating_mul(2);
        }
    }

    fn intern(&mut self, stack: &[Avma]) -> Option<u32> {
        let stack = stack.get(..DEPTH).unwrap_or(stack);
        if stack.is_empty() {
            return None;
        }
        if let Some(number) = self.stacks.get(stack) {
            return Some(*number);
        }
        if self.order.len() >= self.limits.stacks {
            return None;
        }
        let number = u32::try_from(self.order.len()).ok()?;
        let stack: Arc<[Avma]> = stack.into();
        self.stacks.insert(Arc::clone(&stack), number);
        self.order.push(stack);
        Some(number)
    }

    /// The timeline; `None`: there are no samples.
    pub(super) fn finish(
        self,
        methods: &MethodMap,
        pid: Pid,
        span: Option<(MonoNanos, MonoNanos)>,
        warnings: &mut Vec<Warning>,
    ) -> Option<Timeline> {
        if self.taken.is_empty() {
            return None;
        }
        if self.stride > 1 {
            let message = format!("of {} samples one in {} was kept", self.seen, self.stride);
            warnings.push(Warning::new("import.thinned", message));
        }
        let (period, weights) = self.weights();
        let mut builder = Builder::new(pid, methods);
        let handles: Vec<Option<StackHandle>> =
            self.order.iter().map(|stack| builder.stack(stack, span)).collect();
        let mut threads: FxHashMap<Tid, (MonoNanos, MonoNanos)> = FxHashMap::default();
        let mut wait_samples = Vec::with_capacity(self.taken.len());
        for ((time, tid, stack), weight) in self.taken.iter().zip(weights) {
            let life = threads.entry(*tid).or_insert((*time, *time));
            life.1 = *time;
            let stack = stack.and_then(|stack| handles.get(usize::try_from(stack).ok()?).copied().flatten());
            wait_samples.push(WaitSample {
                time: *time,
                tid: *tid,
                stack,
                // Managed frames only: what is below them, and native code above, is not in the file.
                end: StackEnd::Root,
                weight,
                syscall: None,
                state: WaitState::Other,
            });
        }
        let mut threads: Vec<ThreadLife> = threads
            .into_iter()
            .map(|(tid, (first, _))| ThreadLife {
                info: ThreadInfo { tid, pid, name: String::new() },
                start: first,
                born: false,
                by: None,
                exit: None,
            })
            .collect();
        threads.order_by_key(|thread| thread.info.tid);
        Some(Timeline {
            settings: TraceSettings {
                method: TraceMethod::Imported,
                wait_sample_period: period,
                ..TraceSettings::default()
            },
            threads,
            wait_samples,
            span,
            ..builder.timeline
        })
    }

    /// The usual distance of two samples of a thread, and what each of them stands for.
    fn weights(&self) -> (Nanos, Vec<Nanos>) {
        let mut last: FxHashMap<Tid, MonoNanos> = FxHashMap::default();
        let since: Vec<Option<Nanos>> = self
            .taken
            .iter()
            .map(|(time, tid, _)| last.insert(*tid, *time).map(|before| time.since(before)))
            .collect();
        let mut known: Vec<Nanos> = since.iter().flatten().copied().filter(|nanos| nanos.0 > 0).collect();
        let middle = known.len() / 2;
        let period = match known.len() {
            0 => PERIOD,
            _ => *known.select_nth_unstable(middle).1,
        };
        let longest = Nanos(period.0.saturating_mul(PERIODS));
        (period, since.into_iter().map(|nanos| nanos.unwrap_or(period).min(longest)).collect())
    }
}

/// Makes frames, modules and the tree of stacks.
struct Builder<'m> {
    timeline: Timeline,
    pid: Pid,
    methods: &'m MethodMap,
    frames: FxHashMap<Avma, FrameHandle>,
    nodes: FxHashMap<StackNode, StackHandle>,
    modules: FxHashMap<Arc<str>, ModuleHandle>,
}

impl<'m> Builder<'m> {
    fn new(pid: Pid, methods: &'m MethodMap) -> Self {
        Self {
            timeline: Timeline::default(),
            pid,
            methods,
            frames: FxHashMap::default(),
            nodes: FxHashMap::default(),
            modules: FxHashMap::default(),
        }
    }

    fn stack(&mut self, stack: &[Avma], span: Option<(MonoNanos, MonoNanos)>) -> Option<StackHandle> {
        let mut caller = None;
        for (depth, address) in stack.iter().enumerate().rev() {
            // All but the innermost are return addresses.
            let frame = self.frame(Avma(address.0.saturating_sub(u64::from(depth > 0))), span)?;
            let node = StackNode { caller, frame };
            let next = StackHandle(u32::try_from(self.timeline.stacks.len()).ok()?);
            let handle = *self.nodes.entry(node).or_insert(next);
            if handle == next {
                self.timeline.stacks.push(node);
            }
            caller = Some(handle);
        }
        caller
    }

    fn frame(&mut self, address: Avma, span: Option<(MonoNanos, MonoNanos)>) -> Option<FrameHandle> {
        if let Some(known) = self.frames.get(&address) {
            return Some(*known);
        }
        let handle = FrameHandle(u32::try_from(self.timeline.frames.len()).ok()?);
        let method = self.methods.find(address);
        let module = method.and_then(|method| method.module.clone()).map(|path| self.module(&path, span));
        self.timeline.frames.push(Frame { space: FrameSpace::User, module, address: address.into() });
        self.timeline.symbols.push(method.map(|method| FrameSymbols {
            frame: handle,
            functions: vec![Function { name: method.name.display(), file: None, line: None }],
            source: SymbolSource::RuntimeEvents,
        }));
        self.frames.insert(address, handle);
        Some(handle)
    }

    fn module(&mut self, path: &Arc<str>, span: Option<(MonoNanos, MonoNanos)>) -> ModuleHandle {
        if let Some(known) = self.modules.get(path) {
            return *known;
        }
        let handle = ModuleHandle(u32::try_from(self.timeline.modules.len()).unwrap_or(u32::MAX));
        // Where it is mapped is not in the file; code of one assembly lies in several places.
        self.timeline.modules.push(Module {
            pid: self.pid,
            kind: ModuleKind::OtherFile,
            path: path.to_string(),
            build_id: None,
            start: Avma(0),
            end: Avma(0),
            offset: FileOffset(0),
            since: span.map_or(MonoNanos(0), |(from, _)| from),
            deleted: false,
        });
        self.modules.insert(Arc::clone(path), handle);
        handle
    }
}
