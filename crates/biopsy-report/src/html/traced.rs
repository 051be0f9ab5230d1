//! Charts drawn from the trace: what the target's threads did, finer than the readings of the metrics.

use super::charts::{Chart, Charts, Line};
use super::numbers::round;
use super::readings::POINTS;
use crate::assemble::Assembly;
use crate::units::to_f64;
use biopsy_model::module::ModuleKind;
use biopsy_model::stack::FrameSpace;
use biopsy_model::timeline::{Sample, Timeline};
use biopsy_model::{MonoNanos, Nanos};

/// Points of these charts, and the shortest time a point may stand for: 50 samples at 999 Hz.
const BUCKETS: u64 = POINTS as u64 / 2;
const SHORTEST: u64 = 50_000_000;

/// Puts the charts of the trace before the others.
pub(super) fn add(assembly: &Assembly<'_>, charts: &mut Charts) {
    let Some(timeline) = &assembly.capture.timeline else { return };
    let (from, to) = assembly.window;
    let length = to.since(from).0;
    if length == 0 {
        return;
    }
    let bucket = (length / BUCKETS).max(SHORTEST).min(length);
    let buckets = Buckets { from, bucket, count: usize::try_from(length.div_ceil(bucket)).unwrap_or(1) };
    let grid = charts.grids.len();
    charts.grids.push(
        (0..buckets.count)
            .map(|index| ((to_f64(index as u64) + 0.5) * to_f64(bucket) / 1e6).round())
            .collect(),
    );
    let drawn = [states(timeline, &buckets, grid), samples(timeline, &buckets, grid)];
    for chart in drawn.into_iter().flatten() {
        charts.charts.insert(0, chart);
    }
}

/// Equal stretches of the window.
struct Buckets {
    from: MonoNanos,
    bucket: u64,
    count: usize,
}

impl Buckets {
    fn index(&self, time: MonoNanos) -> Option<usize> {
        let index = usize::try_from(time.0.checked_sub(self.from.0)? / self.bucket).ok()?;
        // The last moment of the window belongs to the last bucket.
        (index <= self.count).then(|| index.min(self.count - 1))
    }

    /// Spreads `amount` evenly over an interval.
    fn spread(&self, sums: &mut [f64], from: MonoNanos, to: MonoNanos, amount: Nanos) {
        // What lies before the window keeps its part.
        let (length, from, to) = (to.since(from).0, from.0.max(self.from.0), to.0);
        let (Some(first), true) = (self.index(MonoNanos(from)), length > 0) else { return };
        for (index, sum) in sums.iter_mut().enumerate().skip(first) {
            let start = self.from.0.saturating_add(self.bucket.saturating_mul(index as u64));
            if start >= to {
                break;
            }
            let part = to.min(start.saturating_add(self.bucket)).saturating_sub(from.max(start));
            *sum += to_f64(amount.0) * to_f64(part) / to_f64(length);
        }
    }
}

fn line(label: &str, role: &'static str, grid: usize, bucket: u64, sums: Vec<f64>) -> Line {
    Line {
        label: label.to_owned(),
        grid,
        values: sums.into_iter().map(|sum| Some(round(sum / to_f64(bucket)))).collect(),
        role,
        source: ("trace".to_owned(), vec![role.to_owned()], String::new()),
    }
}

/// CPU of the target by what kind of code ran.
fn samples(timeline: &Timeline, buckets: &Buckets, grid: usize) -> Option<Chart> {
    if timeline.samples.is_empty() {
        return None;
    }
    let mut sums = [const { Vec::new() }; 4].map(|mut sums: Vec<f64>| {
        sums.resize(buckets.count, 0.0);
        sums
    });
    for sample in &timeline.samples {
        if let Some(index) = buckets.index(sample.time) {
            sums[space(timeline, sample)][index] += to_f64(sample.weight.0);
        }
    }
    let kinds =
        [("native code", "native"), ("JIT code", "jit"), ("kernel", "kernel"), ("no stack", "unknown")];
    let lines: Vec<Line> = kinds
        .into_iter()
        .zip(sums)
        .filter(|(_, sums)| sums.iter().any(|sum| *sum > 0.0))
        .map(|((label, role), sums)| line(label, role, grid, buckets.bucket, sums))
        .collect();
    Some(Chart {
        id: "trace-cpu",
        title: "CPU of the target".to_owned(),
        unit: "cores",
        about: format!("cores, by {} samples a second of what ran", timeline.settings.frequency_hz.max(1)),
        stacked: true,
        ceiling: None,
        lines,
        merged: 1,
    })
}

/// What kind of code was innermost: native, JIT, kernel, no stack.
fn space(timeline: &Timeline, sample: &Sample) -> usize {
    let Some(handle) = timeline.frames_of(sample.stack).next() else { return 3 };
    let Some(frame) = timeline.frames.get(handle.0 as usize) else { return 3 };
    match (frame.space, timeline.module_of(handle).map(|(_, module)| module.kind)) {
        (FrameSpace::Kernel, _) | (_, Some(ModuleKind::Kernel)) => 2,
        (FrameSpace::User, Some(ModuleKind::Jit | ModuleKind::OtherFile | ModuleKind::Source)) => 1,
        (FrameSpace::User, _) => 0,
    }
}

/// How many threads ran, and how many had to wait for a CPU.
fn states(timeline: &Timeline, buckets: &Buckets, grid: usize) -> Option<Chart> {
    let settings = &timeline.settings;
    if timeline.states.is_empty() || !settings.has_states {
        return None;
    }
    let mut running = vec![0.0; buckets.count];
    let mut ready = vec![0.0; buckets.count];
    for slice in &timeline.states {
        buckets.spread(&mut running, slice.from, slice.to, slice.running);
        buckets.spread(&mut ready, slice.from, slice.to, slice.ready);
    }
    // Slices longer than a bucket make the chart coarser than it looks; the caption says how coarse.
    let slice = timeline.states.iter().map(|slice| slice.to.since(slice.from).0).max().unwrap_or(0);
    Some(Chart {
        id: "trace-states",
        title: "Running and ready threads".to_owned(),
        unit: "count",
        about: format!(
            "mean number of the target's threads on a CPU, and ready without one, in steps of {}",
            crate::units::duration(Nanos(slice.max(buckets.bucket)))
        ),
        stacked: true,
        ceiling: None,
        lines: vec![
            line("running", "running", grid, buckets.bucket, running),
            line("ready, no CPU", "ready", grid, buckets.bucket, ready),
        ],
        merged: 1,
    })
}

#[cfg(test)]
mod tests;
