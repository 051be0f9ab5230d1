//! From a diagnosis to the types of the output schema. All renderers start here.

mod across;
mod allocations;
mod assembly;
mod dump;
mod findings;
mod footprint;
mod heap;
mod managed;
mod recording;
mod runtimes;
mod strands;
mod tables;

use biopsy_analyze::{Diagnosis, Recorded};

use crate::schema::{self, Report};

pub(crate) use assembly::Assembly;
pub(crate) use footprint::footprint;
pub(crate) use heap::{growth as heap_growth, with_one_way};
pub(crate) use recording::losses;
pub(crate) use runtimes::short;
pub(crate) use tables::choose_functions;

/// The whole report.
pub(crate) fn report(diagnosis: &Diagnosis) -> Report {
    let recorded = diagnosis.recorded.as_ref().map(|Recorded { capture, analysis }| {
        let mut assembly = Assembly::new(capture, analysis);
        let chosen = choose_functions(analysis, schema::FUNCTIONS);
        assembly.positions =
            chosen.iter().enumerate().map(|(position, handle)| (*handle, position)).collect();
        let mut recorded = brief(&assembly);
        let rows = chosen.iter().filter_map(|handle| analysis.function(*handle));
        recorded.functions = rows.map(tables::function).collect();
        recorded.threads.rows = assembly.thread_rows();
        recorded.metrics.summary = assembly.metric_summary();
        (assembly, recorded)
    });
    let (assembly, recorded) = recorded.unzip();
    Report {
        dumps: diagnosis.dumps.iter().map(dump::dump).collect(),
        heaps: diagnosis.heaps.iter().map(|summary| heap::heap(summary, 0)).collect(),
        footprints: footprints(diagnosis, 0),
        ..around(diagnosis, assembly.as_ref(), recorded)
    }
}

/// What stands around the evidence: findings, and what is missing.
pub(crate) fn around(
    diagnosis: &Diagnosis,
    assembly: Option<&Assembly<'_>>,
    recorded: Option<schema::Recorded>,
) -> Report {
    Report {
        schema: "biopsy-report".to_owned(),
        version: schema::VERSION,
        findings: findings::findings(diagnosis, assembly),
        recorded,
        undetermined: diagnosis.undetermined.clone(),
        not_searched: crate::not_searched::not_searched(diagnosis),
        growth: diagnosis.growth.as_ref().map(heap::growth),
        ..Report::default()
    }
}

/// The dumps that fit a page, and how many were left out. `room`: bytes of their data as JSON.
pub(crate) fn dumps(diagnosis: &Diagnosis, room: usize) -> (Vec<schema::Dump>, usize) {
    let mut shown = Vec::new();
    let mut used = 0_usize;
    for analysis in &diagnosis.dumps {
        let dump = dump::dump(analysis);
        used = used.saturating_add(serde_json::to_string(&dump).map_or(0, |text| text.len()));
        // One is always shown.
        if used > room && !shown.is_empty() {
            break;
        }
        shown.push(dump);
    }
    let left = diagnosis.dumps.len() - shown.len();
    (shown, left)
}

/// Where the memory went, each with the `classes` of sizes that hold the most; 0: all.
pub(crate) fn footprints(diagnosis: &Diagnosis, classes: usize) -> Vec<schema::Footprint> {
    diagnosis.footprints.iter().map(|summary| footprint::footprint(summary, classes)).collect()
}

/// The heaps, each with its first `types`.
pub(crate) fn heaps(diagnosis: &Diagnosis, types: usize) -> Vec<schema::Heap> {
    diagnosis.heaps.iter().map(|summary| heap::heap(summary, types)).collect()
}

/// Everything recorded but the long tables of functions and threads.
pub(crate) fn brief(assembly: &Assembly<'_>) -> schema::Recorded {
    schema::Recorded {
        recording: assembly.recording(),
        completeness: assembly.completeness(),
        functions: Vec::new(),
        functions_seen: assembly.analysis.functions.len(),
        threads: assembly.threads(),
        waits: assembly.waits(),
        metrics: assembly.metrics(),
        logs: assembly.logs(),
        runtimes: assembly.runtimes(),
        allocations: assembly.allocations(),
        processes: assembly.processes(),
        marks: assembly.marks(),
        losses: losses(assembly),
        warnings: assembly.warnings(),
        redactions: assembly.redactions(),
    }
}
