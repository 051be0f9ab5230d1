//! A managed heap in numbers: its objects by type, and who holds them.
//!
//! ```text
//! Graph ─► Dominators ─► retained bytes ─┬─► HeapSummary
//!              ├─► HolderTree (by type and field) ─► Suspect
//!              └─► Inspection
//! several HeapSummary ─► Growth
//! Graph ─► Ways: the shortest way from a root to each object
//! ```

pub mod dominators;
pub mod growth;
pub mod holders;
pub mod inspections;
#[cfg(test)]
pub(crate) mod made_up;
pub mod names;
pub mod questions;
pub(crate) mod several;
mod summary;
pub mod suspects;
#[cfg(test)]
mod tests;
pub mod ways;

pub use dominators::Dominators;
pub use growth::Growth;
pub use holders::{HolderNode, HolderTree};
pub use inspections::{Inspection, InspectionKind};
pub use names::{Step, text_of};
pub use summary::{HeapSummary, HeapTypeRow, Held};
pub use suspects::{HeldType, Suspect};
pub use ways::Ways;
