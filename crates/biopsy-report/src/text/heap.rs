//! A managed heap: what it holds, and its types by bytes.

use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::{growth as heap_growth, text_of};
use biopsy_model::heap::HeapSource;

use super::page::{Page, TextOptions, clean, cut_end};
use crate::schema::heap::Growth;
use crate::units::{bytes, count, counted, seconds, share, to_f64};
use crate::words::name_and_pid;

/// Narrower terminals show neither numbers of live objects nor garbage.
const WIDE: usize = 90;
/// Room that the name of a type has at least.
const NAME: usize = 24;

pub(super) fn heap(page: &mut Page, summary: &HeapSummary, top: usize, options: TextOptions) {
    let facts = &summary.facts;
    let mut about = vec![name_and_pid(&summary.name, facts.pid)];
    if !facts.runtime.is_empty() {
        about.push(match facts.source {
            HeapSource::Blocks => facts.runtime.clone(),
            _ => format!(".NET {}", facts.runtime),
        });
    }
    if !facts.collector.as_str().is_empty() {
        about.push(format!("{} collector", facts.collector.as_str()));
    }
    page.line("heap of", "1", &about.join(" · "));
    totals(page, summary);
    if !facts.whole {
        page.line(
            "not whole",
            "1;33",
            &format!(
                "{} could not be read, {} skipped, {} nowhere",
                counted(facts.problems, "place", "places"),
                bytes(to_f64(facts.skipped_bytes)),
                counted(facts.dangling, "reference leads", "references lead")
            ),
        );
    }
    for warning in &facts.warnings {
        page.line("note", "33", warning);
    }
    held(page, summary);
    inspections(page, summary);
    page.text.push('\n');
    types(page, summary, top, options);
}

/// What holds the most, and where it piles up.
fn held(page: &mut Page, summary: &HeapSummary) {
    let Some(held) = &summary.held else { return };
    for (index, one) in held.suspects.iter().enumerate() {
        let mut body = format!(
            "{} ({}): {}",
            bytes(to_f64(one.retained)),
            share(to_f64(one.retained) / to_f64(held.bytes.max(1))),
            crate::assemble::with_one_way(text_of(&one.way), &one.one_way)
        );
        if one.holders > 1 {
            body.push_str(&format!(" × {}", count(one.holders)));
        }
        if let Some(held) = &one.held {
            body.push_str(&format!(", which holds {} × {}", count(held.objects), held.step.of));
        }
        page.line(if index == 0 { "held by" } else { "" }, "1", &body);
    }
}

/// Rows of one inspection that are shown.
const ROWS: usize = 3;

/// Known ways in which memory is wasted or kept, where it is more than a little.
fn inspections(page: &mut Page, summary: &HeapSummary) {
    let Some(held) = &summary.held else { return };
    for (index, one) in held.inspections.iter().filter(|one| one.is_told(held.bytes)).enumerate() {
        let body = format!(
            "{} {}: {} {}",
            count(one.objects),
            one.kind.title(),
            bytes(to_f64(one.bytes)),
            one.kind.measure().word()
        );
        page.line(if index == 0 { "inspected" } else { "" }, "1", &body);
        for row in one.rows.iter().take(ROWS) {
            page.line(
                "",
                "",
                &format!("  {} · {} · {}", bytes(to_f64(row.bytes)), count(row.objects), row.what),
            );
        }
    }
}

/// What grew between snapshots. `types`: rows of the table of types; 0: all.
pub(crate) fn growth(page: &mut Page, growth: &Growth, types: usize) {
    let moments = growth.moments.iter().map(|one| {
        let taken = one.taken_at.as_ref().map_or_else(String::new, |taken| format!(" at {taken}"));
        format!("{} in {}{taken}", bytes(to_f64(one.bytes)), counted(one.objects, "object", "objects"))
    });
    page.line("alive", "1", &moments.collect::<Vec<_>>().join("; "));
    if !growth.is_one_process {
        page.line(
            "note",
            "33",
            "these are snapshots of different processes, or do not say of which: what differs need not be what one of them gained",
        );
    } else if growth.moments.len() == 2 {
        let text = "two snapshots cannot tell a leak from a cache that fills: a third one, taken later, can (`biopsy snapshot --into`)";
        page.line("note", "33", text);
    }
    if growth.holders.is_empty() {
        page.line("result", "1", "nothing holds much more than before");
    }
    for one in &growth.holders {
        let heading = if one.always && growth.moments.len() > 2 { "always more" } else { "more" };
        let body = format!(
            "{} {}: {} {}; {}",
            change(&one.retained),
            one.keeps.as_ref().map_or_else(|| one.of.clone(), |own| format!("{own} by {}", one.of)),
            row(&one.objects),
            if one.objects.last() == Some(&1) { "object" } else { "objects" },
            if one.way.is_empty() { "no holder" } else { &one.way }
        );
        page.line(heading, if one.always { "1;31" } else { "1" }, &body);
    }
    let shown = if types == 0 { growth.types.len() } else { types.min(growth.types.len()) };
    if shown > 0 {
        page.text.push('\n');
        page.text.push_str(&page.painted("1", &format!("{:>12}  {:>12}  TYPE", "BYTES", "OBJECTS")));
        page.text.push('\n');
    }
    for one in growth.types.iter().take(shown) {
        let objects = difference(&one.objects);
        page.row(&format!("{:>12}  {objects:>12}  ", change(&one.bytes)), 28, &one.name);
    }
    let more = growth.types.len() - shown;
    if more > 0 {
        page.text
            .push_str(&format!("{}: `--json` has them\n", counted(more as u64, "more type", "more types")));
    }
}

