//! A chart of what a program that counted each of its allocations had at a time.

use super::charts::{Chart, Charts, Line};
use super::numbers::round;
use super::readings::POINTS;
use crate::assemble::Assembly;
use crate::units::to_f64;
use biopsy_model::MonoNanos;

/// Puts it before the other charts. One moment is no chart.
pub(super) fn add(assembly: &Assembly<'_>, charts: &mut Charts) {
    let Some(summary) = assembly.analysis.allocations.as_ref().filter(|summary| summary.live.len() > 1)
    else {
        return;
    };
    let (points, merged) = points(&summary.live);
    charts.grids.push(points.iter().map(|(time, _)| (assembly.at(*time) * 1e3).round()).collect());
    let line = Line {
        label: "live".to_owned(),
        grid: charts.grids.len() - 1,
        values: points.iter().map(|(_, bytes)| Some(round(to_f64(*bytes)))).collect(),
        role: "memory",
        source: ("allocations".to_owned(), vec!["live".to_owned()], String::new()),
    };
    let chart = Chart {
        id: "allocations-live",
        title: "Live native allocations".to_owned(),
        unit: "bytes",
        about: "bytes that the program had allocated and not given back, as it counted them itself"
            .to_owned(),
        stacked: false,
        ceiling: None,
        lines: vec![line],
        merged,
    };
    charts.charts.insert(0, chart);
}

/// Of as many neighbours as one point stands for, the one with most bytes: a short peak is what somebody looks for.
fn points(live: &[(MonoNanos, u64)]) -> (Vec<(MonoNanos, u64)>, usize) {
    let merged = live.len().div_ceil(POINTS).max(1);
    let points = live.chunks(merged).filter_map(|part| part.iter().max_by_key(|(_, bytes)| *bytes).copied());
    (points.collect(), merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_not_lost_among_many_moments() {
        let live: Vec<_> =
            (0..5_000).map(|at| (MonoNanos(at), if at == 3_333 { 9_000 } else { at })).collect();
        let (points, merged) = points(&live);
        assert_eq!((merged, points.len()), (9, 556));
        assert!(points.contains(&(MonoNanos(3_333), 9_000)) && points.is_sorted_by_key(|(time, _)| *time));
    }
}
