//! Which heap is meant where a process has several runtimes.

use super::{Heap, HeapError};
use crate::runtime::{FoundRuntime, Runtime};

/// The largest of the heaps of these runtimes, with the place of its runtime in the list; and why others cannot be read. A process
/// with two runtimes was started by one that hosts another: what grows is in the larger heap.
#[must_use]
pub fn largest<'r>(runtimes: &'r [Runtime<'_>]) -> (Option<(usize, Heap<'r>)>, Vec<HeapError>) {
    let (mut largest, mut refused): (Option<(usize, Heap<'r>)>, _) = (None, Vec::new());
    for (number, runtime) in runtimes.iter().enumerate() {
        match Heap::open(runtime) {
            Ok(heap) if largest.as_ref().is_none_or(|(_, best)| heap.bytes() > best.bytes()) => {
                largest = Some((number, heap));
            }
            Ok(_) => {}
            Err(error) => refused.push(error),
        }
    }
    (largest, refused)
}

/// Says that there were others; `None`: there was one.
#[must_use]
pub fn note_of_others(found: &[FoundRuntime], chosen: &FoundRuntime) -> Option<String> {
    let version =
        |one: &FoundRuntime| one.version.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
    (found.len() > 1).then(|| {
        let all: Vec<String> = found.iter().map(version).collect();
        let (count, all) = (found.len(), all.join(", "));
        format!(
            "{count} .NET runtimes are loaded ({all}); this is the heap of {}, the largest",
            version(chosen)
        )
    })
}
