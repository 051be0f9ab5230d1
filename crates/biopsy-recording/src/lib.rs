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
//! → [`RecordingFolder::header`] with an end → [`bundle`]. Reading: [`open`].

#![forbid(unsafe_code)]

mod bundle;
mod documents;
mod error;
mod folder;
pub mod layout;
mod limits;
pub mod logs;
pub mod manifest;
pub mod metrics;
mod open;
#[cfg(test)]
mod testing;
pub mod timeline;
mod version;
mod warn;

pub use bundle::{Bundle, bundle};
pub use error::{OpenError, WriteError};
pub use folder::{MemberFile, RecordingFolder};
pub use limits::Limits;
pub use open::{fuzz_bundle, open, open_bytes};
pub use version::FormatVersion;
