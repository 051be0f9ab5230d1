//! Copying members of one recording into another: for a recording that goes on.

use std::io::{self, Read};
use std::path::Path;

use crate::open::source::Source;
use crate::{Limits, OpenError, RecordingFolder, WriteError};

/// Why members cannot be copied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The recording that they are in cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// One cannot be read.
    #[error("cannot read `{member}` of the recording")]
    Read {
        /// Which.
        member: String,
        /// Why not.
        source: io::Error,
    },
    /// One cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Notes whether the last reading failed.
struct Noting<R> {
    from: R,
    failed: bool,
}

impl<R: Read> Read for Noting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer);
        self.failed = read.is_err();
        read
    }
}

impl RecordingFolder {
    /// Copies the members of a recording, folder or bundle, that are wanted, as they are. None of them may be here already.
    ///
    /// # Errors
    /// [`CopyError`].
    pub fn copy_members(
        &self,
        from: &Path,
        limits: &Limits,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<(), CopyError> {
        let mut source = Source::open(&from.into(), limits, &mut Vec::new())?;
        let names: Vec<String> = source.members().keys().filter(|name| wanted(name)).cloned().collect();
        for name in names {
            let member = self.create_member(&name)?;
            let failed = |source| CopyError::Read { member: name.clone(), source };
            let copied = source.with(&name, |reader| {
                let mut from = Noting { from: reader, failed: false };
                let copied = io::copy(&mut from, &mut member.file());
                // The disk being full is the other side's.
                copied.map_err(|error| match from.failed {
                    true => failed(error),
                    false => CopyError::Write(member.write_error(error)),
                })
            });
            copied.map_err(failed)??;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::capture::CaptureHeader;

    use super::*;
    use crate::bundle;

    /// A recording with these members, as a folder and as a bundle.
    fn recording(scratch: &Path, members: &[(&str, &[u8])]) -> [std::path::PathBuf; 2] {
        let (path, zip) = (scratch.join("from"), scratch.join("from.zip"));
        let folder = RecordingFolder::create(&path).unwrap();
        folder.header(&CaptureHeader::default()).unwrap();
        for (name, bytes) in members {
            folder.write_bytes(name, bytes).unwrap();
        }
        bundle(&path, &zip).unwrap();
        [path, zip]
    }

    #[test]
    fn members_that_are_wanted_are_copied_as_they_are_and_no_others() {
        let scratch = tempfile::tempdir().unwrap();
        let large: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        let members = [
            ("logs/a.jsonl", &b"{}\n"[..]),
            ("logs/empty.jsonl", b""),
            ("heaps/1/sizes.npy.zst", &large),
            ("dumps/9.json", b"7"),
        ];
        for (number, from) in recording(scratch.path(), &members).iter().enumerate() {
            let path = scratch.path().join(format!("to {number}"));
            let to = RecordingFolder::create(&path).unwrap();
            let before: Vec<_> =
                std::fs::read_dir(&path).unwrap().map(|one| one.unwrap().file_name()).collect();
            to.copy_members(from, &Limits::default(), |_| false).unwrap();
            let after: Vec<_> =
                std::fs::read_dir(&path).unwrap().map(|one| one.unwrap().file_name()).collect();
            assert_eq!(before, after, "nothing was wanted");
            to.copy_members(from, &Limits::default(), |name| {
                !name.starts_with("dumps/") && name != "biopsy.json"
            })
            .unwrap();
            for (name, bytes) in &members[..3] {
                assert_eq!(&std::fs::read(path.join(name)).unwrap(), bytes, "{name} of {}", from.display());
            }
            assert!(!path.join("dumps/9.json").exists());
            // What is there already is not written over.
            let again = to.copy_members(from, &Limits::default(), |name| name == "logs/a.jsonl").unwrap_err();
            assert!(matches!(again, CopyError::Write(_)), "{again}");
            assert_eq!(std::fs::read(path.join("logs/a.jsonl")).unwrap(), b"{}\n");
        }
    }

    #[test]
    fn what_is_no_recording_or_is_damaged_is_said() {
        let scratch = tempfile::tempdir().unwrap();
        let to = RecordingFolder::create(scratch.path().join("to")).unwrap();
        for missing in ["nowhere", "to.zip"] {
            let refused =
                to.copy_members(&scratch.path().join(missing), &Limits::default(), |_| true).unwrap_err();
            assert!(matches!(refused, CopyError::Open(_)), "{refused}");
        }
        let noise: Vec<u8> = (0..70_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let [_, zip] = recording(scratch.path(), &[("logs/a.jsonl", &noise), ("logs/b.jsonl", b"{}")]);
        let mut bytes = std::fs::read(&zip).unwrap();
        let at = bytes.windows(12).position(|name| name == b"logs/a.jsonl").unwrap() + 200;
        bytes[at..at + 64].iter_mut().for_each(|byte| *byte = !*byte);
        std::fs::write(&zip, bytes).unwrap();
        let damaged = to.copy_members(&zip, &Limits::default(), |name| name == "logs/a.jsonl").unwrap_err();
        assert!(matches!(&damaged, CopyError::Read { member, .. } if member == "logs/a.jsonl"), "{damaged}");
        assert_eq!(damaged.to_string(), "cannot read `logs/a.jsonl` of the recording");
        // What stands beside it is whole.
        to.copy_members(&zip, &Limits::default(), |name| name == "logs/b.jsonl").unwrap();
        assert_eq!(std::fs::read(scratch.path().join("to/logs/b.jsonl")).unwrap(), b"{}");
    }
}
