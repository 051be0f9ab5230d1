//! Much of the CPU time is in the allocator: memory is asked for and given back all the time.

use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId};
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, collects, on, severity};
use crate::trace::cost_names::Cost;
use crate::words::percent;

/// Share of the CPU time from which on the allocator is what it goes to. Healthy servers and compilers under full load were at 7 % at most,
/// those whose cause this is at 21 to 61 % (design note 05).
const SHARE: f64 = 0.3;
/// CPUs that it uses, or wants, below which it harms nobody.
const LEAST_CORES: f64 = 0.3;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    scene.wanted_cores().filter(|&wanted| wanted >= LEAST_CORES)?;
    let spent = on(scene, &[(Cost::Allocation, "in the allocator")])?;
    if spent.share < SHARE || collects(scene) {
        return None;
    }
    let mut evidence = spent.evidence.clone();
    evidence.extend(spent.for_what(scene));
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::AllocatorChurn,
        severity: severity(scene, LEAST_CORES),
        impact: scene.busy(),
        title: format!(
            "Allocator churn: {} of the CPU time of {} is allocating and freeing memory, most{}",
            percent(spent.share),
            scene.name,
            match spent.in_place(scene) {
                place if place.is_empty() => " in no one place".to_owned(),
                place => place,
            }
        ),
        explanation: "Memory is asked for and given back so often that this takes more time than the work it is for. Most likely many \
                      small, short-lived strings or nodes are made; room that is used again, or reserved once, helps. It is not a \
                      leak unless memory grows too."
            .to_owned(),
        evidence,
        next_steps: steps(&["Look in the CPU flame graph at who calls the allocator, and how often it must"]),
    })
}
