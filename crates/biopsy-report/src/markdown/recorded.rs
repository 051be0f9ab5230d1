//! What was recorded over time.

use super::allocations;
use super::escape::{code, plain};
use super::runtimes::{self, ROWS};
use crate::units::{bytes, count, counted, duration, ratio, seconds, share};
use crate::{when, words};
use biopsy_analyze::{Analysis, FunctionHandle, FunctionRow, Party};
use biopsy_model::Nanos;
use biopsy_model::capture::{Capture, EndedBy};
use biopsy_model::order::Order as _;
use std::fmt::Write as _;

/// What was recorded, when, and where.
pub(super) fn head(text: &mut String, capture: &Capture, analysis: &Analysis) {
    let header = &capture.header;
    let name = if header.target_name.is_empty() { "recording" } else { &header.target_name };
    let _ = writeln!(text, "# biopsy report: {}\n", plain(name));
    let started = when::for_people(&header.start).unwrap_or_else(|| "time not known".to_owned());
    let _ = write!(text, "- **Recorded** {}, {}", plain(&started), seconds(analysis.completeness.seconds));
    if header.ended_by != EndedBy::Unknown {
        let _ = write!(text, "; ended because of: {}", plain(words::ended_by(&header.ended_by)));
    }
    text.push('\n');
    if let Some(target) = &header.target {
        let others = capture.processes.len().saturating_sub(1) as u64;
        let _ = write!(text, "- **Target** {} (pid {})", plain(name), target.pid);
        if others > 0 {
            let _ = write!(text, " and {}", counted(others, "other process", "other processes"));
        }
        text.push('\n');
    }
    let host = &header.host;
    if !host.hostname.is_empty() || host.cpus > 0 {
        // Other tools' files tell some of it.
        let known = |text: &str| (!text.is_empty()).then(|| plain(text));
        let parts = [
            known(&host.hostname),
            (host.cpus > 0).then(|| counted(u64::from(host.cpus), "CPU", "CPUs")),
            (host.memory > 0).then(|| bytes(crate::units::to_f64(host.memory))),
            known(&host.os),
            known(&host.kernel).map(|kernel| format!("Linux {kernel}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let _ = writeln!(text, "- **Machine** {}", parts.join(", "));
    }
    if !header.command.is_empty() {
        let _ = writeln!(text, "- **Command** {}", code(&header.command.join(" ")));
    }
}

/// What was recorded, kind by kind.
pub(super) fn body(text: &mut String, capture: &Capture, analysis: &Analysis) {
    functions(text, analysis);
    threads(text, analysis);
    waits(text, analysis);
    runtimes::write(text, analysis);
    allocations::write(text, analysis);
    logs(text, capture, analysis);
    completeness(text, capture, analysis);
}

/// The functions with most CPU time of their own.
fn functions(text: &mut String, analysis: &Analysis) {
    let cpu = analysis.flames.all.cpu.total();
    let mut rows: Vec<&FunctionRow> = analysis.functions.iter().filter(|row| row.cpu_self.0 > 0).collect();
    if rows.is_empty() {
        return;
    }
    rows.order_by_key(|row| std::cmp::Reverse(row.cpu_self));
    let _ = writeln!(text, "\n## Hottest functions ({} of CPU time)\n", duration(cpu));
    text.push_str("| self | total | function | module |\n| ---: | ---: | --- | --- |\n");
    for row in rows.into_iter().take(ROWS) {
        let part = |time: Nanos| share(ratio(time, cpu));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            part(row.cpu_self),
            part(row.cpu_total),
            code(&row.name),
            code(&row.module)
        );
    }
}

fn threads(text: &mut String, analysis: &Analysis) {
    let table = &analysis.threads;
    if table.groups.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## Threads ({})\n", count(table.rows.len() as u64));
    text.push_str("| group | threads | running | ready | waiting | hottest function |\n");
    text.push_str("| --- | ---: | ---: | ---: | ---: | --- |\n");
    for group in table.groups.iter().take(ROWS) {
        let exact = |time: Nanos| if table.exact { duration(time) } else { "–".to_owned() };
        let top = group.top_function.and_then(|handle| analysis.function(handle));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} |",
            plain(&group.name),
            group.threads,
            duration(group.running),
            exact(group.ready),
            exact(group.waiting),
            top.map(|row| code(&row.name)).unwrap_or_default()
        );
    }
    if table.groups.len() > ROWS {
        let _ = writeln!(
            text,
            "\n{} more in the page.",
            counted((table.groups.len() - ROWS) as u64, "group", "groups")
        );
    }
}

