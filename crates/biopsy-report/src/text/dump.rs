//! A dump in a few lines.

use biopsy_analyze::dump::{DumpAnalysis, StackGroup};

use super::managed;
use super::page::Page;
use crate::units::{bytes, counted, share, to_f64};
use crate::words::dump::{self as words, frame};

/// Groups whose stacks are printed; the others are one line each.
const STACKS: usize = 3;
/// Groups that are named.
const GROUPS: usize = 12;
/// Rows of a printed stack.
const ROWS: usize = 24;
/// Things shown that could not be determined.
const UNKNOWN: usize = 3;

/// Which process, and which file.
pub(super) fn head(page: &mut Page, analysis: &DumpAnalysis) {
    let identity = &analysis.identity;
    let mut about = vec![format!("{} (pid {})", identity.name, identity.pid)];
    about.extend(words::taken(identity));
    about.push(words::file(identity));
    about.retain(|part| !part.is_empty());
    page.line("dump of", "1", &about.join(" · "));
}

/// What is in it.
pub(super) fn body(page: &mut Page, analysis: &DumpAnalysis) {
    stacks(page, analysis);
    managed::lines(page, analysis);
    memory(page, analysis);
    for (index, one) in analysis.undetermined.iter().take(UNKNOWN).enumerate() {
        page.line(if index == 0 { "not known" } else { "" }, "2", one);
    }
    if let Some(more) = analysis.undetermined.len().checked_sub(UNKNOWN).filter(|more| *more > 0) {
        page.line("", "2", &format!("and {} more: see the report", counted(more as u64, "thing", "things")));
    }
}

fn stacks(page: &mut Page, analysis: &DumpAnalysis) {
    let mut body = counted(analysis.threads.len() as u64, "thread", "threads");
    body.push_str(&format!(
        " in {}",
        counted(analysis.groups.len() as u64, "group of equal stacks", "groups of equal stacks")
    ));
    if let Some(whole) = words::whole_stacks(analysis) {
        body.push_str(&format!(", {} of the stacks whole", share(whole)));
    }
    page.line("threads", "2", &body);
    if let Some(looks) = words::looks(analysis) {
        page.line("looks", "2", &looks);
    }
    for (index, group) in analysis.groups.iter().take(GROUPS).enumerate() {
        page.line(&format!("  {} ×", group.members.len()), "1", &line(analysis, group));
        if index < STACKS {
            rows(page, group);
        }
    }
    if analysis.groups.len() > GROUPS {
        let more = counted((analysis.groups.len() - GROUPS) as u64, "more group", "more groups");
        page.line("", "2", &format!("and {more} in the report"));
    }
}

fn line(analysis: &DumpAnalysis, group: &StackGroup) -> String {
    let mark = match (group.crashed, group.in_cycle) {
        (true, _) => "crashed: ",
        (_, true) => "deadlocked: ",
        _ => "",
    };
    let members = group.members.iter().filter_map(|index| analysis.threads.get(*index));
    let moved = words::movement(members).map_or(String::new(), |words| format!("; {words}"));
    format!("{mark}{} — {}{moved}", words::names(analysis, group), group.doing)
}

fn rows(page: &mut Page, group: &StackGroup) {
    // Notes of a runtime are in the page.
    let shown: Vec<_> = group.frames.iter().filter(|row| !row.is_note()).collect();
    for row in shown.iter().take(ROWS) {
        if row.skipped > 0 {
            let skipped = counted(row.skipped.into(), "more frame", "more frames");
            page.text.push_str(&format!("                … {skipped}\n"));
        }
        page.row("                ", 16, &frame(row));
    }
    if shown.len() > ROWS {
        page.text.push_str(&format!("                … {} more\n", shown.len() - ROWS));
    }
    if let Some(end) = words::end(group) {
        page.row("                ", 16, &format!("({end})"));
    }
}

fn memory(page: &mut Page, analysis: &DumpAnalysis) {
    let memory = &analysis.memory;
    let size = |value| bytes(to_f64(value));
    let classes = memory.classes.iter().filter(|row| row.in_dump > 0).take(4);
    let parts: Vec<String> =
        classes.map(|row| format!("{} {}", size(row.in_dump), row.class.words())).collect();
    let body = format!(
        "{} in the dump of {} mapped: {}",
        size(memory.in_dump),
        size(memory.mapped),
        parts.join(", ")
    );
    page.line("memory", "2", &body);
}
