//! What keeps objects of the heap alive.

use super::found_roots::{Found, words};
use super::segments::Collector;
use super::source::Source;
use super::{handles, stacks, thread_statics};
use crate::graph::{Graph, RootKind};
use crate::runtime::ManagedThread;
use biopsy_image::MemoryExt;

pub(super) fn find(
    source: &dyn Source,
    collector: &Collector,
    threads: &[ManagedThread],
    graph: &Graph,
) -> Found {
    let mut found = Found::default();
    handles::find(source.image(), collector, graph, &mut found);
    finalizers(source, collector, graph, &mut found);
    thread_statics::find(source, threads, graph, &mut found);
    stacks::find(source.image(), threads, graph, &mut found);
    statics(source, graph, &mut found);
    found
}

/// Objects in static fields. Handles hold them too, by arrays that say nothing.
fn statics(source: &dyn Source, graph: &Graph, found: &mut Found) {
    for (_, at) in graph.types().iter().flat_map(|of| &of.statics) {
        if let Ok(value) = source.image().read_u64(at.0) {
            found.add(graph, RootKind::Static, at.0, value, 0);
        }
    }
}

/// Most objects that wait for their finalizers.
const MOST_WAITING: u64 = 1 << 28;
/// Index of the fill pointer before those that wait, and of the one behind them (`finalizerStartSeg` of `gcpriv.h`).
const WAITING: [u64; 2] = [4, 6];

/// Objects whose finalizers are to run.
fn finalizers(source: &dyn Source, collector: &Collector, graph: &Graph, found: &mut Found) {
    let image = source.image();
    let fill = source.layout().find_field("FinalizeQueue", "FillPointers").unwrap_or(0);
    for heap in &collector.heaps {
        let pointers = heap.finalize_queue.wrapping_add(u64::from(fill));
        let [first, end] = WAITING.map(|index| image.read_u64(pointers.wrapping_add(index * 8)));
        let (Ok(first), Ok(end)) = (first, end) else {
            found.missing("the finalizer queue cannot be read");
            continue;
        };
        let bytes = end.saturating_sub(first);
        if end < first || bytes > MOST_WAITING * 8 {
            found.missing("the finalizer queue makes no sense");
            continue;
        }
        words(image, first, bytes, |address, value| {
            found.add(graph, RootKind::FinalizerQueue, address, value, 0);
        });
    }
}
