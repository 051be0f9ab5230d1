//! The loop: reads what the kernel has, unwinds, and writes, fifty times a second.

mod end;
mod naming;
mod watching;

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use biopsy_model::loss::LossKind;
use biopsy_model::stack::{Frame, FrameHandle};
use biopsy_model::timeline::{SamplingEvent, TimelineEvent, TraceSettings, Wait};
use biopsy_model::{MonoNanos, Nanos, Pid};
use biopsy_sys::clock::monotonic_nanos;
use biopsy_sys::perf::Source;
use rustc_hash::FxHashMap;

use crate::favour;

use super::allocations::{Allocations, Counted, CountedProgram};
use super::attach::{Attached, Method, Plan, with_causes};
use super::before::Before;
use super::commands::{Control, Cut, TraceSummary};
use super::frames::Frames;
use super::intern::Interner;
use super::kernel::{KernelStats, ThreadTimes};
use super::languages::Finder;
use super::managed::Managed;
use super::names::Names;
use super::off_cpu::OffCpuSampler;
use super::processes::{Processes, task_ids};
use super::records::State;
use super::sink::Sink;
use super::sleepers::{FromProc, sleeping_thread};
use super::slices::Slices;
use super::thread_times::SwitchTimes;
use super::turns::{Turns, Used};

const SECOND: u64 = 1_000_000_000;
/// Above this share of a full ring buffer, stacks are not unwound but counted.
const BEHIND: f64 = 0.5;
/// Above this many long waits a second, the threshold doubles.
const WAITS_PER_SECOND: u64 = 20_000;
const LONGEST_THRESHOLD: u64 = 1_000_000_000;

/// The state of a running trace.
pub(super) struct Recorder {
    attached: Attached,
    plan: Plan,
    state: State,
    switches: SwitchTimes,
    off_cpu: OffCpuSampler,
    slices: Slices,
    names: Names,
    managed: Managed,
    interpreters: Finder,
    /// Where they are asked for, and can be seen.
    allocations: Option<Allocations>,
    /// What a program counts that was started for it.
    counted: Option<Counted>,
    /// New frames that are no managed code, until they are asked for.
    native: Vec<(FrameHandle, Frame)>,
    wait_period: Option<u64>,
    max_bytes: u64,
    /// From here on it has seen all.
    began: MonoNanos,
    next_look: u64,
    next_slice: u64,
    next_second: u64,
    last_stats: (u64, KernelStats),
    /// When the threshold was looked at, with the waits written and lost by then.
    waits_before: (u64, u64),
    all_exited: bool,
    /// Where switches may be watched in turns.
    turns: Option<Turns>,
    /// Since when they are not watched.
    unwatched_since: Option<u64>,
}

impl Recorder {
    /// Writes down what is there at the start.
    pub(super) fn new(
        attached: Attached,
        interpreters: Finder,
        plan: Plan,
        wait_period: Option<u64>,
        max_bytes: u64,
        mut sink: Sink,
    ) -> io::Result<Self> {
        let now = monotonic_nanos();
        let settings = TraceSettings {
            frequency_hz: plan.frequency_hz,
            sampling_event: match attached.source {
                Source::Cycles => SamplingEvent::Cycles,
                Source::CpuClock | Source::Dummy => SamplingEvent::CpuClock,
            },
            method: attached.method.recorded(),
            wait_threshold: Nanos(plan.wait_threshold),
            wait_sample_period: Nanos(wait_period.unwrap_or(0)),
            has_states: true,
            has_wakeups: attached.kernel.is_some() && plan.wakeups,
            has_kernel_stacks: attached.method != Method::UserOnly,
            follows_children: plan.follow_children,
        };
        sink.push(&TimelineEvent::Settings(settings))?;
        for attempt in &attached.attempts {
            let message = format!("the trace method `{}` was refused: {}", attempt.method, attempt.error);
            sink.warn("trace.method-refused", message, None)?;
        }
        for (pid, refusal) in &attached.left_out {
            let message = format!("process {pid} is not in the trace: {refusal}");
            let hint = "run as root, or as the user of that process".to_owned();
            sink.warn("trace.process-refused", message, Some(hint))?;
        }
        if attached.kernel.as_ref().is_some_and(|kernel| !kernel.tells_interrupts) {
            tracing::debug!(
                "wake-ups from interrupts inside system calls are credited to the interrupted thread"
            );
        }
        let mut interner = Interner::default();
        let mut processes = Processes::new(&mut interner, &mut sink, now)?;
        for &pid in &plan.pids {
            processes.add(pid, &mut interner, &mut sink, now)?;
        }
        let names = Names::start(processes.elf_cache(), plan.pace.debug_bytes)?;
        let managed = Managed::start(plan.pace.runtime_bytes)?;
        let period = Nanos(SECOND / u64::from(plan.frequency_hz.max(1)));
        let state = State {
            frames: Frames::new(processes, interner),
            sink,
            follow_children: plan.follow_children,
            period,
            skipped: 0,
            ended: Vec::new(),
            language: FxHashMap::default(),
            long_waits: None,
            error: None,
        };
        let next_slice = now + plan.pace.slice_nanos;
        let switches = SwitchTimes::new(plan.wait_threshold);
        let mut recorder = Self {
            attached,
            plan,
            state,
            switches,
            off_cpu: OffCpuSampler::default(),
            slices: Slices::default(),
            names,
            managed,
            interpreters,
            allocations: None,
            counted: None,
            native: Vec::new(),
            wait_period,
            max_bytes,
            began: MonoNanos(now),
            next_look: now,
            next_slice,
            next_second: now + SECOND,
            last_stats: (now, KernelStats::default()),
            waits_before: (now, 0),
            all_exited: false,
            turns: None,
            unwatched_since: None,
        };
        recorder.may_take_turns(now);
        let found = recorder.interpreters.found_first();
        recorder.set_languages(found);
        for pid in recorder.plan.pids.clone() {
            recorder.note_sleepers(pid, now)?;
        }
        recorder.state.sink.flush()?;
        Ok(recorder)
    }

