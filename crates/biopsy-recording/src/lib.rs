//! The waist: everything that passes from the capture half to the read half goes through a recording.
//!
//! This crate owns the bytes on disk: the layout of the folder, the timeline's chunks, the tables, the manifest and
//! the bundle. `docs/formats/recording.md` describes them for other programs.
//!
//! What it promises:
//! - **crash-safe**: everything is appended or replaced whole; a recording cut off at any byte opens, is called
//!   partial, and keeps all that was flushed ([`timeline::Writer::flush_chunk`]);
//! - **private**: folders 0700, files 0600, nothing followed through symbolic links, nothing overwritten;
//! - **suspicious**: reading is bounded by [`Limits`], checks sizes before it allocates, and turns anything odd into
//!   a warning that the report shows; only what leaves nothing to show is an [`OpenError`];
//! - **versioned**: newer minor versions open, newer major versions are refused with a hint.
//!
//! What it does not do: redact (the recorders do, before they write), decide what to record, or interpret.
//!
//! Writing: [`RecordingFolder::create`] → [`timeline::Writer`], [`metrics::TableWriter`], [`logs::LogWriter`] …
//! → [`RecordingFolder::header`] with an end → [`bundle()`]. Reading: [`open()`]; heaps, which are large: [`Heaps`].
//!
//! ```
//! use biopsy_model::capture::CaptureHeader;
//! use biopsy_model::timeline::TimelineEvent;
//! use biopsy_model::{ClockPair, MonoNanos};
//! use biopsy_recording::{Limits, RecordingFolder, bundle, open};
//!
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("slow-server");
//! # let zip = scratch.path().join("slow-server.zip");
//! let folder = RecordingFolder::create(&path)?;
//! let mut header = CaptureHeader { target_name: "mariadbd".to_owned(), ..CaptureHeader::default() };
//! folder.header(&header)?;
//! let mut timeline = folder.timeline()?;
//! timeline.push(&TimelineEvent::Mark { time: MonoNanos(17), label: "slow from here".to_owned() })?;
//! timeline.flush_chunk()?; // From here on a kill does not lose the mark.
//!
//! let partial = open(&path, &Limits::default())?;
//! assert_eq!(partial.timeline.unwrap().marks.len(), 1);
//! assert!(partial.warnings.iter().any(|warning| warning.code == "recording.partial"));
//!
//! timeline.finish()?;
//! header.end = Some(ClockPair::default());
//! folder.header(&header)?;
//! bundle(&path, &zip)?;
//! assert_eq!(open(&zip, &Limits::default())?.warnings, []);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod bundle;
mod copy;
mod documents;
mod error;
mod folder;
mod heaps;
pub mod layout;
mod limits;
mod location;
pub mod logs;
pub mod manifest;
mod memory;
pub mod metrics;
mod open;
#[cfg(test)]
mod testing;
pub mod timeline;
mod unpack;
mod version;
mod warn;

pub use bundle::{Bundle, Packed, bundle, pack};
pub use copy::CopyError;
pub use documents::dump::DumpDocument;
pub use documents::heap::SnapshotDocument;
pub use documents::runtime::{runtime_from_json, runtime_to_json};
pub use error::{OpenError, WriteError};
pub use folder::{MemberFile, RecordingFolder};
pub use heaps::{HeapReadError, Heaps};
pub use limits::Limits;
pub use location::Location;
pub use memory::BundledMemory;
pub use open::{
    fuzz_bundle, open, open_bytes, read_footprints, read_header, read_last_words, read_peers, read_report,
    read_warnings, warnings_in_words,
};
pub use unpack::Unpacked;
pub use version::FormatVersion;
