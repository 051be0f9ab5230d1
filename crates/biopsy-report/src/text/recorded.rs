//! What was recorded over time, in a few lines.

use super::page::Page;
use crate::units::{bytes, count, counted, duration, ratio, seconds, share, to_f64};
use crate::words;
use biopsy_analyze::{Analysis, FunctionRow};
use biopsy_model::Nanos;
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use std::fmt::Write as _;

pub(super) fn body(page: &mut Page, capture: &Capture, analysis: &Analysis) {
    threads(page, analysis);
    functions(page, analysis);
    runtimes(page, analysis);
    allocations(page, analysis);
    logs(page, capture, analysis);
    completeness(page, capture, analysis);
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
    let mut body = format!(
        "{}, {} of CPU time",
        counted(table.rows.len() as u64, "thread", "threads"),
        duration(running)
    );
    // Of no time there is no average.
    let seconds = analysis.completeness.seconds;
    if seconds > 0.0 {
        let cores = crate::units::number(running.as_secs_f64() / seconds);
        let _ = write!(body, " ({cores} cores on average)");
    }
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
    rows.order_by_key(|row| std::cmp::Reverse(row.cpu_self));
    let hottest: Vec<String> = rows
        .iter()
        .take(3)
        .map(|row| format!("{} {}", share(ratio(row.cpu_self, whole)), short(&row.name)))
        .collect();
    if !hottest.is_empty() {
        page.line("hottest", "2", &hottest.join(" · "));
    }
}

/// Places that are told of allocations.
const PLACES: usize = 5;

fn allocations(page: &mut Page, analysis: &Analysis) {
    let Some(summary) = &analysis.allocations else { return };
    page.line("allocations", "2", &crate::markdown::allocations::in_words(summary));
    for site in summary.sites.iter().take(PLACES) {
        let name = analysis.function(site.place).map_or("?", |row| row.name.as_str());
        if summary.exact {
            let body = format!(
                "{}: {} allocated by {}, {} left at the end ({})",
                short(name),
                bytes(to_f64(site.allocated)),
                counted(site.samples, "call", "calls"),
                bytes(to_f64(site.kept)),
                counted(site.kept_samples, "call", "calls")
            );
            page.line("", "2", &body);
            continue;
        }
        let body = format!(
            "{}: {} allocated, {} not given back",
            short(name),
            bytes(to_f64(site.allocated)),
            bytes(to_f64(site.kept))
        );
        page.line("", "2", &body);
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