    /// Also who allocates native memory. What stands against it is a warning.
    pub(super) fn watch_allocations(&mut self, pids: &[u32]) -> io::Result<()> {
        let prepared = match &self.attached.kernel {
            Some(kernel) => kernel
                .allocation_programs()
                .map_err(|error| with_causes(&error))
                .and_then(|programs| Allocations::prepare(programs, pids)),
            None => Err("they are seen by the kernel part of the trace, which is not there".to_owned()),
        };
        match prepared {
            Ok(allocations) => {
                self.allocations = Some(allocations);
                Ok(())
            }
            Err(why) => {
                let message = format!("allocations of native code are not seen: {why}");
                self.state.sink.warn("allocations.not-watched", message, None)
            }
        }
    }

    /// The program counts its allocations.
    pub(super) fn count_allocations(&mut self, program: CountedProgram, pid: Pid) {
        self.counted = Some(Counted::new(program, pid));
    }

    fn read_counted(&mut self, all_places: bool) {
        let Self { counted: Some(counted), state, .. } = self else { return };
        let result = counted.read(all_places, &mut state.frames, &mut state.sink);
        state.keep(result);
    }

    /// What is due of the watch over allocations.
    fn serve_allocations(&mut self, now: u64) {
        let Some(allocations) = &mut self.allocations else { return };
        let (watch, warning) = allocations.round(now);
        if let Some(warning) = warning {
            self.state.push(&TimelineEvent::Warning(warning));
        }
        if let Some(watch) = watch {
            self.state.push(&TimelineEvent::AllocationWatch(watch));
        }
    }

    /// Threads that sleep since before the recording have not been seen by the scheduler's tracepoints.
    fn note_sleepers(&mut self, pid: u32, now: u64) -> io::Result<()> {
        let tids = match task_ids(pid) {
            Ok(tids) => tids,
            Err(error) => {
                let message = format!(
                    "waits of process {pid} that began before the recording are not seen: its threads cannot be listed: {error}"
                );
                return self.state.sink.warn("trace.threads-unknown", message, None);
            }
        };
        for tid in tids {
            let Some(mut times) = sleeping_thread(pid, tid) else { continue };
            times.since = now;
            times.out_time = now;
            match &self.attached.kernel {
                Some(kernel) => {
                    let _ = kernel.add_sleeping_thread(tid, &times);
                }
                None => self.switches.sleeping(tid, times),
            }
        }
        Ok(())
    }

