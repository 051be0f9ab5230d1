//! The hypervisor gives CPUs to other machines.

use crate::findings::evidence::{at, grade, metric, steps};
use crate::findings::finding::{Finding, FindingId, Value};
use crate::findings::scene::Scene;
use crate::metrics::series::Series;
use crate::words::{cores, cpus, percent};

/// Share of the CPUs that the hypervisor takes: some per cent are usual where machines share a host.
const SHARE: [f64; 3] = [f64::INFINITY, 0.15, 0.05];

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let steal: Series = scene.system("cpu.steal")?;
    let share = (steal.mean() / scene.cpus).min(1.0);
    let severity = grade(share, SHARE)?;
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
            format!("{} stolen on average, of {}", cores(share * scene.cpus), cpus(scene.cpus)),
            Some(Value::Cores(share * scene.cpus)),
        )],
        next_steps: steps(&["Move the machine to another host or a larger class, or ask the operator of the host"]),
    })
}
