//! Regular expressions take the CPU time, by the functions of an engine that backtracks.

use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId, Severity};
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, on};
use crate::trace::cost_names::Cost;
use crate::words::percent;

/// Share of the CPU time. Healthy servers were below 1 %, a program whose work is matching may well be at half; backtracking was at 92 %
/// and more.
const SHARE: [f64; 2] = [0.6, 0.3];
/// CPUs' worth of matching below which it harms nobody.
const LEAST_CORES: f64 = 0.15;
/// A thread that runs this much has no room left.
const FULL: f64 = 0.5;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let spent = on(scene, &[(Cost::Regex, "matching of regular expressions")])?;
    if spent.share < SHARE[1] || spent.cores < LEAST_CORES {
        return None;
    }
    let loud = spent.share >= SHARE[0] && scene.busy() >= FULL;
    let mut evidence = spent.evidence.clone();
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::RegexBacktracking,
        severity: if loud { Severity::Warning } else { Severity::Notice },
        impact: scene.busy().max(spent.share),
        title: format!(
            "Regular expressions take {} of the CPU time of {}{}",
            percent(spent.share),
            scene.name,
            spent.in_place(scene)
        ),
        explanation: "Most likely one backtracks: nested or overlapping repetitions (`(a+)+`, `(\\w*\\s?)*`) try all ways to divide a text \
                      that nearly matches, and each letter more doubles the time. A program that matches very much text with harmless \
                      expressions looks the same: then the time grows with the text, not with its shape."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See who calls it, and try its expression with a long text that nearly matches",
            "Make repetitions exclude what follows them, limit the length of what is matched, or use an engine that cannot backtrack (RE2, `regex` of Rust)",
        ]),
    })
}
