//! A dump: stacks, managed code, memory and modules.

use std::fmt::Write as _;

use biopsy_analyze::dump::DumpAnalysis;

use super::escape::{code, plain};
use super::managed;
use crate::units::{bytes, count, counted, to_f64};
use crate::words::dump as words;

/// Groups whose stacks are written.
const GROUPS: usize = 6;
/// Rows of a stack.
const ROWS: usize = 30;
/// Rows of a table.
const TABLE: usize = 12;

/// What is in a dump. `level`: of its headings, `##`.
pub(super) fn body(text: &mut String, analysis: &DumpAnalysis, level: &str) {
    stacks(text, analysis, level);
    managed::write(text, analysis, level);
    memory(text, analysis, level);
    modules(text, analysis, level);
    if !analysis.undetermined.is_empty() {
        let _ = writeln!(text, "\n{level} What could not be determined\n");
        for one in &analysis.undetermined {
            let _ = writeln!(text, "- {}", plain(one));
        }
    }
}

/// Which process, and which file.
pub(super) fn head(text: &mut String, analysis: &DumpAnalysis, level: &str) {
    let identity = &analysis.identity;
    let _ = writeln!(text, "{level} Dump of {} (pid {})\n", plain(&identity.name), identity.pid);
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "- **{name}** {value}");
        }
    };
    fact("Taken", words::taken(identity));
    fact("Looks", words::looks(analysis));
    fact("File", Some(plain(&words::file(identity))));
    fact("Executable", identity.executable.as_deref().map(code));
    fact("Command", identity.command_line.as_deref().map(code));
}

fn stacks(text: &mut String, analysis: &DumpAnalysis, level: &str) {
    let groups = counted(analysis.groups.len() as u64, "group of equal stacks", "groups of equal stacks");
    let _ = writeln!(text, "\n{level} Threads ({} in {groups})", count(analysis.threads.len() as u64));
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
                let _ = writeln!(text, "… {}", counted(row.skipped.into(), "more frame", "more frames"));
            }
            let line = crate::text::clean(&words::frame(row));
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
        let more = (analysis.groups.len() - GROUPS) as u64;
        let _ = writeln!(text, "\n{} in the page.", counted(more, "more group is", "more groups are"));
    }
}

fn memory(text: &mut String, analysis: &DumpAnalysis, level: &str) {
    let memory = &analysis.memory;
    let size = |value| bytes(to_f64(value));
    let _ = writeln!(
        text,
        "\n{level} Memory ({} in the dump, {} mapped)\n",
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

fn modules(text: &mut String, analysis: &DumpAnalysis, level: &str) {
    if analysis.modules.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{level} Modules ({})\n", analysis.modules.len());
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
