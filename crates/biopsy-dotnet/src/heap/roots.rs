//! What keeps objects of the heap alive.

use super::segments::Collector;
use super::source::Source;
use super::{handles, stacks, thread_statics};
use crate::graph::{Graph, ObjectIndex, Root, RootKind};
use crate::runtime::ManagedThread;
use biopsy_image::{Image, MemoryExt};
use biopsy_model::Avma;

/// Kinds of roots that could not be read. Objects that only they keep alive count as garbage then.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RootProblems {
    /// What was missing, in words.
    pub missing: Vec<String>,
}

/// Roots of a graph.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) roots: Vec<Root>,
    pub(super) dependents: Vec<(ObjectIndex, ObjectIndex)>,
    pub(super) problems: RootProblems,
}

impl Found {
    /// Adds a root if the value is the beginning of an object.
    pub(super) fn add(&mut self, graph: &Graph, kind: RootKind, address: u64, value: u64, thread: u32) {
        if let Some(object) = graph.find(Avma(value)) {
            self.roots.push(Root { kind, address: Avma(address), object, is_interior: false, thread });
        }
    }

    pub(super) fn missing(&mut self, what: impl Into<String>) {
        self.problems.missing.push(what.into());
    }
}

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
    found
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

/// Calls `each` with the words of a range that can be read.
pub(super) fn words(image: &dyn Image, start: u64, bytes: u64, mut each: impl FnMut(u64, u64)) {
    const PIECE: u64 = 64 << 10;
    let end = start.saturating_add(bytes);
    let mut at = start;
    while at < end {
        let length = (end - at).min(PIECE);
        let Ok(piece) = image.read_up_to(at, length as usize) else {
            // The page is missing; the next one may be there.
            at = (at | 0xfff).saturating_add(1).next_multiple_of(8);
            continue;
        };
        let whole = piece.as_chunks::<8>().0;
        for (number, eight) in whole.iter().enumerate() {
            each(at + number as u64 * 8, u64::from_le_bytes(*eight));
        }
        if whole.is_empty() {
            break;
        }
        at += whole.len() as u64 * 8;
    }
}
