//! The end of a trace: what is still unread, the last times, and what became of it all.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use biopsy_model::loss::LossKind;
use biopsy_model::timeline::TimelineEvent;
use biopsy_sys::clock::monotonic_nanos;

use crate::favour;

use super::super::commands::TraceSummary;
use super::super::kernel::{KernelRecord, ThreadTimes};
use super::super::records::State;
use super::Recorder;

/// At the end, what the ring buffer holds is read for so long; the rest is counted.
const LAST_READING: Duration = Duration::from_secs(10);
/// Records between two looks at the clock then.
const LAST_BATCH: usize = 1024;

impl Recorder {
    /// `turn`: for what is still in the rings; naming frames has time.
    pub(super) fn finish(mut self, cut_short: Option<String>, turn: favour::Turn) -> TraceSummary {
        favour::all_threads();
        // First of all: breakpoints cost the target.
        if let Some(watch) = self.allocations.as_mut().and_then(|all| all.finish(monotonic_nanos())) {
            self.state.push(&TimelineEvent::AllocationWatch(watch));
        }
        self.read_counted(true);
        if let Some(counted) = &mut self.counted {
            counted.stop();
        }
        self.attached.stop();
        self.note_unwatched();
        if cut_short.is_none() {
            self.last_reading();
            if let Some(counted) = &mut self.counted {
                let result = counted.tell_what_is_missing(&mut self.state.sink);
                self.state.keep(result);
            }
            let now = monotonic_nanos();
            self.next_slice = now;
            self.last_slices(now);
            drop(turn);
            let result = self.off_cpu.finish(&mut self.state.sink);
            self.state.keep(result);
            self.each_second(now);
            self.name_frames(true);
        }
        let (frames, _) = self.state.frames.interner.counts();
        let progress = std::sync::Arc::clone(&self.state.sink.progress);
        let late_error = self.state.error.take().map(|error| format!("writing the timeline failed: {error}"));
        let finished = self.state.sink.finish();
        let cut_short = cut_short
            .or(late_error)
            .or_else(|| finished.as_ref().err().map(|error| format!("writing the timeline failed: {error}")));
        TraceSummary {
            method: self.attached.method.recorded(),
            frequency_hz: self.plan.frequency_hz,
            samples: progress.samples.load(Relaxed),
            rooted: progress.rooted.load(Relaxed),
            waits: progress.waits.load(Relaxed),
            wait_stacks: progress.wait_stacks.load(Relaxed),
            lost: progress.lost.load(Relaxed),
            bytes: finished.unwrap_or_else(|_| progress.bytes.load(Relaxed)),
            frames: (frames as u64, progress.named_frames.load(Relaxed)),
            all_exited: self.all_exited,
            cut_short,
        }
    }

    /// Reads what is left, for a bounded time.
    fn last_reading(&mut self) {
        self.read_side_band();
        let Self { attached, state, off_cpu, allocations, last_stats, .. } = self;
        let Some(kernel) = &mut attached.kernel else { return };
        let deadline = Instant::now() + LAST_READING;
        let seen = allocations.as_ref();
        while kernel.read(LAST_BATCH, |record| state.kernel_record(&record, off_cpu, seen, false)) > 0 {
            if Instant::now() > deadline {
                break;
            }
        }
        let (mut samples, mut waits, mut allocated) = (0, 0, 0);
        kernel.read(usize::MAX, |record| match record {
            KernelRecord::Sample { .. } => samples += 1,
            KernelRecord::Wait { .. } => waits += 1,
            KernelRecord::Allocation { .. } | KernelRecord::Release { .. } => allocated += 1,
            KernelRecord::Language { .. } => {}
        });
        if samples + waits + allocated == 0 {
            return;
        }
        let (since, now) = (last_stats.0, monotonic_nanos());
        for (kind, count) in
            [(LossKind::Samples, samples), (LossKind::Waits, waits), (LossKind::Allocations, allocated)]
        {
            if count > 0 {
                let result = state.sink.lost(kind, since, now, count);
                state.keep(result);
            }
        }
        let message = format!(
            "{samples} samples and {waits} waits were still unread {} s after the end, and were left out: the machine gave too little time",
            LAST_READING.as_secs()
        );
        let result = state.sink.warn("trace.end-cut-short", message, None);
        state.keep(result);
    }

    fn last_slices(&mut self, now: u64) {
        let Self { attached, state, switches, slices, .. } = self;
        let State { frames, sink, error, .. } = state;
        let mut result = Ok(());
        let mut last = |tid: u32, times: ThreadTimes| {
            if result.is_ok() && frames.processes.contains(times.tgid) {
                result = slices.update(tid, &times, now, true, sink);
            }
        };
        match &mut attached.kernel {
            Some(kernel) => {
                let _ = kernel.threads(last);
            }
            None => switches.threads(&mut last),
        }
        if let Err(failed) = result {
            *error = Some(failed);
        }
    }
}
