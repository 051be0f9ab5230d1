//! The table of types of a heap: for dumps, where nobody asks for references.

use super::{Heap, HeapError, HeapOptions, Problems};
use crate::graph::Totals;
use crate::runtime::Runtime;

/// One type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeRow {
    /// Full name.
    pub name: String,
    /// Name of its module's file, without folders; empty if not known.
    pub module: String,
    /// Its objects, reachable or not.
    pub totals: Totals,
}

/// A heap by type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeapByType {
    /// Types by bytes, most first; those of one name and module are one row.
    pub types: Vec<TypeRow>,
    /// All objects.
    pub totals: Totals,
    /// Gaps that the collector left between objects.
    pub free: Totals,
    /// Whether it is the server collector's.
    pub is_server: bool,
    /// What went wrong.
    pub problems: Problems,
}

/// Objects and bytes by type, reachable or not.
///
/// # Errors
/// As [`Heap::open`] and [`Heap::walk_objects`].
pub fn by_type(runtime: &Runtime<'_>) -> Result<HeapByType, HeapError> {
    let heap = Heap::open(runtime)?;
    let (graph, problems) = heap.walk_objects(&HeapOptions::default())?;
    let (mut totals, mut free) = (Totals::default(), Totals::default());
    let mut rows: rustc_hash::FxHashMap<(&str, &str), Totals> = rustc_hash::FxHashMap::default();
    let by_type = graph.by_type();
    for one in &by_type {
        let Some(of) = graph.type_of(one.of) else { continue };
        if of.is_free {
            free.add_all(one.all);
        } else {
            totals.add_all(one.all);
            rows.entry((&of.name, &of.module)).or_default().add_all(one.all);
        }
    }
    let mut types: Vec<TypeRow> = rows
        .into_iter()
        .map(|((name, module), totals)| TypeRow { name: name.to_owned(), module: module.to_owned(), totals })
        .collect();
    types.sort_by(|a, b| b.totals.bytes.cmp(&a.totals.bytes).then_with(|| a.name.cmp(&b.name)));
    Ok(HeapByType { types, totals, free, is_server: heap.is_server(), problems })
}
