//! The summary for the terminal after a capture: findings first, then a few lines.

use crate::units::{count, counted, duration, ratio, seconds, share};
use crate::words;
use biopsy_analyze::{Analysis, FunctionRow, Severity};
use biopsy_model::Nanos;
use biopsy_model::capture::Capture;
use biopsy_model::printable::printable;
use std::fmt::Write as _;

/// How the terminal is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextOptions {
    /// Columns to wrap at.
    pub width: usize,
    /// Use ANSI colours.
    pub color: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions { width: 100, color: false }
    }
}

/// Findings of no consequence that are printed; all are in the report.
const INFOS: usize = 3;

pub(crate) fn render(capture: &Capture, analysis: &Analysis, options: TextOptions) -> String {
    let mut page = Page::new(options);
    findings(&mut page, analysis);
    page.text.push('\n');
    threads(&mut page, analysis);
    functions(&mut page, analysis);
    runtimes(&mut page, analysis);
    logs(&mut page, capture, analysis);
    completeness(&mut page, capture, analysis);
    page.text
}

pub(crate) struct Page {
    pub(crate) text: String,
    width: usize,
    color: bool,
}

impl Page {
    pub(crate) fn new(options: TextOptions) -> Self {
        Page { text: String::new(), width: options.width.clamp(40, 160), color: options.color }
    }

    /// `word` in the colour `code` (ANSI SGR).
    fn painted(&self, code: &str, word: &str) -> String {
        if self.color { format!("\x1b[{code}m{word}\x1b[0m") } else { word.to_owned() }
    }

    /// A line with a heading of 12 columns; what does not fit goes on below it.
    pub(crate) fn line(&mut self, heading: &str, paint: &str, body: &str) {
        const INDENT: usize = 12;
        let mut column = INDENT;
        let heading = &clean(heading);
        let painted = self.painted(paint, heading);
        let padding = INDENT.saturating_sub(heading.chars().count()).max(1);
        let _ = write!(self.text, "{painted}{}", " ".repeat(padding));
        let body = clean(body);
        for (index, word) in body.split_whitespace().enumerate() {
            let length = word.chars().count();
            if index > 0 && column + 1 + length > self.width {
                self.text.push('\n');
                self.text.push_str(&" ".repeat(INDENT));
                column = INDENT;
            } else if index > 0 {
                self.text.push(' ');
                column += 1;
            }
            self.text.push_str(word);
            column += length;
        }
        self.text.push('\n');
    }
}

/// Nothing that commands: a name in a recording must not be able to steer the terminal.
pub(crate) fn clean(text: &str) -> String {
    printable(&text.replace(['\n', '\t'], " "))
}

fn findings(page: &mut Page, analysis: &Analysis) {
    if analysis.findings.is_empty() {
        page.line("info", "2", "nothing stands out");
    }
    let mut infos = 0;
    for finding in &analysis.findings {
        let paint = match finding.severity {
            Severity::Critical => "1;31",
            Severity::Warning => "1;33",
            Severity::Notice => "1;34",
            Severity::Info => {
                infos += 1;
                if infos > INFOS {
                    continue;
                }
                "2"
            }
        };
        page.line(finding.severity.word(), paint, &finding.title);
        if let Some(step) = finding.next_steps.first().filter(|_| finding.severity >= Severity::Warning) {
            page.line("", "", &format!("→ {step}"));
        }
    }
    if infos > INFOS {
        page.line(
            "",
            "",
            &format!("and {} in the report", counted((infos - INFOS) as u64, "more note", "more notes")),
        );
    }
}

fn threads(page: &mut Page, analysis: &Analysis) {
    let table = &analysis.threads;
    if table.rows.is_empty() {
        return;
    }
    let sum = |time: fn(&biopsy_analyze::ThreadRow) -> Nanos| {
        table.rows.iter().fold(Nanos(0), |sum, row| sum + time(row))
    };
    let running = sum(|row| row.running);
    let cores = running.as_secs_f64() / analysis.completeness.seconds.max(1e-9);
    let mut body = format!(
        "{}, {} of CPU time ({} cores on average)",
        counted(table.rows.len() as u64, "thread", "threads"),
        duration(running),
        crate::units::number(cores)
    );
    if table.exact {
        let _ = write!(
            body,
            ", {} ready without a CPU, {} waiting",
            duration(sum(|row| row.ready)),
            duration(sum(|row| row.waiting))
        );
    }
    page.line("threads", "2", &body);
}

fn functions(page: &mut Page, analysis: &Analysis) {
    let whole = analysis.flames.all.cpu.total();
    let mut rows: Vec<&FunctionRow> = analysis.functions.iter().filter(|row| row.cpu_self.0 > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.cpu_self));
    let hottest: Vec<String> = rows
        .iter()
        .take(3)
        .map(|row| format!("{} {}", share(ratio(row.cpu_self, whole)), short(&row.name)))
        .collect();
    if !hottest.is_empty() {
        page.line("hottest", "2", &hottest.join(" · "));
    }
}

