//! The last look before a bundle is made: with code of its own, and no bundle while it finds anything.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use biopsy_model::capture::Capture;
use biopsy_model::timeline::TimelineEvent;
use biopsy_record::masking::Masking;
use biopsy_recording::{RecordingFolder, layout};
use biopsy_redact::Redactor;
use biopsy_redact::verify::{Finding, verify};

use crate::exit_codes::Code;
use crate::failure::Failure;

/// Larger members are not passed through the redactor a second time; the check still reads them whole.
const REDO_BYTES: u64 = 256 << 20;

/// Masks what was learned after a member had been written.
pub(crate) fn mask_again(folder: &RecordingFolder, masking: &Masking) -> Result<(), Failure> {
    for name in members(folder.path()) {
        if name == layout::TIMELINE
            || name == layout::REDACTION
            || layout::is_memory(&name)
            || layout::is_event_stream(&name)
            || layout::is_column(&name)
        {
            continue;
        }
        let path = folder.path().join(&name);
        if path.metadata().map_or(true, |meta| meta.len() > REDO_BYTES) {
            continue;
        }
        let Ok(bytes) = std::fs::read(&path) else { continue };
        let masked = masking.redactor().bytes(&bytes);
        if !masked.hits.is_empty() {
            masking.log().add(&name, &masked.hits);
            folder.write_bytes(&name, &masked.bytes).map_err(super::record::output_failure)?;
        }
    }
    folder.redactions(&masking.log().counts()).map_err(super::record::output_failure)
}

/// Refuses if a secret is still there.
pub(crate) fn check(folder: &Path, capture: &Capture, redactor: &Redactor) -> Result<(), Failure> {
    let strings = timeline_strings(capture);
    // Memory is not text: the manifest says what it is, and nobody calls it clean.
    let texts = members(folder).into_iter().filter(|name| {
        let is_text = !layout::is_memory(name) && !layout::is_event_stream(name) && !layout::is_column(name);
        name != layout::TIMELINE && is_text
    });
    let files = texts.filter_map(|name| {
        let file = File::open(folder.join(&name)).ok()?;
        Some((name, Box::new(file) as Box<dyn Read>))
    });
    let timeline = (layout::TIMELINE.to_owned(), Box::new(Cursor::new(strings)) as Box<dyn Read>);
    let findings = verify(files.chain([timeline]), &redactor.fingerprints());
    if findings.is_empty() { Ok(()) } else { Err(refusal(folder, &findings)) }
}

fn refusal(folder: &Path, findings: &[Finding]) -> Failure {
    let shown: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
    let more = findings.len().saturating_sub(shown.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("no bundle was made: the check for secrets found {}{more}", shown.join("; "));
    let hint = format!("the recording is kept in `{}`; it is not safe to share", folder.display());
    Failure::new(Code::Secrets, message).with_hint(Some(hint))
}

/// Everything textual of the timeline, which is compressed in its own file: a line each.
fn timeline_strings(capture: &Capture) -> Vec<u8> {
    let Some(timeline) = &capture.timeline else { return Vec::new() };
    let modules = timeline.modules.iter().map(|module| module.path.as_str());
    let threads = timeline.threads.iter().map(|thread| thread.info.name.as_str());
    let marks = timeline.marks.iter().map(|(_, label)| label.as_str());
    let functions = timeline.symbols.iter().flatten().flat_map(|symbols| &symbols.functions);
    let names =
        functions.flat_map(|function| [Some(function.name.as_str()), function.file.as_deref()]).flatten();
    let executed = timeline.process_events.iter().filter_map(|event| match event {
        TimelineEvent::Exec { name, .. } => Some(name.as_str()),
        _ => None,
    });
    // Those of the timeline are among them.
    let warnings = capture.warnings.iter().map(|warning| warning.message.as_str());
    let mut out = Vec::new();
    for text in modules.chain(threads).chain(marks).chain(names).chain(executed).chain(warnings) {
        out.extend_from_slice(text.as_bytes());
        out.push(b'\n');
    }
    out
}

/// Names of all members, folders walked without following links.
pub(crate) fn members(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        let Ok(entries) = std::fs::read_dir(folder.join(&relative)) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = relative.join(entry.file_name());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file()
                && let Some(name) = path.to_str()
            {
                found.push(name.to_owned());
            }
        }
    }
    found.sort();
    found
}
