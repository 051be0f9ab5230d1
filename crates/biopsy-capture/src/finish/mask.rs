//! Masking once more what was written before a secret was learned: every member, with all that was learned until the end.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;

use biopsy_record::masking::Masking;
use biopsy_recording::{Limits, RecordingFolder, WriteError, layout, timeline};
use biopsy_redact::{Hit, InPlace, Redactor};

use crate::failure::Failure;
use crate::recording::{Draft, output_failure};

/// Passes over the texts. One pass may teach what the next one masks; what two do not settle, the check will find.
const PASSES: usize = 3;
/// Most bytes that names of types have when they are unpacked; a million of them have a tenth of it.
const TYPES_MOST: u64 = 1 << 30;
/// Bytes of an event stream that are masked at a time.
const STEP: usize = 1 << 20;

/// Masks what was learned after a member had been written.
pub(super) fn mask_again(draft: &Draft) -> Result<(), Failure> {
    let Draft { folder, masking, .. } = draft;
    let redactor = masking.redactor();
    for pass in 0..PASSES {
        let before = redactor.generation();
        for name in folder.members().map_err(output_failure)? {
            if pass == 0 && name == layout::TIMELINE {
                has_secrets(folder, redactor)?;
            } else if is_text(&name) {
                mask_text(folder, masking, &name)?;
            }
        }
        if redactor.generation() == before {
            break;
        }
    }
    let in_place = redactor.in_place();
    for name in folder.members().map_err(output_failure)? {
        if layout::is_event_stream(&name) {
            let file = folder.edit_member(&name).map_err(output_failure)?;
            let hits = mask_stream(&file, &in_place).map_err(|error| failed("mask", folder, &name, error))?;
            masking.log().add(&name, &hits);
        } else if is_types(&name) {
            mask_types(folder, masking, &in_place, &name)?;
        } else if name == layout::TIMELINE && has_secrets(folder, redactor)? {
            mask_timeline(folder, masking)?;
        }
    }
    warn_of_limits(draft, redactor);
    folder.redactions(&masking.log().counts()).map_err(output_failure)
}

fn failed(doing: &'static str, folder: &RecordingFolder, name: &str, error: io::Error) -> Failure {
    output_failure(WriteError::io(doing, &folder.path().join(name), error))
}

/// Members that are gone over as text.
pub(super) fn is_text(name: &str) -> bool {
    name != layout::TIMELINE
        && name != layout::REDACTION
        && !layout::is_memory(name)
        && !layout::is_event_stream(name)
        && !layout::is_column(name)
}

/// Names of the types of a snapshot: code, in which what was learned elsewhere is masked and no rule is asked.
pub(super) fn is_types(name: &str) -> bool {
    layout::is_column(name) && name.ends_with(layout::TYPES)
}

/// Unpacks them, masks what was learned, and packs them again; written anew only where there is something to mask.
fn mask_types(
    folder: &RecordingFolder,
    masking: &Masking,
    in_place: &InPlace<'_>,
    name: &str,
) -> Result<(), Failure> {
    let read = |file: File| {
        let mut bytes = Vec::new();
        zstd::Decoder::new(file)?.take(TYPES_MOST).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == TYPES_MOST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it has too many types"));
        }
        let length = bytes.len();
        let hits = in_place.mask(&mut bytes, 0..length);
        Ok((bytes, hits))
    };
    let file = folder.edit_member(name).map_err(output_failure)?;
    let (bytes, hits) = read(file).map_err(|error| failed("mask", folder, name, error))?;
    if hits.is_empty() {
        return Ok(());
    }
    folder
        .rewrite_member(name, |_, new| {
            let mut packer = zstd::Encoder::new(io::BufWriter::new(new), 0)?;
            packer.write_all(&bytes)?;
            packer.finish()?.flush()
        })
        .map_err(output_failure)?;
    masking.log().add(name, &hits);
    Ok(())
}

