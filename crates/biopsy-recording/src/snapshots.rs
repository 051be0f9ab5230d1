//! Heap snapshots of a recording: their members, read where they are.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::open::source::Source;
use crate::{Limits, OpenError, Unpacked, layout};

/// The heap snapshots of a recording, folder or bundle.
pub struct SnapshotMembers {
    path: PathBuf,
    source: Source,
    numbers: Vec<u32>,
    limits: Limits,
}

impl SnapshotMembers {
    /// Looks into a recording. `None`: it is none, or has no snapshots.
    ///
    /// # Errors
    /// A recording that is damaged or over the limits.
    pub fn open(path: &Path, limits: &Limits) -> Result<Option<Self>, OpenError> {
        let source = match Source::open(path, limits, &mut Vec::new()) {
            Ok(source) => source,
            Err(OpenError::NotARecording { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let number = |name: &String| {
            let (number, _) = name.strip_prefix(layout::SNAPSHOTS_FOLDER)?.split_once('/')?;
            number.parse().ok()
        };
        let mut numbers: Vec<u32> = source.members().keys().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Ok((!numbers.is_empty()).then(|| Self {
            path: path.to_path_buf(),
            source,
            numbers,
            limits: limits.clone(),
        }))
    }

    /// The numbers of the snapshots, ascending.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Opens a member of a snapshot that is packed in itself, unpacked within the limits; `None`: there is none of that name.
    ///
    /// # Errors
    /// As [`Self::open_member`].
    pub fn open_unpacked(
        &mut self,
        number: u32,
        name: &str,
    ) -> io::Result<Option<Unpacked<Box<dyn Read + Send>>>> {
        let packed = self.open_member(number, name)?;
        packed.map(|packed| Unpacked::new(packed, &self.limits)).transpose()
    }

    /// Opens a member of a snapshot; `None`: there is none of that name.
    ///
    /// # Errors
    /// It cannot be read, or is packed by the bundle although it is packed in itself.
    pub fn open_member(&mut self, number: u32, name: &str) -> io::Result<Option<Box<dyn Read + Send>>> {
        let member = layout::snapshot_member(number, name);
        let Some(size) = self.source.members().get(&member).copied() else { return Ok(None) };
        match &mut self.source {
            Source::Folder(folder) => {
                let (file, _) = folder.open_member(&member)?;
                Ok(Some(Box::new(file.take(size))))
            }
            Source::Zip(zip) => {
                if let Some(range) = zip.place(&member)? {
                    let mut file = File::open(&self.path)?;
                    file.seek(SeekFrom::Start(range.start))?;
                    return Ok(Some(Box::new(file.take(range.end.saturating_sub(range.start)))));
                }
                /// Texts of a snapshot are small; what is large is stored as it is.
                const MOST_PACKED: u64 = 256 << 20;
                if size > MOST_PACKED {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "too large to be packed"));
                }
                let bytes = self.source.bytes(&member, MOST_PACKED)?;
                Ok(Some(Box::new(io::Cursor::new(bytes))))
            }
        }
    }
}

impl std::fmt::Debug for SnapshotMembers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotMembers")
            .field("path", &self.path)
            .field("numbers", &self.numbers)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use biopsy_model::capture::CaptureHeader;

    use super::*;
    use crate::{RecordingFolder, bundle};

    #[test]
    fn members_of_snapshots_are_read_from_folders_and_bundles() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, zip) = (scratch.path().join("a"), scratch.path().join("a.zip"));
        let folder = RecordingFolder::create(&path).unwrap();
        folder.header(&CaptureHeader::default()).unwrap();
        assert!(SnapshotMembers::open(&path, &Limits::default()).unwrap().is_none());
        let text = "a line\n".repeat(100);
        folder.write_bytes("snapshots/2/edges.npy.zst", b"numbers").unwrap();
        folder.write_text("snapshots/2/snapshot.json", &text).unwrap();
        bundle(&path, &zip).unwrap();
        for place in [path, zip] {
            let mut members = SnapshotMembers::open(&place, &Limits::default()).unwrap().unwrap();
            assert_eq!(members.numbers(), [2]);
            let mut read = |name: &str| {
                let mut bytes = Vec::new();
                members.open_member(2, name).unwrap().map(|mut from| from.read_to_end(&mut bytes).unwrap());
                bytes
            };
            assert_eq!(read("edges.npy.zst"), b"numbers");
            assert_eq!(read("snapshot.json"), text.as_bytes());
            assert_eq!(read("other"), b"");
        }
        assert!(
            layout::is_column("snapshots/1/edges.npy.zst")
                && layout::is_column("snapshots/1/types.jsonl.zst")
        );
        assert!(!layout::is_column("snapshots/1/snapshot.json"));
    }
}
