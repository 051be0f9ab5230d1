//! Firefox Profiler's processed profile, gzipped: CPU samples (or looks at threads, where there are none) by thread with the kernel, native and JIT categories (and
//! the module as sub-category), waits, marks, log lines and losses as markers, memory and CPU of processes as counters.

mod markers;

use super::stacks::{CallKind, Threads, calls, looks_for_samples, process_name, span};
use super::waits::{wait_name, wait_state};
use crate::{when, words};
use biopsy_model::capture::Capture;
use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::Timeline;
use biopsy_model::{MonoNanos, Pid};
use flate2::Compression;
use flate2::write::GzEncoder;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerTiming,
    ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval, StackHandle as FirefoxStack, ThreadHandle,
    Timestamp,
};
use markers::{TextMarker, WaitMarker};
use rustc_hash::FxHashMap;
use std::io::{self, Write};
use std::time::Duration;

/// Modules with a sub-category of their own; the format counts them in 16 bits.
const MODULES: usize = 4_000;

pub(super) fn write(capture: &Capture, timeline: &Timeline, out: impl Write) -> io::Result<()> {
    let profile = Builder::new(capture, timeline).build();
    // JSON is written in small pieces, and the encoder is slow at small pieces: measured, half of the time.
    let gzip = GzEncoder::new(out, Compression::default());
    let mut pieces = io::BufWriter::with_capacity(1 << 16, gzip);
    serde_json::to_writer(&mut pieces, &profile)?;
    pieces.into_inner()?.finish()?.flush()
}

struct Builder<'a> {
    capture: &'a Capture,
    timeline: &'a Timeline,
    threads: Threads,
    from: MonoNanos,
    profile: Profile,
    processes: FxHashMap<Pid, ProcessHandle>,
    handles: Vec<ThreadHandle>,
    categories: [CategoryHandle; 4],
    wait_category: CategoryHandle,
    modules: FxHashMap<(usize, String), CategoryPairHandle>,
    stacks: FxHashMap<(usize, StackHandle), Option<FirefoxStack>>,
}

