//! From a finished recording to something that can be handed over: report, check, bundle.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use biopsy_analyze::Analysis;
use biopsy_model::capture::{Capture, CaptureHeader};
use biopsy_record::masking::Masking;
use biopsy_record::trace::Cut;
use biopsy_recording::{Limits, OpenError, RecordingFolder, layout};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt;
use crate::render::tell;

use super::again;
use super::output::Place;
use super::record::{Recorded, Session, output_failure};
use super::verify::{self, HandedOver};

/// What was made.
pub(crate) struct Sealed {
    /// The bundle, or the folder.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) is_bundle: bool,
    /// Empty after a second Ctrl-C.
    pub(crate) read: Option<(Capture, Analysis)>,
}

/// What is said of a folder that stays because something went wrong.
pub(crate) const KEPT: &str = "what was recorded is kept in";
/// What is said of a result that was made before something went wrong.
pub(crate) const MADE: &str = "the result itself is whole:";

/// The bundle is on the disk and has its name: now, and only now, the folder has served.
pub(crate) fn remove_folder(folder: &RecordingFolder) {
    if let Err(error) = folder.remove() {
        tell!(
            "note: `{}` could not be removed ({error}); all of it is in the bundle",
            folder.path().display()
        );
    }
}

/// Reads the recording back, writes the reports, checks for secrets, packs.
pub(crate) fn seal(recorded: &Recorded, place: &Place) -> Result<Sealed, Failure> {
    if recorded.hurried || interrupt::is_hurried() {
        return Ok(Sealed { path: place.folder.clone(), bytes: 0, is_bundle: false, read: None });
    }
    let sealed = seal_folder(&recorded.folder, &recorded.masking, place)?;
    recorded.leaving.made();
    Ok(sealed)
}

fn seal_folder(folder: &RecordingFolder, masking: &Masking, place: &Place) -> Result<Sealed, Failure> {
    again::mask_again(folder, masking)?;
    let capture = biopsy_recording::open(folder.reach(), &Limits::default())
        .map_err(|error| not_opened_again(&error))?;
    let analysis = biopsy_analyze::analyze(&capture);
    for (name, text) in [
        (layout::REPORT_HTML, biopsy_report::render_html(&capture, &analysis)),
        (layout::REPORT_JSON, biopsy_report::render_json(&capture, &analysis)),
        (layout::REPORT_MARKDOWN, biopsy_report::render_markdown(&capture, &analysis)),
    ] {
        folder.write_text(name, &text).map_err(output_failure)?;
    }
    let HandedOver { path, bytes, is_bundle } =
        verify::hand_over(folder, place.bundle.as_deref(), masking.redactor())?;
    Ok(Sealed { path, bytes, is_bundle, read: Some((capture, analysis)) })
}

/// A recording that was just written cannot be read: the system refuses, or it is a mistake of ours.
pub(crate) fn not_opened_again(error: &OpenError) -> Failure {
    let code = match error {
        OpenError::Io { .. } | OpenError::NotFound { .. } => Code::Output,
        OpenError::NotARecording { .. }
        | OpenError::NewerFormat { .. }
        | OpenError::BadHeader { .. }
        | OpenError::BadZip { .. }
        | OpenError::OverLimit { .. } => Code::Bug,
    };
    Failure::from_error(code, error)
}

/// Makes a bundle of a recording that goes on: a copy that ends here.
pub(super) fn snapshot(
    session: &Session,
    header: &CaptureHeader,
    cut: Option<&Cut>,
    place: &Place,
) -> Result<PathBuf, Failure> {
    let copy = Arc::new(RecordingFolder::create(&place.folder).map_err(output_failure)?);
    let _leaving = interrupt::removing(&place.folder);
    let copied = copy_members(session, &copy, cut)
        .and_then(|()| copy.header(header).map_err(output_failure))
        .and_then(|()| seal_folder(&copy, &session.masking, place));
    if copied.is_err() {
        let _ = copy.remove();
    }
    copied.map(|sealed| sealed.path)
}

fn copy_members(session: &Session, copy: &RecordingFolder, cut: Option<&Cut>) -> Result<(), Failure> {
    let from = session.folder.reach();
    let failed = |name: &str, error: std::io::Error| {
        Failure::new(Code::Output, format!("cannot copy `{name}` for the snapshot: {error}"))
    };
    for name in session.folder.members().map_err(output_failure)? {
        if name == layout::HEADER || name == layout::REDACTION {
            continue;
        }
        let file = std::fs::File::open(from.join(&name)).map_err(|error| failed(&name, error))?;
        let mut member = copy.create_member(&name).map_err(output_failure)?;
        let (limit, end) = match cut {
            Some(cut) if name == layout::TIMELINE => (cut.bytes, cut.end.as_slice()),
            _ => (u64::MAX, &[][..]),
        };
        std::io::copy(&mut file.take(limit), &mut member)
            .and_then(|_| member.write_all(end))
            .map_err(|error| failed(&name, error))?;
    }
    Ok(())
}
