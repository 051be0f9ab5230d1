//! Stopping the recorders, and what is taken at the end.

use std::process::Child;
use std::time::Duration;

use biopsy_model::ClockPair;
use biopsy_model::capture::EndedBy;
use biopsy_model::loss::Warning;
use biopsy_model::process::ProcessInfo;
use biopsy_record::context::{Moment, clock_pair};
use biopsy_record::logs::LogWatch;
use biopsy_record::trace::{TraceHandle, TraceSummary};

use crate::failure::Failure;
use crate::recording::{output_failure, warning};

use super::plan::{StacksWish, Wish};
use super::record::{Recorded, Recording};
use super::stacks::{Frozen, Why};
use super::{runtimes, stacks, still};

impl Recording<'_> {
    /// Ends the recording: everything is on the disk, and nothing runs any more.
    pub(super) fn end(mut self, watch: LogWatch) -> Result<Recorded, Failure> {
        let mut warnings = Vec::new();
        let trace = self.stop_recorders(&mut warnings);
        let end = clock_pair();
        let asked = self.remote.wait(Duration::ZERO) == Some(Wish::Stop);
        let hurried = asked && self.job.hurries_behind_the_end();
        let mut frozen = Vec::new();
        if !hurried {
            // Read again before that is decided.
            self.draft.header.end = Some(end.clone());
            let bytes = trace.as_ref().map_or(0, |trace| trace.bytes);
            // Processes stand still for it.
            biopsy_record::favour::step_up();
            frozen = self.take_stacks(bytes, &mut warnings);
            if self.plan.unattended {
                biopsy_record::favour::step_behind();
            }
            self.take_last(watch, &end, &mut warnings);
        }
        if self.draft.header.ended_by == EndedBy::DiskFull {
            let message = "the disk was nearly full: the recording was ended to leave room for the server";
            warnings.push(warning("recording.disk-full", message));
        }
        if let Some(child) = self.child.take() {
            warnings.push(fate_of(child, &self.draft.header.target_name));
        }
        warnings.extend(clock_step(&self.draft.header.start, &end));
        self.draft.warn_all(&warnings);
        self.draft.header.end = Some(end);
        self.draft.folder.redactions(&self.draft.masking.log().counts()).map_err(output_failure)?;
        self.draft.write_header()?;
        biopsy_record::favour::all_threads();
        Ok(Recorded { draft: self.draft, trace, snapshots: self.snapshots, frozen, hurried })
    }

    fn stop_recorders(&mut self, warnings: &mut Vec<Warning>) -> Option<TraceSummary> {
        // Somebody waits from here on: on a starved machine, for minutes.
        biopsy_record::favour::all_threads();
        let trace = self.running.trace.take().map(TraceHandle::stop);
        biopsy_record::favour::all_threads();
        // What the recorder held must not add to what reading the recording needs.
        biopsy_sys::limits::return_free_memory();
        if let Some(cut) = trace.as_ref().and_then(|summary| summary.cut_short.as_ref()) {
            warnings.push(warning("trace.cut-short", format!("the timeline ends early: {cut}")));
        }
        if let Some(recorder) = self.running.dotnet.take() {
            let before = std::mem::take(&mut self.running.before);
            warnings.extend(runtimes::stop(recorder, before.runtimes));
        }
        if let Some(handle) = self.running.metrics.take() {
            let summary = handle.stop();
            if let Some(error) = summary.error {
                warnings.push(warning("metrics.cut-short", format!("the metrics end early: {error}")));
            }
            warnings.extend(summary.warnings);
        }
        trace
    }

    /// What memory says, where that is wished and allowed.
    fn take_stacks(&self, timeline_bytes: u64, warnings: &mut Vec<Warning>) -> Vec<Frozen> {
        let (plan, draft) = (self.plan, &self.draft);
        // As it is now: those that were started meanwhile are looked at, too.
        let tree = || self.subject.target.tree(plan.children);
        match plan.stacks {
            StacksWish::Never => Vec::new(),
            StacksWish::Always => {
                let tree = tree().unwrap_or_else(|error| {
                    let message =
                        format!("stacks of processes that were started meanwhile are not taken: {error}");
                    warnings.push(warning("stacks.not-listed", message));
                    self.tree.clone()
                });
                stacks::at_all(&tree, Why::Asked, draft, self.job, warnings)
            }
            StacksWish::WhereNothingMoves => {
                let still = self.beginning.still(&tree().unwrap_or_default());
                if still.is_empty()
                    || draft.write_header().is_err()
                    || still::is_explained(draft, timeline_bytes)
                {
                    return Vec::new();
                }
                self.job.step(format!(
                    "nothing moved, and nothing that was recorded says why: looking once at the memory of {} \
                     (`--never-stop` forbids that)",
                    if still.len() == 1 {
                        "1 process".to_owned()
                    } else {
                        format!("{} processes", still.len())
                    },
                ));
                stacks::at_all(&still, Why::NothingMoved, draft, self.job, warnings)
            }
        }
    }

    /// The context of the end, and logs.
    fn take_last(&self, watch: LogWatch, end: &ClockPair, warnings: &mut Vec<Warning>) {
        let (plan, draft) = (self.plan, &self.draft);
        if !plan.trace_only {
            let alive: Vec<ProcessInfo> =
                self.tree.iter().filter(|process| biopsy_target::is_same(&process.key)).cloned().collect();
            if let Err(error) = draft.context(&alive, Moment::End) {
                warnings.push(warning("context.not-written", error.to_string()));
            }
        }
        if !plan.logs.is_empty() || !plan.journal.is_empty() {
            match watch.collect(&draft.header.start, end, &draft.folder, &draft.masking) {
                Ok(summary) => warnings.extend(summary.warnings),
                Err(error) => warnings.push(warning("logs.not-written", error.to_string())),
            }
        }
    }
}

/// A program that was started goes on by itself if it still runs; if it has ended, nobody else would collect it.
fn fate_of(mut child: Child, name: &str) -> Warning {
    match child.try_wait() {
        Ok(Some(status)) => warning("target.ended", format!("`{name}` ended: {status}")),
        _ => {
            let message = format!("`{name}` was still running at the end of the recording");
            warning("target.goes-on", message)
        }
    }
}

/// The wall clock moved against the monotonic one: times in logs may be off.
fn clock_step(start: &ClockPair, end: &ClockPair) -> Option<Warning> {
    const TOLERATED_NANOS: i128 = 500_000_000;
    let mono = i128::from(end.mono.since(start.mono).0);
    let step = end.wall_unix_nanos - start.wall_unix_nanos - mono;
    (step.abs() > TOLERATED_NANOS).then(|| {
        let seconds = step / 1_000_000_000;
        let message = format!(
            "the wall clock stepped by {seconds} s during the recording: log lines may lie that far beside their place"
        );
        warning("recording.clock-step", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::MonoNanos;

    fn at(mono_seconds: u64, wall_seconds: i128) -> ClockPair {
        ClockPair {
            mono: MonoNanos(mono_seconds * 1_000_000_000),
            wall_unix_nanos: wall_seconds * 1_000_000_000,
            ..ClockPair::default()
        }
    }

    #[test]
    fn a_stepped_wall_clock_is_said() {
        assert_eq!(clock_step(&at(10, 1000), &at(70, 1060)), None);
        let warning = clock_step(&at(10, 1000), &at(70, 4660)).unwrap();
        assert!(warning.message.contains("stepped by 3600 s"), "{}", warning.message);
        assert!(clock_step(&at(10, 1000), &at(70, 900)).unwrap().message.contains("-160 s"));
    }
}
