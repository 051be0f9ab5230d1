//! The cgroup's CPU quota is used up again and again.

use crate::findings::evidence::{at, grade, metric, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Value};
use crate::findings::scene::Scene;
use crate::findings::want_of_cpu::ready_evidence;
use crate::words::{cores, percent};

/// Share of the periods (of 100 ms, mostly) in which the quota ran out: each such one stops all threads for the rest of it, so from one in
/// twenty on response times show it.
const SHARE: [f64; 3] = [0.25, 0.05, 0.01];
/// The machine has CPUs to spare below this.
const BUSY: f64 = 0.9;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let ratios = scene.series("cgroups", "throttled.ratio");
    let worst = ratios.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))?;
    let share = worst.mean().min(1.0);
    let severity = grade(share, SHARE)?;
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
    if scene.system("cpu.busy").is_some_and(|busy| busy.mean() < BUSY) {
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

fn machine_evidence(scene: &Scene<'_>) -> Option<Evidence> {
    let busy = scene.system("cpu.busy")?.mean();
    Some(at(
        metric("system", "cpu.busy", ""),
        format!("the CPUs of the machine are {} busy", percent(busy)),
        Some(Value::Share(busy)),
    ))
}
