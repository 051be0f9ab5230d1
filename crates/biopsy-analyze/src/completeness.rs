//! What was recorded, how whole it is, and what could not be determined.

use crate::ratio::ratio as share;
use crate::trace::frames::{FrameTable, as_u32};
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::window;
use biopsy_model::capture::Capture;
use biopsy_model::loss::{Loss, LossKind};
use biopsy_model::order::Order as _;
use biopsy_model::stack::{FrameSpace, StackEnd};
use biopsy_model::timeline::{SamplingEvent, Timeline};
use biopsy_model::{MonoNanos, Nanos};
use rustc_hash::FxHashMap;

/// How whole a recording is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Completeness {
    /// Length of the window.
    pub seconds: f64,
    /// The recording was cut short: it has no end.
    pub partial: bool,
    /// There is a trace.
    pub has_trace: bool,
    /// There are metrics.
    pub has_metrics: bool,
    /// There are logs.
    pub has_logs: bool,
    /// How the trace was taken: see `TraceSettings::method`.
    pub method: String,
    /// CPU samples.
    pub samples: u64,
    /// CPU time the samples stand for.
    pub sampled: Nanos,
    /// Recorded waits.
    pub waits: u64,
    /// Off-CPU samples.
    pub off_cpu_samples: u64,
    /// Threads seen.
    pub threads: usize,
    /// Lost, by kind: kind, number of losses known (0: not known how many), time covered by them.
    pub losses: Vec<LossTotal>,
    /// Share of user stacks that reach the thread's root, 0 to 1; `None`: no user stacks.
    pub reaching_root: Option<f64>,
    /// Share of frames (weighted by samples) without a name, 0 to 1; `None`: no frames.
    pub unnamed_frames: Option<f64>,
    /// Share of frames with a name, of each kind of code; `None`: no frames of it.
    pub named: NamedShares,
    /// Modules with the most unnamed frames: name, share of all frames (at most 5).
    pub unnamed_modules: Vec<(String, f64)>,
    /// The wall clock stepped by this many milliseconds during the recording; zero: it did not.
    pub clock_step_ms: f64,
    /// What could not be determined, one sentence each. A report always shows this section.
    pub undetermined: Vec<String>,
}

/// How many of the frames have names, by kind of code, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct NamedShares {
    /// Code that a runtime compiled.
    pub managed: Option<f64>,
    /// Native code; what is in no module counts here.
    pub native: Option<f64>,
    /// The kernel.
    pub kernel: Option<f64>,
}

/// Losses of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct LossTotal {
    /// What.
    pub kind: LossKind,
    /// How many; 0 where no number is known.
    pub count: u64,
    /// Length of the intervals they were lost in, overlaps counted once.
    pub time: Nanos,
    /// Share of all things of this kind that was lost, 0 to 1, where that is known.
    pub share: Option<f64>,
}

impl Completeness {
    pub(crate) fn new(
        capture: &Capture,
        window: Option<(MonoNanos, MonoNanos)>,
        frames: Option<&FrameTable>,
    ) -> Completeness {
        let mut out = Completeness {
            seconds: window::length(window).as_secs_f64(),
            partial: capture.header.end.is_none(),
            has_trace: capture.timeline.is_some(),
            has_metrics: capture.metrics.iter().any(|table| !table.rows.is_empty()),
            has_logs: capture.logs.iter().any(|log| !log.lines.is_empty()),
            clock_step_ms: clock_step_ms(capture),
            ..Completeness::default()
        };
        if let (Some(timeline), Some(frames)) = (&capture.timeline, frames) {
            out.add_trace(timeline, frames);
        }
        out.add_undetermined(capture);
        out
    }

    fn add_trace(&mut self, timeline: &Timeline, frames: &FrameTable) {
        timeline.settings.method.as_str().clone_into(&mut self.method);
        self.samples = timeline.samples.len() as u64;
        self.sampled = timeline.samples.iter().fold(Nanos(0), |sum, sample| sum + sample.weight);
        self.waits = timeline.waits.len() as u64;
        self.off_cpu_samples = timeline.wait_samples.len() as u64;
        self.threads = timeline.threads.len();
        self.losses = losses(timeline);
        let user = timeline.samples.iter().filter(|sample| sample.end != StackEnd::KernelOnly);
        let all = user.clone().count();
        let whole = user.filter(|sample| sample.end == StackEnd::Root).count();
        self.reaching_root = (all > 0).then(|| share(whole as u64, all as u64));
        self.add_unnamed(timeline, frames);
    }

