//! What managed runtimes said of themselves, as tables.

use super::escape::{code, plain};
use crate::units::{bytes, count, counted, duration, share, to_f64};
use biopsy_analyze::{Analysis, RequestRow, RuntimeSummary};
use biopsy_model::runtime_trace::AllocationSampling;
use std::fmt::Write as _;

/// Rows of a table: what fits a screen.
pub(super) const ROWS: usize = 10;

/// Processes that are written out.
const RUNTIMES: usize = 5;

pub(super) fn write(text: &mut String, analysis: &Analysis) {
    for runtime in analysis.runtimes.iter().take(RUNTIMES) {
        let _ = writeln!(text, "\n## Runtime: {}, pid {}\n", plain(&runtime.label), runtime.pid);
        facts(text, runtime);
        requests(text, "Requests served", &runtime.requests);
        requests(text, "Requests sent", &runtime.outgoing);
        commands(text, runtime);
        exceptions(text, runtime);
        contention(text, runtime);
        allocations(text, runtime);
        events(text, runtime);
    }
    if analysis.runtimes.len() > RUNTIMES {
        let more = (analysis.runtimes.len() - RUNTIMES) as u64;
        let _ = writeln!(text, "\n{} in the page.", counted(more, "more runtime", "more runtimes"));
    }
}

fn facts(text: &mut String, runtime: &RuntimeSummary) {
    let collections = &runtime.collections;
    if collections.total > 0 {
        let kinds: Vec<String> = collections
            .generations
            .iter()
            .map(|row| {
                let background = if row.background { " (background)" } else { "" };
                format!("{} of generation {}{background}", count(row.count), row.generation)
            })
            .collect();
        let _ = writeln!(
            text,
            "- **Garbage collection** {}; all threads stood still for {} ({}), {} at most at once",
            kinds.join(", "),
            duration(collections.paused),
            share(collections.pause_share),
            collections.longest.map_or_else(|| "0 s".to_owned(), |(longest, _)| duration(longest))
        );
        if let Some([(_, first), (_, last)]) = collections.heap {
            let _ = writeln!(
                text,
                "- **Heap** after the first {}, after the last {}",
                bytes(to_f64(first)),
                bytes(to_f64(last))
            );
        }
    }
    let pool = &runtime.pool;
    if let Some([first, last, _, most]) = pool.threads {
        let _ = writeln!(
            text,
            "- **Thread pool** {first} threads at first, {last} at the end, {most} at most; {} for want of threads",
            counted(pool.starved.saturating_add(pool.blocked), "adjustment", "adjustments")
        );
    }
    if runtime.messages_total > 0 {
        let _ = writeln!(text, "- **Messages** {}", count(runtime.messages_total));
    }
    for row in runtime.coincidences.iter().filter(|row| row.share >= 0.1).take(3) {
        let _ = writeln!(
            text,
            "- for {} of the time of {} {} ({} of the whole recording)",
            share(row.share),
            counted(row.requests, "slow request", "slow requests"),
            row.what.words(),
            share(row.usual)
        );
    }
}

fn events(text: &mut String, runtime: &RuntimeSummary) {
    if runtime.providers.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "\n### Events heard: {}\n\n| provider | event | count |\n| --- | --- | ---: |",
        count(runtime.events_total)
    );
    for provider in runtime.providers.iter().take(ROWS) {
        let _ = writeln!(text, "| {} | all | {} |", code(&provider.provider), count(provider.count));
        for (event, number) in provider.events.iter().take(ROWS) {
            let _ = writeln!(text, "| | {} | {} |", code(event), count(*number));
        }
    }
}

fn requests(text: &mut String, title: &str, rows: &[RequestRow]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n| {title} | count | failed | no answer | p50 | p95 | p99 | longest |");
    text.push_str("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for row in rows.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            code(&format!("{} {}", row.method, row.route)),
            count(row.count),
            count(row.failed),
            count(row.unanswered),
            duration(row.p50),
            duration(row.p95),
            duration(row.p99),
            duration(row.longest)
        );
    }
}

fn commands(text: &mut String, runtime: &RuntimeSummary) {
    if runtime.commands.is_empty() {
        return;
    }
    text.push_str(
        "\n| Command | count | mean | longest | most in one request |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in runtime.commands.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            code(&row.text),
            count(row.count),
            duration(row.mean),
            duration(row.longest),
            count(u64::from(row.most_in_one_request))
        );
    }
}

fn exceptions(text: &mut String, runtime: &RuntimeSummary) {
    if runtime.exceptions.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n| Exception ({} in all) | in | by | count |", count(runtime.exceptions_total));
    text.push_str("| --- | --- | --- | ---: |\n");
    for row in runtime.exceptions.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            code(&row.type_name),
            code(&row.place.function),
            row.place.via.as_deref().map(code).unwrap_or_default(),
            count(row.count)
        );
    }
}

fn contention(text: &mut String, runtime: &RuntimeSummary) {
    if runtime.contention.is_empty() {
        return;
    }
    text.push_str(
        "\n| Waits for locks in | waits | time | longest | threads |\n| --- | ---: | ---: | ---: | ---: |\n",
    );
    for row in runtime.contention.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            code(&row.place.function),
            count(row.count),
            duration(row.total),
            duration(row.longest),
            count(row.threads as u64)
        );
    }
}

fn allocations(text: &mut String, runtime: &RuntimeSummary) {
    if runtime.allocations.is_empty() {
        return;
    }
    let all = to_f64(runtime.allocated);
    let how = match runtime.allocation_sampling {
        AllocationSampling::Random => ", sampled at random",
        AllocationSampling::Ticks => ", by ticks of the runtime",
        AllocationSampling::Unknown | AllocationSampling::Other(_) => "",
    };
    let _ = writeln!(text, "\n| Allocated (about {} in all{how}) | in | bytes | share |", bytes(all));
    text.push_str("| --- | --- | ---: | ---: |\n");
    for row in runtime.allocations.iter().take(ROWS) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            code(&row.type_name),
            code(&row.place.function),
            bytes(to_f64(row.bytes)),
            share(to_f64(row.bytes) / all.max(1.0))
        );
    }
}
