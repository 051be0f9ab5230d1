//! The last look before a recording is handed over: at the finished file, with code of its own, and nothing is handed over
//! while it finds anything.

use std::io::{self, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use biopsy_recording::{Limits, Packed, RecordingFolder, layout, timeline};
use biopsy_redact::Redactor;
use biopsy_redact::verify::{Finding, Verifier};

use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::interrupt;

use super::again::is_text;
use super::record::output_failure;
use super::seal::remove_folder;

/// What was handed over.
#[derive(Debug)]
pub(crate) struct HandedOver {
    /// The bundle, or the folder.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) is_bundle: bool,
}

/// Packs the folder, or seals it, unless a secret is still in what comes of it.
pub(crate) fn hand_over(
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
            None => Ok(HandedOver { bytes: bytes_of(folder.reach()), path, is_bundle: false }),
            Some(failure) => {
                // It must not look finished.
                let _ = std::fs::remove_file(folder.reach().join(layout::MANIFEST));
                Err(failure)
            }
        };
    };
    interrupt::made(out);
    let packed = folder.pack(out).map_err(output_failure)?;
    look_through(&packed, &mut verifier);
    if let Some(failure) = refusal(folder.path(), verifier.findings()) {
        return Err(failure);
    }
    let packed = packed.finish().map_err(output_failure)?;
    remove_folder(folder);
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
    } else if name.ends_with(layout::TYPES) {
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
fn timeline_texts(reader: impl Read) -> io::Result<Vec<u8>> {
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
    let hint = format!("the recording is kept in `{}`; it is not safe to share", folder.display());
    Some(Failure::new(Code::Secrets, message).with_hint(Some(hint)))
}

/// Bytes of all files of a folder.
fn bytes_of(folder: &Path) -> u64 {
    members(folder).iter().filter_map(|name| Some(folder.join(name).metadata().ok()?.len())).sum()
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
