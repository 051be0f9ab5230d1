//! Who allocates native memory.

use std::fmt::Write as _;

use super::escape::code;
use super::runtimes::ROWS;
use crate::units::{bytes, count, share, to_f64};
use biopsy_analyze::{AllocationSummary, Analysis};

pub(super) fn write(text: &mut String, analysis: &Analysis) {
    let Some(summary) = &analysis.allocations else { return };
    let _ = writeln!(text, "\n## Allocations\n\n{}\n", in_words(summary));
    if summary.exact {
        return exact(text, analysis, summary);
    }
    text.push_str("| Allocated in | bytes | not given back | samples |\n| --- | ---: | ---: | ---: |\n");
    for site in summary.sites.iter().take(ROWS) {
        let name = analysis.function(site.place).map_or("?", |row| row.name.as_str());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            code(name),
            bytes(to_f64(site.allocated)),
            bytes(to_f64(site.kept)),
            count(site.samples)
        );
    }
}

/// Places of which each allocation was counted.
fn exact(text: &mut String, analysis: &Analysis, summary: &AllocationSummary) {
    // A place that has more at the end than in the middle may go on so; one that has not has filled up.
    let (then, line) = match summary.then {
        Some(_) => (" there in the middle |", " ---: |"),
        None => ("", ""),
    };
    let _ = writeln!(
        text,
        "| Allocated in | bytes | calls | temporary | at most at one time |{then} left at the end | calls left |"
    );
    let _ = writeln!(text, "| --- | ---: | ---: | ---: | ---: |{line} ---: | ---: |");
    for site in summary.sites.iter().take(ROWS) {
        let name = analysis.function(site.place).map_or("?", |row| row.name.as_str());
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |{} {} | {} |",
            code(name),
            bytes(to_f64(site.allocated)),
            count(site.samples),
            share(to_f64(site.temporary) / to_f64(site.samples.max(1))),
            bytes(to_f64(site.peak)),
            summary.then.map_or_else(String::new, |_| format!(" {} |", bytes(to_f64(site.then)))),
            bytes(to_f64(site.kept)),
            count(site.kept_samples)
        );
    }
}

/// What was seen, in a sentence.
pub(crate) fn in_words(summary: &AllocationSummary) -> String {
    if summary.exact {
        return format!(
            "{} allocated by {} calls, each counted from the start of the program ({} of them temporary); at most {} at one time, {} left at the end",
            bytes(to_f64(summary.allocated)),
            count(summary.calls),
            share(to_f64(summary.temporary) / to_f64(summary.calls.max(1))),
            bytes(to_f64(summary.peak)),
            bytes(to_f64(summary.kept))
        );
    }
    let all = format!(
        "{} allocated, {} of it not given back",
        bytes(to_f64(summary.allocated)),
        bytes(to_f64(summary.kept))
    );
    if summary.is_whole() {
        format!("{all}; {} calls, {} samples", count(summary.calls), count(summary.samples))
    } else {
        format!(
            "about {all}, as far as that was seen: watched for {} of the time, {} calls, {} samples",
            share(summary.watched),
            count(summary.calls),
            count(summary.samples)
        )
    }
}
