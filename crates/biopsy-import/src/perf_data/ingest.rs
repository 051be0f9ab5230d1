//! From records to a timeline.

use super::attr::{Meaning, flag};
use super::files::Files;
use super::header::{Container, Event};
use super::names;
use super::options::Options;
use super::record::{self, Raw, Record, Sample as PerfSample};
use super::spaces::Spaces;
use super::stacks::Stacks;
use super::states::{Parked, States, WAIT_THRESHOLD};
use crate::Limits;
use biopsy_model::loss::{Loss, LossKind, Warning};
use biopsy_model::order::Order as _;
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::FrameSpace;
use biopsy_model::timeline::{
    Sample, ThreadLife, Timeline, TimelineEvent, TraceMethod, TraceSettings, WaitState,
};
use biopsy_model::{MonoNanos, Nanos, Pid, Tid};
use rustc_hash::FxHashMap;

/// Longest time one sample may stand for: what a file says beyond that is damage.
const LONGEST_SAMPLE: Nanos = Nanos(10_000_000_000);

/// Everything read so far.
#[derive(Debug)]
pub(crate) struct Ingest<'a> {
    container: &'a Container<'a>,
    options: &'a Options,
    limits: &'a Limits,
    meanings: Vec<Meaning>,
    /// The event whose samples are the CPU samples: of several only the first is used.
    cpu_event: Option<usize>,
    spaces: Spaces,
    stacks: Stacks,
    states: Option<States>,
    /// Length of the recording.
    length: Nanos,
    timeline: Timeline,
    /// Thread that has each id now, by index into `timeline.threads`.
    threads: FxHashMap<Tid, usize>,
    parents: FxHashMap<Pid, Pid>,
    names: FxHashMap<Pid, String>,
    throttled_since: Option<MonoNanos>,
    /// Time of the last record that had one.
    now: MonoNanos,
    damaged: u64,
    idle: u64,
    other_samples: u64,
}

/// What the recording was of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Target {
    pub(crate) pid: Option<Pid>,
    pub(crate) name: String,
}

