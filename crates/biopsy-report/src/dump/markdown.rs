//! The report as Markdown.

use std::fmt::Write as _;

use biopsy_analyze::dump::DumpAnalysis;

use super::words;
use crate::markdown::{code, plain};
use crate::units::{bytes, count, counted, to_f64};

/// Groups whose stacks are written.
const GROUPS: usize = 6;
/// Rows of a stack.
const ROWS: usize = 30;
/// Rows of a table.
const TABLE: usize = 12;

pub(super) fn render(analysis: &DumpAnalysis) -> String {
    let mut text = String::new();
    head(&mut text, analysis);
    findings(&mut text, analysis);
    stacks(&mut text, analysis);
    super::managed::markdown(&mut text, analysis);
    memory(&mut text, analysis);
    modules(&mut text, analysis);
    if !analysis.undetermined.is_empty() {
        text.push_str("\n## What could not be determined\n\n");
        for one in &analysis.undetermined {
            let _ = writeln!(text, "- {}", plain(one));
        }
    }
    text
}

fn head(text: &mut String, analysis: &DumpAnalysis) {
    let identity = &analysis.identity;
    let _ = writeln!(text, "# Dump of {} (pid {})\n", plain(&identity.name), identity.pid);
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "- **{name}** {value}");
        }
    };
    fact("Taken", words::taken(identity));
    fact("File", Some(plain(&words::file(identity))));
    fact("Executable", identity.executable.as_deref().map(code));
    fact("Command", identity.command_line.as_deref().map(code));
}

fn findings(text: &mut String, analysis: &DumpAnalysis) {
    text.push_str("\n## Findings\n\n");
    for (index, finding) in analysis.findings.iter().enumerate() {
        let _ = writeln!(text, "{}. **{}: {}**", index + 1, finding.severity.word(), plain(&finding.title));
        let _ = writeln!(text, "   {}", plain(&finding.explanation));
        for evidence in &finding.evidence {
            let _ = writeln!(text, "   - {}", plain(&evidence.text));
        }
        for step in &finding.next_steps {
            let _ = writeln!(text, "   - *next:* {}", plain(step));
        }
    }
}

fn stacks(text: &mut String, analysis: &DumpAnalysis) {
    let groups = counted(analysis.groups.len() as u64, "group of equal stacks", "groups of equal stacks");
    let _ = writeln!(text, "\n## Threads ({} in {groups})", count(analysis.threads.len() as u64));
    for group in analysis.groups.iter().take(GROUPS) {
        let _ = writeln!(
            text,
            "\n**{}: {}** — {}\n\n```text",
            counted(group.members.len() as u64, "thread", "threads"),
            plain(&words::names(analysis, group)),
            plain(&group.doing)
        );
        for row in group.frames.iter().take(ROWS) {
            if row.skipped > 0 {
                let _ = writeln!(text, "… {} more frames", row.skipped);
            }
            let line = crate::text::clean(&super::text::frame(row));
            let _ = writeln!(text, "{}", line.replace("```", "'''"));
        }
        if group.frames.len() > ROWS {
            let _ = writeln!(text, "… {} more", group.frames.len() - ROWS);
        }
        if let Some(end) = words::end(group) {
            let _ = writeln!(text, "({end})");
        }
        text.push_str("```\n");
    }
    if analysis.groups.len() > GROUPS {
        let _ = writeln!(text, "\n{} more groups are in the page.", analysis.groups.len() - GROUPS);
    }
}

fn memory(text: &mut String, analysis: &DumpAnalysis) {
    let memory = &analysis.memory;
    let size = |value| bytes(to_f64(value));
    let _ = writeln!(
        text,
        "\n## Memory ({} in the dump, {} mapped)\n",
        size(memory.in_dump),
        size(memory.mapped)
    );
    text.push_str("| kind | in the dump | mapped | mappings |\n| --- | ---: | ---: | ---: |\n");
    for row in &memory.classes {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.class.words(),
            size(row.in_dump),
            size(row.mapped),
            row.mappings
        );
    }
    for missing in &memory.missing {
        let _ = writeln!(text, "\nNot in the dump: {} {}.", size(missing.bytes), missing.reason.words());
    }
}

fn modules(text: &mut String, analysis: &DumpAnalysis) {
    if analysis.modules.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## Modules ({})\n", analysis.modules.len());
    text.push_str("| module | frames | build id | names |\n| --- | ---: | --- | --- |\n");
    for module in analysis.modules.iter().take(TABLE) {
        let id = module.build_id.as_deref().map_or_else(|| "–".to_owned(), code);
        let _ = writeln!(
            text,
            "| {} | {} | {id} | {} |",
            code(&module.path),
            module.frames,
            plain(&module.words)
        );
    }
    if analysis.modules.len() > TABLE {
        let _ = writeln!(text, "\n{} more in the page.", analysis.modules.len() - TABLE);
    }
}
