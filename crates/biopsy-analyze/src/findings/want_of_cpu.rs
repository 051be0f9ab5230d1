//! What several rules ask of threads that want a CPU.

use crate::findings::evidence::fact;
use crate::findings::finding::{Evidence, Value};
use crate::findings::scene::Scene;
use crate::metrics::series::Series;
use crate::trace::threads::ThreadRow;
use crate::words::percent;

/// Share of the machine's CPUs below which some are left at any time.
const USED_UP: f64 = 0.8;
/// CPUs below which a process hardly wants any.
const LEAST_USED: f64 = 0.05;
/// From this share of its periods on, the target's own quota may be why threads are ready and do not run.
pub(super) const THROTTLED: f64 = 0.05;
/// Seconds from being woken to running, on average, below which nobody was in the way: a CPU that sleeps needs a tenth of it, and who runs
/// before one has several of them.
const MOMENT: f64 = 1e-3;

impl Scene<'_> {
    /// CPUs that it uses, or would use if it got them: on a machine that others use up, what it gets says little about what it does.
    /// Only who is kept from the CPU for most of the time that it wants one is taken for more than it got.
    pub(crate) fn wanted_cores(&self) -> Option<f64> {
        let used = self.cores?;
        if !self.analysis.threads.exact || used < LEAST_USED || has_cpus_left(self) {
            return Some(used);
        }
        let rows = self.analysis.threads.rows.iter();
        let wanting = rows.filter(|row| row.running.as_secs_f64() >= LEAST_USED / 5.0 * self.seconds);
        let ready: f64 = wanting.map(|row| row.ready.as_secs_f64()).sum::<f64>() / self.seconds;
        Some(if ready >= used { (used + ready).min(self.cpus) } else { used })
    }
}

/// The machine had CPUs for whoever wanted one, and no quota kept the process from them: threads of it that are ready at the same moments
/// wait for each other, or for a CPU to wake up.
fn has_cpus_left(scene: &Scene<'_>) -> bool {
    let are_left = scene.machine_cores().is_some_and(|busy| busy < scene.cpus * USED_UP);
    are_left && throttled_share(scene) < THROTTLED
}

/// Seconds for which a thread was kept from the CPU: by others, by a quota, or because it is bound to CPUs that are full while others are
/// free (of which nothing is recorded, so that only the length of its waits tells).
pub(super) fn kept_seconds(scene: &Scene<'_>, row: &ThreadRow) -> f64 {
    let ready = row.ready.as_secs_f64();
    let times = (row.voluntary + row.involuntary).max(1);
    if has_cpus_left(scene) && ready / (times as f64) < MOMENT { 0.0 } else { ready }
}

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
