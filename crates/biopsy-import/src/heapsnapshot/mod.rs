//! Snapshots of V8 (`v8.writeHeapSnapshot()`, the memory panel of Chrome's DevTools, `biopsy export --to heapsnapshot`).
//!
//! One JSON document: `snapshot.meta` names the columns of the flat lists `nodes` and `edges`, names are numbers of `strings`, which come last.
//! Layout: `v8/src/profiler/heap-snapshot-generator.cc`. It is read in one pass; of an object 13 bytes are kept meanwhile, of an edge 9,
//! and of the texts those that name something: what strings of the program hold is skipped.
//!
//! Nodes of the kind `synthetic` stand for roots, and become roots. Weak edges keep nothing alive, and shortcuts but those of the root say again
//! what other edges do: both are left out.

mod assemble;
mod document;
mod error;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use biopsy_dotnet::graph::Graph;
use biopsy_model::heap::HeapFacts;

pub use error::HeapSnapshotError;

/// How much of a file is looked at to tell what it is.
const HEAD: u64 = 64;

/// Whether a file begins like one.
pub(crate) fn is_one(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let mut words = head.iter().filter(|byte| !byte.is_ascii_whitespace());
    read.is_ok() && b"{\"snapshot\":{".iter().all(|byte| words.next() == Some(byte))
}

/// The heap in a file.
///
/// # Errors
/// The file system refuses, or it is not whole.
pub fn read(path: &Path) -> Result<(Graph, HeapFacts), HeapSnapshotError> {
    read_from(BufReader::with_capacity(1 << 20, File::open(path)?))
}

fn read_from(from: impl Read) -> Result<(Graph, HeapFacts), HeapSnapshotError> {
    assemble::assemble(document::read(from)?)
}

/// Reads arbitrary bytes.
pub fn fuzz(bytes: &[u8]) {
    let _ = read_from(bytes);
}
