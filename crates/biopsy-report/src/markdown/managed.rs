//! What managed runtimes say in a dump.

use std::fmt::Write as _;

use biopsy_analyze::dump::DumpAnalysis;

use super::escape::{code, plain};
use crate::units::counted;
use crate::words::dump::{awaits, heap_total, size};

/// Types.
const TYPES: usize = 15;
/// Chains of operations.
const OPERATIONS: usize = 10;

/// Thread pool, operations, heap.
pub(super) fn write(out: &mut String, analysis: &DumpAnalysis, level: &str) {
    let Some(managed) = &analysis.managed else { return };
    let names: Vec<String> = managed.runtimes.iter().map(|runtime| plain(&runtime.name)).collect();
    let _ = writeln!(out, "\n{level} Managed code ({})", names.join(", "));
    if let Some(pool) = &managed.pool {
        let _ = writeln!(
            out,
            "\nThread pool: {}, {} waiting for work, {} blocked ({} until a task completes).",
            counted(pool.workers as u64, "worker", "workers"),
            pool.idle,
            pool.blocked.len(),
            pool.waiting_for_tasks.len()
        );
    }
    if let Some(operations) = managed.operations.as_ref().filter(|one| !one.groups.is_empty()) {
        let _ = writeln!(out, "\n| operations | methods, innermost first | awaits |\n| ---: | --- | --- |");
        for group in operations.groups.iter().take(OPERATIONS) {
            let methods: Vec<String> = group.methods.iter().map(|method| code(method)).collect();
            let _ =
                writeln!(out, "| {} | {} | {} |", group.count, methods.join(" ← "), plain(&awaits(group)));
        }
    }
    if let Some(heap) = &managed.heap {
        let _ = writeln!(
            out,
            "\nHeap: {}.\n\n| type | objects | bytes |\n| --- | ---: | ---: |",
            heap_total(heap)
        );
        for row in heap.rows.iter().take(TYPES) {
            let _ = writeln!(out, "| {} | {} | {} |", code(&row.type_name), row.objects, size(row.bytes));
        }
    }
}