/// Processes whose runtimes get lines of their own.
const RUNTIMES: usize = 3;

/// Providers whose events are counted in such a line.
const PROVIDERS: usize = 4;

fn runtimes(page: &mut Page, analysis: &Analysis) {
    for runtime in analysis.runtimes.iter().take(RUNTIMES) {
        let mut parts = Vec::new();
        let collections = &runtime.collections;
        if collections.total > 0 {
            parts.push(format!(
                "{} (paused {})",
                counted(collections.total, "collection", "collections"),
                share(collections.pause_share)
            ));
        }
        if runtime.exceptions_total > 0 {
            parts.push(counted(runtime.exceptions_total, "exception", "exceptions"));
        }
        if runtime.contentions_total > 0 {
            parts.push(counted(runtime.contentions_total, "lock wait", "lock waits"));
        }
        let served = runtime.requests.iter().fold(0u64, |sum, row| sum.saturating_add(row.count));
        let open = runtime.requests.iter().fold(0u64, |sum, row| sum.saturating_add(row.unanswered));
        if served.saturating_add(open) > 0 {
            parts.push(counted(served, "request", "requests"));
        }
        if runtime.messages_total > 0 {
            parts.push(counted(runtime.messages_total, "message", "messages"));
        }
        if parts.is_empty() {
            parts.push("no events".to_owned());
        }
        let of = if analysis.runtimes.len() > 1 {
            format!("{} (pid {}): ", runtime.label, runtime.pid)
        } else {
            format!("{}: ", runtime.label)
        };
        page.line("runtime", "2", &format!("{of}{}", parts.join(", ")));
        if !runtime.providers.is_empty() {
            let most = runtime.providers.iter().take(PROVIDERS);
            let of = most.map(|row| format!("{} of {}", count(row.count), short(&row.provider)));
            let all = counted(runtime.events_total, "event", "events");
            page.line("events", "2", &format!("{all}: {}", of.collect::<Vec<_>>().join(", ")));
        }
        let slow: Vec<String> = runtime
            .requests
            .iter()
            .filter(|row| row.count > 0)
            .take(3)
            .map(|row| {
                format!(
                    "{} {} p50 {} p95 {}",
                    row.method,
                    short(&row.route),
                    duration(row.p50),
                    duration(row.p95)
                )
            })
            .collect();
        if !slow.is_empty() {
            page.line("requests", "2", &slow.join(" · "));
        }
    }
    if analysis.runtimes.len() > RUNTIMES {
        let more = (analysis.runtimes.len() - RUNTIMES) as u64;
        page.line("", "2", &format!("and {} in the report", counted(more, "more runtime", "more runtimes")));
    }
}

fn logs(page: &mut Page, capture: &Capture, analysis: &Analysis) {
    if capture.logs.is_empty() {
        return;
    }
    let logs = &analysis.logs;
    let body = format!(
        "{}, {}, {}",
        counted(logs.lines, "line", "lines"),
        counted(logs.errors, "error", "errors"),
        counted(logs.warnings, "warning", "warnings")
    );
    page.line("logs", "2", &body);
}

fn completeness(page: &mut Page, capture: &Capture, analysis: &Analysis) {
    let whole = &analysis.completeness;
    let mut parts = vec![seconds(whole.seconds)];
    if whole.partial || capture.header.end.is_none() {
        parts.push("cut short".to_owned());
    }
    if whole.has_trace {
        parts.push(counted(whole.samples, "sample", "samples"));
        parts.push(counted(whole.waits, "wait", "waits"));
        parts.extend(whole.reaching_root.map(|root| format!("{} of stacks whole", share(root))));
    } else {
        parts.push("no trace".to_owned());
    }
    if !whole.has_metrics && capture.metrics.is_empty() {
        parts.push("no metrics".to_owned());
    }
    page.line("recorded", "2", &parts.join(", "));
    for loss in &whole.losses {
        let amount = if loss.count == 0 { "some".to_owned() } else { count(loss.count) };
        let part = loss.share.map(|part| format!(" ({})", share(part))).unwrap_or_default();
        page.line("lost", "33", &format!("{amount} {}{part}", words::loss_for_people(loss.kind)));
    }
    let open = whole.undetermined.len() + capture.warnings.len();
    if open > 0 {
        let body =
            format!("{} could not be determined: see the report", counted(open as u64, "thing", "things"));
        page.line("", "2", &body);
    }
}

/// The beginning of a long name.
fn short(name: &str) -> String {
    match name.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\r\n"), "a\\u{1b}[2Jb\\r ");
    }

    #[test]
    fn long_lines_go_on_below_their_heading() {
        let mut page = Page { text: String::new(), width: 40, color: false };
        page.line("notice", "", "one two three four five six seven eight");
        assert_eq!(page.text, "notice      one two three four five six\n            seven eight\n");
    }
}