/// The result.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) timeline: Timeline,
    /// Processes with samples or threads, the busiest first.
    pub(crate) processes: Vec<(Pid, String)>,
    pub(crate) parents: FxHashMap<Pid, Pid>,
    pub(crate) target: Target,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Ingest<'a> {
    pub(crate) fn new(
        container: &'a Container<'a>,
        length: Nanos,
        options: &'a Options,
        limits: &'a Limits,
    ) -> Ingest<'a> {
        let meanings: Vec<Meaning> = container.events.iter().map(Event::meaning).collect();
        let cpu_event =
            meanings.iter().position(|meaning| matches!(meaning, Meaning::Clock | Meaning::Counter));
        let files = Files::new(options);
        Ingest {
            container,
            options,
            limits,
            meanings,
            cpu_event,
            spaces: Spaces::new(files, container.build_ids(limits), limits.mappings),
            stacks: Stacks::default(),
            states: None,
            length,
            timeline: Timeline::default(),
            threads: FxHashMap::default(),
            parents: FxHashMap::default(),
            names: FxHashMap::default(),
            throttled_since: None,
            now: MonoNanos(0),
            damaged: 0,
            idle: 0,
            other_samples: 0,
        }
    }

    /// Adds the next record in order of time.
    pub(crate) fn add(&mut self, raw: &Raw<'_>) {
        let time = MonoNanos(raw.time);
        if raw.time > 0 {
            self.timeline.span = Some(self.timeline.span.map_or((time, time), |(from, _)| (from, time)));
            self.now = time;
        }
        let record = match record::parse(raw, &self.container.events, self.limits) {
            Ok(Some(record)) => record,
            Ok(None) => return,
            Err(_) => {
                self.damaged += 1;
                return;
            }
        };
        match record {
            Record::Sample(sample) => self.sample(raw, &sample, time),
            Record::Mapping(mapping) => self.spaces.map(mapping, time),
            Record::Comm { pid, tid, name, exec } => self.comm(Pid(pid), Tid(tid), name, exec, time),
            Record::Fork { pid, parent, tid, by } => {
                self.fork(Pid(pid), Pid(parent), Tid(tid), Tid(by), time)
            }
            Record::Exit { pid, tid } => self.exit(Pid(pid), Tid(tid), time),
            Record::Lost { count } => self.lost(count, time),
            Record::Throttled { on } => self.throttled(on, time),
            Record::Switch { pid, tid, out, preempted } => {
                if tid == 0 {
                    return;
                }
                self.thread(Pid(pid), Tid(tid), time);
                let state = if preempted { WaitState::Preempted } else { WaitState::Other };
                let states = self.states();
                if out { states.out(Tid(tid), time, state, None) } else { states.back(Tid(tid), time) }
            }
        }
    }

    fn states(&mut self) -> &mut States {
        let (span, limit) = (self.length, self.limits.records);
        self.states.get_or_insert_with(|| States::new(span, limit))
    }

    /// The thread, made known when it is new.
    fn thread(&mut self, pid: Pid, tid: Tid, time: MonoNanos) -> Option<&mut ThreadLife> {
        let next = self.timeline.threads.len();
        if !self.threads.contains_key(&tid) && next >= self.limits.threads {
            return None;
        }
        let at = *self.threads.entry(tid).or_insert(next);
        if at == next {
            let name = self.names.get(&pid).cloned().unwrap_or_default();
            let info = ThreadInfo { tid, pid, name };
            self.timeline.threads.push(ThreadLife { info, start: time, born: false, by: None, exit: None });
        }
        self.timeline.threads.get_mut(at)
    }

    fn comm(&mut self, pid: Pid, tid: Tid, name: String, exec: bool, time: MonoNanos) {
        if tid.0 == pid.0 && self.names.len() < self.limits.threads {
            self.names.insert(pid, name.clone());
        }
        if exec {
            self.spaces.clear(pid);
            self.timeline.process_events.push(TimelineEvent::Exec { time, pid, name: name.clone() });
        }
        if let Some(thread) = self.thread(pid, tid, time) {
            thread.info.name = name;
        }
    }

    fn fork(&mut self, pid: Pid, parent: Pid, tid: Tid, by: Tid, time: MonoNanos) {
        let by_name = self.threads.get(&by).and_then(|&at| self.timeline.threads.get(at));
        let name = by_name.map(|life| life.info.name.clone()).unwrap_or_default();
        if pid != parent && time.0 > 0 {
            self.spaces.fork(parent, pid);
            self.names.insert(pid, name.clone());
            self.timeline.process_events.push(TimelineEvent::ProcessStart { time, pid, parent });
        }
        if pid != parent && self.parents.len() < self.limits.threads {
            self.parents.insert(pid, parent);
        }
        // An id that was used before is a new thread's now.
        if time.0 > 0 {
            self.threads.remove(&tid);
        }
        if let Some(thread) = self.thread(pid, tid, time)
            && time.0 > 0
        {
            thread.born = true;
            thread.by = Some(by);
            thread.info.name = name;
        }
    }

    fn exit(&mut self, pid: Pid, tid: Tid, time: MonoNanos) {
        if let Some(thread) = self.thread(pid, tid, time) {
            thread.exit = Some(time);
        }
        if pid.0 == tid.0 {
            self.timeline.process_events.push(TimelineEvent::ProcessExit { time, pid });
        }
    }

    fn lost(&mut self, count: u64, time: MonoNanos) {
        let from = self.timeline.losses.last().map_or(time, |loss| loss.to).min(time);
        let loss = Loss { kind: LossKind::Samples, from, to: time, count, pid: None, tid: None };
        self.timeline.losses.push(loss);
    }

    fn throttled(&mut self, on: bool, time: MonoNanos) {
        match (on, self.throttled_since) {
            (true, None) => self.throttled_since = Some(time),
            (false, Some(from)) => {
                self.throttled_since = None;
                let loss = Loss { kind: LossKind::Throttled, from, to: time, count: 0, pid: None, tid: None };
                self.timeline.losses.push(loss);
            }
            _ => {}
        }
    }

    fn sample(&mut self, raw: &Raw<'_>, sample: &PerfSample<'_>, time: MonoNanos) {
        let tid = Tid(sample.tid);
        match self.meanings.get(raw.event) {
            Some(Meaning::Clock | Meaning::Counter) if self.cpu_event == Some(raw.event) => {
                if sample.tid == 0 {
                    self.idle += 1;
                    return;
                }
                self.thread(Pid(sample.pid), tid, time);
                let weight = self.weight(raw.event, sample);
                let parked = self.stack(raw.event, sample);
                self.timeline.samples.push(Sample {
                    time,
                    tid,
                    cpu: sample.cpu,
                    stack: parked.stack,
                    end: parked.end,
                    weight,
                });
            }
            Some(Meaning::Switch) if sample.tid != 0 => {
                self.thread(Pid(sample.pid), tid, time);
                let parked = self.stack(raw.event, sample);
                self.states().out(tid, time, WaitState::Other, Some(parked));
            }
            Some(Meaning::SchedSwitch) => self.sched_switch(raw, sample, time),
            Some(Meaning::SchedWaking) => {
                // common fields 8, comm 16, pid 4
                if let Some(woken) = field(sample.raw, 24) {
                    self.states().woken(Tid(woken), time, Some(tid));
                }
            }
            Some(Meaning::Dummy) => {}
            _ => self.other_samples += 1,
        }
    }

    fn stack(&mut self, event: usize, sample: &PerfSample<'_>) -> Parked {
        let Some(event) = self.container.events.get(event) else {
            return Parked { stack: None, end: biopsy_model::stack::StackEnd::Skipped, count: 1 };
        };
        let (stack, end) = self.stacks.of(sample, &event.attr, &mut self.spaces, self.limits);
        // Beyond a million the file is damaged rather than the machine that busy.
        let count = sample.period.unwrap_or(1).clamp(1, 1_000_000);
        Parked { stack, end, count }
    }

    /// Fields of the tracepoint, the same since Linux 2.6.35: common 8, prev_comm 16, prev_pid 4, prev_prio 4,
    /// prev_state 8, next_comm 16, next_pid 4.
    fn sched_switch(&mut self, raw: &Raw<'_>, sample: &PerfSample<'_>, time: MonoNanos) {
        if let Some(next) = field(sample.raw, 56).filter(|next| *next != 0 && *next != sample.tid) {
            // Threads of others come by too; only those that are recorded have been met.
            if self.threads.contains_key(&Tid(next)) || self.states().knows(Tid(next)) {
                self.states().back(Tid(next), time);
            }
        }
        if sample.tid == 0 || field(sample.raw, 24) != Some(sample.tid) {
            return;
        }
        self.thread(Pid(sample.pid), Tid(sample.tid), time);
        // TASK_REPORT: 0 running, 1 interruptible, 2 uninterruptible, 4 stopped, 8 traced; above 0xff: preempted.
        let state = match field(sample.raw, 32).map(|state| state & 0xff) {
            Some(0) => WaitState::Preempted,
            Some(1) => WaitState::Sleep,
            Some(2) => WaitState::Disk,
            Some(4 | 8) => WaitState::Stopped,
            _ => WaitState::Other,
        };
        let parked = self.stack(raw.event, sample);
        self.states().out(Tid(sample.tid), time, state, Some(parked));
    }

    /// The CPU time a sample stands for; zero where only the neighbours can tell.
    fn weight(&self, event: usize, sample: &PerfSample<'_>) -> Nanos {
        let Some(attr) = self.container.events.get(event).map(|event| &event.attr) else { return Nanos(0) };
        let by_frequency = attr.flag(flag::FREQ).then(|| 1_000_000_000 / attr.period.max(1));
        let nanos = match self.meanings.get(event) {
            Some(Meaning::Clock) => sample
                .period
                .or((!attr.flag(flag::FREQ)).then_some(attr.period))
                .or(by_frequency)
                .unwrap_or(0),
            _ => by_frequency.unwrap_or(0),
        };
        Nanos(nanos).min(LONGEST_SAMPLE)
    }

    /// Ends the reading.
    pub(crate) fn finish(mut self) -> Finished {
        let (from, to) = self.timeline.span.unwrap_or_default();
        self.throttled(false, to);
        for life in &mut self.timeline.threads {
            // What perf wrote at the start about threads that were there already has no time.
            life.start = life.start.max(from);
        }
        if let Some(mut states) = self.states.take() {
            self.timeline.states = states.finish(to);
            self.stacks.over_limit |= states.over_limit;
            self.timeline.waits = std::mem::take(&mut states.waits);
            self.timeline.wait_samples = std::mem::take(&mut states.looks);
            self.timeline.settings.has_states = states.seen_in;
            self.timeline.settings.has_wakeups = states.seen_wakeups && states.seen_in;
        }
        estimate_weights(&mut self.timeline.samples);
        self.timeline.modules = std::mem::take(&mut self.spaces.modules);
        self.timeline.frames = std::mem::take(&mut self.stacks.frames);
        self.timeline.stacks = std::mem::take(&mut self.stacks.stacks);
        self.settings();
        let mut warnings =
            names::add(&mut self.timeline, &mut self.spaces, self.container, self.options, self.limits);
        warnings.extend(self.warnings());
        let processes = self.processes();
        Finished {
            target: self.target(&processes),
            processes: processes.into_iter().map(|(pid, name, _)| (pid, name)).collect(),
            timeline: self.timeline,
            parents: self.parents,
            warnings,
        }
    }

    fn settings(&mut self) {
        let event = self.cpu_event.and_then(|event| self.container.events.get(event));
        let settings = &mut self.timeline.settings;
        *settings = TraceSettings {
            method: TraceMethod::Imported,
            wait_threshold: WAIT_THRESHOLD,
            wait_sample_period: Nanos(u64::from(!self.timeline.wait_samples.is_empty())),
            has_states: settings.has_states,
            has_wakeups: settings.has_wakeups,
            has_kernel_stacks: self.timeline.frames.iter().any(|frame| frame.space == FrameSpace::Kernel),
            follows_children: event.is_some_and(|event| event.attr.flag(flag::INHERIT)),
            ..TraceSettings::default()
        };
        if let Some(event) = event {
            // `cycles:ppp` is `cycles` with modifiers.
            settings.sampling_event = event.name.split(':').next().unwrap_or_default().into();
            let by_weight =
                self.timeline.samples.first().map_or(0, |sample| 1_000_000_000 / sample.weight.0.max(1));
            let hz = if event.attr.flag(flag::FREQ) { event.attr.period } else { by_weight };
            settings.frequency_hz = u32::try_from(hz).unwrap_or(u32::MAX);
        }
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |code: &str, message: String, hint: Option<&str>| {
            warnings.push(Warning { hint: hint.map(str::to_owned), ..Warning::new(code, message) });
        };
        if self.damaged > 0 {
            warn("import.damaged", format!("{} records of perf.data could not be read", self.damaged), None);
        }
        if self.spaces.over_limit || self.stacks.over_limit {
            warn(
                "import.over-limit",
                "perf.data holds more mappings or stacks than are kept; some frames are missing".to_owned(),
                None,
            );
        }
        if self.other_samples > 0 {
            let unused = self.container.events.iter().enumerate().filter(|(number, _)| {
                let meaning = self.meanings.get(*number);
                Some(*number) != self.cpu_event
                    && matches!(meaning, Some(Meaning::Clock | Meaning::Counter | Meaning::Other))
            });
            let unused: Vec<&str> = unused.map(|(_, event)| event.name.as_str()).take(8).collect();
            warn(
                "import.unused-events",
                format!(
                    "{} samples of other events were not used: {}",
                    self.other_samples,
                    unused.join(", ")
                ),
                None,
            );
        }
        if self.cpu_event.is_none() {
            warn(
                "import.no-cpu-event",
                "perf.data holds no event that samples CPU time".to_owned(),
                Some("record with `-e cpu-clock` or without `-e`"),
            );
        }
        if self.meanings.iter().any(|meaning| matches!(meaning, Meaning::SchedSwitch | Meaning::Switch))
            && !self.timeline.settings.has_states
        {
            warn(
                "import.no-switch-in",
                "perf.data records when threads left the CPU but not when they came back, so waits have no duration".to_owned(),
                Some("record with `--switch-events`, or with `-a`"),
            );
        }
        warnings
    }

    /// Processes with their number of samples, the busiest first.
    fn processes(&self) -> Vec<(Pid, String, usize)> {
        let of_thread: FxHashMap<Tid, Pid> =
            self.timeline.threads.iter().map(|life| (life.info.tid, life.info.pid)).collect();
        let mut counts: FxHashMap<Pid, usize> = of_thread.values().map(|pid| (*pid, 0)).collect();
        for pid in self.timeline.samples.iter().filter_map(|sample| of_thread.get(&sample.tid)) {
            *counts.entry(*pid).or_default() += 1;
        }
        let name = |pid: &Pid| self.names.get(pid).cloned().unwrap_or_default();
        let mut processes: Vec<(Pid, String, usize)> = counts
            .into_iter()
            .filter(|(pid, _)| pid.0 != 0 && pid.0 != u32::MAX)
            .map(|(pid, count)| (pid, name(&pid), count))
            .collect();
        processes.order_by_key(|(pid, _, count)| (std::cmp::Reverse(*count), *pid));
        processes
    }

    /// The process with most of the samples; of a recording of the whole machine there is none.
    fn target(&self, processes: &[(Pid, String, usize)]) -> Target {
        let all = self.timeline.samples.len();
        match processes.first() {
            Some((pid, name, count)) if processes.len() == 1 || count * 2 > all => {
                let name = if name.is_empty() { format!("process {pid}") } else { name.clone() };
                Target { pid: Some(*pid), name }
            }
            Some(_) => Target { pid: None, name: format!("{} processes", processes.len()) },
            None => Target::default(),
        }
    }
}

/// A 32-bit field of a tracepoint.
fn field(raw: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*raw.get(at..)?.first_chunk()?))
}

/// Events that count something else than time with a fixed period: a sample stands for the time since the last one of the
/// same thread, of which the median is robust against waits in between.
fn estimate_weights(samples: &mut [Sample]) {
    if samples.iter().all(|sample| sample.weight.0 > 0) {
        return;
    }
    let mut last: FxHashMap<(Tid, u32), MonoNanos> = FxHashMap::default();
    let mut gaps: Vec<u64> = Vec::new();
    for sample in samples.iter() {
        if let Some(before) = last.insert((sample.tid, sample.cpu), sample.time) {
            gaps.push(sample.time.since(before).0);
        }
    }
    let middle = gaps.len() / 2;
    let usual = if gaps.is_empty() { 1_000_000 } else { *gaps.select_nth_unstable(middle).1 };
    for sample in samples.iter_mut().filter(|sample| sample.weight.0 == 0) {
        sample.weight = Nanos(usual.max(1)).min(LONGEST_SAMPLE);
    }
}
