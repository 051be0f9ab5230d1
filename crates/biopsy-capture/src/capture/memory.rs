//! `--snapshots`: the memory of the target while it is recorded, at the beginning, at the end, and evenly between. What is allocated
//! meanwhile is in the same recording, on the same time axis.

use std::path::Path;
use std::time::Duration;

use biopsy_analyze::{Diagnosis, FootprintSummary, Recorded};
use biopsy_import::Evidence;
use biopsy_model::capture::Capture;
use biopsy_record::trace::Control;

use crate::failure::Failure;
use crate::snapshot::{add, series, take};

use super::record::Recording;

impl Recording<'_> {
    /// Takes those that are due, but for the last one, which is the end's.
    pub(super) fn memory_by(&mut self, elapsed: Duration) {
        let count = self.plan.memory_snapshots;
        while self.memory_looks.saturating_add(1) < count
            && elapsed >= due(self.memory_looks, count, self.plan.length)
        {
            self.look_at_memory();
        }
    }

    /// The last one.
    pub(super) fn memory_at_end(&mut self) {
        if self.plan.memory_snapshots > 0 && !self.job.is_hurried() {
            self.look_at_memory();
        }
    }

    fn look_at_memory(&mut self) {
        self.memory_looks += 1;
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
        target.check_same()?;
        let taken = take::take(&self.plan.memory_how, &target.info)?;
        series::write(&taken, number, &mut self.draft)
    }
}

/// How long after the beginning a snapshot is due; `number` counts from 0, and the last one is not asked for.
fn due(number: u32, count: u32, length: Option<Duration>) -> Duration {
    length.map_or(Duration::ZERO, |length| length * number / count.saturating_sub(1).max(1))
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
}
