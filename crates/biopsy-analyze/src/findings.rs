//! Detectors: each looks for one cause and says it in plain words, with its evidence and with what it is not.
//!
//! Thresholds are constants with their reasons beside the detector. A detector that lacks its data stays silent;
//! what is lacking is in [`Completeness::undetermined`](crate::Completeness::undetermined).

mod cpu;
mod descriptors;
mod disk;
mod dotnet;
mod explains;
mod growth;
mod idle;
pub(crate) mod ids;
mod limits;
mod locks;
mod logs;
mod looks;
mod memory;
mod peer;
mod quality;
pub(crate) mod scene;
mod single;
mod sleep;
mod switching;
pub(crate) mod words;

use crate::Analysis;
use crate::finding::{Finding, Severity};
use crate::trace::Facts;
use biopsy_model::capture::Capture;
use scene::Scene;

type Detector = fn(&Scene<'_>) -> Option<Finding>;

const DETECTORS: &[Detector] = &[
    limits::throttled,
    limits::others_saturate,
    limits::steal,
    locks::convoy,
    locks::contention,
    single::bottleneck,
    disk::bound,
    memory::pressure,
    growth::threads,
    growth::memory,
    descriptors::growth,
    cpu::bound,
    cpu::kernel,
    switching::storm,
    peer::slow,
    peer::accept_queue,
    sleep::loops,
    logs::errors,
    quality::target_ended,
    quality::incomplete,
];

/// Runs all detectors. Never empty: where nothing is wrong, the last word is what the process does.
pub(crate) fn find(capture: &Capture, analysis: &Analysis, facts: &Facts) -> Vec<Finding> {
    let scene = Scene::new(capture, analysis, facts);
    // Those that know the runtime first: where two see one thing, the first one speaks.
    let detectors = dotnet::DETECTORS.iter().chain(DETECTORS);
    let mut findings: Vec<Finding> = detectors.filter_map(|detector| detector(&scene)).collect();
    explains::settle(&scene, &mut findings);
    looks::add(capture, &mut findings);
    explains::give_way(&scene, &mut findings);
    findings.extend(idle::activity(&scene, &findings));
    for finding in &mut findings {
        finding.impact = if finding.impact.is_finite() { finding.impact.clamp(0.0, 1.0) } else { 0.0 };
    }
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.impact.total_cmp(&a.impact)));
    findings
}

/// Severity by thresholds: `critical` from the first, `warning` from the second, `notice` from the third.
fn grade(value: f64, critical: f64, warning: f64, notice: f64) -> Option<Severity> {
    if value >= critical {
        Some(Severity::Critical)
    } else if value >= warning {
        Some(Severity::Warning)
    } else {
        (value >= notice).then_some(Severity::Notice)
    }
}
