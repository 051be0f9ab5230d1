//! Pages fault in again and again, because memory is given back to the kernel and taken anew.

use crate::findings::evidence::steps;
use crate::findings::finding::{Finding, FindingId};
use crate::findings::scene::Scene;
use crate::findings::spent::{busy_evidence, collects, on, severity};
use crate::trace::cost_names::Cost;
use crate::words::percent;

/// Share of the CPU time in page faults and mappings from which on they are what it goes to: healthy programs at work were at 5 % at most.
const SHARE: f64 = 0.3;
/// CPUs that it uses, or wants, below which it harms nobody.
const LEAST_CORES: f64 = 0.2;

/// Share of the CPU time in making and collecting garbage from which on it is what pages come and go for.
const MADE: f64 = 0.1;
const GARBAGE: &[(Cost, &str)] = &[(Cost::Allocation, ""), (Cost::Collection, "")];

const KINDS: &[(Cost, &str)] = &[
    (Cost::PageFaults, "page faults"),
    (Cost::Mappings, "taking memory from the kernel and giving it back"),
];

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    scene.wanted_cores().filter(|&wanted| wanted >= LEAST_CORES)?;
    let spent = on(scene, KINDS).filter(|spent| spent.share >= SHARE)?;
    // What is touched and kept is growth, which has a finding of its own; what starts touches much.
    let grows = scene.analysis.metrics.trends.iter().any(|trend| {
        trend.growing
            && trend.table == "processes"
            && matches!(trend.column.as_str(), "memory.anon" | "memory.rss")
    });
    let given_back = on(scene, &KINDS[1..]).map_or(0.0, |spent| spent.share);
    // A collector gives back what it has freed, and takes it again: that is the garbage, and has a finding of its own.
    let made = on(scene, GARBAGE).map_or(0.0, |spent| spent.share);
    if grows || given_back < spent.share * 0.05 || collects(scene) && made >= MADE {
        return None;
    }
    let mut evidence = spent.evidence.clone();
    evidence.extend(busy_evidence(scene));
    Some(Finding {
        id: FindingId::PageFaults,
        severity: severity(scene, LEAST_CORES),
        impact: scene.busy(),
        title: format!(
            "Page faults: {} of the CPU time of {} is the kernel giving and taking memory, most{}",
            percent(spent.share),
            scene.name,
            match spent.in_place(scene) {
                place if place.is_empty() => " in no one place".to_owned(),
                place => place,
            }
        ),
        explanation: "Memory is given back to the kernel (`madvise`, `munmap`, a large `free`) and touched again, and each page of it \
                      costs a fault, a cleared page and its release. The size of the process does not grow meanwhile. Most likely \
                      keeping the buffer, or telling the allocator to keep it, removes this."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See in the CPU flame graph who gives memory back (`madvise`, `munmap`) and who touches it next",
            "Keep the buffer; for `malloc`, raise `M_TRIM_THRESHOLD` and `M_MMAP_THRESHOLD`",
        ]),
    })
}
