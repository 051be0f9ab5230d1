//! What a recording holds of each quantity, by slices of its time.

use biopsy_model::stack::StackHandle;
use biopsy_model::timeline::{SamplingEvent, Timeline, WaitState};
use rustc_hash::FxHashMap;

use super::difference::Quantity;
use crate::limits::STACK_DEPTH;
use crate::recorded::Recorded;
use crate::trace::calls::{CallTree, Purpose};
use crate::trace::frames::{FrameTable, Role};
use crate::trace::function::{FunctionHandle, FunctionKind};
use crate::trace::wait_sites::{WaitSite, WaitSites};
use crate::trace::window::{Buckets, length};
use crate::whose::Whose;

/// Slices at most: enough to see how a mean wavers, few enough that a slice holds something.
const SLICES: usize = 60;
/// Length of a slice at least, in seconds.
const SHORTEST: f64 = 0.25;

/// One quantity.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Series {
    /// Seconds in each slice.
    pub(super) slices: Vec<f64>,
    /// Samples that it was estimated from; 0: it was measured.
    pub(super) samples: u64,
    /// Those of them that are in the kernel.
    pub(super) in_kernel: u64,
}

impl Series {
    /// Another one's time and samples as well.
    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.in_kernel += other.in_kernel;
        self.slices.iter_mut().zip(&other.slices).for_each(|(sum, part)| *sum += part);
    }

    /// All of it.
    pub(super) fn sum(&self) -> f64 {
        self.slices.iter().sum()
    }

    /// Without anything.
    pub(super) fn new(count: usize) -> Self {
        Self { slices: vec![0.0; count], ..Self::default() }
    }

    /// Share of its samples that is in the kernel, whose work depends on what else runs.
    pub(super) fn kernel_share(&self) -> f64 {
        self.in_kernel as f64 / self.samples.max(1) as f64
    }
}

/// A node of the call tree of CPU time.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) function: Quantity,
    pub(super) own: f64,
}

/// A recording by slices.
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    pub(super) seconds: f64,
    pub(super) count: usize,
    pub(super) samples: u64,
    pub(super) cpu_seconds: f64,
    /// Requests that were answered, where they were counted.
    pub(super) requests: Option<u64>,
    /// Share of the time in which its threads wanted to run and could not.
    pub(super) starved: f64,
    pub(super) of: FxHashMap<Quantity, Series>,
    /// Call tree; the first is the root, a parent comes before its children.
    pub(super) tree: Vec<Node>,
}

/// Reads one.
pub(super) fn read(of: &Recorded) -> Slices {
    let window = of.analysis.window;
    let seconds = length(window).as_secs_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and SLICES")]
    let count = (seconds / SHORTEST).clamp(1.0, SLICES as f64) as usize;
    let requests = of.capture.runtimes.iter().flat_map(|runtime| &runtime.request_groups);
    let requests = requests.fold(0_u64, |sum, group| sum.saturating_add(group.count));
    let rows = &of.analysis.threads.rows;
    let (running, ready) = rows.iter().fold((0.0, 0.0), |(running, ready), row| {
        (running + row.running.as_secs_f64(), ready + row.ready.as_secs_f64())
    });
    let starved = ready / f64::max(running + ready, f64::MIN_POSITIVE);
    let requests = (requests > 0).then_some(requests);
    let mut slices = Slices { seconds, count, requests, starved, ..Slices::default() };
    if let (Some(timeline), Some(buckets)) = (&of.capture.timeline, Buckets::new(window, count)) {
        let mut frames = FrameTable::new(timeline);
        slices.add_cpu(timeline, &mut frames, &buckets);
        slices.add_waits(timeline, &frames, &buckets, &of.capture.header.host.architecture);
    }
    slices
}

impl Slices {
    fn series(&mut self, quantity: Quantity) -> &mut Series {
        let count = self.count;
        self.of.entry(quantity).or_insert_with(|| Series::new(count))
    }

