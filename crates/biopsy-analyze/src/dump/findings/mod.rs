//! Detectors over a dump: each says one thing in plain words, with its evidence and with what it is not.

mod activity;
mod crash;
mod locks;
mod managed;
mod memory;
mod quality;

use super::DumpAnalysis;
use crate::finding::{Evidence, Finding, Reference, Severity, Value};

type Detector = fn(&DumpAnalysis) -> Option<Finding>;

const DETECTORS: &[Detector] = &[
    managed::exception,
    crash::crash,
    locks::deadlock,
    locks::abandoned,
    locks::queue,
    managed::finalizer,
    managed::sync_over_async,
    managed::operations,
    managed::full_channel,
    activity::equal_threads,
    activity::many_threads,
    activity::running,
    memory::split,
    quality::stacks,
    quality::symbols,
    quality::missing,
    quality::scrubbed,
];

/// Runs all detectors. Never empty: the last word is what the process does.
pub(super) fn find(analysis: &DumpAnalysis) -> Vec<Finding> {
    let mut findings: Vec<Finding> = DETECTORS.iter().filter_map(|detector| detector(analysis)).collect();
    findings.push(activity::overview(analysis));
    findings.sort_by(|a, b| b.severity.cmp(&a.severity).then(b.impact.total_cmp(&a.impact)));
    findings
}

fn fact(text: String, value: Option<Value>) -> Evidence {
    Evidence { text, reference: Reference::Recording, value }
}

fn at(reference: Reference, text: String) -> Evidence {
    Evidence { text, reference, value: None }
}

fn steps(steps: &[&str]) -> Vec<String> {
    steps.iter().map(|step| (*step).to_owned()).collect()
}

/// Share of all threads.
fn share(analysis: &DumpAnalysis, count: usize) -> f64 {
    count as f64 / analysis.threads.len().max(1) as f64
}

fn severity_by(value: usize, critical: usize, warning: usize, notice: usize) -> Option<Severity> {
    if value >= critical {
        Some(Severity::Critical)
    } else if value >= warning {
        Some(Severity::Warning)
    } else {
        (value >= notice).then_some(Severity::Notice)
    }
}
