//! Memory, modules, and what could not be determined, in the page.

use std::fmt::Write as _;

use biopsy_analyze::dump::{DumpAnalysis, MemoryClass, MemoryRow};

use super::html::marked;
use crate::html::text;
use crate::units::{bytes, count, share, to_f64};

/// Rows of files and labels that are shown.
const NAMES: usize = 40;
/// Rows of modules that are shown.
const MODULES: usize = 400;

fn size(value: u64) -> String {
    bytes(to_f64(value))
}

/// The colour of a kind of memory: the same in the bar and the table.
fn color(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Anonymous => "c1",
        MemoryClass::Heap => "c7",
        MemoryClass::Stack => "c5",
        MemoryClass::JitCode => "c3",
        MemoryClass::Shared => "c4",
        MemoryClass::FileCode => "c2",
        MemoryClass::FileData => "c6",
        MemoryClass::File => "c8",
        MemoryClass::Kernel | MemoryClass::Reserved | MemoryClass::Unknown => "unknown",
    }
}

pub(super) fn memory(html: &mut String, analysis: &DumpAnalysis) {
    let memory = &analysis.memory;
    let _ = write!(
        html,
        "<section id=\"memory\"><h2>Memory</h2><p class=\"lead\">{} in the dump, of {} of addresses in {} mappings.</p>",
        size(memory.in_dump),
        size(memory.mapped),
        count(memory.mappings)
    );
    bar(html, analysis);
    html.push_str(
        "<div class=\"table\"><table><thead><tr><th>Kind</th><th class=\"numeric\">In the dump</th><th class=\"numeric\">Share</th>\
         <th class=\"numeric\">Mapped</th><th class=\"numeric\">Mappings</th></tr></thead><tbody>",
    );
    for row in &memory.classes {
        let part = row.in_dump as f64 / memory.in_dump.max(1) as f64;
        let _ = write!(
            html,
            "<tr><td><i class=\"key k-{}\"></i>{}</td><td class=\"numeric\">{}</td><td class=\"numeric\">{}</td>\
             <td class=\"numeric\">{}</td><td class=\"numeric\">{}</td></tr>",
            color(row.class),
            row.class.words(),
            size(row.in_dump),
            if row.in_dump > 0 { share(part) } else { "–".to_owned() },
            size(row.mapped),
            count(row.mappings)
        );
    }
    html.push_str("</tbody></table></div>");
    names(html, &memory.names);
    if !memory.missing.is_empty() {
        html.push_str("<h3>Not in the dump</h3><ul class=\"missing\">");
        for missing in &memory.missing {
            let _ = write!(
                html,
                "<li><b>{}</b> <span>{}</span></li>",
                size(missing.bytes),
                missing.reason.words()
            );
        }
        html.push_str("</ul>");
    }
    if memory.not_frozen > 0 {
        let _ = write!(
            html,
            "<p class=\"note\">{} are of another moment than the rest: a copy made by fork does not have them.</p>",
            size(memory.not_frozen)
        );
    }
    html.push_str("</section>\n");
}

fn bar(html: &mut String, analysis: &DumpAnalysis) {
    let memory = &analysis.memory;
    if memory.in_dump == 0 {
        return;
    }
    html.push_str("<svg class=\"split\" viewBox=\"0 0 1000 26\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Memory in the dump by kind\">");
    let mut x = 0.0;
    for row in memory.classes.iter().filter(|row| row.in_dump > 0) {
        let width = row.in_dump as f64 / memory.in_dump as f64 * 1000.0;
        let _ = write!(
            html,
            "<rect class=\"f-{}\" x=\"{x:.2}\" y=\"0\" width=\"{:.2}\" height=\"26\"><title>{}: {}</title></rect>",
            color(row.class),
            (width - 1.0).max(0.5),
            row.class.words(),
            size(row.in_dump)
        );
        x += width;
    }
    html.push_str("</svg>");
}

fn names(html: &mut String, rows: &[MemoryRow]) {
    let rows: Vec<&MemoryRow> = rows.iter().filter(|row| row.class != MemoryClass::Reserved).collect();
    if rows.is_empty() {
        return;
    }
    html.push_str(
        "<details class=\"more\"><summary>By file and label</summary><div class=\"table\"><table><thead><tr><th>Name</th><th>Kind</th>\
         <th class=\"numeric\">In the dump</th><th class=\"numeric\">Mapped</th><th class=\"numeric\">Mappings</th></tr></thead><tbody>",
    );
    for row in rows.iter().take(NAMES) {
        let _ = write!(
            html,
            "<tr><td class=\"text\"><code>{}</code></td><td>{}</td><td class=\"numeric\">{}</td><td class=\"numeric\">{}</td>\
             <td class=\"numeric\">{}</td></tr>",
            text(&row.name),
            row.class.words(),
            size(row.in_dump),
            size(row.mapped),
            count(row.mappings)
        );
    }
    html.push_str("</tbody></table></div></details>");
}

pub(super) fn modules(html: &mut String, analysis: &DumpAnalysis) {
    let _ = write!(
        html,
        "<section id=\"modules\"><h2>Modules</h2><p class=\"lead\">Mapped code, with what is known of its functions. A build id says \
         exactly which file it is.</p><div class=\"table\"><table><thead><tr><th>Module</th><th class=\"numeric\">Frames</th>\
         <th>Build id</th><th>Names</th></tr></thead><tbody>"
    );
    for module in analysis.modules.iter().take(MODULES) {
        let name = if module.path.is_empty() { &module.name } else { &module.path };
        let deleted = if module.deleted { " <small>deleted</small>" } else { "" };
        let id = module.build_id.as_deref().map_or_else(
            || "<span class=\"muted\">none</span>".to_owned(),
            |id| format!("<code class=\"id\">{}</code>", text(id)),
        );
        let _ = write!(
            html,
            "<tr><td class=\"text\"><code title=\"{:#x} to {:#x}\">{}</code>{deleted}</td><td class=\"numeric\">{}</td><td>{id}</td>\
             <td>{}</td></tr>",
            module.start.0,
            module.end.0,
            text(name),
            count(module.frames),
            text(&module.words)
        );
    }
    html.push_str("</tbody></table></div>");
    if analysis.modules.len() > MODULES {
        let _ = write!(html, "<p class=\"note\">{} more.</p>", analysis.modules.len() - MODULES);
    }
    html.push_str("</section>\n");
}

pub(super) fn undetermined(html: &mut String, analysis: &DumpAnalysis) {
    if analysis.undetermined.is_empty() {
        return;
    }
    html.push_str("<section id=\"unknown\"><h2>What could not be determined</h2><ul class=\"undetermined\">");
    for one in &analysis.undetermined {
        let _ = write!(html, "<li>{}</li>", marked(one));
    }
    html.push_str("</ul></section>\n");
}
