//! A managed heap: its totals, and its types by bytes.

use std::fmt::Write as _;

use biopsy_analyze::HeapSummary;
use biopsy_analyze::heap::text_of;

use super::escape::{code, plain};
use crate::schema::heap::Growth;
use crate::units::{bytes, count, counted, share, to_f64};
use crate::words::name_and_pid;

/// Types.
const TYPES: usize = 25;

/// Rows of one inspection.
const ROWS: usize = 3;

/// A heap. `level`: of its heading.
pub(super) fn heap(text: &mut String, summary: &HeapSummary, level: &str) {
    let facts = &summary.facts;
    let size = |value| bytes(to_f64(value));
    let _ = writeln!(text, "{level} Heap of {}\n", plain(&name_and_pid(&summary.name, facts.pid)));
    let _ = write!(text, "- {} ({})", counted(facts.objects, "object", "objects"), size(facts.bytes));
    if let (Some(objects), Some(live)) = (facts.live_objects, facts.live_bytes) {
        let _ = write!(text, ", of these {} ({}) live", count(objects), size(live));
    }
    text.push('\n');
    if !facts.whole {
        let _ = writeln!(text, "- **not whole**: {} places could not be read", count(facts.problems));
    }
    for warning in &facts.warnings {
        let _ = writeln!(text, "- {}", plain(warning));
    }
    if let Some(held) = &summary.held {
        for one in &held.suspects {
            let holds = one.held.as_ref().map_or_else(String::new, |held| {
                format!(", which holds {} × {}", count(held.objects), code(&held.step.of))
            });
            let _ = writeln!(
                text,
                "- **{}** ({} of what is alive) held by {}{holds}",
                size(one.retained),
                share(to_f64(one.retained) / to_f64(held.bytes.max(1))),
                code(&crate::assemble::with_one_way(text_of(&one.way), &one.one_way)),
            );
        }
    }
    for one in
        summary.held.iter().flat_map(|held| held.inspections.iter().filter(|one| one.is_told(held.bytes)))
    {
        let _ = write!(
            text,
            "- {}: {}, {} {}",
            one.kind.title(),
            count(one.objects),
            size(one.bytes),
            one.kind.measure().word()
        );
        for row in one.rows.iter().take(ROWS) {
            let _ = write!(text, "; {} {} {}", code(&row.what), count(row.objects), size(row.bytes));
        }
        text.push('\n');
    }
    text.push_str("\n| type | bytes | objects | live bytes | live |\n| --- | ---: | ---: | ---: | ---: |\n");
    for row in summary.types.iter().take(TYPES) {
        let live = row
            .live
            .map_or_else(|| ["–".to_owned(), "–".to_owned()], |live| [size(live.bytes), count(live.objects)]);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            code(&row.name),
            size(row.all.bytes),
            count(row.all.objects),
            live[0],
            live[1]
        );
    }
    if summary.types.len() > TYPES {
        let _ = writeln!(text, "\n{} more in the page.", count((summary.types.len() - TYPES) as u64));
    }
}

/// What grew between snapshots. `level`: of its heading.
pub(crate) fn growth(text: &mut String, growth: &Growth, level: &str) {
    let size = |value: &u64| bytes(to_f64(*value));
    let row = |values: &[u64], show: &dyn Fn(&u64) -> String| {
        values.iter().map(show).collect::<Vec<_>>().join(" → ")
    };
    let alive: Vec<u64> = growth.moments.iter().map(|one| one.bytes).collect();
    let _ = writeln!(text, "{level} Growth\n\n- alive: {}", row(&alive, &size));
    if !growth.is_one_process {
        text.push_str("- these are snapshots of different processes, or do not say of which\n");
    }
    text.push_str("\n| held | objects | keep alive | by | |\n| --- | --- | --- | --- | --- |\n");
    for one in &growth.holders {
        let always = if one.always && growth.moments.len() > 2 { "in every interval" } else { "" };
        let (objects, retained) = (row(&one.objects, &|value| count(*value)), row(&one.retained, &size));
        let _ =
            writeln!(text, "| {} | {objects} | {retained} | {} | {always} |", code(&one.of), code(&one.way));
    }
    text.push_str("\n| type | bytes | objects |\n| --- | --- | --- |\n");
    for one in growth.types.iter().take(TYPES) {
        let (objects, held) = (row(&one.objects, &|value| count(*value)), row(&one.bytes, &size));
        let _ = writeln!(text, "| {} | {held} | {objects} |", code(&one.name));
    }
    if growth.types.len() > TYPES {
        let _ = writeln!(text, "\n{} more in the JSON.", count((growth.types.len() - TYPES) as u64));
    }
}
