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

use super::again::{is_text, is_types};
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
    members(folder)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| Some(folder.join(name).metadata().ok()?.len()))
        .sum()
}

/// Names of all members, folders walked without following links.
///
/// # Errors
/// When a folder cannot be read to its end.
pub(crate) fn members(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        for entry in std::fs::read_dir(folder.join(&relative))? {
            let entry = entry?;
            let kind = entry.file_type()?;
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
    Ok(found)
}

#[cfg(test)]
mod tests {
    use biopsy_model::capture::CaptureHeader;
    use biopsy_model::timeline::TimelineEvent;
    use biopsy_model::{MonoNanos, Tid};

    use super::*;
    use crate::session::again::mask_again;
    use crate::session::record::new_masking;

    const SECRET: &str = "Lg7kQ2zV99xLmP4t";

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    /// A recording in which a value stands everywhere, and is announced in one log, last by name.
    fn recording() -> (tempfile::TempDir, RecordingFolder) {
        let scratch = tempfile::tempdir().unwrap();
        let folder = RecordingFolder::create(scratch.path().join("r")).unwrap();
        folder.header(&CaptureHeader::default()).unwrap();
        folder.write_text("logs/a.jsonl", &format!("opened {SECRET} again\n")).unwrap();
        folder.write_text("logs/z.jsonl", &format!("password={SECRET} was refused\n")).unwrap();
        folder.write_text("metrics/x.csv", &format!("name,value\n{SECRET},1\n")).unwrap();
        let mut stream = b"Nettrace\x01\x02".to_vec();
        stream.extend_from_slice(&[0; 700]);
        for _ in 0..3 {
            stream.extend_from_slice(&wide(&format!("cannot open {SECRET} at all\0")));
            stream.resize(stream.len() + (1 << 20) - 40, 1);
        }
        folder.write_bytes("dotnet/7.nettrace", &stream).unwrap();
        let mut timeline = folder.timeline().unwrap();
        let name = format!("t {SECRET}");
        timeline.push(&TimelineEvent::ThreadName { time: MonoNanos(1), tid: Tid(2), name }).unwrap();
        timeline.finish().unwrap();
        (scratch, folder)
    }

    fn has(bytes: &[u8]) -> bool {
        [SECRET.as_bytes().to_vec(), wide(SECRET)]
            .iter()
            .any(|form| bytes.windows(form.len()).any(|window| window == form))
    }

    #[test]
    fn what_is_learned_last_is_masked_in_every_member() {
        let (scratch, folder) = recording();
        let length = folder.path().join("dotnet/7.nettrace").metadata().unwrap().len();
        let masking = new_masking().unwrap();
        mask_again(&folder, &masking).unwrap();
        for name in folder.members().unwrap() {
            assert!(!has(&std::fs::read(folder.path().join(&name)).unwrap()), "{name}");
        }
        assert_eq!(folder.path().join("dotnet/7.nettrace").metadata().unwrap().len(), length);
        let file = std::fs::File::open(folder.path().join(layout::TIMELINE)).unwrap();
        let texts = String::from_utf8(timeline_texts(file).unwrap()).unwrap();
        assert!(texts.starts_with("t [redacted:learned:"), "{texts}");
        let out = scratch.path().join("out.zip");
        let done = hand_over(&folder, Some(&out), masking.redactor()).unwrap();
        assert!(done.is_bundle && done.path == out && !folder.path().exists());
        biopsy_recording::open(&out, &Limits::default()).unwrap();
    }

    #[test]
    fn nothing_is_handed_over_while_a_secret_is_in_any_member() {
        for name in ["logs/a.jsonl", "dotnet/7.nettrace", layout::TIMELINE] {
            let (scratch, folder) = recording();
            let kept = std::fs::read(folder.path().join(name)).unwrap();
            let masking = new_masking().unwrap();
            mask_again(&folder, &masking).unwrap();
            folder.write_bytes(name, &kept).unwrap();
            for bundle in [Some(scratch.path().join("out.zip")), None] {
                let failure = hand_over(&folder, bundle.as_deref(), masking.redactor()).unwrap_err();
                assert_eq!(failure.code, Code::Secrets, "{name}: {failure}");
                assert!(failure.to_string().contains(name), "{name}: {failure}");
                assert!(!failure.to_string().contains(SECRET));
            }
            assert!(!scratch.path().join("out.zip").exists() && folder.path().exists());
            assert!(!folder.path().join(layout::MANIFEST).exists());
            assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing else is left");
        }
    }

    /// They are written before the secret is met, and only what was learned is masked in them: they are code.
    #[test]
    fn a_secret_in_the_name_of_a_type_is_masked_when_it_was_learned_later() {
        let (scratch, folder) = recording();
        let name = layout::snapshot_member(1, layout::TYPES);
        let types = format!("{{\"name\":\"Shop.List<{SECRET}>\"}}\n{{\"name\":\"Shop.Secret<Token>\"}}\n");
        folder.write_bytes(&name, &zstd::encode_all(types.as_bytes(), 1).unwrap()).unwrap();
        let masking = new_masking().unwrap();
        mask_again(&folder, &masking).unwrap();
        let packed = std::fs::read(folder.path().join(&name)).unwrap();
        let masked = String::from_utf8(zstd::decode_all(&packed[..]).unwrap()).unwrap();
        assert_eq!(masked, types.replace(SECRET, &"*".repeat(SECRET.len())));
        let out = scratch.path().join("out.zip");
        let done = hand_over(&folder, Some(&out), masking.redactor()).unwrap();
        assert!(done.is_bundle && out.exists());
    }

    #[test]
    fn what_cannot_be_read_is_a_finding() {
        let (scratch, folder) = recording();
        let masking = new_masking().unwrap();
        mask_again(&folder, &masking).unwrap();
        // It begins like a timeline and is none.
        folder.write_bytes(layout::TIMELINE, b"something else").unwrap();
        let out = scratch.path().join("out.zip");
        let failure = hand_over(&folder, Some(&out), masking.redactor()).unwrap_err();
        assert_eq!(failure.code, Code::Secrets, "{failure}");
        std::os::unix::fs::symlink("/nowhere", folder.path().join("logs/link")).unwrap();
        assert!(mask_again(&folder, &masking).is_err());
        assert!(hand_over(&folder, None, masking.redactor()).is_err());
        assert!(!out.exists());
    }
}
