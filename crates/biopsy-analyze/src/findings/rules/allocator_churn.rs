//! Much of the CPU time is in the allocator: memory is asked for and given back all the time.

use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId, Severity};
use crate::findings::harm::harms;
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, collects, on};
use crate::trace::cost_names::Cost;
use crate::words::percent;

/// Share of the CPU time from which on the allocator is what it goes to, and from which on it is worth a word: compilers are at 10 to
/// 20 %, see the design note.
const SHARE: [f64; 2] = [0.5, 0.3];
/// CPUs in use below which it harms nobody.
const LEAST_CORES: f64 = 0.3;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    scene.cores.filter(|&used| used >= LEAST_CORES)?;
    let spent = on(scene, &[(Cost::Allocation, "in the allocator")])?;
    if spent.share < SHARE[1] || collects(scene) {
        return None;
    }
    let loud = spent.share >= SHARE[0] && harms(scene);
    let mut evidence = spent.evidence.clone();
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::AllocatorChurn,
        severity: if loud { Severity::Warning } else { Severity::Notice },
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