    fn add_cpu(&mut self, timeline: &Timeline, frames: &mut FrameTable, buckets: &Buckets) {
        let by_timer = timeline.settings.sampling_event == SamplingEvent::CpuClock;
        let tree = CallTree::new(timeline, frames, Purpose::Cpu { by_timer });
        let mut own = tree.zeros();
        let mut by_function: FxHashMap<FunctionHandle, Series> = FxHashMap::default();
        let mut of_stack: FxHashMap<StackHandle, Option<FunctionHandle>> = FxHashMap::default();
        for sample in &timeline.samples {
            let Some(slice) = buckets.of(sample.time) else { continue };
            let node = tree.node_of(sample.stack) as usize;
            let (Some(time), Some(call)) = (own.get_mut(node), tree.nodes.get(node)) else { continue };
            *time = *time + sample.weight;
            let weight = sample.weight.as_secs_f64();
            self.samples += 1;
            self.cpu_seconds += weight;
            let own = sample
                .stack
                .and_then(|stack| *of_stack.entry(stack).or_insert_with(|| place(timeline, frames, stack)));
            let series =
                by_function.entry(own.unwrap_or(call.function)).or_insert_with(|| Series::new(self.count));
            series.samples += 1;
            let innermost = frames.row(call.function).map(|row| row.kind);
            series.in_kernel +=
                u64::from(matches!(innermost, Some(FunctionKind::Kernel | FunctionKind::Heading)));
            if let Some(slot) = series.slices.get_mut(slice) {
                *slot += weight;
            }
        }
        for (function, series) in by_function {
            let Some(quantity) = quantity(frames, function) else { continue };
            self.series(quantity).add(&series);
        }
        let named = tree.nodes.iter().zip(own).map(|(node, own)| Node {
            parent: node.parent,
            function: quantity(frames, node.function).unwrap_or(Quantity::Function {
                kind: FunctionKind::Heading,
                module: String::new(),
                name: String::new(),
            }),
            own: own.as_secs_f64(),
        });
        self.tree = named.collect();
    }

    /// Waits by site: off-CPU samples where there are any, since they see short waits too.
    fn add_waits(&mut self, timeline: &Timeline, frames: &FrameTable, buckets: &Buckets, architecture: &str) {
        let mut sites = WaitSites::new(timeline, frames, architecture);
        let mut by_site: FxHashMap<WaitSite, Series> = FxHashMap::default();
        let count = self.count;
        let mut add = |site: WaitSite, slice: usize, seconds: f64, samples: u64| {
            let series = by_site.entry(site).or_insert_with(|| Series::new(count));
            series.samples += samples;
            if let Some(slot) = series.slices.get_mut(slice) {
                *slot += seconds;
            }
        };
        for sample in timeline.wait_samples.iter().filter(|sample| sample.state != WaitState::Preempted) {
            let site = sites.of(sample.stack, sample.syscall, sample.state);
            let looks = (sample.weight.0 / timeline.settings.wait_sample_period.0.max(1)).max(1);
            // Several looks at one wait are one event, which ends where it says.
            let from = sample.time - sample.weight;
            let mut left = looks;
            buckets.spread(from, sample.time, |slice, part| {
                add(site, slice, sample.weight.as_secs_f64() * part, std::mem::take(&mut left));
            });
        }
        if timeline.wait_samples.is_empty() {
            for wait in timeline.waits.iter().filter(|wait| wait.state != WaitState::Preempted) {
                let site = sites.of(wait.stack, wait.syscall, wait.state);
                let seconds = wait.end.since(wait.start).as_secs_f64();
                buckets.spread(wait.start, wait.end, |slice, part| add(site, slice, seconds * part, 0));
            }
        }
        for (site, series) in by_site {
            let function =
                site.function.and_then(|function| frames.row(function)).map(|row| row.name.clone());
            self.series(Quantity::Wait { reason: site.reason, function }).add(&series);
        }
    }
}

/// The function that time is counted for: the innermost one of the program itself, so that what libraries and the kernel do is done by
/// the one that asked for it; of a library where the stack has none of the program. Inlined functions count for the one that they were
/// inlined into: what is inlined differs from build to build.
fn place(timeline: &Timeline, frames: &FrameTable, stack: StackHandle) -> Option<FunctionHandle> {
    let outer = timeline
        .frames_of(Some(stack))
        .take(STACK_DEPTH)
        .filter_map(|frame| frames.of(frame).last().copied());
    let mut of_library = None;
    for function in outer.filter(|function| frames.role(*function) == Role::Plain) {
        let Some(row) = frames.row(function) else { continue };
        if !matches!(row.kind, FunctionKind::Native | FunctionKind::Jit) {
            continue;
        }
        if row.whose == Whose::Program {
            return Some(function);
        }
        of_library = of_library.or(Some(function));
    }
    of_library
}

/// A function by what is the same in another recording of the same program.
fn quantity(frames: &FrameTable, function: FunctionHandle) -> Option<Quantity> {
    let row = frames.row(function)?;
    let module = row.module.split(" [").next().unwrap_or_default().to_owned();
    Some(Quantity::Function { kind: row.kind, module, name: row.name.clone() })
}
