//! What recordings and footprints say of a leak of native memory: whether the process grows, and who allocates.

use crate::analysis::Analysis;
use crate::findings::allocated::Allocated;
use crate::findings::evidence::at;
use crate::findings::finding::{Evidence, FindingId, Reference, Value};
use crate::findings::incident::Incident;
use crate::trace::function::FunctionHandle;
use crate::words::{bytes, percent, shorten};

/// Share of all that stays, from which one place is worth naming.
const ONE_PLACE: f64 = 0.25;
/// Samples that must be there.
const SAMPLES: u64 = 10;
/// Of what is held more, at least this share must be more memory of the process.
const GROWN: f64 = 0.3;

/// Whether the process itself grows: in a recording steadily, else from the first snapshot to the last. `more`: bytes that are held more.
pub(crate) fn memory_grows(incident: &Incident<'_>, more: f64) -> bool {
    let Some(pid) = incident.heaps.last().map(|heap| heap.facts.pid) else { return false };
    let mut trends =
        incident.recorded.iter().flat_map(|(_, analysis)| &analysis.metrics.trends).filter(|trend| {
            let of = trend.key.split(' ').next();
            trend.table == "processes" && trend.column.starts_with("memory") && of == Some(&pid.to_string())
        });
    if trends.clone().next().is_some() {
        return trends.any(|trend| trend.growing);
    }
    let own =
        |number: usize| incident.footprints.get(number)?.facts.kernel.map(|kernel| kernel.anonymous as f64);
    match (own(0), incident.footprints.len().checked_sub(1).and_then(own)) {
        (Some(first), Some(last)) => last - first >= more * GROWN,
        _ => true,
    }
}

/// Who allocates most of what stays, where allocations were recorded; of an interpreter, which allocates for what it runs, who touches new
/// pages first.
pub(crate) fn allocated(incident: &Incident<'_>) -> Option<Allocated> {
    let (_, analysis) = incident.recorded?;
    let is_interpreted = incident.heaps.last().is_some_and(|heap| heap.facts.runtime.starts_with("CPython"));
    let site = analysis.allocations.as_ref().and_then(|summary| Some((summary, summary.sites.first()?)));
    if let Some((summary, site)) = site.filter(|_| !is_interpreted) {
        let of_all = site.kept as f64 / summary.kept.max(1) as f64;
        if site.kept_samples >= SAMPLES
            && of_all >= ONE_PLACE
            && let Some(name) = name(analysis, site.place)
        {
            let text = format!(
                "{} of what was allocated while it was recorded and not given back, {}, was allocated in {name}",
                percent(of_all),
                bytes(site.kept as f64)
            );
            let evidence = at(Reference::Function(site.place), text, Some(Value::Bytes(site.kept as f64)));
            return Some(Allocated { words: format!("allocated in {name}"), evidence });
        }
    }
    let (function, evidence) = touched(analysis)?;
    let name = name(analysis, function)?;
    Some(Allocated { words: format!("most of it first touched below {name}"), evidence: evidence.clone() })
}

/// Who touches new pages first, as the finding on growth says.
fn touched(analysis: &Analysis) -> Option<(FunctionHandle, &Evidence)> {
    let growth = analysis.findings.iter().find(|finding| finding.id == FindingId::MemoryGrowth)?;
    growth.evidence.iter().find_map(|evidence| match evidence.reference {
        Reference::Function(function) => Some((function, evidence)),
        _ => None,
    })
}

fn name(analysis: &Analysis, function: FunctionHandle) -> Option<String> {
    analysis.function(function).map(|row| format!("`{}`", shorten(&row.name)))
}