impl<'a> Builder<'a> {
    fn new(capture: &'a Capture, timeline: &'a Timeline) -> Self {
        let (from, _) = span(capture, Some(timeline));
        let wall =
            when::wall_nanos(&capture.header, from).and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(0);
        let settings = &timeline.settings;
        let interval = match (settings.frequency_hz, settings.wait_sample_period.0) {
            (0, period @ 1..) if !looks_for_samples(timeline).is_empty() => period,
            (hertz, _) => 1_000_000_000 / u64::from(hertz.max(1)),
        };
        let mut profile = Profile::new(
            &capture.header.target_name,
            ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_nanos(wall)),
            SamplingInterval::from_nanos(interval),
        );
        profile.set_os_name(&capture.header.host.os);
        // Frames carry their names: there is nothing left to look up.
        profile.set_symbolicated(true);
        let categories = [
            profile.add_category("Kernel", CategoryColor::Orange),
            profile.add_category("Native", CategoryColor::Blue),
            profile.add_category("JIT", CategoryColor::Green),
            profile.add_category("Unknown", CategoryColor::Gray),
        ];
        let wait_category = profile.add_category("Wait", CategoryColor::Transparent);
        Builder {
            capture,
            timeline,
            threads: Threads::new(capture, timeline),
            from,
            profile,
            processes: FxHashMap::default(),
            handles: Vec::new(),
            categories,
            wait_category,
            modules: FxHashMap::default(),
            stacks: FxHashMap::default(),
        }
    }

    fn build(mut self) -> Profile {
        for process in &self.capture.processes {
            self.process(process.key.pid);
        }
        for index in 0..self.threads.all.len() {
            let thread = self.threads.all[index].clone();
            let process = self.process(thread.pid);
            let start = self.time(thread.start);
            let handle = self.profile.add_thread(process, thread.tid.0, start, thread.pid.0 == thread.tid.0);
            self.profile.set_thread_name(handle, &thread.name);
            if let Some(end) = thread.end {
                let end = self.time(end);
                self.profile.set_thread_end_time(handle, end);
            }
            self.handles.push(handle);
        }
        self.samples();
        self.waits();
        self.events();
        self.counters();
        self.profile
    }

    fn time(&self, time: MonoNanos) -> Timestamp {
        Timestamp::from_nanos_since_reference(time.since(self.from).0)
    }

    fn process(&mut self, pid: Pid) -> ProcessHandle {
        if let Some(handle) = self.processes.get(&pid) {
            return *handle;
        }
        let name = process_name(self.capture, pid);
        let handle = self.profile.add_process(&name, pid.0, Timestamp::from_nanos_since_reference(0));
        self.processes.insert(pid, handle);
        handle
    }

    fn samples(&mut self) {
        for sample in &self.timeline.samples {
            let Some(thread) = self.threads.at(sample.tid, sample.time) else { continue };
            let stack = self.stack(thread, sample.stack);
            let time = self.time(sample.time);
            let cpu = CpuDelta::from_nanos(sample.weight.0);
            self.profile.add_sample(self.handles[thread], time, stack, cpu, 1);
        }
        for look in looks_for_samples(self.timeline) {
            let Some(thread) = self.threads.at(look.tid, look.time) else { continue };
            let stack = self.stack(thread, look.stack);
            // Whether the thread ran is not told.
            self.profile.add_sample(self.handles[thread], self.time(look.time), stack, CpuDelta::ZERO, 1);
        }
    }

    /// Stacks belong to a thread in this format.
    fn stack(&mut self, thread: usize, stack: Option<StackHandle>) -> Option<FirefoxStack> {
        let stack = stack?;
        if let Some(known) = self.stacks.get(&(thread, stack)) {
            return *known;
        }
        let timeline = self.timeline;
        let mut frames = Vec::new();
        for call in calls(timeline, Some(stack)) {
            let module = timeline.module_of(call.frame).map_or("", |(_, module)| module.path.as_str());
            frames.push(FrameInfo {
                frame: Frame::Label(self.profile.intern_string(&call.name)),
                category_pair: self.category(call.kind, module),
                flags: FrameFlags::empty(),
            });
        }
        let handle = self.profile.intern_stack_frames(self.handles[thread], frames.into_iter());
        self.stacks.insert((thread, stack), handle);
        handle
    }

    fn category(&mut self, kind: CallKind, module: &str) -> CategoryPairHandle {
        let index = match kind {
            CallKind::Kernel => 0,
            CallKind::Native => 1,
            CallKind::Jit => 2,
            CallKind::Unknown => 3,
        };
        let category = self.categories[index];
        let module = super::stacks::base_name(module);
        if module.is_empty() {
            return category.into();
        }
        if let Some(pair) = self.modules.get(&(index, module.to_owned())) {
            return *pair;
        }
        if self.modules.len() >= MODULES {
            return category.into();
        }
        let pair = self.profile.add_subcategory(category, module);
        self.modules.insert((index, module.to_owned()), pair);
        pair
    }

    fn waits(&mut self) {
        for wait in &self.timeline.waits {
            let Some(thread) = self.threads.at(wait.tid, wait.start) else { continue };
            let waker =
                wait.waker.map_or_else(|| "not recorded".to_owned(), |waker| self.threads.name(waker));
            let ready = wait.ready.map_or(0, |ready| wait.end.since(ready).0);
            let marker = WaitMarker {
                name: self.profile.intern_string(&wait_name(wait)),
                category: self.wait_category,
                state: self.profile.intern_string(wait_state(wait.state)),
                waker: self.profile.intern_string(&waker),
                ready_ms: crate::units::to_f64(ready) / 1e6,
            };
            let timing = MarkerTiming::Interval(self.time(wait.start), self.time(wait.end.max(wait.start)));
            let handle = self.profile.add_marker(self.handles[thread], timing, marker);
            let stack = self.stack(thread, wait.stack);
            self.profile.set_marker_stack(self.handles[thread], handle, stack);
        }
    }

    /// Marks, log lines and losses have no thread: they go to the first one.
    fn events(&mut self) {
        let Some(home) = self.handles.first().copied() else { return };
        let timeline = self.timeline;
        for (time, label) in &timeline.marks {
            self.text(home, MarkerTiming::Instant(self.time(*time)), "mark", label);
        }
        for loss in &timeline.losses {
            let timing = MarkerTiming::Interval(self.time(loss.from), self.time(loss.to.max(loss.from)));
            let count = if loss.count == 0 { String::new() } else { format!("{} ", loss.count) };
            self.text(home, timing, "lost", &format!("{count}{}", words::loss_for_people(loss.kind)));
        }
        for log in &self.capture.logs {
            for line in &log.lines {
                let Some(time) = line.time else { continue };
                let name = format!("log {}", words::level(line.level));
                self.text(home, MarkerTiming::Instant(self.time(time)), &name, &line.text);
            }
        }
    }

    fn text(&mut self, thread: ThreadHandle, timing: MarkerTiming, name: &str, text: &str) {
        let marker =
            TextMarker { name: self.profile.intern_string(name), text: self.profile.intern_string(text) };
        self.profile.add_marker(thread, timing, marker);
    }

    fn counters(&mut self) {
        let Some(table) = self.capture.metrics.iter().find(|table| table.name == "processes") else { return };
        let column = |name: &str| table.columns.iter().position(|column| column.name == name);
        let (user, system, memory) = (column("cpu.user"), column("cpu.system"), column("memory.rss"));
        let mut last: FxHashMap<Pid, (MonoNanos, f64)> = FxHashMap::default();
        let mut counters = FxHashMap::default();
        for row in &table.rows {
            let Some(pid) = row.keys.first().and_then(|key| key.parse().ok()).map(Pid) else { continue };
            let process = self.process(pid);
            let profile = &mut self.profile;
            let (memory_counter, cpu_counter) = *counters.entry(pid).or_insert_with(|| {
                let memory = profile.add_counter(
                    process,
                    "resident memory",
                    "Memory",
                    "Resident memory of the process",
                );
                let cpu = profile.add_counter(process, "processCPU", "CPU", "CPU time of the process");
                (memory, cpu)
            });
            let value = |column: Option<usize>| {
                column
                    .and_then(|column| row.values.get(column).copied().flatten())
                    .filter(|value| value.is_finite())
            };
            let time = Timestamp::from_nanos_since_reference(row.time.since(self.from).0);
            let (before, bytes) = last.get(&pid).copied().unwrap_or((row.time, 0.0));
            if let Some(now) = value(memory) {
                self.profile.add_counter_sample(memory_counter, time, now - bytes, 0);
                last.insert(pid, (row.time, now));
            } else {
                last.insert(pid, (row.time, bytes));
            }
            if let (Some(user), Some(system)) = (value(user), value(system)) {
                let elapsed = row.time.since(before).as_secs_f64();
                self.profile.add_counter_sample(cpu_counter, time, (user + system) * elapsed * 1e9, 0);
            }
        }
    }
}
