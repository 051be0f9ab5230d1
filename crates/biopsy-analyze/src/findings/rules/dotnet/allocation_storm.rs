//! Much garbage from one place.

use crate::findings::allocating::{rate, top_or_thread};
use crate::findings::dotnet::{at_least, code, heard, of_process, pace, table};
use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::{bytes, number, percent};

/// One function of the application that makes this share of all bytes is what a person would name.
const SHARE: f64 = 0.4;
/// Bytes a second that a core can just about allocate and throw away beside real work.
const CRITICAL: f64 = 400e6;
const WARNING: f64 = 100e6;
/// Share of the time that all threads stand still, from which on that is what users notice.
const PAUSES: f64 = 0.1;
/// Of the CPU time that it wants: where it gets less, what it would do is a guess.
const LEAST_SHARE: f64 = 0.1;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let heard = heard(scene).max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let summary = heard.summary;
    let per_second = rate(&heard);
    let top = top_or_thread(scene, &heard).filter(|top| top.own && top.share >= SHARE)?;
    // What others keep from the CPU allocates less than it would; that it is this which takes the time, pauses must say.
    let gets = scene.cores.zip(scene.wanted_cores()).map_or(1.0, |(gets, wants)| gets / wants.max(1e-9));
    let would = per_second / gets.clamp(LEAST_SHARE, 1.0);
    let pauses = summary.collections.pause_share >= PAUSES;
    if per_second < WARNING && !(pauses && would >= WARNING) {
        return None;
    }
    let collections = summary.rate(summary.collections.total);
    let severity = if per_second >= CRITICAL { Severity::Critical } else { Severity::Warning };
    let how = if summary.allocated > 0 { "as the runtime samples it" } else { "as the runtime counts it" };
    let mut evidence = vec![
        top.evidence,
        at(
            table(summary, "allocations", None),
            format!("{} a second are allocated, {how}", bytes(per_second)),
            Some(Value::Bytes(per_second)),
        ),
    ];
    if per_second < WARNING {
        evidence.push(fact(
            format!(
                "it gets {} of the CPU time that it wants: with all of it, it would be some {} a second",
                percent(gets),
                bytes(would)
            ),
            Some(Value::Bytes(would)),
        ));
    }
    if summary.collections.total > 0 {
        evidence.push(pace(summary));
    }
    let most = top.type_name.as_ref().map_or(String::new(), |name| format!(", most of it {}", code(name)));
    Some(Finding {
        id: FindingId::AllocationStorm,
        severity,
        impact: (per_second / (4.0 * CRITICAL)).clamp(summary.collections.pause_share, 1.0),
        title: format!(
            "Allocation storm{}: {}{} a second{most}, {} collections a second{}",
            top.place,
            // The runtime's own count is of all the time.
            if summary.allocated > 0 { at_least(&heard, "allocations") } else { "" },
            bytes(per_second),
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
            "`biopsy capture --allocations` shows the types, and which calls allocate them",
        ]),
    })
}
