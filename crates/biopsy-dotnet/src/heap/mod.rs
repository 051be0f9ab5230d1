//! The collected heap: objects, references, roots.
//!
//! ```text
//! GcDacVars ─► segments ─► places ─┬─► walk (shapes, all cores) ─► Graph ─► roots ─► live
//! threads ─► allocation contexts ──┘
//! ```
//!
//! Read from an image alone: a process frozen for milliseconds, or a core. In the middle of a collection the heap cannot be
//! walked; the collector says so (`gc_structures_invalid_cnt`), and [`Heap::open`] answers [`HeapError::Collecting`]: freeze
//! again. How it works and what it was held against: `docs/design/13-heap.md`.

mod collectible;
mod error;
mod fields;
mod found_roots;
pub mod fuzz;
mod handles;
mod largest;
mod noted;
mod open;
mod places;
mod problems;
mod roots;
mod segments;
mod shape;
mod source;
mod stacks;
mod synthetic;
mod thread_statics;
mod to_note;
mod walk;

pub use error::HeapError;
pub use found_roots::RootProblems;
pub use largest::{LargestHeap, Refused, largest, read_largest};
pub use open::{Heap, HeapOptions};
pub use problems::{Problem, Problems};
pub use segments::Segment;

#[cfg(test)]
mod tests;
