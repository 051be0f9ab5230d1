//! The heap of a process: which one is meant where it has several runtimes, and all that is told of it.

use std::ops::Range;

use biopsy_image::Image;
use biopsy_model::heap::{Collector, HeapFacts, HeapSource};

use super::{Heap, HeapError, HeapOptions};
use crate::graph::Graph;
use crate::runtime::{self, FoundRuntime, Runtime, RuntimeError};

/// The largest heap of an image: its objects, and what is live.
#[derive(Debug)]
pub struct LargestHeap<'f> {
    /// The objects.
    pub graph: Graph,
    /// What is told of them; not whose they are and when, and no warnings.
    pub facts: HeapFacts,
    /// Its memory, by address.
    pub memory: Vec<Range<u64>>,
    /// That there are other runtimes.
    pub others: Option<String>,
    /// Why others could not be read.
    pub refused: Vec<Refused<'f>>,
    /// Kinds of roots that could not be read, in words.
    pub missing: Vec<String>,
    /// How many of how many types have no name, in words; `None`: all have one.
    pub nameless: Option<String>,
    /// A background collection was sweeping it, and it is not whole.
    pub is_torn_by_sweep: bool,
}

/// A runtime, or its heap, that cannot be read.
#[derive(Debug)]
pub enum Refused<'f> {
    /// The runtime.
    Runtime {
        /// Which.
        of: &'f FoundRuntime,
        /// Why not.
        source: RuntimeError,
    },
    /// Its heap.
    Heap(HeapError),
}

impl Refused<'_> {
    /// Another moment of the process may do.
    #[must_use]
    pub fn is_of_the_moment(&self) -> bool {
        match self {
            Self::Runtime { source, .. } => source.is_of_the_moment(),
            Self::Heap(error) => matches!(error, HeapError::Collecting),
        }
    }
}

/// Opens the runtimes that were found in an image, walks the largest heap and marks what is live. With `has_more_moments` the
/// image is one of several that can be taken of the process: what another moment may mend ends it at once.
///
/// # Errors
/// The first that was refused; `None`: there is no heap at all.
pub fn read_largest<'f>(
    image: &dyn Image,
    found: &'f [FoundRuntime],
    options: &runtime::Options,
    walk: &HeapOptions,
    has_more_moments: bool,
) -> Result<LargestHeap<'f>, Option<Refused<'f>>> {
    let ends = |refused: &Refused<'_>| has_more_moments && refused.is_of_the_moment();
    let (mut opened, mut of_opened, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for of in found {
        match Runtime::open(Box::new(image), of, options) {
            Ok(runtime) => {
                opened.push(runtime);
                of_opened.push(of);
            }
            Err(source) => {
                let why = Refused::Runtime { of, source };
                if ends(&why) {
                    return Err(Some(why));
                }
                refused.push(why);
            }
        }
    }
    let (largest, without_heap) = largest(&opened);
    for why in without_heap.into_iter().map(Refused::Heap) {
        if ends(&why) {
            return Err(Some(why));
        }
        refused.push(why);
    }
    let largest = largest.and_then(|(number, heap)| Some((*of_opened.get(number)?, heap)));
    let Some((of, heap)) = largest else { return Err(refused.into_iter().next()) };
    let failed = |error| Some(Refused::Heap(error));
    let (mut graph, mut problems) = heap.walk(walk).map_err(failed)?;
    let roots = heap.find_live(&mut graph, &mut problems).map_err(failed)?;
    // What a background collection makes free space of is between two forms for an instant.
    let is_torn_by_sweep = heap.is_being_swept() && !problems.is_none();
    if is_torn_by_sweep && has_more_moments {
        return Err(failed(HeapError::Collecting));
    }
    let facts = HeapFacts {
        runtime: of.version.as_ref().map(ToString::to_string).unwrap_or_default(),
        source: HeapSource::Memory,
        collector: if heap.is_server() { Collector::Server } else { Collector::Workstation },
        segment_bytes: heap.bytes(),
        whole: problems.is_none(),
        problems: problems.count,
        skipped_bytes: problems.skipped_bytes,
        dangling: problems.dangling,
        stale: problems.stale,
        ..graph.facts()
    };
    let mut memory: Vec<Range<u64>> = heap.segments().iter().map(|one| one.start.0..one.end.0).collect();
    memory.sort_unstable_by_key(|range| range.start);
    let nameless = graph.types().iter().filter(|one| one.is_nameless()).count();
    Ok(LargestHeap {
        facts,
        memory,
        others: note_of_others(found, of),
        refused,
        missing: roots.missing,
        nameless: (nameless > 0).then(|| format!("{nameless} of {} types have no name", graph.types().len())),
        is_torn_by_sweep,
        graph,
    })
}

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
fn note_of_others(found: &[FoundRuntime], chosen: &FoundRuntime) -> Option<String> {
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
