//! What recordings and footprints say of a leak of native memory: whether the process grows, and who allocates.

use crate::analysis::Analysis;
use crate::findings::allocated::Allocated;
use crate::findings::evidence::at;
use crate::findings::finding::{Evidence, FindingId, Reference, Value};
use crate::findings::incident::Incident;
use crate::findings::scene::touched_by;
use crate::metrics::Trend;
use crate::trace::allocations::AllocationSite;
use crate::trace::function::FunctionHandle;
use crate::whose::Whose;
use crate::words::{bytes, percent, shorten};

/// Share of all that stays, from which one place is worth naming.
const ONE_PLACE: f64 = 0.25;
/// Samples that must be there.
const SAMPLES: u64 = 10;
/// Callers of the place that are told.
const CALLERS: usize = 3;
/// Of what is held more, at least this share must be more memory of the process.
const GROWN: f64 = 0.3;

/// Whether the process itself grows: in a recording steadily and to its end, else from the first snapshot to the last. `more`: bytes that are
/// held more.
pub(crate) fn memory_grows(incident: &Incident<'_>, more: f64) -> bool {
    let Some(pid) = incident.heaps.last().map(|heap| heap.facts.pid) else { return false };
    let mut trends =
        incident.recorded.iter().flat_map(|(_, analysis)| &analysis.metrics.trends).filter(|trend| {
            let of = trend.key.split(' ').next();
            trend.table == "processes" && trend.column.starts_with("memory") && of == Some(&pid.to_string())
        });
    if trends.clone().next().is_some() {
        // How much is worth a word is known of what is held more: it need not be noteworthy beside the whole process.
        // What filled while snapshots were taken and then stopped: each of three may have more than the one before, the last because it filled
        // until shortly before. What the process had each second says that it stopped.
        let rests = |trend: &Trend| incident.recorded.is_some_and(|(capture, _)| trend.rests(capture));
        return trends.any(|trend| trend.steady && trend.last - trend.first >= more * GROWN && !rests(trend));
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
        if (site.kept_samples >= SAMPLES || summary.exact)
            && of_all >= ONE_PLACE
            && let Some(name) = name(analysis, site.place)
        {
            let text = format!(
                "{} of what was allocated while it was recorded and not given back, {}, was allocated in {name}{}",
                percent(of_all),
                bytes(site.kept as f64),
                callers(analysis, site)
            );
            let evidence = at(Reference::Function(site.place), text, Some(Value::Bytes(site.kept as f64)));
            return Some(Allocated { words: format!("allocated in {name}"), evidence });
        }
    }
    let (function, evidence) = touched(analysis)?;
    let name = name(analysis, function)?;
    Some(Allocated { words: format!("most of it first touched below {name}"), evidence })
}

/// Who called it, of the program, where most of it was allocated: programs have functions of their own around `malloc`, whose name says little.
fn callers(analysis: &Analysis, site: &AllocationSite) -> String {
    let above = site.stack.iter().skip_while(|function| **function != site.place).skip(1);
    let own = above
        .filter(|function| analysis.function(**function).is_some_and(|row| row.whose == Whose::Program))
        .filter_map(|function| name(analysis, *function));
    let own: Vec<String> = own.take(CALLERS).collect();
    if own.is_empty() { String::new() } else { format!(", called by {}", own.join(" ← ")) }
}

/// Who touches new pages first: as the finding on growth says, or, where there is too little growth for one, who does it for the most part.
fn touched(analysis: &Analysis) -> Option<(FunctionHandle, Evidence)> {
    let of_function = |evidence: &Evidence| match evidence.reference {
        Reference::Function(function) => Some((function, evidence.clone())),
        _ => None,
    };
    let growth = analysis.findings.iter().find(|finding| finding.id == FindingId::MemoryGrowth);
    if let Some(found) = growth.and_then(|growth| growth.evidence.iter().find_map(of_function)) {
        return Some(found);
    }
    let (evidence, name) = touched_by(analysis)?;
    of_function(&evidence).filter(|_| name.is_some())
}

