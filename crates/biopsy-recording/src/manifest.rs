//! `manifest.json`: what is in a recording and that it is unchanged. Written last, when digests are known.

use std::io::{self, Read, Write};

use biopsy_model::loss::Warning;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::documents::{at_most, warnings};
use crate::{FormatVersion, layout};

/// The manifest.
#[derive(Serialize, Deserialize, Default, Debug)]
#[serde(default)]
pub struct Manifest {
    /// Always `biopsy-manifest`.
    pub format: String,
    /// Version of the recording's layout.
    pub version: String,
    /// What wrote it: `biopsy 0.1.0`.
    pub tool: String,
    /// Every member but the manifest itself, in the order of the bundle.
    #[serde(deserialize_with = "at_most")]
    pub members: Vec<Member>,
    /// Members that could not be kept, and other things said while sealing.
    #[serde(deserialize_with = "at_most")]
    warnings: Vec<warnings::Warning>,
}

/// One member.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Default, Debug)]
#[serde(default)]
pub struct Member {
    /// Name, relative to the recording.
    pub name: String,
    /// Bytes, unpacked.
    pub bytes: u64,
    /// SHA-256 of the unpacked bytes, in hexadecimal.
    pub sha256: String,
    /// Media type.
    pub media_type: String,
    /// Whether secrets were looked for in it before it was written.
    pub redaction: Redaction,
}

/// Redaction state of a member.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Default, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Redaction {
    /// Text that went through redaction before it was written.
    Redacted,
    /// Made of members of this recording, never of the process's memory.
    Derived,
    /// Memory of a process in which secrets were masked while it was written: fewer secrets, never none.
    Scrubbed,
    /// Memory of a process as it was: it holds whatever the process held.
    Memory,
    /// Not known: the recording does not say that redaction ran, or this version does not know the member.
    #[default]
    #[serde(other)]
    Unknown,
}

impl Redaction {
    /// The state of a member, given whether redaction ran.
    #[must_use]
    pub fn of(name: &str, redaction_ran: bool) -> Self {
        let texts =
            [layout::TARGET_FOLDER, layout::LOGS_FOLDER, layout::METRICS_FOLDER, layout::DOTNET_FOLDER];
        if layout::is_memory(name) {
            return if layout::is_scrubbed(name) { Self::Scrubbed } else { Self::Memory };
        }
        // Event streams hold texts of the process, masked in place.
        if layout::is_event_stream(name) {
            return if redaction_ran { Self::Scrubbed } else { Self::Memory };
        }
        match name {
            layout::REPORT_HTML | layout::REPORT_JSON | layout::REPORT_MARKDOWN | layout::REDACTION => {
                Self::Derived
            }
            // Reports of single dumps, and what was measured while they were taken.
            _ if name.starts_with(layout::DUMPS_FOLDER) => Self::Derived,
            // In the timeline: names of threads and files. In tables: names of processes and control groups.
            layout::HEADER | layout::WARNINGS | layout::TIMELINE if redaction_ran => Self::Redacted,
            _ if redaction_ran && texts.iter().any(|folder| name.starts_with(folder)) => Self::Redacted,
            _ => Self::Unknown,
        }
    }
}

impl Manifest {
    /// A manifest of `members`.
    #[must_use]
    pub fn new(members: Vec<Member>, warnings: &[Warning]) -> Self {
        Self {
            format: "biopsy-manifest".to_owned(),
            version: FormatVersion::RECORDING.to_string(),
            tool: concat!("biopsy ", env!("CARGO_PKG_VERSION")).to_owned(),
            members,
            warnings: warnings.iter().map(warnings::Warning::from).collect(),
        }
    }

    /// The warnings in it.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> + '_ {
        self.warnings.iter().map(|warning| warning.to_model())
    }
}

/// Computes the SHA-256 of what passes through, and counts it.
#[derive(Debug)]
pub(crate) struct Digester<T> {
    inner: T,
    hasher: Sha256,
    bytes: u64,
}

impl<T> Digester<T> {
    pub(crate) fn new(inner: T) -> Self {
        Self { inner, hasher: Sha256::new(), bytes: 0 }
    }

    /// Digest in hexadecimal, and number of bytes.
    pub(crate) fn finish(self) -> (String, u64) {
        use std::fmt::Write as _;
        let digest = self.hasher.finalize();
        let mut hex = String::with_capacity(64);
        for byte in digest {
            // Writing to a string does not fail.
            let _ = write!(hex, "{byte:02x}");
        }
        (hex, self.bytes)
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<R: Read> Read for Digester<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.add(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

impl<W: Write> Write for Digester<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.add(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
