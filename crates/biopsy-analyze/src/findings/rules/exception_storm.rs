//! Exceptions as control flow, by the CPU time that throwing takes: C++, Java, JavaScript, panics of Go and Rust.

use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId, Severity};
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, on};
use crate::trace::cost_names::Cost;
use crate::words::percent;

/// Share of the CPU time: no healthy program had a sample there, storms were at 83 % and more.
const SHARE: [f64; 2] = [0.25, 0.1];
/// CPUs' worth of throwing below which it harms nobody.
const LEAST_CORES: f64 = 0.05;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let spent = on(scene, &[(Cost::Exceptions, "throwing and catching exceptions")])?;
    if spent.share < SHARE[1] || spent.cores < LEAST_CORES {
        return None;
    }
    let mut evidence = spent.evidence.clone();
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::ExceptionStorm,
        severity: if spent.share >= SHARE[0] { Severity::Warning } else { Severity::Notice },
        impact: scene.busy().max(spent.share),
        title: format!(
            "Exception storm: {} of the CPU time of {} is throwing and catching exceptions{}",
            percent(spent.share),
            scene.name,
            spent.in_place(scene)
        ),
        explanation: "Each throw walks the stack, and most runtimes write it down, which costs thousands of times what a test costs. They \
                      do not end the program, so they are caught: exceptions as control flow, or an error that is tried again and \
                      again."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "Ask first where failing is usual: a check before the call, a function that returns whether it went well",
            "See in the CPU flame graph who calls the function that throws",
        ]),
    })
}
