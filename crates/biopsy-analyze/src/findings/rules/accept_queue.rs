//! Connections are not accepted in time.

use crate::findings::evidence::{at, metric, steps};
use crate::findings::finding::{Finding, FindingId, Severity, Value};
use crate::findings::scene::Scene;

/// Connections turned away a second, and in all: one by chance is none.
const RATE: f64 = 0.1;
const LEAST: f64 = 2.0;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let overflows = scene.system("tcp.listen.overflows")?;
    let lost = overflows.mean() * scene.seconds;
    if overflows.mean() < RATE || lost < LEAST {
        return None;
    }
    Some(Finding {
        id: FindingId::AcceptQueue,
        severity: Severity::Warning,
        impact: 0.3,
        title: "New connections are turned away: a listening socket's queue overflows".to_owned(),
        explanation: "Some process in the target's network namespace accepts connections too slowly, or its backlog is too \
                      short. The counter belongs to the whole namespace, so it need not be the target."
            .to_owned(),
        evidence: vec![at(
            metric("system", "tcp.listen.overflows", ""),
            format!("{:.1} overflows a second on average", overflows.mean()),
            Some(Value::PerSecond(overflows.mean())),
        )],
        next_steps: steps(&["Compare `ss -ltn` (Recv-Q against Send-Q) and raise the backlog, or accept faster"]),
    })
}
