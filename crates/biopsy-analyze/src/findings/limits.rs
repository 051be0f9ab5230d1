//! CPU that is there but not for the target: cgroup quota, other processes, the hypervisor.

use super::grade;
use super::scene::{Scene, at, fact, metric, steps};
use super::words::{cores, number, percent};
use crate::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::series::Series;

/// The cgroup's CPU quota is used up again and again.
pub(super) fn throttled(scene: &Scene<'_>) -> Option<Finding> {
    let ratios = scene.series("cgroups", "throttled.ratio");
    let worst = ratios.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))?;
    let share = worst.mean().min(1.0);
    let severity = grade(share, 0.25, 0.05, 0.01)?;
    let of_key =
        |column: &str| scene.series("cgroups", column).into_iter().find(|series| series.key == worst.key);
    let quota = of_key("cpu.quota").map(|quota| quota.mean()).filter(|quota| *quota > 0.0);
    let mut evidence = vec![at(
        metric("cgroups", "throttled.ratio", &worst.key),
        format!("cgroup `{}` was throttled in {} of its periods", worst.key, percent(share)),
        Some(Value::Share(share)),
    )];
    if let Some(quota) = quota {
        evidence.push(at(
            metric("cgroups", "cpu.quota", &worst.key),
            format!("its quota is {}", cores(quota)),
            Some(Value::Cores(quota)),
        ));
    }
    if let Some(usage) = of_key("cpu.usage") {
        evidence.push(at(
            metric("cgroups", "cpu.usage", &worst.key),
            format!("it used {}", cores(usage.mean())),
            Some(Value::Cores(usage.mean())),
        ));
    }
    evidence.extend(ready_evidence(scene));
    evidence.extend(machine_evidence(scene));
    let mut explanation = "The kernel stops all threads of the cgroup until the next period, usually for tens of milliseconds, \
                           whatever they are doing. Most likely the quota is too small for the load. Other findings about \
                           slowness may be consequences of this one."
        .to_owned();
    if scene.system("cpu.busy").is_some_and(|busy| busy.mean() < 0.9) {
        explanation.push_str(" The machine's own CPUs are not what is short.");
    }
    let limit = quota.map_or(String::new(), |quota| format!(" of {}", cores(quota)));
    Some(Finding {
        id: FindingId::CgroupThrottled,
        severity,
        impact: share,
        title: format!(
            "Throttled by its cgroup: the CPU quota{limit} runs out in {} of the periods",
            percent(share)
        ),
        explanation,
        evidence,
        next_steps: steps(&[
            "Raise the quota (`cpu.max`, `CPUQuota=` of systemd, `--cpus` or `limits.cpu` of a container), or use fewer threads",
            "If the quota is meant, see the CPU flame graph for what uses it",
        ]),
    })
}

/// Share of the periods in which the worst cgroup was throttled.
fn throttled_share(scene: &Scene<'_>) -> f64 {
    scene.series("cgroups", "throttled.ratio").iter().map(Series::mean).fold(0.0, f64::max)
}

/// Share of the time in which threads wanted to run and could not.
fn ready_share(scene: &Scene<'_>) -> Option<f64> {
    if !scene.analysis.threads.exact {
        return None;
    }
    let rows = &scene.analysis.threads.rows;
    let running: f64 = rows.iter().map(|row| row.running.as_secs_f64()).sum();
    let ready: f64 = rows.iter().map(|row| row.ready.as_secs_f64()).sum();
    (running + ready > 0.0).then(|| ready / (running + ready))
}

fn ready_evidence(scene: &Scene<'_>) -> Option<Evidence> {
    let share = ready_share(scene).filter(|&share| share >= 0.05)?;
    Some(fact(
        format!("its threads were ready without a CPU for {} of the time they wanted to run", percent(share)),
        Some(Value::Share(share)),
    ))
}

fn machine_evidence(scene: &Scene<'_>) -> Option<Evidence> {
    let busy = scene.system("cpu.busy")?.mean();
    Some(at(
        metric("system", "cpu.busy", ""),
        format!("the CPUs of the machine are {} busy", percent(busy)),
        Some(Value::Share(busy)),
    ))
}

/// Other processes use the CPUs up.
pub(super) fn others_saturate(scene: &Scene<'_>) -> Option<Finding> {
    let used = scene.cores?;
    let busy = scene.system("cpu.busy")?.mean();
    let others = (busy * scene.cpus - used).max(0.0);
    let ready = ready_share(scene);
    // Busy CPUs harm nobody who hardly wants one: some thread must have been kept waiting for much of the time.
    let rows = &scene.analysis.threads.rows;
    let worst = rows.iter().max_by_key(|row| (row.ready, std::cmp::Reverse(row.tid)));
    let kept_waiting = worst.map_or(0.0, |row| row.ready.as_secs_f64() / scene.seconds);
    let unharmed = scene.analysis.threads.exact && ready.is_none_or(|share| share < 0.1);
    if busy < 0.9 || others < used || unharmed {
        return None;
    }
    let severity = match ready {
        // Threads that the quota stops count as ready too, so nobody else need be the reason.
        Some(_) if throttled_share(scene) >= 0.05 => Severity::Notice,
        Some(_) => grade(kept_waiting, 0.5, 0.2, 0.1)?,
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
    if let Some(row) = worst.filter(|_| kept_waiting >= 0.1) {
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
            format!("{} threads want to run at a time, on {} CPUs", number(load.mean()), scene.cpus),
            Some(Value::Count(load.mean())),
        ));
    }
    Some(Finding {
        id: FindingId::CpuSaturatedByOthers,
        severity,
        impact: if ready.is_some() { kept_waiting } else { 0.3 },
        title: format!("Other processes use up the CPUs ({}); {} has to wait for its turn", cores(others), scene.name),
        explanation: "Most likely the machine is too small for everything that runs on it, or something else runs wild. The \
                      code of the target is not what takes the time."
            .to_owned(),
        evidence,
        next_steps: steps(&["See with `biopsy ps` or `top` which processes use the CPUs, and move or limit them"]),
    })
}

/// The hypervisor gives CPUs to other machines.
pub(super) fn steal(scene: &Scene<'_>) -> Option<Finding> {
    let steal: Series = scene.system("cpu.steal")?;
    let share = steal.mean() / scene.cpus;
    let severity = grade(share, f64::INFINITY, 0.15, 0.05)?;
    Some(Finding {
        id: FindingId::CpuSteal,
        severity,
        impact: share,
        title: format!("The hypervisor takes {} of the CPUs away", percent(share)),
        explanation: "This virtual machine shares its host with others that are busy, or has used up its credit. Inside the \
                      machine nothing can be done about it."
            .to_owned(),
        evidence: vec![at(
            metric("system", "cpu.steal", ""),
            format!("{} stolen on average, of {} CPUs", cores(steal.mean()), scene.cpus),
            Some(Value::Cores(steal.mean())),
        )],
        next_steps: steps(&["Move the machine to another host or a larger class, or ask the operator of the host"]),
    })
}
