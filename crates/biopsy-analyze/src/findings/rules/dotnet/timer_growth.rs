//! Timers are started and never disposed.

use crate::findings::dotnet::{heard, of_process, timers};
use crate::findings::evidence::{at, fact};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::{Scene, touched_by};
use crate::runtimes::find_counter;
use crate::words::{number, percent, seconds};

/// More timers than this, and twice as many as at first, are not those of a server with more to do.
const TIMERS: f64 = 500.0;
/// With fewer readings a rise at each of them is chance.
const READINGS: usize = 4;

pub(crate) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let (heard, [first, last]) = heard(scene)
        .filter_map(|heard| {
            let counts = timers(heard.trace)?;
            Some((heard, counts))
        })
        .max_by(|a, b| (a.1[1] - a.1[0]).total_cmp(&(b.1[1] - b.1[0])))?;
    let readings = find_counter(heard.trace, "System.Runtime", "active-timer-count")?;
    let rises =
        readings.points.windows(2).all(|pair| pair[0].1 <= pair[1].1) && readings.points.len() >= READINGS;
    if last - first < TIMERS || !rises {
        return None;
    }
    let summary = heard.summary;
    let mut evidence = vec![fact(
        format!(
            "active timers rose at each of {} readings, from {} to {}",
            number(readings.points.len() as f64),
            number(first),
            number(last)
        ),
        Some(Value::Count(last - first)),
    )];
    let makes = |name: &str| {
        [
            "System.Threading.Timer.TimerSetup",
            "System.Threading.Timer (constructor)",
            "System.Threading.TimerQueueTimer",
            "System.Threading.TimerHolder",
        ]
        .iter()
        .any(|part| name.starts_with(part))
    };
    let maker = scene.caller_of(&scene.analysis.flames.all.cpu, |_, row| makes(&row.name));
    let mut by = String::new();
    if let Some((function, share)) = maker
        && let Some(name) = scene.function_name(Some(function))
    {
        let text = format!("{} of the CPU time in making timers is below {name}", percent(share));
        evidence.push(at(Reference::Function(function), text, Some(Value::Share(share))));
        by = format!("; made in {name}");
    } else if let Some((touched, Some(name))) = touched_by(scene.analysis) {
        evidence.push(touched);
        by = format!("; most new memory is first touched below {name}");
    }
    Some(Finding {
        id: FindingId::TimerGrowth,
        severity: Severity::Warning,
        impact: 1.0,
        title: format!(
            "Timers pile up: {} → {} in {}{by}{}",
            number(first),
            number(last),
            seconds(summary.seconds),
            of_process(scene, summary)
        ),
        explanation: "The runtime keeps each timer that is running, and all that its callback refers to: most likely timers, or tokens that \
                      cancel after a time, are made again and again and never disposed."
            .to_owned(),
        evidence,
        next_steps: vec![
            "Dispose timers and `CancellationTokenSource`s with the object they belong to".to_owned(),
            format!("`biopsy snapshot {}` shows what the timers keep", summary.pid),
        ],
    })
}
