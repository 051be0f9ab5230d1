//! Heap snapshots of .NET processes: freeze, walk, let go, write.
//!
//! The process stands still for milliseconds; what is walked is its frozen copy, so no collection is forced and garbage is
//! seen, apart from what is live. The graph becomes `snapshots/NUMBER/` of the recording: `snapshot.json`, `types.jsonl.zst`, and
//! columns of numbers. No contents of objects are kept, text least of all. Where the memory of a process went, native or not, is
//! `footprints/NUMBER.json`.

mod ask;
mod error;
mod footprint;
mod retries;
mod take;
mod write;

pub use ask::{AskError, AskOptions, ask, own_bytes, predict_pause};
pub use error::SnapshotError;
pub use footprint::take_footprint;
pub use take::{Options, Taken, take};
pub use write::{Written, write};
