//! From a recording whose recorders have ended to something that can be handed over: masked once more, opened again, reported on,
//! searched for secrets, packed.

mod mask;
mod verify;

use biopsy_analyze::Diagnosis;
use biopsy_model::capture::Capture;
use biopsy_recording::{Limits, OpenError, layout};
use biopsy_report::{Mask, render_html, render_json, render_markdown};

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::place::Place;
use crate::recording::{Draft, output_failure};

pub use verify::HandedOver;

/// Masks a recording, opens it again, writes the reports on what `diagnose` makes of it, and hands it over.
pub(crate) fn finish(
    job: &Job,
    draft: &Draft,
    place: &Place,
    diagnose: impl FnOnce(Capture) -> Diagnosis,
) -> Result<(HandedOver, Diagnosis), Failure> {
    mask::mask_again(draft)?;
    // What cannot be opened again helps nobody.
    let capture = biopsy_recording::open(draft.folder.reach(), &Limits::default())
        .map_err(|error| not_opened_again(&error))?;
    let diagnosis = diagnose(capture);
    write_reports(draft, &diagnosis)?;
    let done = verify::hand_over(job, &draft.folder, place.bundle.as_deref(), draft.masking.redactor())?;
    if !done.is_bundle {
        draft.leaving.made();
    }
    Ok((done, diagnosis))
}

fn write_reports(draft: &Draft, diagnosis: &Diagnosis) -> Result<(), Failure> {
    let redactor = draft.masking.redactor();
    let mask = |text: &str| redactor.text(text).text.into_owned();
    // What was recorded is masked already.
    let from_memory = !diagnosis.dumps.is_empty() || !diagnosis.heaps.is_empty();
    let mask: Option<Mask<'_>> = from_memory.then_some(&mask);
    // One after the other: a page may be large.
    let write = |name: &str, text: &str| draft.folder.write_text(name, text).map_err(output_failure);
    write(layout::REPORT_HTML, &render_html(diagnosis, mask))?;
    write(layout::REPORT_JSON, &render_json(diagnosis, mask))?;
    write(layout::REPORT_MARKDOWN, &render_markdown(diagnosis, mask))
}

/// A recording that was just written cannot be read: the system refuses, or it is a mistake of ours.
fn not_opened_again(error: &OpenError) -> Failure {
    let kind = match error {
        OpenError::Io { .. } | OpenError::NotFound { .. } => FailureKind::Output,
        OpenError::NotARecording { .. }
        | OpenError::NewerFormat { .. }
        | OpenError::BadHeader { .. }
        | OpenError::BadZip { .. }
        | OpenError::Sealed(_)
        | OpenError::OverLimit { .. } => FailureKind::Bug,
    };
    Failure::from_error(kind, error)
}

#[cfg(test)]
mod tests;
