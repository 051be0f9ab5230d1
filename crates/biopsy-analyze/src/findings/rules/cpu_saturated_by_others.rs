//! Other processes use the CPUs up.

use crate::findings::evidence::{at, fact, grade, metric, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::findings::want_of_cpu::{THROTTLED, ready_evidence, ready_share, throttled_share};
use crate::words::{cores, cpus, number, percent};

/// The CPUs have no room left: the scheduler keeps some per cent for itself.
const SATURATED: f64 = 0.9;
/// Share of the time that one thread was ready without a CPU: a tenth is noticed, half doubles what the thread needs.
const KEPT_WAITING: [f64; 3] = [0.5, 0.2, 0.1];
/// Below this share of all time that threads wanted to run, nobody was harmed.
const HARMED: f64 = 0.1;
/// Impact where what it costs is not known.
const UNKNOWN_IMPACT: f64 = 0.3;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let used = scene.cores?;
    let busy = scene.system("cpu.busy")?.mean();
    let others = (busy * scene.cpus - used).max(0.0);
    let ready = ready_share(scene);
    // Busy CPUs harm nobody who hardly wants one: some thread must have been kept waiting for much of the time.
    let rows = &scene.analysis.threads.rows;
    let worst = rows.iter().max_by_key(|row| (row.ready, std::cmp::Reverse(row.tid)));
    let kept_waiting = worst.map_or(0.0, |row| row.ready.as_secs_f64() / scene.seconds);
    let unharmed = scene.analysis.threads.exact && ready.is_none_or(|share| share < HARMED);
    if busy < SATURATED || others < used || unharmed {
        return None;
    }
    let severity = match ready {
        // Threads that the quota stops count as ready too, so nobody else need be the reason.
        Some(_) if throttled_share(scene) >= THROTTLED => Severity::Notice,
        Some(_) => grade(kept_waiting, KEPT_WAITING)?,
        None => Severity::Notice,
    };
    let mut evidence = vec![
        at(
            metric("system", "cpu.busy", ""),
            format!("the CPUs are {} busy", percent(busy)),
            Some(Value::Share(busy)),
        ),
        fact(
            format!("{} uses {}, other processes {}", scene.name, cores(used), cores(others)),
            Some(Value::Cores(others)),
        ),
    ];
    evidence.extend(ready_evidence(scene));
    if let Some(row) = worst.filter(|_| kept_waiting >= KEPT_WAITING[2]) {
        evidence.push(at(
            Reference::Thread(row.tid),
            format!(
                "{} was ready without a CPU {} of the time",
                scene.thread_name(row.tid),
                percent(kept_waiting)
            ),
            Some(Value::Share(kept_waiting)),
        ));
    }
    if let Some(load) = scene.system("processes.running").filter(|load| load.mean() > scene.cpus) {
        evidence.push(at(
            metric("system", "processes.running", ""),
            format!("{} threads want to run at a time, on {}", number(load.mean()), cpus(scene.cpus)),
            Some(Value::Count(load.mean())),
        ));
    }
    Some(Finding {
        id: FindingId::CpuSaturatedByOthers,
        severity,
        impact: if ready.is_some() { kept_waiting } else { UNKNOWN_IMPACT },
        title: format!("Other processes use up the CPUs ({}); {} has to wait for its turn", cores(others), scene.name),
        explanation: "Most likely the machine is too small for everything that runs on it, or something else runs wild. The \
                      code of the target is not what takes the time."
            .to_owned(),
        evidence,
        next_steps: steps(&["See with `biopsy ps` or `top` which processes use the CPUs, and move or limit them"]),
    })
}
