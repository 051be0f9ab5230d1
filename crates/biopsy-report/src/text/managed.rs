//! What managed runtimes say in a dump, in a few lines.

use biopsy_analyze::dump::DumpAnalysis;

use super::page::Page;
use crate::units::counted;
use crate::words::dump::{awaits, heap_total, size};

/// Types.
const TYPES: usize = 8;
/// Chains of operations.
const OPERATIONS: usize = 5;
/// Methods of one chain.
const METHODS: usize = 4;

pub(super) fn lines(page: &mut Page, analysis: &DumpAnalysis) {
    let Some(managed) = &analysis.managed else { return };
    for runtime in &managed.runtimes {
        let words = match &runtime.problem {
            Some(problem) => format!("{} is not read: {problem}", runtime.name),
            None => runtime.name.clone(),
        };
        page.line("runtime", "2", &words);
    }
    if let Some(pool) = &managed.pool {
        let body = format!(
            "{}, {} waiting for work, {} blocked ({} until a task completes)",
            counted(pool.workers as u64, "worker", "workers"),
            pool.idle,
            pool.blocked.len(),
            pool.waiting_for_tasks.len()
        );
        page.line("thread pool", "2", &body);
    }
    if let Some(operations) = &managed.operations {
        page.line(
            "async",
            "2",
            &format!("{} at an await", counted(operations.pending, "operation", "operations")),
        );
        for group in operations.groups.iter().take(OPERATIONS) {
            let mut methods =
                group.methods.iter().take(METHODS).map(String::as_str).collect::<Vec<_>>().join(" ← ");
            if let Some(more) = group.methods.len().checked_sub(METHODS).filter(|more| *more > 0) {
                methods.push_str(&format!(" ← {more} more"));
            }
            page.line(&format!("  {} ×", group.count), "1", &format!("{methods} awaits {}", awaits(group)));
        }
    }
    if let Some(heap) = &managed.heap {
        page.line("heap", "2", &heap_total(heap));
        for row in heap.rows.iter().take(TYPES) {
            let objects = counted(row.objects, "object", "objects");
            page.line(&format!("  {}", size(row.bytes)), "1", &format!("{} in {objects}", row.type_name));
        }
    }
}
