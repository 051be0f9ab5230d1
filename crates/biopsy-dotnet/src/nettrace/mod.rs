//! Readers of nettrace files and streams, versions 4, 5 and 6.
//!
//! nettrace is what the runtime writes to whoever opens an event session on its diagnostics port, and what `dotnet-trace`
//! stores: `Nettrace`, then blocks of event descriptions, stacks, events and sequence points. [`Reader`] pulls one event
//! after the other out of any [`std::io::Read`], a file as well as a live socket, with memory for one block and the tables
//! that are in force.
//!
//! ```no_run
//! use biopsy_dotnet::nettrace::{Limits, Reader};
//!
//! let file = std::fs::File::open("trace.nettrace")?;
//! let mut reader = Reader::new(file, &Limits::default())?;
//! while let Some(event) = reader.next_event()? {
//!     let _ = (&event.metadata.provider, event.metadata.id, event.time, event.payload);
//! }
//! let _ = (reader.lost(), reader.end());
//! # Ok::<(), biopsy_dotnet::nettrace::NettraceError>(())
//! ```
//!
//! Format: `NetTraceFormat.md` (version 6) and `NetTraceFormat_v5.md` (4 and 5) in microsoft/perfview, and what we read of
//! it in `docs/formats/nettrace.md`.

mod container;
mod error;
mod event;
mod header;
mod input;
mod limits;
mod metadata;
mod order;
mod reader;
mod row;
mod sequence;
mod tables;
mod text;
mod types;
mod value;
#[cfg(any(test, feature = "testing"))]
pub mod write;

#[cfg(test)]
mod tests;

pub use container::End;
pub use error::NettraceError;
pub use event::Event;
pub use header::Header;
pub use limits::Limits;
pub use metadata::EventMetadata;
pub use reader::Reader;
pub use text::Text;
pub use types::{Field, FieldType};
pub use value::{Elements, Value, Values};

/// Reads arbitrary bytes as nettrace, in both orders, and looks at every value of every event.
pub fn fuzz_nettrace(bytes: &[u8]) {
    for sorted in [false, true] {
        let Ok(mut reader) = Reader::new(bytes, &Limits::small()) else { return };
        reader.sort_by_time(sorted);
        while let Ok(Some(event)) = reader.next_event() {
            for (_, value) in event.values() {
                value.visit(&mut |_| ());
            }
        }
    }
}
