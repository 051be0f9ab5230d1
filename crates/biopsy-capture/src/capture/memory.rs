//! `--snapshots`: the memory of the target while it is recorded, at the beginning, at the end, and evenly between. What is allocated
//! meanwhile is in the same recording, on the same time axis.

use std::path::Path;
use std::time::{Duration, Instant};

use biopsy_analyze::{Diagnosis, FootprintSummary, Recorded};
use biopsy_import::Evidence;
use biopsy_model::capture::Capture;
use biopsy_record::trace::Control;

use crate::failure::Failure;
use crate::snapshot::patience::patiently;
use crate::snapshot::{add, series, take};

use super::record::Recording;

impl Recording<'_> {
    /// Takes those that are due, but for the last one, which is the end's.
    pub(super) fn memory_by(&mut self, elapsed: Duration) {
        let (count, length) = (self.plan.memory_snapshots, self.plan.length);
        while self.memory_looks.saturating_add(1) < count
            && elapsed >= due(self.memory_looks, count, length)
            && self.memory_rested()
        {
            self.look_at_memory();
        }
    }

    /// Whether the last one is long enough ago.
    fn memory_rested(&self) -> bool {
        let gap = due(1, self.plan.memory_snapshots, self.plan.length) / 2;
        self.memory_looked.is_none_or(|looked| looked.elapsed() >= gap)
    }

    /// Whether a recording whose time is over goes on: where a snapshot takes longer than it is to the next, there would be fewer than were
    /// wanted, or two at almost the same moment, and neither says what grows.
    pub(super) fn memory_needs_time(&mut self, elapsed: Duration, length: Option<Duration>) -> bool {
        let Some(length) = length.filter(|length| !length.is_zero()) else { return false };
        let is_missing = self.memory_looks.saturating_add(1) < self.plan.memory_snapshots;
        let needs = (is_missing || !self.memory_rested()) && elapsed < longest(length);
        if needs && !std::mem::replace(&mut self.memory_is_late, true) {
            let message = "it is recorded for longer than was asked: the snapshots of the memory take longer than it is from one to the next";
            self.draft.warn("snapshot.late", message.to_owned());
            self.job.note(message);
        }
        needs
    }

    /// The last one.
    pub(super) fn memory_at_end(&mut self) {
        if self.plan.memory_snapshots > 0 && !self.job.is_hurried() {
            self.look_at_memory();
        }
    }

    /// Says how many there is no time left for, behind a recording that came to its end.
    pub(super) fn tell_missing_memory(&mut self) {
        let missing = self.plan.memory_snapshots.saturating_sub(self.memory_looks);
        if missing > 0 && !self.job.is_hurried() {
            let wanted = self.plan.memory_snapshots;
            let message =
                format!("{missing} of {wanted} memory snapshots were not taken: those before took too long");
            self.draft.warn("snapshot.not-taken", message.clone());
            self.job.note(message);
        }
    }

    fn look_at_memory(&mut self) {
        self.memory_looks += 1;
        self.memory_looked = Some(Instant::now());
        let number = self.memory_looks;
        match self.one_look(number) {
            Ok(()) => {
                if let Some(trace) = &self.running.trace {
                    trace.send(Control::Mark(format!("memory snapshot {number}")));
                }
                self.job.step(format!("memory snapshot {number}"));
            }
            // What was recorded is worth more than one of several snapshots.
            Err(failure) => {
                let message = format!("memory snapshot {number} could not be taken: {failure}");
                self.draft.warn("snapshot.not-taken", message.clone());
                self.job.note(message);
            }
        }
    }

    fn one_look(&mut self, number: u32) -> Result<(), Failure> {
        let target = &self.subject.target;
        let longest = patience(self.plan.memory_snapshots, self.plan.length);
        let once = || target.check_same().and_then(|()| take::take(&self.plan.memory_how, &target.info));
        // The last one is taken of a recording that was asked to end, too.
        let is_last = number >= self.plan.memory_snapshots;
        let is_ended = || self.job.is_hurried() || !is_last && self.job.is_asked();
        let got = patiently(longest, is_ended, once)?;
        let what = format!("memory snapshot {number}");
        series::tell_if_late(got.late.as_ref(), &what, &mut self.draft, self.job);
        series::write(&got.it, number, &mut self.draft)
    }
}

/// How long after the beginning a snapshot is due; `number` counts from 0, and the last one is not asked for.
fn due(number: u32, count: u32, length: Option<Duration>) -> Duration {
    length.map_or(Duration::ZERO, |length| length * number / count.saturating_sub(1).max(1))
}

/// A recording of this length takes no longer than this for the sake of its snapshots.
fn longest(length: Duration) -> Duration {
    const MORE: Duration = Duration::from_secs(30);
    length.saturating_add(MORE)
}

/// How long one is tried for: not into the half of the time to the next one that lies before that, and the end does not wait for long.
fn patience(count: u32, length: Option<Duration>) -> Duration {
    const LONGEST: Duration = Duration::from_secs(10);
    due(1, count, length.or(Some(LONGEST))).div_f32(2.0).min(LONGEST)
}

/// What the snapshots of a recording hold, beside what was recorded over time.
pub(super) struct Beside {
    heaps: Vec<biopsy_analyze::HeapSummary>,
    footprints: Vec<FootprintSummary>,
}

impl Beside {
    /// Reads them, one after the other, from the folder of the recording.
    pub(super) fn read(folder: &Path) -> Result<Self, Failure> {
        let evidence = Evidence::look(folder).map_err(add::bad_input)?;
        let numbers = evidence.heaps().map_err(add::bad_input)?;
        let heaps = add::earlier(&evidence, &numbers)?;
        let (footprints, _) = evidence.footprints();
        let footprints =
            footprints.into_iter().map(|(name, facts)| FootprintSummary { name, facts }).collect();
        Ok(Self { heaps, footprints })
    }

    pub(super) fn diagnosis(self, capture: Capture) -> Diagnosis {
        Diagnosis::new(Some(Recorded::new(capture)), Vec::new(), self.heaps).with_footprints(self.footprints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_spread_evenly_and_the_last_is_the_end() {
        let length = Some(Duration::from_secs(300));
        let times = |count: u32| {
            (0..count.saturating_sub(1))
                .map(|number| due(number, count, length).as_secs())
                .collect::<Vec<_>>()
        };
        assert!(times(1).is_empty());
        assert_eq!(times(2), [0]);
        assert_eq!(times(4), [0, 100, 200]);
        assert_eq!(due(0, 2, None), Duration::ZERO, "without an end in sight: the beginning");
    }

    #[test]
    fn for_its_snapshots_a_recording_takes_half_a_minute_more_at_most() {
        let seconds = |length| longest(Duration::from_secs(length)).as_secs();
        assert_eq!([seconds(12), seconds(300)], [42, 330]);
    }

    #[test]
    fn a_snapshot_is_tried_for_no_longer_than_half_of_the_way_to_the_next() {
        let seconds = |count, length: Option<u64>| patience(count, length.map(Duration::from_secs)).as_secs();
        assert_eq!([seconds(3, Some(12)), seconds(3, Some(300)), seconds(1, None)], [3, 10, 5]);
    }
}
