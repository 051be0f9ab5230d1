//! What is wrong with the recording itself.

use crate::findings::evidence::{fact, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::{number, percent};
use biopsy_model::capture::EndedBy;
use biopsy_model::loss::LossKind;

/// Share of the samples or waits that were lost: shares move by as much, and from the second on findings may.
const LOST: f64 = 0.02;
const LOST_MUCH: f64 = 0.2;
/// Share of the stacks that reach their root, below which totals of outer functions are too small.
const REACHING_ROOT: f64 = 0.8;
/// Stacks that break off, below which they are chance: of a program that sleeps there are few, and those of the moments in which it is
/// frozen for a snapshot are among them.
const BROKEN: f64 = 20.0;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let whole = &scene.analysis.completeness;
    let mut evidence = Vec::new();
    let mut impact = 0.0f64;
    // That outer functions are unknown in places takes nothing from what is known.
    let mut severity = Severity::Info;
    if whole.partial {
        evidence.push(fact("it was cut short: the recorder did not come to its end", None));
        impact = impact.max(0.2);
        severity = Severity::Notice;
    }
    if scene.capture.header.ended_by == EndedBy::DiskFull {
        evidence.push(fact("it ended because the disk was full", None));
        impact = impact.max(0.3);
        severity = Severity::Notice;
    }
    for loss in &whole.losses {
        // What cannot be determined for it is said there.
        if loss.kind.is_meant() {
            continue;
        }
        let share = loss.share.unwrap_or(0.0);
        let much = share >= LOST || (loss.share.is_none() && loss.kind != LossKind::Throttled);
        if !much {
            continue;
        }
        let count =
            if loss.count == 0 { "an unknown number of".to_owned() } else { number(loss.count as f64) };
        let of = loss.share.map_or(String::new(), |share| format!(" ({})", percent(share)));
        evidence.push(fact(
            format!("{count} {} were lost{of}", loss_words(loss.kind)),
            loss.share.map(Value::Share),
        ));
        impact = impact.max(share);
        severity = severity.max(Severity::Notice);
        if share >= LOST_MUCH {
            severity = Severity::Warning;
        }
    }
    let is_much = |root: f64| root < REACHING_ROOT && (1.0 - root) * whole.samples as f64 >= BROKEN;
    if let Some(root) = whole.reaching_root.filter(|&root| is_much(root)) {
        evidence.push(fact(
            format!("only {} of the stacks reach the thread's first function", percent(root)),
            Some(Value::Share(root)),
        ));
        impact = impact.max((1.0 - root) / 100.0);
    }
    if evidence.is_empty() {
        return None;
    }
    Some(Finding {
        id: FindingId::RecordingIncomplete,
        severity,
        impact,
        title: "The recording is not whole, so shares and sums are less certain".to_owned(),
        explanation:
            "What is missing is counted and shown; what is there is right. See what could not be determined."
                .to_owned(),
        evidence,
        next_steps: steps(&[
            "If the finding in question depends on it, record again: shorter, or with a lower frequency",
        ]),
    })
}

fn loss_words(kind: LossKind) -> &'static str {
    match kind {
        LossKind::Samples => "CPU samples",
        LossKind::Waits => "records of waits",
        LossKind::SideBand => "records of process and thread changes",
        LossKind::Throttled => "samples (throttled by the kernel)",
        LossKind::StacksSkipped => "stacks of samples",
        LossKind::Metrics => "metric readings",
        LossKind::Disk => "events that could not be written",
        LossKind::Allocations => "sampled allocations",
        LossKind::Switches => "context switches",
    }
}
