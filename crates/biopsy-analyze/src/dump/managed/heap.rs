//! Objects by type.

use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::heap::{Heap, HeapError, HeapOptions};
use biopsy_dotnet::names::display_type;
use biopsy_dotnet::runtime::Runtime;
use rustc_hash::FxHashMap;

use super::{Managed, Runtimes};
use crate::dump::DumpFacts;

/// Types in the report at most.
const ROWS: usize = 2_000;

/// One type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapRow {
    /// Its name.
    pub type_name: String,
    /// Its assembly's file.
    pub module: String,
    /// Objects, reachable or not.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The heap of a runtime, by type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeapTable {
    /// Most bytes first.
    pub rows: Vec<HeapRow>,
    /// Types in all.
    pub types: u64,
    /// Objects in all.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of holes between them.
    pub free_bytes: u64,
    /// It is the heap of the server collector.
    pub is_server: bool,
}

/// The objects of the first runtime whose heap can be read.
#[derive(Debug, Default)]
pub(in crate::dump) struct Walked {
    /// Index of the runtime, its objects, and whether the server collector is at work.
    found: Option<(usize, Graph, bool)>,
    collecting: bool,
    problems: Vec<String>,
}

impl Walked {
    /// The objects of a runtime.
    pub(super) fn graph_of(&self, runtime: usize) -> Option<&Graph> {
        self.found.as_ref().filter(|(of, ..)| *of == runtime).map(|(_, graph, _)| graph)
    }
}

pub(in crate::dump) fn walk_heap(facts: &DumpFacts<'_>) -> Walked {
    let mut walked = Walked::default();
    if !facts.heap {
        return walked;
    }
    let runtimes = facts.managed.iter().flat_map(|runtimes| runtimes.opened());
    for (index, runtime) in runtimes.enumerate() {
        match walk(runtime) {
            Ok((graph, is_server)) => {
                walked.found = Some((index, graph, is_server));
                return walked;
            }
            Err(error) => {
                walked.collecting |= matches!(error, HeapError::Collecting);
                walked.problems.push(format!("objects of the managed heap: {error}"));
            }
        }
    }
    walked
}

/// What is told of the objects.
pub(super) fn tell(runtimes: &Runtimes<'_>, walked: Walked, managed: &mut Managed) {
    managed.collecting = walked.collecting;
    managed.problems.extend(walked.problems);
    let Some((index, graph, is_server)) = walked.found else { return };
    let Some(runtime) = runtimes.opened().get(index) else { return };
    managed.heap = Some(table(&graph, is_server));
    let operations = biopsy_dotnet::tasks::operations(runtime, &graph);
    managed.problems.extend(operations.problems.iter().cloned());
    managed.operations = Some(operations);
}

fn walk(runtime: &Runtime<'_>) -> Result<(Graph, bool), HeapError> {
    let heap = Heap::open(runtime)?;
    let (graph, _) = heap.walk_objects(&HeapOptions::default())?;
    Ok((graph, heap.is_server()))
}

fn table(graph: &Graph, is_server: bool) -> HeapTable {
    let mut table = HeapTable { is_server, ..HeapTable::default() };
    let mut rows: FxHashMap<(&str, &str), (u64, u64)> = FxHashMap::default();
    for one in &graph.by_type() {
        let Some(of) = graph.type_of(one.of) else { continue };
        if of.is_free {
            table.free_bytes += one.all.bytes;
            continue;
        }
        table.objects += one.all.objects;
        table.bytes += one.all.bytes;
        let row = rows.entry((&of.name, &of.module)).or_default();
        *row = (row.0 + one.all.objects, row.1 + one.all.bytes);
    }
    table.types = rows.len() as u64;
    let mut sorted: Vec<_> = rows.into_iter().collect();
    sorted.sort_by(|a, b| (b.1.1, a.0).cmp(&(a.1.1, b.0)));
    let row = |((name, module), (objects, bytes)): ((&str, &str), (u64, u64))| HeapRow {
        type_name: display_type(name),
        module: module.to_owned(),
        objects,
        bytes,
    };
    table.rows = sorted.into_iter().take(ROWS).map(row).collect();
    table
}