    /// Weighs each frame by the samples it occurs in.
    fn add_unnamed(&mut self, timeline: &Timeline, frames: &FrameTable) {
        let mut times = vec![0u64; timeline.stacks.len()];
        for stack in timeline.samples.iter().filter_map(|sample| sample.stack) {
            if let Some(times) = times.get_mut(stack.0 as usize) {
                *times += 1;
            }
        }
        let (mut all, mut unnamed) = (0u64, 0u64);
        // Managed, native, kernel: all frames, and those with a name.
        let mut kinds = [(0u64, 0u64); 3];
        let mut modules: FxHashMap<FunctionHandle, u64> = FxHashMap::default();
        for number in (0..timeline.stacks.len()).rev() {
            let (Some(stack), Some(&count)) = (timeline.stacks.get(number), times.get(number)) else {
                continue;
            };
            let caller = stack.caller.filter(|caller| caller.0 < as_u32(number));
            if let Some(caller) = caller.and_then(|caller| times.get_mut(caller.0 as usize)) {
                *caller = caller.saturating_add(count);
            }
            all = all.saturating_add(count);
            let Some(&function) = frames.of(stack.frame).first() else { continue };
            let Some(row) = frames.row(function) else { continue };
            let [managed, native, kernel] = &mut kinds;
            let (seen, named) = match row.kind {
                FunctionKind::Jit => managed,
                FunctionKind::Native | FunctionKind::Unknown | FunctionKind::Heading => native,
                FunctionKind::Kernel => kernel,
            };
            *seen = seen.saturating_add(count);
            if row.named {
                *named = named.saturating_add(count);
            } else {
                unnamed = unnamed.saturating_add(count);
                *modules.entry(function).or_default() += count;
            }
        }
        self.unnamed_frames = (all > 0).then(|| share(unnamed, all));
        let [managed, native, kernel] = kinds.map(|(all, named)| (all > 0).then(|| share(named, all)));
        self.named = NamedShares { managed, native, kernel };
        let mut by_name: FxHashMap<&str, u64> = FxHashMap::default();
        for (function, count) in modules {
            let name = frames.row(function).map_or("", |row| row.module.as_str());
            *by_name.entry(if name.is_empty() { "outside all modules" } else { name }).or_default() += count;
        }
        let mut by_name: Vec<(&str, u64)> = by_name.into_iter().collect();
        by_name.order_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
        self.unnamed_modules =
            by_name.iter().take(5).map(|&(name, count)| (name.to_owned(), share(count, all))).collect();
    }

    /// Share of the time in which context switches were not watched on purpose, where that is worth a word.
    fn unwatched_share(&self) -> Option<f64> {
        let loss = self.losses.iter().find(|loss| loss.kind == LossKind::Switches)?;
        let share = loss.time.as_secs_f64() / self.seconds;
        Some(share.min(1.0)).filter(|share| *share >= 0.01)
    }

