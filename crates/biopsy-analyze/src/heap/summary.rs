//! A managed heap in numbers: its facts, and its objects by type.

use std::collections::HashMap;

use biopsy_dotnet::graph::{Graph, Totals};
use biopsy_model::heap::HeapFacts;

/// What a report shows of a heap.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeapSummary {
    /// Of the process or of the file, for headings.
    pub name: String,
    /// How it was seen and what it holds.
    pub facts: HeapFacts,
    /// All types by bytes, those of one name and module in one row; free space is no type.
    pub types: Vec<HeapTypeRow>,
}

/// Objects of one type.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeapTypeRow {
    /// Full name.
    pub name: String,
    /// File name of its module; empty: not known.
    pub module: String,
    /// All objects.
    pub all: Totals,
    /// Reachable ones; `None`: nobody looked.
    pub live: Option<Totals>,
}

impl HeapSummary {
    /// Sums up a heap.
    #[must_use]
    pub fn new(name: &str, graph: &Graph, facts: &HeapFacts) -> Self {
        let mut sums: HashMap<(&str, &str), (Totals, Option<Totals>)> = HashMap::new();
        let by_type = graph.by_type();
        for one in &by_type {
            let Some(of) = graph.type_of(one.of).filter(|of| !of.is_free) else { continue };
            let (all, live) = sums.entry((&of.name, &of.module)).or_default();
            all.add_all(one.all);
            if let Some(more) = one.live {
                live.get_or_insert_default().add_all(more);
            }
        }
        let mut types: Vec<HeapTypeRow> = sums
            .into_iter()
            .map(|((name, module), (all, live))| HeapTypeRow {
                name: name.to_owned(),
                module: module.to_owned(),
                all,
                live,
            })
            .collect();
        types.sort_by(|a, b| {
            b.all.bytes.cmp(&a.all.bytes).then_with(|| (&a.name, &a.module).cmp(&(&b.name, &b.module)))
        });
        Self { name: name.to_owned(), facts: facts.clone(), types }
    }
}
