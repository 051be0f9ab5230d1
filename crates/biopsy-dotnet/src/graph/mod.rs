//! The graph of a heap: objects with type, size, generation and references; roots; and what is reachable from them.
//!
//! Made for 10^7 objects and more: an object takes about 14 bytes and each reference 4, in stretches ("spans") of some 32 MiB of
//! heap. Addresses are not stored, they are the positions of bits in a map. References can live on disk ([`Spill`]). Nothing
//! here recurses.
//!
//! Four makers: the walk of memory ([`crate::heap`]), the runtime's own events and `.gcdump` files ([`crate::gcdump`]), and
//! snapshots in recordings.

mod bits;
mod build;
pub mod columns;
mod edges;
mod heap_graph;
mod live;
mod object;
mod root;
mod span;
mod starts;
mod totals;

#[cfg(test)]
mod tests;

pub use biopsy_model::heap::HeapType;
pub use bits::Bits;
pub use build::{GraphBuilder, Node};
pub use edges::Spill;
pub use heap_graph::Graph;
pub use live::mark;
pub(crate) use live::mark_counted;
pub(crate) use object::{EMPTY, NO_OBJECT};
pub use object::{Generation, MOST_OBJECTS, Object, ObjectIndex, TypeIndex};
pub use root::{Root, RootKind};
pub(crate) use span::{Span, SpanBuilder};
pub use totals::{Totals, TypeTotals};
