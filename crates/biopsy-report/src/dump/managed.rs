//! What managed runtimes say, in the page, in Markdown and on the terminal.

use std::fmt::Write as _;

use biopsy_analyze::dump::DumpAnalysis;
use biopsy_analyze::dump::managed::{HeapTable, Managed, OperationGroup};

use crate::html::text;
use crate::markdown::{code, plain};
use crate::text::Page;
use crate::units::{bytes, count, counted, to_f64};

/// Types in the page, in Markdown, on the terminal.
const TYPES: [usize; 3] = [200, 15, 8];
/// Chains of operations, likewise.
const OPERATIONS: [usize; 3] = [100, 10, 5];
/// Methods of one chain on the terminal.
const METHODS: usize = 4;

fn size(value: u64) -> String {
    bytes(to_f64(value))
}

fn total(heap: &HeapTable) -> String {
    format!(
        "{} in {}, {} of {}",
        size(heap.bytes),
        counted(heap.objects, "object", "objects"),
        counted(heap.types, "type", "types"),
        if heap.is_server { "the server collector" } else { "the workstation collector" }
    )
}

fn awaits(group: &OperationGroup) -> String {
    match &group.object {
        Some((address, name)) if group.count > 1 => {
            format!("{}, all on one {name} at {address}", group.awaits)
        }
        _ => group.awaits.clone(),
    }
}

pub(super) fn section(html: &mut String, analysis: &DumpAnalysis) {
    let Some(managed) = &analysis.managed else { return };
    let names: Vec<String> = managed.runtimes.iter().map(|runtime| text(&runtime.name)).collect();
    let _ = write!(
        html,
        "<section id=\"managed\"><h2>Managed code</h2><p class=\"lead\">{}</p>",
        names.join(", ")
    );
    for runtime in &managed.runtimes {
        if let Some(problem) = &runtime.problem {
            let _ = write!(
                html,
                "<p class=\"note\"><span class=\"bad\">{} is not read:</span> {}</p>",
                text(&runtime.name),
                text(problem)
            );
        }
    }
    pool(html, managed);
    operations(html, managed);
    heap(html, managed);
    html.push_str("</section>\n");
}

fn pool(html: &mut String, managed: &Managed) {
    let Some(pool) = &managed.pool else { return };
    let _ = write!(
        html,
        "<h3>Thread pool</h3><p>{}: {} waiting for work, {} blocked, {} of these until a task completes.</p>",
        counted(pool.workers as u64, "worker", "workers"),
        pool.idle,
        pool.blocked.len(),
        pool.waiting_for_tasks.len()
    );
    if !pool.places.is_empty() {
        html.push_str("<ul>");
        for (place, threads) in pool.places.iter().take(10) {
            let threads = counted(*threads as u64, "worker", "workers");
            let _ = write!(html, "<li>{threads} in <span class=\"function\">{}</span></li>", text(place));
        }
        html.push_str("</ul>");
    }
}

fn operations(html: &mut String, managed: &Managed) {
    let Some(operations) = managed.operations.as_ref().filter(|one| !one.groups.is_empty()) else { return };
    let _ = write!(
        html,
        "<h3>Asynchronous operations</h3><p>{} at an <code>await</code>. Each row is a chain of async methods that await each other, \
         the innermost first.</p><div class=\"table\"><table><thead><tr><th class=\"numeric\">Count</th><th>Methods</th><th>Awaits</th></tr>\
         </thead><tbody>",
        count(operations.pending)
    );
    for group in operations.groups.iter().take(OPERATIONS[0]) {
        let methods: Vec<String> = group.methods.iter().map(|method| text(method)).collect();
        let _ = write!(
            html,
            "<tr><td class=\"numeric\">{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>",
            count(group.count),
            methods.join("<br>"),
            text(&awaits(group))
        );
    }
    html.push_str("</tbody></table></div>");
}

fn heap(html: &mut String, managed: &Managed) {
    let Some(heap) = &managed.heap else { return };
    let _ = write!(
        html,
        "<h3>Objects by type</h3><p>{}; {} of holes between them. Reachable or not.</p><div class=\"table\"><table><thead><tr>\
         <th>Type</th><th class=\"numeric\">Objects</th><th class=\"numeric\">Bytes</th></tr></thead><tbody>",
        total(heap),
        size(heap.free_bytes)
    );
    for row in heap.rows.iter().take(TYPES[0]) {
        let _ = write!(
            html,
            "<tr title=\"{}\"><td class=\"text\"><code>{}</code></td><td class=\"numeric\">{}</td><td class=\"numeric\">{}</td></tr>",
            text(&row.module),
            text(&row.type_name),
            count(row.objects),
            size(row.bytes)
        );
    }
    html.push_str("</tbody></table></div>");
}

pub(super) fn markdown(out: &mut String, analysis: &DumpAnalysis) {
    let Some(managed) = &analysis.managed else { return };
    let names: Vec<String> = managed.runtimes.iter().map(|runtime| plain(&runtime.name)).collect();
    let _ = writeln!(out, "\n## Managed code ({})", names.join(", "));
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
        for group in operations.groups.iter().take(OPERATIONS[1]) {
            let methods: Vec<String> = group.methods.iter().map(|method| code(method)).collect();
            let _ =
                writeln!(out, "| {} | {} | {} |", group.count, methods.join(" ← "), plain(&awaits(group)));
        }
    }
    if let Some(heap) = &managed.heap {
        let _ =
            writeln!(out, "\nHeap: {}.\n\n| type | objects | bytes |\n| --- | ---: | ---: |", total(heap));
        for row in heap.rows.iter().take(TYPES[1]) {
            let _ = writeln!(out, "| {} | {} | {} |", code(&row.type_name), row.objects, size(row.bytes));
        }
    }
}

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
        for group in operations.groups.iter().take(OPERATIONS[2]) {
            let methods =
                group.methods.iter().take(METHODS).map(String::as_str).collect::<Vec<_>>().join(" ← ");
            page.line(&format!("  {} ×", group.count), "1", &format!("{methods} awaits {}", awaits(group)));
        }
    }
    if let Some(heap) = &managed.heap {
        page.line("heap", "2", &total(heap));
        for row in heap.rows.iter().take(TYPES[2]) {
            let objects = counted(row.objects, "object", "objects");
            page.line(&format!("  {}", size(row.bytes)), "1", &format!("{} in {objects}", row.type_name));
        }
    }
}
