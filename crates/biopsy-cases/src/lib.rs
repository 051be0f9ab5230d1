//! What the reports of all cases say, as five tables that are asked in SQL.
//!
//! ```text
//!  report.json ─► Rows ─► write ─► a Parquet file a table, encrypted        (a segment: files of some reports, under one key)
//!                            ▲                │
//!                          merged ◄───────────┤   several segments become one; one case less
//!                                             └─► Cases::question ─► Answer   (datafusion; nothing but SELECT, nothing but these tables)
//! ```
//!
//! Where the files are is [`Files`]'s business, and whose keys they have is the lab's. [How and why](../../../docs/design/29-over-all-cases.md);
//! columns are described in `docs/formats/cases.md`.

#![forbid(unsafe_code)]

pub mod answer;
mod builder;
pub mod error;
pub mod export;
pub mod file;
mod lenient;
mod limits;
pub mod merge;
mod prune;
pub mod query;
pub mod report;
mod scan;
pub mod schema;
mod text;

pub use answer::Answer;
pub use arrow::array::RecordBatch;
pub use error::CasesError;
pub use file::{Files, Key, SegmentFile, Written, write};
pub use merge::merged;
pub use query::{Cases, Question};
pub use report::{About, Rows};
pub use schema::{Table, VERSION};
