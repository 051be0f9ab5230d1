//! The last look before a recording is handed over: at the finished file, with code of its own, and nothing is handed over
//! while it finds anything.

use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use biopsy_recording::{Limits, Packed, RecordingFolder, layout, timeline};
use biopsy_redact::Redactor;
use biopsy_redact::verify::{Finding, Verifier};
use biopsy_sys::memory_folder::is_by_descriptor;

use crate::failure::{Failure, FailureKind};
use crate::job::Job;
use crate::recording::output_failure;

use super::mask::{is_text, is_types};

/// A result that may leave the house.
#[derive(Clone, Debug)]
pub struct HandedOver {
    /// The bundle, or the folder.
    pub path: PathBuf,
    /// Bytes of all of its files.
    pub bytes: u64,
    /// It is a bundle.
    pub is_bundle: bool,
}

/// Packs the folder, or seals it, unless a secret is still in what comes of it.
pub(super) fn hand_over(
    job: &Job,
    folder: &RecordingFolder,
    bundle: Option<&Path>,
    redactor: &Redactor,
) -> Result<HandedOver, Failure> {
    let learned = redactor.fingerprints();
    let mut verifier = Verifier::new(&learned);
    let Some(out) = bundle else {
        folder.seal().map_err(output_failure)?;
        for name in folder.members().map_err(output_failure)? {
            match folder.edit_member(&name) {
                Ok(file) => look(&mut verifier, &name, file),
                Err(_) => verifier.unreadable(&name, &io::ErrorKind::Other.into()),
            }
        }
        let path = folder.path().to_owned();
        return match refusal(&path, verifier.findings()) {
            None => Ok(HandedOver { bytes: bytes_of(folder), path, is_bundle: false }),
            Some(failure) => {
                // It must not look finished.
                let _ = std::fs::remove_file(folder.reach().join(layout::MANIFEST));
                Err(failure)
            }
        };
    };
    job.made(out);
    let packed = folder.pack(out).map_err(output_failure)?;
    look_through(&packed, &mut verifier);
    if let Some(failure) = refusal(folder.path(), verifier.findings()) {
        return Err(failure);
    }
    let packed = packed.finish().map_err(output_failure)?;
    // The bundle is on the disk and has its name: now, and only now, the folder has served.
    if let Err(error) = folder.remove() {
        let path = folder.path().display();
        job.note(format!("`{path}` could not be removed ({error}); all of it is in the bundle"));
    }
    Ok(HandedOver { path: packed.path, bytes: packed.bytes, is_bundle: true })
}

/// Every member of a zip, as it is in the file; what was left out of it because it could not be read is a finding, too.
fn look_through(packed: &Packed, verifier: &mut Verifier<'_>) {
    for left_out in packed.warnings() {
        verifier.unreadable(&left_out.message, &io::ErrorKind::Other.into());
    }
    if let Err(error) = packed.each_member(|name, reader| look(verifier, name, reader)) {
        verifier.unreadable("the bundle", &error);
    }
}

/// Looks at one member by what it is.
fn look(verifier: &mut Verifier<'_>, name: &str, reader: impl Read) {
    if name == layout::TIMELINE {
        match timeline_texts(reader) {
            Ok(texts) => verifier.member(name, Cursor::new(texts)),
            Err(error) => verifier.unreadable(name, &error),
        }
    } else if is_text(name) || name == layout::REDACTION || layout::is_event_stream(name) {
        verifier.member(name, reader);
    } else if is_types(name) {
        // Names of types are code, where words that look like keys are none.
        match zstd::Decoder::new(reader) {
            Ok(types) => verifier.learned_in(name, types),
            Err(error) => verifier.unreadable(name, &error),
        }
    } else {
        // Memory is no text: the manifest says what it is, and nobody calls it clean. Columns are numbers.
        verifier.name(name);
    }
}

/// Every text of the timeline, a line each.
pub(super) fn timeline_texts(reader: impl Read) -> io::Result<Vec<u8>> {
    let mut texts = Vec::new();
    let read = timeline::read_events(BufReader::new(reader), &Limits::default(), |mut event| {
        timeline::each_text(&mut event, |text| {
            texts.extend_from_slice(text.as_bytes());
            texts.push(b'\n');
        });
    });
    read.map(|_| texts).map_err(io::Error::other)
}

fn refusal(folder: &Path, findings: Vec<Finding>) -> Option<Failure> {
    if findings.is_empty() {
        return None;
    }
    let shown: Vec<String> = findings.iter().take(5).map(ToString::to_string).collect();
    let more = findings.len().saturating_sub(shown.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("no bundle was made: the check for secrets found {}{more}", shown.join("; "));
    let kept = || format!("the recording is kept in `{}`; it is not safe to share", folder.display());
    // What is in memory alone goes with this process.
    let hint = (!is_by_descriptor(folder)).then(kept);
    Some(Failure::new(FailureKind::Secrets, message).with_hint(hint))
}

/// Bytes of all files of a recording.
fn bytes_of(folder: &RecordingFolder) -> u64 {
    let length = |name: &String| Some(folder.reach().join(name).metadata().ok()?.len());
    folder.members().unwrap_or_default().iter().filter_map(length).sum()
}
