//! Allocating and collecting garbage takes the CPU time, in a runtime that does not say so itself.

use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId, Severity};
use crate::findings::harm::harms;
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, collects, on};
use crate::trace::cost_names::Cost;
use crate::words::percent;

/// Share of the CPU time from which on memory is what it goes to. Healthy servers and compilers under full load were at 7 % at most, those whose
/// cause this is at 40 % and more (design note 05).
const SHARE: f64 = 0.3;
/// CPUs in use below which it harms nobody.
const LEAST_CORES: f64 = 0.3;

const KINDS: &[(Cost, &str)] =
    &[(Cost::Allocation, "allocation of memory"), (Cost::Collection, "garbage collection")];

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    scene.cores.filter(|&used| used >= LEAST_CORES)?;
    let spent = on(scene, KINDS)?;
    if spent.share < SHARE || !collects(scene) {
        return None;
    }
    let mut evidence = spent.evidence.clone();
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::GcPressure,
        severity: if harms(scene) { Severity::Warning } else { Severity::Notice },
        impact: scene.busy(),
        title: format!(
            "Memory pressure on the garbage collector: allocation and collection take {} of the CPU time of {}, most{}",
            percent(spent.share),
            scene.name,
            match spent.in_place(scene) {
                place if place.is_empty() => " in no one place".to_owned(),
                place => place,
            }
        ),
        explanation: "So many short-lived objects are made that making and collecting them takes the time. Most likely fewer of them \
                      (buffers used again, one map for many lines, no copies of strings) help more than a larger heap. It is not \
                      a leak: what is collected is gone."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Look in the CPU flame graph at who calls the allocator, and make fewer objects there",
            "Compare with a larger heap (`GOGC`, `-Xmx`, `--max-semi-space-size`): fewer collections, the same allocation",
        ]),
    })
}
