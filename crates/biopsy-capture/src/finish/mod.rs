//! From a recording whose recorders have ended to something that can be handed over: masked once more, opened again, reported on,
//! searched for secrets, packed.

mod mask;
mod verify;

use biopsy_analyze::Analysis;
use biopsy_model::capture::Capture;
use biopsy_recording::{Limits, OpenError, layout};

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::place::Place;
use crate::recording::{Draft, output_failure};

pub use verify::HandedOver;

/// Masks and hands over a recording that has its reports, or needs none.
pub(crate) fn finish(job: &Job, draft: &Draft, place: &Place) -> Result<HandedOver, Failure> {
    finish_with(job, draft, place, |_| Ok(())).map(|(done, ())| done)
}

/// The same for a recording that gets the reports on a capture.
pub(crate) fn finish_with_report(
    job: &Job,
    draft: &Draft,
    place: &Place,
) -> Result<(HandedOver, (Capture, Analysis)), Failure> {
    finish_with(job, draft, place, |capture| {
        let analysis = biopsy_analyze::analyze(&capture);
        for (name, text) in [
            (layout::REPORT_HTML, biopsy_report::render_html(&capture, &analysis)),
            (layout::REPORT_JSON, biopsy_report::render_json(&capture, &analysis)),
            (layout::REPORT_MARKDOWN, biopsy_report::render_markdown(&capture, &analysis)),
        ] {
            draft.folder.write_text(name, &text).map_err(output_failure)?;
        }
        Ok((capture, analysis))
    })
}

fn finish_with<T>(
    job: &Job,
    draft: &Draft,
    place: &Place,
    report: impl FnOnce(Capture) -> Result<T, Failure>,
) -> Result<(HandedOver, T), Failure> {
    mask::mask_again(draft)?;
    // What cannot be opened again helps nobody.
    let capture = biopsy_recording::open(draft.folder.reach(), &Limits::default())
        .map_err(|error| not_opened_again(&error))?;
    let reported = report(capture)?;
    let done = verify::hand_over(job, &draft.folder, place.bundle.as_deref(), draft.masking.redactor())?;
    if !done.is_bundle {
        draft.leaving.made();
    }
    Ok((done, reported))
}

/// A recording that was just written cannot be read: the system refuses, or it is a mistake of ours.
fn not_opened_again(error: &OpenError) -> Failure {
    let kind = match error {
        OpenError::Io { .. } | OpenError::NotFound { .. } => FailureKind::Output,
        OpenError::NotARecording { .. }
        | OpenError::NewerFormat { .. }
        | OpenError::BadHeader { .. }
        | OpenError::BadZip { .. }
        | OpenError::OverLimit { .. } => FailureKind::Bug,
    };
    Failure::from_error(kind, error)
}

#[cfg(test)]
mod tests;
