//! A managed heap: its totals, and its types by bytes.

use std::fmt::Write as _;

use biopsy_analyze::HeapSummary;

use super::escape::{code, plain};
use crate::units::{bytes, count, counted, to_f64};
use crate::words::name_and_pid;

/// Types.
const TYPES: usize = 25;

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
