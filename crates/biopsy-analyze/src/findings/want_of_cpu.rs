//! What several rules ask of threads that want a CPU.

use crate::findings::evidence::fact;
use crate::findings::finding::{Evidence, Value};
use crate::findings::scene::Scene;
use crate::metrics::series::Series;
use crate::words::percent;

/// Share of the periods in which the worst cgroup was throttled.
pub(super) fn throttled_share(scene: &Scene<'_>) -> f64 {
    scene.series("cgroups", "throttled.ratio").iter().map(Series::mean).fold(0.0, f64::max)
}

/// Share of the time in which threads wanted to run and could not.
pub(super) fn ready_share(scene: &Scene<'_>) -> Option<f64> {
    if !scene.analysis.threads.exact {
        return None;
    }
    let rows = &scene.analysis.threads.rows;
    let running: f64 = rows.iter().map(|row| row.running.as_secs_f64()).sum();
    let ready: f64 = rows.iter().map(|row| row.ready.as_secs_f64()).sum();
    (running + ready > 0.0).then(|| ready / (running + ready))
}

pub(super) fn ready_evidence(scene: &Scene<'_>) -> Option<Evidence> {
    let share = ready_share(scene).filter(|&share| share >= 0.05)?;
    Some(fact(
        format!("its threads were ready without a CPU for {} of the time they wanted to run", percent(share)),
        Some(Value::Share(share)),
    ))
}
