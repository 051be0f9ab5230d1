//! The report for the terminal.

use biopsy_analyze::Severity;
use biopsy_analyze::dump::{DumpAnalysis, FrameRow, StackGroup};

use super::words;
use crate::TextOptions;
use crate::text::{Page, clean};
use crate::units::{bytes, counted, share, to_f64};

/// Groups whose stacks are printed; the others are one line each.
const STACKS: usize = 3;
/// Groups that are named.
const GROUPS: usize = 12;
/// Rows of a printed stack.
const ROWS: usize = 24;
/// Findings of no consequence that are printed.
const INFOS: usize = 2;

pub(super) fn render(analysis: &DumpAnalysis, options: TextOptions) -> String {
    let mut page = Page::new(options);
    let identity = &analysis.identity;
    let mut about = vec![format!("{} (pid {})", identity.name, identity.pid)];
    about.extend(words::taken(identity));
    about.push(words::file(identity));
    about.retain(|part| !part.is_empty());
    page.line("dump of", "1", &about.join(" · "));
    findings(&mut page, analysis);
    page.text.push('\n');
    stacks(&mut page, analysis);
    super::managed::lines(&mut page, analysis);
    memory(&mut page, analysis);
    if !analysis.undetermined.is_empty() {
        let count = counted(analysis.undetermined.len() as u64, "thing", "things");
        page.line("not known", "2", &format!("{count} could not be determined: see the report"));
    }
    page.text
}

/// Findings of some consequence.
pub(super) fn findings_above(page: &mut Page, analysis: &DumpAnalysis) {
    shown(page, analysis, 0);
}

fn findings(page: &mut Page, analysis: &DumpAnalysis) {
    shown(page, analysis, INFOS);
}

fn shown(page: &mut Page, analysis: &DumpAnalysis, most_infos: usize) {
    let mut infos = 0;
    for finding in &analysis.findings {
        let paint = match finding.severity {
            Severity::Critical => "1;31",
            Severity::Warning => "1;33",
            Severity::Notice => "1;34",
            Severity::Info => {
                infos += 1;
                if infos > most_infos {
                    continue;
                }
                "2"
            }
        };
        page.line(finding.severity.word(), paint, &bare(&finding.title));
        let serious = finding.severity >= Severity::Warning;
        for evidence in finding.evidence.iter().filter(|_| serious).take(5) {
            page.line("", "", &format!("· {}", bare(&evidence.text)));
        }
        if let Some(step) = finding.next_steps.first().filter(|_| serious) {
            page.line("", "", &format!("→ {}", bare(step)));
        }
    }
}

/// Without the back-ticks that mark code; those of a quotation stay.
fn bare(text: &str) -> String {
    if text.matches('`').count().is_multiple_of(2) { text.replace('`', "") } else { text.to_owned() }
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
    for (index, group) in analysis.groups.iter().take(GROUPS).enumerate() {
        page.line(&format!("  {} ×", group.members.len()), "1", &line(analysis, group));
        if index < STACKS {
            rows(page, group);
        }
    }
    if analysis.groups.len() > GROUPS {
        page.line("", "2", &format!("and {} more groups in the report", analysis.groups.len() - GROUPS));
    }
}

fn line(analysis: &DumpAnalysis, group: &StackGroup) -> String {
    let mark = match (group.crashed, group.in_cycle) {
        (true, _) => "crashed: ",
        (_, true) => "deadlocked: ",
        _ => "",
    };
    format!("{mark}{} — {}", words::names(analysis, group), group.doing)
}

fn rows(page: &mut Page, group: &StackGroup) {
    // Notes of a runtime are in the page.
    for row in group.frames.iter().filter(|row| !row.is_note()).take(ROWS) {
        if row.skipped > 0 {
            page.text.push_str(&format!("                … {} more frames\n", row.skipped));
        }
        page.text.push_str(&format!("                {}\n", clean(&frame(row))));
    }
    if group.frames.len() > ROWS {
        page.text.push_str(&format!("                … {} more\n", group.frames.len() - ROWS));
    }
    if let Some(end) = words::end(group) {
        page.text.push_str(&format!("                ({})\n", clean(end)));
    }
}

pub(super) fn frame(row: &FrameRow) -> String {
    let mut text = row.label();
    if row.function.is_some() && !row.module.is_empty() {
        text.push_str(&format!("  {}", row.module));
    }
    if let Some((file, line)) = &row.source {
        let name = file.rsplit('/').next().unwrap_or(file);
        text.push_str(&format!("  {name}{}", line.map_or(String::new(), |line| format!(":{line}"))));
    }
    if row.inlined {
        text.push_str("  (inlined)");
    }
    match row.repeats {
        (times, 1) if times > 1 => text.push_str(&format!("  ({times} times)")),
        (times, rows) if times > 1 => text.push_str(&format!("  (these {rows} frames {times} times)")),
        _ => {}
    }
    text
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
