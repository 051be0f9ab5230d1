//! Findings: what an expert would say of the facts, the most important first.
//!
//! `rules` has a file for each rule: it looks for one cause and says it in plain words, with its evidence and with what it is
//! not. Thresholds are constants with their reason at the top of the rule. A rule that lacks its data stays silent; what is lacking
//! is in [`Completeness::undetermined`](crate::Completeness::undetermined). What one finding means for another is in `explains`, and
//! nowhere else. Beside these lie what rules share: `scene` and `dump` are what they look at, the others what several of them ask.

mod allocated;
mod allocating;
mod answering;
mod asking;
mod called;
pub mod catalogue;
mod dotnet;
mod dump;
mod evidence;
mod explains;
pub mod finding;
mod from_memory;
mod harm;
pub mod ids;
mod incident;
mod jvm_heap;
mod looks;
mod made_by;
mod native_leak;
mod recursion;
mod requests;
mod rules;
mod scene;
mod spent;
mod want_of_cpu;

use crate::analysis::Analysis;
use crate::dump::DumpAnalysis;
use crate::trace::facts::Facts;
use biopsy_model::capture::Capture;
use biopsy_model::order::Order as _;
use finding::Finding;
use scene::Scene;
use std::cmp::Ordering;

pub(crate) use incident::Incident;

/// Runs all rules over a recording. Never empty: where nothing is wrong, the last word is what the process does.
pub(crate) fn of_recording(capture: &Capture, analysis: &Analysis, facts: &Facts) -> Vec<Finding> {
    let scene = Scene::new(capture, analysis, facts);
    let mut findings: Vec<Finding> = rules::OF_RECORDING.iter().filter_map(|rule| rule(&scene)).collect();
    dotnet::say_what_was_heard_in_part(&scene, &mut findings);
    explains::settle(&scene, &mut findings);
    from_memory::add(capture, &mut findings);
    from_memory::explain_growth(capture, &mut findings);
    explains::give_way(&scene, &mut findings);
    findings.extend(rules::last_word(
        &scene,
        explains::is_held_back(&findings),
        explains::leave_room(&findings),
    ));
    for finding in &mut findings {
        finding.impact = if finding.impact.is_finite() { finding.impact.clamp(0.0, 1.0) } else { 0.0 };
    }
    in_order(findings)
}

/// Runs all rules over a dump. Never empty: the last word is what the threads do.
pub(crate) fn of_dump(analysis: &DumpAnalysis) -> Vec<Finding> {
    let mut findings: Vec<Finding> = rules::OF_DUMP.iter().filter_map(|rule| rule(analysis)).collect();
    explains::silence(&mut findings);
    looks::settle(analysis, &mut findings);
    in_order(findings)
}

/// Runs the rules that need evidence of several kinds.
pub(crate) fn of_all(incident: &Incident<'_>) -> Vec<Finding> {
    rules::OF_ALL.iter().filter_map(|rule| rule(incident)).collect()
}

/// Lowers what one of the findings over all evidence explains.
pub(crate) fn settle_all(of_all: &mut [Finding], recorded: Option<&mut Analysis>) {
    let recorded = recorded.map_or(&mut [][..], |analysis| &mut analysis.findings);
    explains::settle_all(of_all, recorded);
}

/// The most important first.
pub(crate) fn by_importance(a: &Finding, b: &Finding) -> Ordering {
    b.severity.cmp(&a.severity).then(b.impact.total_cmp(&a.impact))
}

fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.order_by(by_importance);
    findings
}
