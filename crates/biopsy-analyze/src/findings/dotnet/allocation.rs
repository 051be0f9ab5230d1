//! Much garbage from one place.

use super::{code, heard, in_table, of_process, table};
use crate::finding::{Evidence, Finding, Severity, Value};
use crate::findings::scene::{Scene, at, steps};
use crate::findings::words::{bytes, number, percent};
use crate::runtimes::RuntimeSummary;

/// One function of the application that makes this share of all bytes is what a person would name.
const SHARE: f64 = 0.4;
/// Bytes a second that a core can just about allocate and throw away beside real work.
const CRITICAL: f64 = 400e6;
const WARNING: f64 = 100e6;

/// The place that allocates most.
pub(super) struct Top {
    /// ` in ...`.
    pub(super) place: String,
    /// It is the application's own.
    pub(super) own: bool,
    /// Share of all bytes at that place, whatever the type.
    pub(super) share: f64,
    /// Type with most bytes there.
    pub(super) type_name: String,
    pub(super) evidence: Evidence,
}

/// The place that allocates most, over all types.
pub(super) fn top(summary: &RuntimeSummary) -> Option<Top> {
    let all = summary.allocated as f64;
    let mut places: Vec<(&str, u64)> = Vec::new();
    for row in summary.allocations.iter().filter(|row| !row.place.function.is_empty()) {
        match places.iter_mut().find(|(name, _)| *name == row.place.function) {
            Some((_, sum)) => *sum = sum.saturating_add(row.bytes),
            None => places.push((&row.place.function, row.bytes)),
        }
    }
    let (function, sum) = places.into_iter().max_by(|a, b| a.1.cmp(&b.1).then(b.0.cmp(a.0)))?;
    let (number, row) = summary.allocations.iter().enumerate().find(|(_, row)| row.place.function == function)?;
    let share = sum as f64 / all.max(1.0);
    let via = row.place.via.as_ref().map_or(String::new(), |via| format!(", by {}", code(via)));
    Some(Top {
        place: super::in_place(&row.place),
        own: row.place.own,
        share,
        type_name: row.type_name.clone(),
        evidence: in_table(
            summary,
            "allocations",
            number,
            format!(
                "{} of the {} allocated are made in {}{via}, most of them {}",
                percent(share),
                bytes(all),
                code(function),
                code(&row.type_name)
            ),
            Some(Value::Share(share)),
        ),
    })
}

/// One place allocates so much that collecting it is a large part of the work.
pub(super) fn storm(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene).max_by(|a, b| a.summary.allocated.cmp(&b.summary.allocated))?;
    let summary = heard.summary;
    let per_second = summary.allocated as f64 / summary.seconds.max(1e-9);
    let top = top(summary).filter(|top| top.own && top.share >= SHARE)?;
    if per_second < WARNING {
        return None;
    }
    let collections = summary.rate(summary.collections.total);
    let severity = if per_second >= CRITICAL { Severity::Critical } else { Severity::Warning };
    let mut evidence = vec![
        top.evidence,
        at(
            table(summary, "allocations", None),
            format!("{} a second are allocated, as the runtime samples it", bytes(per_second)),
            Some(Value::Bytes(per_second)),
        ),
    ];
    if summary.collections.total > 0 {
        evidence.push(super::collections::pace(summary));
    }
    Some(Finding {
        id: "allocation-storm",
        severity,
        impact: (per_second / (4.0 * CRITICAL)).clamp(summary.collections.pause_share, 1.0),
        title: format!(
            "Allocation storm{}: {} a second, most of it {}, {} collections a second{}",
            top.place,
            bytes(per_second),
            code(&top.type_name),
            if collections < 9.95 { format!("{collections:.1}") } else { number(collections) },
            of_process(scene, summary)
        ),
        explanation: "Each byte has to be cleared, written, and its neighbours collected: most likely much of the CPU time at that \
                      place, and the collections, come from making short-lived objects. Adding strings in a loop is the usual \
                      cause; arrays and lists that grow step by step, boxing and LINQ on hot paths are others."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "`StringBuilder`, `string.Create`, spans, or pooled buffers in place of new objects at that place",
            "See in the table of allocations the types, and by which call they are made",
        ]),
    })
}
