//! Asynchronous operations that are under way: what no thread's stack shows.
//!
//! ```text
//! box of a state machine (an object of the heap, and a Task) ─┬─ <>1__state   which `await` it stands at
//!                                                              └─ <>u__1 ...   the awaiter ─► what it awaits, often another box
//! ```
//!
//! Who awaits whom makes chains; a chain is shown as a stack, innermost method first, with what it waits for in the end. Equal
//! chains are one row with a count. Also here: work items that wait for the thread pool, timers, requests that a web server
//! works on. Everything is told by types and field names from the metadata; contents of strings are not looked at.

mod chains;
mod machines;
mod objects;
mod operations;
mod queues;
mod rings;
#[cfg(test)]
mod tests;

use crate::graph::Graph;
use crate::runtime::Runtime;

use machines::Machines;
pub use operations::{DELAY, FULL_CHANNEL, OperationGroup, Operations};

/// Finds asynchronous operations among the objects of a heap. The graph needs no references.
#[must_use]
pub fn operations(runtime: &Runtime<'_>, graph: &Graph) -> Operations {
    let mut operations = Operations::default();
    let machines = Machines::find(runtime, graph, &mut operations);
    operations.groups = chains::groups(runtime, graph, &machines);
    operations.rings = rings::find(&machines);
    queues::count(runtime, graph, &mut operations);
    operations
}