    fn add_undetermined(&mut self, capture: &Capture) {
        for look in &capture.looks {
            let of = |text: &String| format!("in the memory of process {}: {text}", look.pid);
            self.undetermined.extend(look.undetermined.iter().map(of));
        }
        let mut say = |text: &str| self.undetermined.push(text.to_owned());
        if self.partial {
            say(
                "what happened at the end: the recording was cut short and holds only what was written by then",
            );
        }
        let Some(timeline) = &capture.timeline else {
            say(
                "which code used the CPU and what threads waited for: there is no trace; `biopsy capture TARGET` takes one",
            );
            if !self.has_metrics {
                say("how much CPU, memory and disk was used: there are no metrics");
            }
            return;
        };
        let settings = &timeline.settings;
        if !settings.has_states {
            say(
                "how long threads waited or were ready without a CPU: thread states were not recorded; `biopsy doctor` says what that needs",
            );
        }
        if !settings.has_wakeups {
            say("which thread woke which: wake-ups were not recorded; `biopsy doctor` says what that needs");
        }
        if timeline.wait_samples.is_empty() && timeline.waits.iter().all(|wait| wait.stack.is_none()) {
            say("in which functions threads waited: no stacks of waiting threads were taken");
        }
        if !settings.has_kernel_stacks && timeline.frames.iter().all(|frame| frame.space == FrameSpace::User)
        {
            say("what the kernel did on behalf of the process: kernel frames were not recorded");
        }
        if settings.wait_threshold.0 > 0 && !timeline.waits.is_empty() {
            let ms = milliseconds(settings.wait_threshold);
            self.undetermined
                .push(format!("single waits shorter than {ms} ms: only their sums were recorded"));
        }
        if !timeline.allocation_counts.is_empty() {
            self.undetermined.push(
                "memory that the program maps by itself (`mmap`), as Python, Go and Java do for their objects: allocations were counted where `malloc` and its \
                 like are called"
                    .to_owned(),
            );
        }
        if let Some(share) = self.unwatched_share() {
            self.undetermined.push(format!(
                "single waits of less than some tenths of a second in {:.0} % of the time: context switches were watched in turns there, because there \
                 were so many that watching all would have slowed the process down; times and counts of threads are whole",
                share * 100.0
            ));
        }
        if settings.sampling_event == SamplingEvent::CpuClock {
            self.undetermined.push(
                "what the kernel did with interrupts off: samples come from a timer, and are attributed to the code around it"
                    .to_owned(),
            );
        }
        if let Some(unnamed) = self.unnamed_frames.filter(|&unnamed| unnamed >= 0.05) {
            let modules: Vec<&str> =
                self.unnamed_modules.iter().map(|module| module.0.as_str()).take(3).collect();
            self.undetermined.push(format!(
                "names of {:.0} % of the frames: no symbols for {}; native functions without a name are counted by where they begin",
                unnamed * 100.0,
                modules.join(", ")
            ));
        }
        if let Some(whole) = self.reaching_root.filter(|&whole| whole < 0.95) {
            self.undetermined.push(format!(
                "the outermost callers of {:.0} % of the samples: their stacks break off before the thread's first function",
                (1.0 - whole) * 100.0
            ));
        }
        if self.samples == 0 {
            self.undetermined.push("where CPU time went: there are no CPU samples".to_owned());
        }
        if !self.has_metrics {
            self.undetermined.push(
                "whether CPU, memory, disk or a quota of the machine was short: there are no metrics"
                    .to_owned(),
            );
        }
        if !self.has_logs {
            self.undetermined.push("what the process itself logged: no log lines were recorded".to_owned());
        }
    }
}

/// By how much the wall clock went faster or slower than the monotonic one, where that is more than drift.
#[expect(clippy::cast_precision_loss, reason = "milliseconds of a step need no 53 bits")]
fn clock_step_ms(capture: &Capture) -> f64 {
    let (start, Some(end)) = (&capture.header.start, &capture.header.end) else { return 0.0 };
    let wall = end.wall_unix_nanos.saturating_sub(start.wall_unix_nanos);
    let mono = i128::from(end.mono.0) - i128::from(start.mono.0);
    let step = wall.saturating_sub(mono) as f64 / 1e6;
    // NTP slews by at most 0.05 % (adjtimex(2)); readings of two clocks are never quite at one moment.
    let slew = (mono as f64 / 1e6).abs() * 5e-4 + 20.0;
    if step.abs() > slew { step } else { 0.0 }
}

fn losses(timeline: &Timeline) -> Vec<LossTotal> {
    let mut by_kind: FxHashMap<LossKind, Vec<&Loss>> = FxHashMap::default();
    for loss in &timeline.losses {
        by_kind.entry(loss.kind).or_default().push(loss);
    }
    let mut totals: Vec<LossTotal> = by_kind
        .into_iter()
        .map(|(kind, mut losses)| {
            losses.order_by_key(|loss| loss.from);
            let count: u64 = losses.iter().fold(0, |sum, loss| sum.saturating_add(loss.count));
            let kept = match kind {
                LossKind::Samples | LossKind::StacksSkipped => Some(timeline.samples.len() as u64),
                LossKind::Waits => Some(timeline.waits.len() as u64),
                _ => None,
            };
            // Skipped stacks are samples that were kept, without their stack.
            let of =
                |kept: u64| if kind == LossKind::StacksSkipped { kept } else { kept.saturating_add(count) };
            // Of a number that nobody counted there is no share.
            let share = kept.filter(|_| count > 0).map(|kept| share(count, of(kept)).min(1.0));
            LossTotal { kind, count, time: covered(&losses), share }
        })
        .collect();
    totals.order_by_key(|total| total.kind);
    totals
}

/// Length of the union of intervals in order of their start.
fn covered(losses: &[&Loss]) -> Nanos {
    let mut sum = Nanos(0);
    let mut until = MonoNanos(0);
    for loss in losses {
        sum = sum + loss.to.since(loss.from.max(until));
        until = until.max(loss.to);
    }
    sum
}

/// One division of whole numbers, so that it is written as people write it: 0.009, and not 0.009000000000000001.
#[expect(clippy::cast_precision_loss, reason = "for display: 2^53 ns are 104 days")]
fn milliseconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e6
}

#[cfg(test)]
mod tests;