    /// Records until told to stop, or until nothing is left to record.
    pub(super) fn run(mut self, commands: &Receiver<Control>) -> TraceSummary {
        let mut turn = favour::Turn::of_reader();
        let round = self.plan.pace.round(self.attached.kernel.is_some());
        let mut cut_short = None;
        loop {
            match commands.recv_timeout(round) {
                Ok(Control::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Control::Mark(label)) => {
                    let time = MonoNanos(monotonic_nanos());
                    self.state.push(&TimelineEvent::Mark { time, label });
                }
                Ok(Control::Cut(answer)) => {
                    // Times up to now, too.
                    self.next_slice = self.next_slice.min(monotonic_nanos());
                    self.round();
                    self.note_unwatched_so_far();
                    self.name_frames(true);
                    if let Ok(Some((bytes, end))) = self.state.sink.cut() {
                        let _ = answer.send(Cut { bytes, end });
                    }
                }
                Ok(Control::Before(before)) => self.put_before(&before),
                Ok(Control::Methods(pid, methods)) => self.managed.methods(pid.0, methods),
                Err(RecvTimeoutError::Timeout) => {
                    if monotonic_nanos() >= self.next_second {
                        turn.renew();
                    }
                    self.round();
                }
            }
            if let Some(error) = self.state.error.take() {
                cut_short = Some(format!("writing the timeline failed: {error}"));
                break;
            }
            if self.state.sink.progress.bytes.load(Relaxed) >= self.max_bytes {
                cut_short = Some(format!("the timeline reached its limit of {} bytes", self.max_bytes));
                break;
            }
            if self.state.frames.processes.pids().is_empty() {
                self.all_exited = true;
                break;
            }
        }
        self.finish(cut_short, turn)
    }

    /// What another recorder has seen ends where this one begins: nothing is there twice.
    fn put_before(&mut self, before: &Before) {
        // The first samples may be of the moments in which this one was about to begin.
        self.round();
        let State { frames, sink, .. } = &mut self.state;
        let begin = sink.first_sample.map_or(self.began, |first| first.min(self.began));
        let result = before.put_into(begin, &mut frames.interner, sink);
        self.state.keep(result);
    }

    fn round(&mut self) {
        self.read_side_band();
        self.read_kernel_records();
        let now = monotonic_nanos();
        if self.wait_period.is_some() && now >= self.next_look || now >= self.next_slice {
            self.visit_threads(now);
        }
        self.take_turn(now);
        if now >= self.next_second {
            self.next_second = now + SECOND;
            self.each_second(now);
        }
        self.serve_allocations(now);
        self.tell_hints();
        self.serve_managed();
        self.find_languages();
    }

    fn read_side_band(&mut self) {
        let Self { attached, state, switches, off_cpu, counted, .. } = self;
        let mut records = Vec::new();
        attached.read_rings(&mut records);
        for record in records {
            if let Some(counted) = counted {
                state.before_the_end(&record, counted);
            }
            state.perf_record(record, switches, off_cpu);
        }
        for tid in std::mem::take(&mut state.ended) {
            if let Some(times) = self.times_of(tid) {
                let result = self.slices.update(tid, &times, monotonic_nanos(), true, &mut self.state.sink);
                self.state.keep(result);
            }
            self.forget(tid);
        }
    }

    fn times_of(&self, tid: u32) -> Option<ThreadTimes> {
        match &self.attached.kernel {
            Some(kernel) => kernel.thread(tid),
            None => self.switches.thread(tid),
        }
    }

    fn forget(&mut self, tid: u32) {
        if let Some(kernel) = &mut self.attached.kernel {
            let _ = kernel.forget(tid);
        }
        self.switches.forget(tid);
        self.slices.forget(tid);
        self.state.frames.forget(tid);
        if let Some(long_waits) = &mut self.state.long_waits {
            long_waits.forget(tid);
        }
        let result = self.off_cpu.forget(tid, &mut self.state.sink);
        self.state.keep(result);
    }

    fn read_kernel_records(&mut self) {
        let Self { attached, state, off_cpu, allocations, .. } = self;
        let Some(kernel) = &mut attached.kernel else { return };
        let allocations = allocations.as_ref();
        let behind = kernel.fill() > BEHIND;
        kernel.read(usize::MAX, |record| state.kernel_record(&record, off_cpu, allocations, behind));
    }

