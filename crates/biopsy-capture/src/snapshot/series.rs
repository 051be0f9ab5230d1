//! One snapshot after the other: taken, written, summed up.

use std::time::{Duration, Instant};

use biopsy_analyze::{Diagnosis, FootprintSummary, HeapSummary};
use biopsy_dotnet::graph::Graph;
use biopsy_model::heap::HeapFacts;
use biopsy_record::snapshot;
use biopsy_target::freeze::own_headroom;

use super::patience::patiently;
use super::plan::SnapshotPlan;
use super::take::{Taken, take};
use crate::failure::Failure;
use crate::job::Job;
use crate::recording::{Draft, output_failure, warning};
use crate::target::Target;

/// What snapshots hold, the oldest first.
#[derive(Default)]
pub(crate) struct Summaries {
    pub(crate) heaps: Vec<HeapSummary>,
    pub(crate) footprints: Vec<FootprintSummary>,
}

impl Summaries {
    pub(super) fn add(&mut self, name: &str, (heap, footprint): Taken) {
        self.heaps.extend(heap.iter().map(|(graph, facts)| beside_the_target(name, graph, facts)));
        let summary = |facts| FootprintSummary { name: name.to_owned(), facts };
        self.footprints.extend(footprint.map(summary));
    }

    pub(super) fn diagnosis(self) -> Diagnosis {
        Diagnosis::new(None, Vec::new(), self.heaps).with_footprints(self.footprints)
    }
}

/// Sums up a heap where a server may need the same memory and processors: with a half of the memory that is to be had, and behind all
/// others (setpriority(2)).
pub(super) fn beside_the_target(name: &str, graph: &Graph, facts: &HeapFacts) -> HeapSummary {
    /// What works for minutes, and nobody waits for.
    const NICE: i32 = 10;
    let most = own_headroom().map_or(u64::MAX, |headroom| headroom.to_spare(0) / 2);
    let behind_all = || {
        let _ = rustix::process::setpriority_process(None, NICE);
        HeapSummary::within(name, graph, facts, most)
    };
    // A thread of its own: who may not go before others cannot take its own value back.
    std::thread::scope(|scope| match std::thread::Builder::new().spawn_scoped(scope, behind_all) {
        Ok(work) => work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        // There is no thread to be had: then in front of others.
        Err(_) => HeapSummary::within(name, graph, facts, most),
    })
}

/// Writes the first snapshot, and takes and writes those that are wanted behind it. Returns what they hold. What cannot be taken is told;
/// those before it stay.
pub(super) fn take_all(
    plan: &SnapshotPlan,
    target: &Target,
    draft: &mut Draft,
    number: u32,
    first: Taken,
    job: &Job,
) -> Result<Summaries, Failure> {
    let mut begun = Instant::now();
    let mut summaries = Summaries::default();
    let mut next = Some(first);
    for number in number..number.saturating_add(plan.count.max(1)) {
        let taken = match next.take() {
            Some(taken) => taken,
            None => {
                job.step(format!(
                    "snapshot {number} follows {:?} after the one before; Ctrl-C keeps what there is",
                    plan.every
                ));
                begun += plan.every;
                while Instant::now() < begun && !job.is_asked() {
                    std::thread::sleep(LOOK.min(begun.saturating_duration_since(Instant::now())));
                }
                if job.is_asked() {
                    break;
                }
                let once = || target.check_same().and_then(|()| take(&plan.how, &target.info));
                match patiently(plan.every / 2, || job.is_asked(), once) {
                    Ok(got) => {
                        tell_if_late(got.late.as_ref(), &format!("snapshot {number}"), draft, job);
                        got.it
                    }
                    Err(failure) => {
                        let message = format!("snapshot {number} could not be taken: {failure}");
                        draft.warn("snapshot.series", message.clone());
                        job.note(message);
                        break;
                    }
                }
            }
        };
        write(&taken, number, draft)?;
        summaries.add(&target.name, taken);
    }
    Ok(summaries)
}

/// Says of a snapshot that it was not had at the first try.
pub(crate) fn tell_if_late(late: Option<&(Duration, Failure)>, what: &str, draft: &mut Draft, job: &Job) {
    if let Some((by, why)) = late {
        let message = format!("{what} was taken {:.1} s late, since before: {why}", by.as_secs_f64());
        draft.warn("snapshot.late", message.clone());
        job.note(message);
    }
}

/// How often it is looked whether somebody wants an end.
const LOOK: Duration = Duration::from_millis(100);

/// Writes a snapshot into a recording.
pub(crate) fn write((heap, footprint): &Taken, number: u32, draft: &mut Draft) -> Result<(), Failure> {
    let of_heap = heap.iter().flat_map(|(_, facts)| &facts.warnings);
    let notes = of_heap.chain(footprint.iter().flat_map(|footprint| &footprint.warnings));
    let warnings: Vec<_> = notes.map(|message| warning("snapshot.note", message.clone())).collect();
    draft.warn_all(&warnings);
    if let Some((graph, facts)) = heap {
        snapshot::write(graph, facts, number, &draft.folder).map_err(output_failure)?;
    }
    if let Some(footprint) = footprint {
        draft.folder.footprint(number, footprint).map_err(output_failure)?;
    }
    draft.keep();
    Ok(())
}
