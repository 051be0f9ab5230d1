//! An opened heap.

use biopsy_model::Avma;

use super::found_roots::RootProblems;
use super::segments::{self, Collector};
use super::source::Source;
use super::{HeapError, Problems, Segment, roots, walk};
use crate::graph::{self, Graph, Spill};
use crate::runtime::{ManagedThread, Runtime, TypeHandle};

/// How a heap is walked.
#[derive(Debug, Default)]
pub struct HeapOptions {
    /// Threads that walk; 0: as many as there are cores.
    pub threads: usize,
    /// Where references are kept that are too many for memory; `None`: in memory.
    pub spill: Option<Spill>,
}

impl HeapOptions {
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

/// The heap of a runtime at one moment, not being collected.
pub struct Heap<'r> {
    source: &'r dyn Source,
    collector: Collector,
    segments: Vec<Segment>,
    threads: Vec<ManagedThread>,
    contexts: Vec<(Avma, Avma)>,
    problems: Problems,
}

impl std::fmt::Debug for Heap<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Heap").field("collector", &self.collector).finish_non_exhaustive()
    }
}

impl<'r> Heap<'r> {
    /// Opens the heap: which segments there are and where threads allocate.
    ///
    /// # Errors
    /// [`HeapError::Collecting`] when the image was taken in the middle of a collection; take another. The others when the
    /// collector's variables are missing or damaged.
    pub fn open(runtime: &'r Runtime<'_>) -> Result<Self, HeapError> {
        let gc = runtime.gc_variables().ok_or(HeapError::NoVariables)?;
        Self::of(runtime, gc, runtime.threads()?)
    }

    pub(super) fn of(
        source: &'r dyn Source,
        gc: Avma,
        threads: Vec<ManagedThread>,
    ) -> Result<Self, HeapError> {
        let collector = segments::read_collector(source.image(), source.layout(), gc.0)?;
        let mut problems = Problems::default();
        let segments = segments::read_segments(source.image(), source.layout(), &collector, &mut problems)?;
        if segments.is_empty() {
            return Err(HeapError::Empty);
        }
        let mut contexts: Vec<(Avma, Avma)> =
            threads.iter().map(|thread| thread.allocation).filter(|(at, _)| *at != Avma(0)).collect();
        contexts.sort_unstable();
        Ok(Self { source, collector, segments, threads, contexts, problems })
    }

    /// The segments, by address.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether it is the heap of the server collector.
    #[must_use]
    pub fn is_server(&self) -> bool {
        self.collector.is_server
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(Segment::bytes).sum()
    }

    /// All objects with their references.
    ///
    /// # Errors
    /// The heap is too large, or references cannot be spilled. What is damaged in the heap is counted, and no error.
    pub fn walk(&self, options: &HeapOptions) -> Result<(Graph, Problems), HeapError> {
        let never = Spill::never();
        self.walk_with(options, Some(options.spill.as_ref().unwrap_or(&never)))
    }

    /// All objects without their references: for tables of types, in about half the time.
    ///
    /// # Errors
    /// As [`Heap::walk`].
    pub fn walk_objects(&self, options: &HeapOptions) -> Result<(Graph, Problems), HeapError> {
        self.walk_with(options, None)
    }

    fn walk_with(
        &self,
        options: &HeapOptions,
        edges: Option<&Spill>,
    ) -> Result<(Graph, Problems), HeapError> {
        let plan = walk::Plan {
            segments: &self.segments,
            contexts: &self.contexts,
            edges,
            threads: options.threads(),
        };
        let (graph, mut problems) = walk::walk(self.source, &plan)?;
        problems.merge(self.problems.clone());
        // The segments are known and nothing of them is there: that is no heap of nothing.
        if graph.is_empty() && problems.count > 0 {
            return Err(HeapError::Empty);
        }
        Ok((graph, problems))
    }

    /// Whether a background collection was sweeping the heap while the program ran: garbage was being turned into free space,
    /// and a place where no object begins may be where it was at work.
    #[must_use]
    pub fn is_being_swept(&self) -> bool {
        self.collector.is_being_swept
    }

    /// Finds the roots of a graph that was walked with references, and what is reachable from them. The problems of the walk are
    /// told what is garbage: only what live objects refer to must be there.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    pub fn find_live(&self, graph: &mut Graph, problems: &mut Problems) -> Result<RootProblems, HeapError> {
        let mut statics = self.source.statics();
        // Instances of generic types, which no table of an assembly has.
        let instances = graph.types().iter().filter(|of| of.name.contains('<'));
        statics.extend(instances.filter_map(|of| self.source.statics_of(TypeHandle(of.method_table))));
        graph.add_statics(statics);
        let found = roots::find(self.source, &self.collector, &self.threads, graph);
        graph.set_roots(found.roots, found.dependents);
        let marked = graph::mark_counted(graph)?;
        graph.set_live(marked.live);
        // Where roots are missing, what looks like garbage may be none.
        if found.problems.missing.is_empty() {
            // A word that was left on a stack leads to garbage, which is half swept at that moment.
            let uncertain = if self.is_being_swept() { 0 } else { marked.dangling_from_stacks };
            problems.set_live_dangling(marked.dangling.saturating_add(uncertain));
        }
        Ok(found.problems)
    }
}
