//! Taking a snapshot of the memory of a process, its managed heap if it has one, or several, and writing them down.

pub(crate) mod add;
mod heap_file;
pub(crate) mod patience;
mod plan;
pub(crate) mod series;
pub(crate) mod take;

use std::path::PathBuf;

use biopsy_model::capture::EndedBy;
use biopsy_record::context::Moment;

pub use self::heap_file::{HeapFormat, write_heap, write_heap_file};
pub use self::plan::{From, How, Snapshot, SnapshotPlan};
use self::series::{Summaries, take_all};
use self::take::take;
use crate::capture::wait;
use crate::failure::{Failure, FailureKind, KEPT};
use crate::finish::{HandedOver, finish};
use crate::job::{Job, Patience};
use crate::place::{Place, ends_with};
use crate::recording::{Draft, output_failure};
use crate::target::{self, Target};

/// Takes a snapshot, and writes it as the plan says.
///
/// # Errors
/// It cannot be taken, or not be written; a target that cannot be read leaves no folder behind.
pub fn run(plan: &SnapshotPlan, job: &Job) -> Result<Snapshot, Failure> {
    let target = target::find(&plan.target)?;
    wait::wait(&plan.on, &target, job)?;
    target.check_same()?;
    if let Some(into) = plan.into.as_deref().filter(|into| into.symlink_metadata().is_ok()) {
        return add::add(plan, target, into, job);
    }
    if plan.count > 1 {
        // What was taken is kept when somebody does not want to wait for the rest.
        job.be_patient(Patience::Unlimited);
    }
    match plan.output.as_ref().or(plan.into.as_ref()) {
        Some(path) if ends_with(path, ".gcdump") => {
            Place::alone(path.clone()).check()?;
            let (heap, footprint) = take(&plan.how, &target.info)?;
            let Some(heap) = heap else {
                let why = format!("{} has no managed heap, and a `.gcdump` holds nothing else", target.name);
                let hint = Some("without `.gcdump`, the snapshot says where its memory went");
                return Err(Failure::new(FailureKind::Target, why).with_hint(hint));
            };
            let leaving = job.removing(path);
            let bytes = write_heap_file(HeapFormat::GcDump, &target.name, &heap.0, &heap.1, path)?;
            leaving.made();
            let result = HandedOver { path: path.clone(), bytes, is_bundle: false };
            let mut summaries = Summaries::default();
            summaries.add(&target.name, (Some(heap), footprint));
            Ok(Snapshot { diagnosis: summaries.diagnosis(), result })
        }
        output => {
            let place = Place::folder_or_bundle(output.map(PathBuf::as_path), &target.name);
            place.check()?;
            record(plan, target, &place, job).map_err(|failure| failure.naming(KEPT, &place.folder))
        }
    }
}

fn record(plan: &SnapshotPlan, target: Target, place: &Place, job: &Job) -> Result<Snapshot, Failure> {
    // Before anything is written.
    let taken = take(&plan.how, &target.info)?;
    let mut draft = Draft::begin(job, &place.folder, &target.info.key, &target.name, &plan.command)?;
    let process = std::slice::from_ref(&target.info);
    draft.context(process, Moment::Start).map_err(output_failure)?;
    draft.write_processes(process)?;
    let summaries = take_all(plan, &target, &mut draft, 1, taken, job)?;
    draft.end(EndedBy::Snapshot)?;
    let (result, diagnosis) = finish(job, &draft, place, |_| summaries.diagnosis())?;
    Ok(Snapshot { diagnosis, result })
}