fn name(analysis: &Analysis, function: FunctionHandle) -> Option<String> {
    analysis.function(function).map(|row| format!("`{}`", shorten(&row.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::HeapSummary;
    use crate::trace::allocations::AllocationSummary;
    use crate::trace::flame::{FlameKind, FlameNode};
    use crate::trace::function::{FunctionKind, FunctionRow};
    use biopsy_model::capture::Capture;
    use biopsy_model::heap::HeapFacts;
    use biopsy_model::{Nanos, Pid};

    fn with<T>(analysis: &Analysis, ask: impl Fn(&Incident<'_>) -> T) -> T {
        let facts = HeapFacts { pid: Pid(7), ..HeapFacts::default() };
        let heaps = [HeapSummary { facts, ..HeapSummary::default() }];
        let capture = Capture::default();
        ask(&Incident { recorded: Some((&capture, analysis)), heaps: &heaps, growth: None, footprints: &[] })
    }

    fn row(name: &str, whose: Whose) -> FunctionRow {
        FunctionRow {
            name: name.to_owned(),
            module: "depot".to_owned(),
            kind: FunctionKind::Native,
            named: true,
            whose,
            file: None,
            line: None,
            cpu_self: Nanos(0),
            cpu_total: Nanos(0),
            wait_self: Nanos(0),
            wait_total: Nanos(0),
        }
    }

    #[test]
    fn who_touches_new_pages_is_told_without_a_finding_on_growth() {
        // Milliseconds in page faults below each of the program's functions.
        for (errand, other, expected) in [(60, 40, Some("run_errand")), (30, 70, Some("other")), (0, 0, None)]
        {
            let fault = FunctionRow { kind: FunctionKind::Kernel, ..row("exc_page_fault", Whose::Plumbing) };
            let functions = vec![row("run_errand", Whose::Program), row("other", Whose::Program), fault];
            let node = |kind, milliseconds: u64, children: &[u32]| FlameNode {
                kind,
                total: Nanos(milliseconds * 1_000_000),
                own: Nanos(0),
                children: children.to_vec(),
            };
            let of = |number| FlameKind::Function(FunctionHandle(number));
            let nodes = vec![
                node(FlameKind::Root, 1000, &[1, 2]),
                node(of(0), 500, &[3]),
                node(of(1), 500, &[4]),
                node(of(2), errand, &[]),
                node(of(2), other, &[]),
            ];
            let mut analysis = Analysis { functions, ..Analysis::default() };
            analysis.flames.all.cpu.nodes = nodes;
            let words = with(&analysis, allocated).map(|found| found.words);
            let expected = expected.map(|name| format!("most of it first touched below `{name}`"));
            assert_eq!(words, expected, "{errand} {other}");
        }
    }

    #[test]
    fn little_growth_counts_where_it_is_steady_and_that_of_what_is_held() {
        // More memory, steady, of which process: 10 MB are held more.
        for (more, steady, key, expected) in [
            (3e6, true, "7 server", true),
            (2.9e6, true, "7 server", false),
            (5e6, false, "7 server", false),
            (5e6, true, "77 server", true),
        ] {
            let trend = Trend {
                table: "processes".to_owned(),
                column: "memory.anon".to_owned(),
                key: key.to_owned(),
                first: 1e6,
                last: 1e6 + more,
                per_minute: more,
                fit: 0.9,
                steady,
                growing: false,
            };
            let mut analysis = Analysis::default();
            analysis.metrics.trends.push(trend);
            // Of another process nothing is known here, and no footprints say anything.
            assert_eq!(
                with(&analysis, |incident| memory_grows(incident, 1e7)),
                expected,
                "{more} {steady} {key}"
            );
        }
    }

    #[test]
    fn who_called_the_place_is_told_and_no_library() {
        let functions = vec![
            row("malloc", Whose::Plumbing),
            row("checked_alloc", Whose::Program),
            row("qsort", Whose::Plumbing),
            row("store_crate", Whose::Program),
            row("main", Whose::Program),
        ];
        let site = AllocationSite {
            place: FunctionHandle(1),
            stack: (0..5).map(FunctionHandle).collect(),
            kept: 1000,
            kept_samples: 20,
            ..AllocationSite::default()
        };
        let summary = AllocationSummary { kept: 1000, sites: vec![site], ..AllocationSummary::default() };
        let analysis = Analysis { functions, allocations: Some(summary), ..Analysis::default() };
        let found = with(&analysis, allocated).expect("a place");
        assert_eq!(found.words, "allocated in `checked_alloc`");
        let text = found.evidence.text;
        assert!(
            text.ends_with("was allocated in `checked_alloc`, called by `store_crate` ← `main`"),
            "{text}"
        );
    }
}