/// Written anew only where there is something to mask.
fn mask_text(folder: &RecordingFolder, masking: &Masking, name: &str) -> Result<(), Failure> {
    let redactor = masking.redactor();
    let mut file = folder.edit_member(name).map_err(output_failure)?;
    let found =
        redactor.stream(&mut file, io::sink()).map_err(|error| failed("read", folder, name, error))?;
    if found.hits.is_empty() {
        return Ok(());
    }
    let hits = folder
        .rewrite_member(name, |old, new| {
            let mut new = io::BufWriter::with_capacity(256 << 10, new);
            let hits = redactor.stream(old, &mut new)?.hits;
            new.flush().map(|()| hits)
        })
        .map_err(output_failure)?;
    masking.log().add(name, &hits);
    Ok(())
}

/// In place, in bounded memory: whoever is killed on the way leaves a stream that is as whole as it was.
fn mask_stream(file: &File, in_place: &InPlace<'_>) -> io::Result<Vec<Hit>> {
    let length = file.metadata()?.len();
    let overlap = InPlace::OVERLAP as u64;
    let mut all = Vec::new();
    let mut bytes = Vec::new();
    let mut start = 0u64;
    while start < length {
        let end = length.min(start + STEP as u64);
        let from = start.saturating_sub(overlap);
        bytes.resize(usize::try_from(length.min(end + overlap) - from).unwrap_or_default(), 0);
        file.read_exact_at(&mut bytes, from)?;
        let place = |at: u64| usize::try_from(at - from).unwrap_or_default();
        let inner = place(start)..place(end);
        let hits = in_place.mask(&mut bytes, inner.clone());
        if !hits.is_empty() {
            file.write_all_at(&bytes[inner], start)?;
            all.extend(hits);
        }
        start = end;
    }
    Ok(all)
}

/// Whether a text of the timeline has to be masked. Those of them that are announced are learned.
fn has_secrets(folder: &RecordingFolder, redactor: &Redactor) -> Result<bool, Failure> {
    let mut any = false;
    let file = folder.edit_member(layout::TIMELINE).map_err(output_failure)?;
    // What cannot be read of it is said when the recording is opened.
    let _ = timeline::read_events(io::BufReader::new(file), &Limits::default(), |mut event| {
        timeline::each_text(&mut event, |text| any |= !redactor.text(text).hits.is_empty());
    });
    Ok(any)
}

/// Writes the timeline anew, event by event.
fn mask_timeline(folder: &RecordingFolder, masking: &Masking) -> Result<(), Failure> {
    let (redactor, name) = (masking.redactor(), layout::TIMELINE);
    let hits = folder
        .rewrite_member(name, |old, new| {
            let mut hits = Vec::new();
            let mut writer = timeline::Writer::new(io::BufWriter::new(new))?;
            let mut failed = None;
            let read = timeline::read_events(io::BufReader::new(old), &Limits::default(), |mut event| {
                timeline::each_text(&mut event, |text| {
                    let redacted = redactor.text(text);
                    if !redacted.hits.is_empty() {
                        hits.extend(redacted.hits);
                        *text = redacted.text.into_owned();
                    }
                });
                if let Err(error) = writer.push(&event) {
                    failed.get_or_insert(error);
                }
            });
            let gaps = read.map_err(io::Error::other)?;
            if let Some(error) = failed {
                return Err(error);
            }
            if gaps.is_empty() {
                writer.finish()?.flush()?;
            } else {
                // Without the end mark it goes on to be called cut short.
                writer.flush_chunk()?;
            }
            Ok(hits)
        })
        .map_err(output_failure)?;
    masking.log().add(name, &hits);
    Ok(())
}

/// Warns where learning ended before the secrets did.
fn warn_of_limits(draft: &Draft, redactor: &Redactor) {
    let learning = redactor.learning();
    if learning.refused > 0 {
        let message = format!(
            "{} secrets are masked behind their keys and not searched for elsewhere: more were met than are remembered ({})",
            learning.refused, learning.values
        );
        draft.warn("redaction.limit", message);
    }
    if learning.plain_only > 0 {
        let message = format!(
            "{} of {} secrets are searched for as they are only, and not escaped, in base64 or as hex: they are too many",
            learning.plain_only, learning.values
        );
        draft.warn("redaction.limit", message);
    }
}