fn waits(text: &mut String, analysis: &Analysis) {
    let waits = &analysis.waits;
    if waits.reasons.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n## Waiting ({} over all threads)\n", duration(waits.total));
    text.push_str("| for | time | waits | longest |\n| --- | ---: | ---: | ---: |\n");
    for row in waits.reasons.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            row.reason.words(),
            duration(row.time),
            count(row.count),
            duration(row.longest)
        );
    }
    if !waits.functions.is_empty() {
        text.push_str("\n| in function | for | time | threads |\n| --- | --- | ---: | ---: |\n");
    }
    for row in waits.functions.iter().take(ROWS) {
        let function = row.function.and_then(|handle| analysis.function(handle));
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            function.map_or_else(|| "no stack".to_owned(), |row| code(&row.name)),
            row.reason.words(),
            duration(row.time),
            count(row.threads as u64)
        );
    }
    if !waits.behind.is_empty() || !waits.activations.is_empty() {
        text.push('\n');
    }
    for row in waits.behind.iter().take(5) {
        let place = |function: Option<FunctionHandle>| {
            let function = function.and_then(|handle| analysis.function(handle));
            function.map(|row| format!(" in {}", code(&row.name))).unwrap_or_default()
        };
        let _ = writeln!(
            text,
            "- waits for {}{}: {} of them for a thread that waited for {}{}",
            row.reason.words(),
            place(row.function),
            share(row.share),
            row.cause.words(),
            place(row.cause_function)
        );
    }
    for row in waits.activations.iter().take(5) {
        let name = |index: usize| analysis.threads.groups.get(index).map_or("?", |group| group.name.as_str());
        let waker = match &row.waker {
            Party::Group(index) if *index == row.woken => "each other".to_owned(),
            Party::Group(index) => plain(name(*index)),
            Party::Interrupt => "interrupts".to_owned(),
            Party::Elsewhere => "another process".to_owned(),
        };
        let _ = writeln!(
            text,
            "- {} woken by {waker}: {}, ending {} of waiting",
            plain(name(row.woken)),
            counted(row.count, "time", "times"),
            duration(row.time)
        );
    }
}

fn logs(text: &mut String, capture: &Capture, analysis: &Analysis) {
    if capture.logs.is_empty() {
        return;
    }
    let logs = &analysis.logs;
    let _ = writeln!(
        text,
        "\n## Logs ({}: {}, {})\n",
        counted(logs.lines, "line", "lines"),
        counted(logs.errors, "error", "errors"),
        counted(logs.warnings, "warning", "warnings")
    );
    for topic in logs.topics.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "- {} × {}: {}",
            count(topic.count),
            words::level(topic.level),
            code(short(&topic.example))
        );
    }
}

fn completeness(text: &mut String, capture: &Capture, analysis: &Analysis) {
    let whole = &analysis.completeness;
    text.push_str("\n## How complete this is\n\n");
    if whole.partial || capture.header.end.is_none() {
        text.push_str("- **partial**: the recording was cut short\n");
    }
    if whole.has_trace {
        let _ = writeln!(
            text,
            "- {} ({}), {}, {}",
            counted(whole.samples, "CPU sample", "CPU samples"),
            if whole.method.is_empty() { "method not known".to_owned() } else { plain(&whole.method) },
            counted(whole.waits, "wait", "waits"),
            counted(whole.threads as u64, "thread", "threads")
        );
    }
    for loss in &whole.losses {
        let count = if loss.count == 0 { "some".to_owned() } else { count(loss.count) };
        let part = loss.share.map(|part| format!(" ({})", share(part))).unwrap_or_default();
        let _ = writeln!(
            text,
            "- lost: {count} {}{part}, over {}",
            words::loss_for_people(loss.kind),
            duration(loss.time)
        );
    }
    for sentence in &whole.undetermined {
        let _ = writeln!(text, "- not determined: {}", plain(sentence));
    }
    for warning in &capture.warnings {
        let _ = writeln!(text, "- warning: {} ({})", plain(&warning.message), code(&warning.code));
    }
}

/// The beginning of a long text.
fn short(text: &str) -> &str {
    let end = text.char_indices().nth(160).map_or(text.len(), |(index, _)| index);
    &text[..end]
}
