//! Objects by type.

use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::heap::{self, HeapError, HeapOptions};
use biopsy_dotnet::names::display_type;
use biopsy_dotnet::tasks::Operations;
use biopsy_model::order::Order as _;
use rustc_hash::FxHashMap;

use super::runtimes::Runtimes;
use crate::dump::facts::DumpFacts;

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

/// The objects of the runtime with the largest heap that can be read.
#[derive(Debug, Default)]
pub(crate) struct Walked {
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

pub(crate) fn walk_heap(facts: &DumpFacts<'_>) -> Walked {
    let mut walked = Walked::default();
    if !facts.heap {
        return walked;
    }
    let Some(runtimes) = facts.managed else { return walked };
    let (largest, refused) = heap::largest(runtimes.opened());
    for error in refused {
        walked.collecting |= matches!(error, HeapError::Collecting);
        walked.problems.push(format!("objects of the managed heap: {error}"));
    }
    let Some((index, heap)) = largest else { return walked };
    match heap.walk_objects(&HeapOptions::default()) {
        Ok((graph, problems)) => {
            if !problems.is_none() {
                walked.problems.push(format!(
                    "objects of the managed heap: {} places could not be read, {} bytes are skipped",
                    problems.count, problems.skipped_bytes
                ));
            }
            walked.found = Some((index, graph, heap.is_server()));
        }
        Err(error) => walked.problems.push(format!("objects of the managed heap: {error}")),
    }
    walked
}

/// What the objects say.
#[derive(Default)]
pub(super) struct HeapFacts {
    pub(super) table: Option<HeapTable>,
    pub(super) operations: Option<Operations>,
    /// The garbage collector was at work.
    pub(super) collecting: bool,
    pub(super) problems: Vec<String>,
}

/// Tables and operations of the objects.
pub(super) fn facts(runtimes: &Runtimes<'_>, walked: Walked) -> HeapFacts {
    let mut facts =
        HeapFacts { collecting: walked.collecting, problems: walked.problems, ..HeapFacts::default() };
    let Some((index, graph, is_server)) = walked.found else { return facts };
    let Some(runtime) = runtimes.opened().get(index) else { return facts };
    facts.table = Some(table(&graph, is_server));
    let nameless = graph.types().iter().filter(|of| of.is_nameless()).count();
    if nameless > 0 {
        let all = graph.types().len();
        facts.problems.push(format!("names of {nameless} of {all} types: the metadata of their assemblies"));
        // What goes by names of types would be wrong.
        if nameless * 2 > all {
            return facts;
        }
    }
    let operations = biopsy_dotnet::tasks::operations(runtime, &graph);
    facts.problems.extend(operations.problems.iter().cloned());
    facts.operations = Some(operations);
    facts
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
    sorted.order_by(|a, b| (b.1.1, a.0).cmp(&(a.1.1, b.0)));
    let row = |((name, module), (objects, bytes)): ((&str, &str), (u64, u64))| HeapRow {
        type_name: display_type(name),
        module: module.to_owned(),
        objects,
        bytes,
    };
    table.rows = sorted.into_iter().take(ROWS).map(row).collect();
    table
}
