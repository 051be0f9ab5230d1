//! Writing a graph as `.heapsnapshot`: the format of V8, which the memory panel of Chrome's DevTools opens.
//!
//! One JSON document. `snapshot.meta` names the columns; `nodes` and `edges` are flat lists of numbers, the edges of the first node first;
//! names are numbers of `strings`. Layout: `v8/src/profiler/heap-snapshot-generator.cc`, reader: `heap_snapshot_worker` of
//! devtools-frontend.
//!
//! ```text
//! node 0, the root ─► a node for each kind of roots ─► objects, by field, by index, or by the static that holds them
//! ```
//!
//! All objects are of the type `object`, so that they are listed by their class: `array` and `string` are shown as one class each there, and the
//! text of a string is not in the graph. Sizes of 4 GiB and more are cut.

mod write;

pub use write::{WriteError, Written, write};

#[cfg(test)]
mod tests;
