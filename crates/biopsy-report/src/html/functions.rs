//! The page's table of functions: those worth a row, and those that the flame graphs and findings name.

use super::numbers::{cut, micros};
use crate::assemble::{Assembly, choose_functions};
use biopsy_analyze::{FlameKind, FunctionHandle, FunctionKind, Reference};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// Functions chosen for the table of the hottest; more are in it when a flame graph draws them.
const ROWS: usize = 1_200;
/// Bytes of a name in the page: C++ templates can take a kilobyte, and nobody reads the end.
const NAME: usize = 320;

#[derive(Serialize)]
pub(super) struct Functions {
    modules: Vec<String>,
    /// Name, index of the module, kind (kernel, native, jit, unknown, heading: 0 to 4).
    rows: Vec<(String, usize, u8)>,
    /// Microseconds of each row: CPU self, CPU total, wait self, wait total.
    times: Vec<[f64; 4]>,
    /// `file:line` of the rows that have one.
    places: Vec<(usize, String)>,
}

/// Chooses the functions, and notes their positions in `assembly`.
pub(super) fn functions(assembly: &mut Assembly<'_>) -> Functions {
    let analysis = assembly.analysis;
    let mut chosen = choose_functions(analysis, ROWS);
    let pairs =
        std::iter::once(&analysis.flames.all).chain(analysis.flames.threads.iter().map(|t| &t.flames));
    for tree in pairs.flat_map(|pair| [&pair.cpu, &pair.waiting]) {
        chosen.extend(tree.nodes.iter().filter_map(|node| match node.kind {
            FlameKind::Function(handle) => Some(handle),
            FlameKind::Root | FlameKind::Pruned => None,
        }));
    }
    for evidence in analysis.findings.iter().flat_map(|finding| &finding.evidence) {
        match evidence.reference {
            Reference::Function(handle) | Reference::WaitFunction(handle) => chosen.push(handle),
            _ => {}
        }
    }
    chosen.extend(analysis.threads.rows.iter().filter_map(|row| row.top_function).take(ROWS));
    chosen.sort_unstable();
    chosen.dedup();
    chosen.retain(|handle| analysis.function(*handle).is_some());
    assembly.positions = chosen.iter().enumerate().map(|(position, handle)| (*handle, position)).collect();
    table(assembly, &chosen)
}

fn table(assembly: &Assembly<'_>, chosen: &[FunctionHandle]) -> Functions {
    let mut table =
        Functions { modules: Vec::new(), rows: Vec::new(), times: Vec::new(), places: Vec::new() };
    let mut modules: FxHashMap<&str, usize> = FxHashMap::default();
    for row in chosen.iter().filter_map(|handle| assembly.analysis.function(*handle)) {
        let module = *modules.entry(&row.module).or_insert_with(|| {
            table.modules.push(cut(&row.module, NAME).to_owned());
            table.modules.len() - 1
        });
        let name = cut(&row.name, NAME);
        let name = if name.len() < row.name.len() { format!("{name}…") } else { name.to_owned() };
        if let Some(file) = &row.file {
            let place = match row.line {
                Some(line) => format!("{}:{line}", cut(file, NAME)),
                None => cut(file, NAME).to_owned(),
            };
            table.places.push((table.rows.len(), place));
        }
        table.rows.push((name, module, kind(row.kind)));
        table.times.push([row.cpu_self, row.cpu_total, row.wait_self, row.wait_total].map(micros));
    }
    table
}

fn kind(kind: FunctionKind) -> u8 {
    match kind {
        FunctionKind::Kernel => 0,
        FunctionKind::Native => 1,
        FunctionKind::Jit => 2,
        FunctionKind::Unknown => 3,
        FunctionKind::Heading => 4,
    }
}
