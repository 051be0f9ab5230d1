//! Memory pressure: reclaim, swap, major faults, limits.

use crate::findings::evidence::{at, fact, grade, metric, steps};
use crate::findings::finding::{Evidence, Finding, Reference, Severity, Value};
use crate::findings::ids::FindingId;
use crate::findings::scene::Scene;
use crate::metrics::series::Series;
use crate::trace::waits::WaitReason;
use crate::words::{bytes, number, percent};

/// Memory is short, and threads wait for it.
pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let mut evidence: Vec<Evidence> = Vec::new();
    let mut worst: Option<(Severity, f64)> = None;
    let mut note = |severity: Option<Severity>, impact: f64, found: Evidence| {
        if let Some(severity) = severity {
            evidence.push(found);
            worst = Some(worst.map_or((severity, impact), |(s, i)| (s.max(severity), i.max(impact))));
        }
    };
    let some = scene.system("pressure.memory.some").map(|series| ("system", series));
    let groups =
        scene.series("cgroups", "pressure.memory.some").into_iter().map(|series| ("cgroups", series));
    for (table, series) in some.into_iter().chain(groups) {
        let share = series.mean();
        let of = if table == "system" {
            "of the machine".to_owned()
        } else {
            format!("of cgroup `{}`", series.key)
        };
        note(
            grade(share, 0.3, 0.08, 0.03),
            share,
            at(
                metric(table, "pressure.memory.some", &series.key),
                format!("some task {of} was stalled for want of memory {} of the time", percent(share)),
                Some(Value::Share(share)),
            ),
        );
    }
    for (column, words) in [("swap.in", "read back from swap"), ("swap.out", "written to swap")] {
        if let Some(rate) = scene.system(column).map(|series| series.mean()) {
            note(
                grade(rate, 50e6, 2e6, 0.5e6),
                0.2,
                at(
                    metric("system", column, ""),
                    format!("{} a second are {words}", bytes(rate)),
                    Some(Value::Bytes(rate)),
                ),
            );
        }
    }
    if let Some(faults) = worst_of(scene.series("processes", "faults.major")) {
        let rate = faults.mean();
        note(
            grade(rate, 2_000.0, 200.0, 50.0),
            0.2,
            at(
                metric("processes", "faults.major", &faults.key),
                format!(
                    "{} major page faults a second in process {}: pages had to be read from disk",
                    number(rate),
                    faults.key
                ),
                Some(Value::PerSecond(rate)),
            ),
        );
    }
    for (column, words) in
        [("memory.events.max", "hit its memory limit"), ("memory.events.high", "was slowed at `memory.high`")]
    {
        if let Some(series) = worst_of(scene.series("cgroups", column)).filter(|series| series.mean() >= 0.5)
        {
            note(
                grade(series.mean(), 100.0, 5.0, 0.5),
                0.3,
                at(
                    metric("cgroups", column, &series.key),
                    format!("cgroup `{}` {words} {} times a second", series.key, number(series.mean())),
                    Some(Value::PerSecond(series.mean())),
                ),
            );
        }
    }
    let kills: f64 =
        scene.series("cgroups", "memory.events.oom-kill").iter().map(Series::max).fold(0.0, f64::max);
    if kills > 0.0 {
        note(
            Some(Severity::Critical),
            0.9,
            fact("the kernel killed a process of the cgroup for want of memory", None),
        );
    }
    if let Some(wait) = scene.thread_waits(|reason| reason == WaitReason::Memory).first() {
        note(
            grade(wait.share, 0.4, 0.15, 0.05),
            wait.share,
            at(
                wait.function.map_or(Reference::Thread(wait.tid), Reference::WaitFunction),
                format!(
                    "{} waits {} of the time for pages",
                    scene.thread_name(wait.tid),
                    percent(wait.share)
                ),
                Some(Value::Share(wait.share)),
            ),
        );
    }
    let (severity, impact) = worst?;
    Some(Finding {
        id: FindingId::MemoryPressure,
        severity,
        impact,
        title: format!("Memory is short: {} waits for pages to be freed or read back", scene.name),
        explanation: "The kernel has to free memory before it can give any out, or reads back from disk what it had to give up. \
                      Most likely there is too little memory for what runs here, or a limit is too low. It shows as disk \
                      traffic and slowness everywhere; the code that waits is not at fault."
            .to_owned(),
        evidence,
        next_steps: steps(&[
            "See in the memory charts who holds the memory, and whether it grows",
            "Raise the limit or the machine's memory, or move something away",
        ]),
    })
}

fn worst_of(all: Vec<Series>) -> Option<Series> {
    all.into_iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))
}
