//! Where the memory was allocated that is in use, of a profile that knows no time.

use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::words::{bytes, percent};

/// Share of it that one place is named from.
const ONE_PLACE: f64 = 0.25;
/// Frames of the stack that are told.
const FRAMES: usize = 8;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    // What was watched over time is told by who keeps it: `kept_allocations`.
    let summary = scene.analysis.allocations.as_ref().filter(|summary| !summary.is_over_time())?;
    let site = summary.sites.first()?;
    let name = scene.function_name(Some(site.place))?;
    let part = site.kept as f64 / summary.kept.max(1) as f64;
    let all = bytes(summary.kept as f64);
    let text = format!("{} of the {all} in use were allocated in {name}", bytes(site.kept as f64));
    let mut evidence = vec![at(Reference::Function(site.place), text, Some(Value::Bytes(site.kept as f64)))];
    let stack: Vec<String> =
        site.stack.iter().take(FRAMES).filter_map(|function| scene.function_name(Some(*function))).collect();
    evidence.push(fact(format!("the stack with most of it: {}", stack.join(" ← ")), None));
    let went = summary.allocated.saturating_sub(summary.kept);
    if went > 0 {
        evidence.push(fact(
            format!("{} more were allocated and are not in use any more", bytes(went as f64)),
            None,
        ));
    }
    Some(Finding {
        id: FindingId::MemoryInUse,
        severity: Severity::Info,
        impact: part.clamp(0.0, 1.0),
        title: if part >= ONE_PLACE {
            format!("{} of the memory in use ({all}) was allocated in {name}", percent(part))
        } else {
            format!("No one place allocated most of the memory in use ({all}); the first is {name} with {}", percent(part))
        },
        explanation: "That is where it came from, at one moment. Whether it becomes more, and who holds it, the profile does not say: memory that \
                      a program needs looks the same."
            .to_owned(),
        evidence,
        next_steps: steps(&["Take another profile later: what has become more in it is what grows"]),
    })
}
