//! Memory of processes in a bundle: read where it is, not unpacked.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;

use crate::open::source::Source;
use crate::open::zip::ZipSource;
use crate::{Limits, Location, OpenError, layout};

/// The dumps of a bundle.
pub struct BundledMemory {
    location: Location,
    zip: ZipSource,
    names: Vec<String>,
}

impl BundledMemory {
    /// Looks into a bundle. `None`: it is no zip, or has no dumps.
    ///
    /// # Errors
    /// A zip that is damaged or over the limits.
    pub fn open(location: impl Into<Location>, limits: &Limits) -> Result<Option<Self>, OpenError> {
        let location = location.into();
        let mut warnings = Vec::new();
        let mut zip = match Source::open(&location, limits, &mut warnings) {
            Ok(Source::Zip(zip)) => zip,
            Ok(Source::Folder(_)) | Err(OpenError::NotARecording { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut names: Vec<String> =
            zip.members().keys().filter(|name| layout::is_memory(name)).cloned().collect();
        names.sort_by_cached_key(|name| when(&mut zip, name).unwrap_or(u64::MAX));
        Ok((!names.is_empty()).then(|| Self { location, zip, names }))
    }

    /// Names of the members, in the order in which they were written: the target is the first.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The file, and which bytes of it are the member. `None`: it is packed or sealed, and has to be [unpacked](Self::unpack).
    ///
    /// # Errors
    /// There is no such member, or the file cannot be read.
    pub fn place(&mut self, name: &str) -> io::Result<Option<(File, Range<u64>)>> {
        match self.zip.place(name)? {
            Some(range) if !self.location.is_sealed() => Ok(Some((File::open(self.location.path())?, range))),
            _ => Ok(None),
        }
    }

    /// Unpacks a member; no more bytes than it claims to have.
    ///
    /// # Errors
    /// The member is damaged or larger than it claims, or the output takes no more.
    pub fn unpack(&mut self, name: &str, out: &mut dyn Write) -> io::Result<u64> {
        self.zip.with(name, |reader, size| {
            // One byte more shows that it claims too little.
            let copied = io::copy(&mut io::Read::take(reader, size.saturating_add(1)), out)?;
            if copied > size {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "larger than it claims to be"));
            }
            Ok(copied)
        })?
    }
}

/// When a dump was taken, in milliseconds since 1970, by the facts beside it.
fn when(zip: &mut ZipSource, name: &str) -> Option<u64> {
    /// The facts have some ten kilobytes.
    const FACTS: u64 = 1 << 20;
    let stem = name.strip_suffix(layout::PARTIAL).unwrap_or(name);
    let stem = [".core.zst", ".core", ".dmp"].iter().find_map(|ending| stem.strip_suffix(ending))?;
    let facts = format!("{stem}.json");
    let mut bytes = Vec::new();
    zip.with(&facts, |reader, _| io::Read::read_to_end(&mut io::Read::take(reader, FACTS), &mut bytes))
        .ok()?
        .ok()?;
    let facts: serde_json::Value = serde_json::from_slice(&bytes).ok()?;
    let seconds = facts.get("taken_at_unix_seconds")?.as_f64()?;
    let milliseconds = std::time::Duration::try_from_secs_f64(seconds).ok()?.as_millis();
    u64::try_from(milliseconds).ok()
}

impl std::fmt::Debug for BundledMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BundledMemory").field("location", &self.location).field("names", &self.names).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::FileExt;

    use biopsy_model::capture::CaptureHeader;

    use super::*;
    use crate::{RecordingFolder, bundle};

    #[test]
    fn dumps_of_a_bundle_are_found_where_they_are() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, zip) = (scratch.path().join("dump"), scratch.path().join("dump.zip"));
        let folder = RecordingFolder::create(&path).unwrap();
        folder.header(&CaptureHeader::default()).unwrap();
        for (member, bytes) in [
            ("dumps/9.core.zst", &b"the target"[..]),
            ("dumps/9.json", br#"{"taken_at_unix_seconds": 1.5}"#),
            ("dumps/12.scrubbed.core", b"its child"),
            ("dumps/12.scrubbed.json", br#"{"taken_at_unix_seconds": 2.5}"#),
            ("dumps/8.core.zst.partial", b"cut"),
        ] {
            folder.write_bytes(member, bytes).unwrap();
        }
        assert!(BundledMemory::open(&path, &Limits::default()).unwrap().is_none(), "a folder");
        bundle(&path, &zip).unwrap();
        let mut memory = BundledMemory::open(&zip, &Limits::default()).unwrap().unwrap();
        assert_eq!(
            memory.names(),
            ["dumps/9.core.zst", "dumps/12.scrubbed.core", "dumps/8.core.zst.partial"]
        );

        let (file, range) = memory.place("dumps/9.core.zst").unwrap().expect("stored as it is");
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
        file.read_exact_at(&mut bytes, range.start).unwrap();
        assert_eq!(bytes, b"the target");
        assert!(memory.place("dumps/12.scrubbed.core").unwrap().is_none(), "packed");
        let mut unpacked = Vec::new();
        assert_eq!(memory.unpack("dumps/12.scrubbed.core", &mut unpacked).unwrap(), 9);
        assert_eq!(unpacked, b"its child");
        assert!(memory.place("dumps/7.core").is_err());

        let mut start = [0; 2];
        File::open(&zip).unwrap().read_exact(&mut start).unwrap();
        assert_eq!(&start, b"PK");
        let other = scratch.path().join("other");
        std::fs::write(&other, "no zip").unwrap();
        assert!(BundledMemory::open(&other, &Limits::default()).unwrap().is_none());
    }
}