    /// Times and off-CPU samples, from one reading of the table.
    fn visit_threads(&mut self, now: u64) {
        let slice = now >= self.next_slice;
        let look = self.wait_period.is_some() && now >= self.next_look;
        let Self { attached, state, switches, off_cpu, slices, plan, .. } = self;
        let State { frames, sink, error, long_waits, .. } = state;
        if look {
            off_cpu.begin(now);
        }
        let mut used = Used::default();
        let mut result = Ok(());
        let mut visit = |tid: u32, times: ThreadTimes| {
            if result.is_err() || !frames.processes.contains(times.tgid) {
                return;
            }
            used.add(&times);
            if let Some(long_waits) = long_waits {
                let ended = long_waits.note(tid, &times, now, plan.wait_threshold).map(|wait| {
                    let stack = off_cpu.stack_within(tid, wait.start.0, wait.end.0);
                    TimelineEvent::Wait(Wait { stack, ..wait })
                });
                result = ended.map_or(Ok(()), |wait| sink.push(&wait));
            }
            if slice && result.is_ok() {
                result = slices.update(tid, &times, now, false, sink);
            }
            if look && result.is_ok() {
                result = off_cpu.note(tid, &times, now, sink);
            }
        };
        match &mut attached.kernel {
            Some(kernel) => {
                if let Err(failed) = kernel.threads(visit) {
                    tracing::warn!(%failed, "reading the table of threads");
                }
            }
            None => switches.threads(&mut visit),
        }
        if look && result.is_ok() {
            result = match &attached.kernel {
                Some(kernel) => off_cpu.look(now, kernel, frames, sink),
                None => off_cpu.look(now, &FromProc(switches), frames, sink),
            };
        }
        if let Err(failed) = result {
            *error = Some(failed);
        }
        if look {
            self.next_look = now + self.wait_period.unwrap_or(SECOND);
        }
        if let (true, Some(turns)) = (slice, &mut self.turns) {
            turns.read(now, used);
        }
        if slice {
            self.next_slice = now + self.plan.pace.slice_nanos;
            if self.note_losses(now) {
                self.adapt_threshold(now, true);
            }
            // Often, so that a recording that is cut off has the names of what it holds.
            self.name_frames(false);
        }
    }

    fn each_second(&mut self, now: u64) {
        self.read_counted(false);
        self.note_losses(now);
        self.adapt_threshold(now, false);
        if self.state.skipped > 0 {
            let skipped = std::mem::take(&mut self.state.skipped);
            let result =
                self.state.sink.lost(LossKind::StacksSkipped, now.saturating_sub(SECOND), now, skipped);
            self.state.keep(result);
        }
        self.state.sink.progress.threads.store(self.state.frames.processes.thread_count() as u64, Relaxed);
        self.name_frames(false);
        let result = self.state.sink.flush();
        self.state.keep(result);
    }

    /// What the kernel part has lost since the last time goes onto the time axis. Whether waits are among it.
    fn note_losses(&mut self, now: u64) -> bool {
        let Some(kernel) = &self.attached.kernel else { return false };
        let stats = kernel.stats();
        let (since, before) = self.last_stats;
        self.last_stats = (now, stats);
        for (kind, new, old) in [
            (LossKind::Samples, stats.lost_samples, before.lost_samples),
            (LossKind::Waits, stats.lost_waits, before.lost_waits),
            (LossKind::Waits, stats.threads_not_counted, before.threads_not_counted),
            (LossKind::Allocations, stats.lost_allocations, before.lost_allocations),
        ] {
            if new > old {
                let result = self.state.sink.lost(kind, since, now, new - old);
                self.state.keep(result);
            }
        }
        stats.lost_waits > before.lost_waits
    }

    /// A server with very many waits of a millisecond must not fill the disk, or the ring buffer faster than it is read: longer ones
    /// only, and the file says so. The rate is that of the time that has really passed: on a starved machine a second is a long time.
    fn adapt_threshold(&mut self, now: u64, losing: bool) {
        let waits = self.state.sink.progress.waits.load(Relaxed) + self.last_stats.1.lost_waits;
        let (since, before) = self.waits_before;
        self.waits_before = (now, waits);
        let recent = per_second(waits - before, now.saturating_sub(since));
        if recent <= WAITS_PER_SECOND && !losing || self.plan.wait_threshold >= LONGEST_THRESHOLD {
            return;
        }
        self.plan.wait_threshold *= 2;
        if let Some(kernel) = &self.attached.kernel {
            kernel.set_wait_threshold(self.plan.wait_threshold);
        }
        self.switches.wait_threshold = self.plan.wait_threshold;
        let message = format!(
            "{recent} long waits a second: from here on, only waits of {} ms and longer are written one by one \
             (shorter ones stay counted)",
            self.plan.wait_threshold / 1_000_000
        );
        let result = self.state.sink.warn("trace.wait-threshold-raised", message, None);
        self.state.keep(result);
    }

    fn tell_hints(&mut self) {
        let hints = std::mem::take(&mut self.state.frames.hints);
        let Some(kernel) = &self.attached.kernel else { return };
        for hint in &hints {
            // A full table means generous copies, nothing worse.
            let _ = kernel.set_hint(hint.tid, hint.base, hint.frame_pointers);
        }
    }
}

/// So many in so many nanoseconds, as a rate.
fn per_second(count: u64, nanos: u64) -> u64 {
    u64::try_from(u128::from(count) * u128::from(SECOND) / u128::from(nanos.max(1))).unwrap_or(u64::MAX)
}