/// `10, 20, 30`.
fn row(values: &[u64]) -> String {
    values.iter().map(|value| count(*value)).collect::<Vec<_>>().join(", ")
}

/// `+12 MB`.
fn change(values: &[u64]) -> String {
    let grown = heap_growth::grown(values);
    let sign = if grown < 0 { "-" } else { "+" };
    format!("{sign}{}", bytes(grown.unsigned_abs() as f64))
}

/// `+1,200`.
fn difference(values: &[u64]) -> String {
    let grown = heap_growth::grown(values);
    let sign = if grown < 0 { "-" } else { "+" };
    format!("{sign}{}", count(u64::try_from(grown.unsigned_abs()).unwrap_or(u64::MAX)))
}

/// What there is, all in all.
fn totals(page: &mut Page, summary: &HeapSummary) {
    let facts = &summary.facts;
    let size = |value| bytes(to_f64(value));
    let by_runtime = facts.source == HeapSource::Runtime;
    let mut body = format!("{} ({})", count(facts.objects), size(facts.bytes));
    match (facts.live_objects, facts.live_bytes) {
        _ if by_runtime => body.push_str("; garbage was collected before"),
        (Some(objects), Some(live)) => body.push_str(&format!(
            "; live {} ({}), garbage {} ({})",
            count(objects),
            size(live),
            count(facts.objects.saturating_sub(objects)),
            size(facts.bytes.saturating_sub(live))
        )),
        _ => {}
    }
    page.line("objects", "2", &body);
    let mut body = counted(facts.references, "reference", "references")
        + ", "
        + &counted(summary.types.len() as u64, "type", "types");
    if !by_runtime {
        body.push_str(&format!("; {} of free space between objects", size(facts.free_bytes)));
    }
    page.line("", "", &body);
    if !facts.generations.is_empty() {
        let parts = facts.generations.iter().map(|one| format!("{} {}", one.name, size(one.bytes)));
        page.line("", "", &parts.collect::<Vec<_>>().join(", "));
    }
    if !facts.roots.is_empty() {
        let parts = facts.roots.iter().map(|(kind, roots)| format!("{kind} {}", count(*roots)));
        page.line("roots", "2", &parts.collect::<Vec<_>>().join(", "));
    }
    let pause = seconds(facts.pause_ms.max(0.0) / 1e3);
    if by_runtime {
        if facts.pause_ms > 0.0 {
            page.line("paused", "2", &format!("{pause}, for the collection that the runtime made first"));
        }
    } else if facts.attempts > 0 {
        let mut body = format!("{pause}, no collection forced");
        if facts.attempts > 1 {
            let all = seconds(facts.all_pauses_ms.max(0.0) / 1e3);
            // Older recordings only say how often.
            let why = facts.retries.text().map_or_else(String::new, |why| format!(": {why}"));
            body.push_str(&format!("; frozen {} times ({all} in all){why}", facts.attempts));
        }
        page.line("paused", "2", &body);
    }
}

/// The table of types; `top` 0: all.
fn types(page: &mut Page, summary: &HeapSummary, top: usize, options: TextOptions) {
    let facts = &summary.facts;
    // What the runtime tells is what a collection left: there is no garbage to show.
    let live = facts.live_objects.is_some() && facts.source != HeapSource::Runtime;
    let wide = options.width.is_none_or(|width| width >= WIDE);
    let shown = if top == 0 { summary.types.len() } else { top.min(summary.types.len()) };
    let mut rows: Vec<Vec<String>> = vec![vec!["BYTES".to_owned(), "OBJECTS".to_owned()]];
    rows.extend(
        summary.types.iter().take(shown).map(|row| vec![count(row.all.bytes), count(row.all.objects)]),
    );
    if live {
        let sums = summary.types.iter().take(shown).map(|row| (row.all, row.live.unwrap_or_default()));
        let cells = sums.map(|(all, live)| {
            [live.bytes, live.objects, all.objects.saturating_sub(live.objects)].map(count)
        });
        let titles = ["LIVE BYTES", "LIVE", "GARBAGE"].map(str::to_owned);
        for (row, cells) in rows.iter_mut().zip(std::iter::once(titles).chain(cells)) {
            row.extend(cells.into_iter().take(if wide { 3 } else { 1 }));
        }
    }
    if wide && summary.held.is_some() {
        let retained = summary.types.iter().take(shown).map(|row| count(row.retained.unwrap_or(0)));
        for (row, cell) in rows.iter_mut().zip(std::iter::once("RETAINED".to_owned()).chain(retained)) {
            row.push(cell);
        }
    }
    let widths: Vec<usize> = (0..rows.first().map_or(0, Vec::len))
        .map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0))
        .collect();
    let used: usize = widths.iter().map(|width| width + 2).sum();
    let room = options.width.map_or(usize::MAX, |width| width.saturating_sub(used).max(NAME));
    let names = std::iter::once("TYPE").chain(summary.types.iter().map(|row| row.name.as_str()));
    for (index, (row, name)) in rows.iter().zip(names).enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:>width$}  "));
        }
        line.push_str(&cut_end(&clean(name), room));
        let line = if index == 0 { page.painted("1", &line) } else { line };
        page.text.push_str(&line);
        page.text.push('\n');
    }
    let more = summary.types.len() - shown;
    if more > 0 {
        page.text
            .push_str(&format!("{}: `--json` has them\n", counted(more as u64, "more type", "more types")));
    }
}
