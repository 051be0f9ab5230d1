//! Adding a snapshot to a recording of the same process.
//!
//! The recording is written anew beside the old one, which gives way in one step at the end: whatever happens, one of both is whole. Two
//! that add at once are told apart by a lock on the old one.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use biopsy_analyze::{FootprintSummary, HeapSummary};
use biopsy_import::Evidence;
use biopsy_model::capture::EndedBy;
use biopsy_recording::{CopyError, Limits, layout};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags, flock, renameat_with};

use super::plan::{Snapshot, SnapshotPlan};
use super::series::{Summaries, beside_the_target, take_all};
use super::take::take;
use crate::failure::{Failure, FailureKind};
use crate::finish::{HandedOver, finish};
use crate::job::{Job, Patience};
use crate::place::Place;
use crate::recording::Draft;
use crate::target::Target;

/// Takes a snapshot, or several, and adds them to the recording.
pub(super) fn add(plan: &SnapshotPlan, target: Target, into: &Path, job: &Job) -> Result<Snapshot, Failure> {
    let _lock = lock(into)?;
    let limits = Limits::default();
    let before = biopsy_recording::open(into, &limits)
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
    if before.header.target.as_ref() != Some(&target.info.key) {
        let (path, pid) = (into.display(), target.info.key.pid);
        let message = format!("`{path}` is not of this process {pid}, but of another or of an earlier run");
        let hint = "name another file; `biopsy compare` takes both";
        return Err(Failure::new(FailureKind::BadInput, message).with_hint(Some(hint)));
    }
    let evidence = Evidence::look(into).map_err(bad_input)?;
    let numbers = evidence.heaps().map_err(bad_input)?;
    let (footprints, _) = evidence.footprints();
    let last =
        numbers.last().copied().unwrap_or_default().max(u32::try_from(footprints.len()).unwrap_or(u32::MAX));
    let number = last.saturating_add(1);
    let place =
        Place { folder: beside(into, ".adding"), bundle: into.is_file().then(|| beside(into, ".new")) };
    place.check()?;
    job.be_patient(Patience::Unlimited);
    let taken = take(&plan.how, &target.info)?;
    let command = &plan.command;
    let mut draft = Draft::begin(job, &place.folder, &target.info.key, &target.name, command)?;
    draft.header.start = before.header.start;
    draft.masking.log().add_counts(&before.redactions);
    draft.folder.copy_members(into, &limits, is_kept).map_err(|error| copy_failure(&error))?;
    let mut summaries = Summaries { heaps: earlier(&evidence, &numbers)?, footprints: Vec::new() };
    summaries.footprints.extend(footprints.into_iter().map(|(name, facts)| FootprintSummary { name, facts }));
    let more = take_all(plan, &target, &mut draft, number, taken, job)?;
    summaries.heaps.extend(more.heaps);
    summaries.footprints.extend(more.footprints);
    draft.end(EndedBy::Snapshot)?;
    let (made, diagnosis) = finish(job, &draft, &place, |_| summaries.diagnosis())?;
    let result = put_in_place(&made, into).map_err(|error| {
        let (made, into) = (made.path.display(), into.display());
        Failure::new(
            FailureKind::Output,
            format!("`{made}` is whole, and could not take the place of `{into}`: {error}"),
        )
    })?;
    Ok(Snapshot { diagnosis, result })
}

/// Nobody else adds to it as long as this lives.
fn lock(into: &Path) -> Result<OwnedFd, Failure> {
    let failed = |error: rustix::io::Errno| {
        Failure::new(FailureKind::BadInput, format!("cannot open `{}`: {error}", into.display()))
    };
    // Whatever it is: nobody waits for the other end of a pipe.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(into, flags, Mode::empty()).map_err(failed)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        let message = format!("somebody else is adding a snapshot to `{}`", into.display());
        Failure::new(FailureKind::Output, message).with_hint(Some("try again when that has ended"))
    })?;
    Ok(file)
}

/// What stays as it is: all but what is written anew at the end.
fn is_kept(name: &str) -> bool {
    ![
        layout::HEADER,
        layout::MANIFEST,
        layout::REDACTION,
        layout::REPORT_HTML,
        layout::REPORT_JSON,
        layout::REPORT_MARKDOWN,
    ]
    .contains(&name)
}

/// What the snapshots in a recording hold, one after the other: each may be as large as memory allows.
pub(crate) fn earlier(evidence: &Evidence, numbers: &[u32]) -> Result<Vec<HeapSummary>, Failure> {
    let mut heaps = Vec::new();
    for number in numbers {
        let heap = evidence.heap(*number).map_err(bad_input)?;
        heaps.extend(heap.iter().map(|heap| beside_the_target(&heap.name, &heap.graph, &heap.facts)));
    }
    Ok(heaps)
}

/// `name.biopsy.zip.new`: in the same folder, so that it can take the place of the other in one step.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    while name.to_string_lossy().ends_with('/') {
        name = OsString::from(name.to_string_lossy().trim_end_matches('/'));
    }
    name.push(ending);
    name.into()
}

/// The new one takes the place of the old one, which is removed.
fn put_in_place(made: &HandedOver, into: &Path) -> std::io::Result<HandedOver> {
    if made.is_bundle {
        std::fs::rename(&made.path, into)?;
    } else {
        renameat_with(CWD, &made.path, CWD, into, RenameFlags::EXCHANGE)?;
        std::fs::remove_dir_all(&made.path)?;
    }
    Ok(HandedOver { path: into.to_owned(), ..made.clone() })
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
pub(crate) fn bad_input(error: biopsy_import::EvidenceError) -> Failure {
    Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint())
}

fn copy_failure(error: &CopyError) -> Failure {
    let kind = if matches!(error, CopyError::Write(_)) { FailureKind::Output } else { FailureKind::BadInput };
    Failure::from_error(kind, error)
}
