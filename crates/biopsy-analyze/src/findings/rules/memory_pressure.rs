//! Memory pressure: reclaim, swap, major faults, limits. Each sign is found by itself; the worst one gives the severity.

use crate::findings::evidence::{at, fact, grade, metric, process_of_key, steps};
use crate::findings::finding::{Evidence, Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::metrics::series::Series;
use crate::trace::waits::WaitReason;
use crate::words::{bytes, number, percent};

/// Share of the time in which some task was stalled: a machine with room stays below 1 %, and what users notice begins with some
/// per cent.
const STALLED: [f64; 3] = [0.3, 0.08, 0.03];
/// Bytes a second to and from swap: what a disk does beside its work, and what it can just about do.
const SWAPPED: [f64; 3] = [50e6, 2e6, 0.5e6];
/// Major faults a second. Each waits for a disk, 0.1 to 10 ms; programs that start make hundreds for a moment.
const MAJOR_FAULTS: [f64; 3] = [2_000.0, 200.0, 50.0];
/// Times a second that a cgroup meets its limit.
const LIMIT_MET: [f64; 3] = [100.0, 5.0, 0.5];
/// Share of the time that one thread waits for pages.
const WAITED: [f64; 3] = [0.4, 0.15, 0.05];
/// Impact of what is no share of the time: swap and faults, a limit that is met, a process that was killed.
const SWAP_IMPACT: f64 = 0.2;
const LIMIT_IMPACT: f64 = 0.3;
const KILL_IMPACT: f64 = 0.9;

/// Share of the time that a thread waits for pages, below which it hardly does; and how much is said of what others wait for.
const HARDLY: f64 = 0.01;
const OF_OTHERS: f64 = 0.2;

/// One sign of it.
struct Sign {
    severity: Severity,
    impact: f64,
    evidence: Evidence,
    /// It is of the whole machine, whoever on it.
    of_machine: bool,
}

fn sign(value: f64, thresholds: [f64; 3], impact: f64, evidence: Evidence) -> Option<Sign> {
    let of_machine = matches!(&evidence.reference, Reference::Metric { table, .. } if table == "system");
    Some(Sign { severity: grade(value, thresholds)?, impact, evidence, of_machine })
}

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let signs: Vec<Sign> = stalls(scene)
        .into_iter()
        .chain(swap(scene))
        .chain(major_faults(scene))
        .chain(limits(scene))
        .chain(kills(scene))
        .chain(waits(scene))
        .collect();
    let severity = signs.iter().map(|sign| sign.severity).max()?;
    let impact = signs.iter().map(|sign| sign.impact).fold(0.0, f64::max);
    // Others of the machine are stalled; of this process it is known what it waits for, and it is not memory.
    let of_others = signs.iter().all(|sign| sign.of_machine) && hardly_waits(scene);
    Some(Finding {
        id: FindingId::MemoryPressure,
        severity: if of_others { severity.min(Severity::Notice) } else { severity },
        impact: if of_others { impact * OF_OTHERS } else { impact },
        title: if of_others {
            format!("Memory of the machine is short; {} itself was hardly seen to wait for it", scene.name)
        } else {
            format!("Memory is short: {} waits for pages to be freed or read back", scene.name)
        },
        explanation: "The kernel has to free memory before it can give any out, or reads back from disk what it had to give up. \
                      Most likely there is too little memory for what runs here, or a limit is too low. It shows as disk \
                      traffic and slowness everywhere; the code that waits is not at fault."
            .to_owned(),
        evidence: signs.into_iter().map(|sign| sign.evidence).collect(),
        next_steps: steps(&[
            "See in the memory charts who holds the memory, and whether it grows",
            "Raise the limit or the machine's memory, or move something away",
        ]),
    })
}

/// What its threads wait for was recorded, and memory is next to nothing of it.
fn hardly_waits(scene: &Scene<'_>) -> bool {
    let waits = scene.thread_waits(|reason| reason == WaitReason::Memory);
    !scene.facts.waits.by_thread.is_empty() && waits.iter().all(|wait| wait.share < HARDLY)
}

/// The kernel's own account of tasks that stood still for want of memory.
fn stalls(scene: &Scene<'_>) -> Vec<Sign> {
    const COLUMN: &str = "pressure.memory.some";
    let machine = scene.system(COLUMN).map(|series| ("system", "of the machine".to_owned(), series));
    let groups = scene.series("cgroups", COLUMN).into_iter();
    let groups = groups.map(|series| ("cgroups", format!("of cgroup `{}`", series.key), series));
    let all = machine.into_iter().chain(groups);
    all.filter_map(|(table, of, series)| {
        let share = series.mean();
        let text = format!("some task {of} was stalled for want of memory {} of the time", percent(share));
        sign(share, STALLED, share, at(metric(table, COLUMN, &series.key), text, Some(Value::Share(share))))
    })
    .collect()
}

fn swap(scene: &Scene<'_>) -> Vec<Sign> {
    let both = [("swap.in", "read back from swap"), ("swap.out", "written to swap")];
    let each = both.into_iter().filter_map(|(column, words)| {
        let rate = scene.system(column)?.mean();
        let text = format!("{} a second are {words}", bytes(rate));
        sign(rate, SWAPPED, SWAP_IMPACT, at(metric("system", column, ""), text, Some(Value::Bytes(rate))))
    });
    each.collect()
}

fn major_faults(scene: &Scene<'_>) -> Option<Sign> {
    let faults = worst_of(scene.series("processes", "faults.major"))?;
    let rate = faults.mean();
    let text = format!(
        "{} major page faults a second in {}: pages had to be read from disk",
        number(rate),
        process_of_key(&faults.key)
    );
    let place = metric("processes", "faults.major", &faults.key);
    sign(rate, MAJOR_FAULTS, SWAP_IMPACT, at(place, text, Some(Value::PerSecond(rate))))
}

fn limits(scene: &Scene<'_>) -> Vec<Sign> {
    let both = [
        ("memory.events.max", "hit its memory limit"),
        ("memory.events.high", "was slowed at `memory.high`"),
    ];
    let each = both.into_iter().filter_map(|(column, words)| {
        let series = worst_of(scene.series("cgroups", column))?;
        let rate = series.mean();
        let text = format!("cgroup `{}` {words} {} times a second", series.key, number(rate));
        let place = metric("cgroups", column, &series.key);
        sign(rate, LIMIT_MET, LIMIT_IMPACT, at(place, text, Some(Value::PerSecond(rate))))
    });
    each.collect()
}

fn kills(scene: &Scene<'_>) -> Option<Sign> {
    let counts = scene.series("cgroups", "memory.events.oom-kill");
    counts.iter().any(|count| count.max() > 0.0).then(|| Sign {
        severity: Severity::Critical,
        impact: KILL_IMPACT,
        of_machine: false,
        evidence: fact("the kernel killed a process of the cgroup for want of memory", None),
    })
}

/// The thread that waits most for pages.
fn waits(scene: &Scene<'_>) -> Option<Sign> {
    let waits = scene.thread_waits(|reason| reason == WaitReason::Memory);
    let wait = waits.first()?;
    let text = format!("{} waits {} of the time for pages", scene.thread_name(wait.tid), percent(wait.share));
    let place = wait.function.map_or(Reference::Thread(wait.tid), Reference::WaitFunction);
    sign(wait.share, WAITED, wait.share, at(place, text, Some(Value::Share(wait.share))))
}

fn worst_of(all: Vec<Series>) -> Option<Series> {
    all.into_iter().max_by(|a, b| a.mean().total_cmp(&b.mean()))
}
