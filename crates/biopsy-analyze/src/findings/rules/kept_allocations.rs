//! Native memory is allocated at one place and not given back.

use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::{bytes, number, percent, seconds};
use biopsy_model::process::RuntimeKind;

/// Samples of the place that must be there: fewer are chance.
const SAMPLES: u64 = 10;
/// Bytes that must stay, in all and in a minute: what a program sets up once is less, or does not go on.
const LEAST: f64 = 1e6;
/// Share of all that stays, from which one place is worth naming.
const ONE_PLACE: f64 = 0.25;
/// Share of what is allocated at the place that must stay: what is in use for a moment is always there, and small beside what went through.
const STAYS: f64 = 0.5;
/// Frames of the stack that are told.
const FRAMES: usize = 8;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let summary = scene.analysis.allocations.as_ref().filter(|summary| summary.is_over_time())?;
    let site = summary.sites.first()?;
    let (kept, minutes) = (site.kept as f64, summary.seconds / 60.0);
    let (of_all, stays) = (kept / summary.kept.max(1) as f64, kept / site.allocated.max(1) as f64);
    // What was counted is no chance, however few they are.
    if site.kept_samples < SAMPLES && !summary.exact
        || kept < LEAST
        || kept < LEAST * minutes
        || of_all < ONE_PLACE
        || stays < STAYS
    {
        return None;
    }
    let name = scene.function_name(Some(site.place))?;
    let grows = scene
        .analysis
        .metrics
        .trends
        .iter()
        .find(|trend| trend.growing && trend.table == "processes" && trend.column.starts_with("memory"))
        .filter(|trend| !trend.rests(scene.capture));
    let text = format!(
        "{} were allocated there and {} of them, {}, not given back ({} {}); in all {} were allocated and {} not given back",
        bytes(site.allocated as f64),
        percent(stays),
        bytes(kept),
        number(site.samples as f64),
        if summary.exact { "calls, each counted" } else { "samples" },
        bytes(summary.allocated as f64),
        bytes(summary.kept as f64)
    );
    let mut evidence = vec![at(Reference::Function(site.place), text, Some(Value::Bytes(kept)))];
    let stack: Vec<String> =
        site.stack.iter().take(FRAMES).filter_map(|function| scene.function_name(Some(*function))).collect();
    evidence.push(fact(format!("the stack with most of it: {}", stack.join(" ← ")), None));
    if !summary.is_whole() {
        let text = format!(
            "allocations were watched for {} of the time, so as not to slow the process down: amounts are estimates, and what was given \
             back in between was not seen",
            percent(summary.watched)
        );
        evidence.push(fact(text, Some(Value::Share(summary.watched))));
    }
    if let Some(trend) = grows {
        let text = format!("meanwhile the memory of the process grew by {}", bytes(trend.last - trend.first));
        evidence.push(fact(text, Some(Value::Bytes(trend.last - trend.first))));
    }
    // The functions of an interpreter allocate for whatever program it runs: the one that it runs is named by who touches the pages first.
    let interpreted = grows.is_some_and(|trend| {
        matches!(scene.runtime_of_key(&trend.key), RuntimeKind::Python | RuntimeKind::Node)
    });
    if interpreted {
        evidence
            .push(fact("this function is the interpreter's, which allocates for the program it runs", None));
    }
    Some(Finding {
        id: FindingId::KeptAllocations,
        severity: if grows.is_some() && !interpreted { Severity::Warning } else { Severity::Notice },
        impact: of_all.clamp(0.0, 1.0),
        title: format!(
            "{} allocated in {name} were not given back within {}",
            bytes(kept),
            seconds(summary.seconds)
        ),
        explanation: "What is allocated there stays: a leak, a cache that fills, or work that has only begun looks like this. It stays as \
                      long as somebody does not call `free` for it."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look who should give back what is allocated there, and on which way out it does not",
            "Record again later: a cache comes to its bound, a leak does not",
        ]),
    })
}
