//! Much time lost in switching between threads.

use crate::findings::evidence::{at, fact, grade, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Value};
use crate::findings::scene::Scene;
use crate::findings::spent::on;
use crate::trace::cost_names::Cost;
use crate::trace::function::{FunctionKind, FunctionRow};
use crate::words::{number, percent};

/// Context switches a second and core in use from which on switching costs noticeably: at 2 to 5 µs each, 20,000 are
/// 4 to 10 % of a core.
const SWITCHES: f64 = 20_000.0;
/// Share of the CPU time in the scheduler: a quarter is worth a word, whatever the rate; from the second on it is what the process does.
const SCHEDULER: f64 = 0.25;
const SHARE: [f64; 3] = [f64::INFINITY, 0.3, 0.0];
/// Cores in use below which it harms nobody.
const LEAST_CORES: f64 = 0.2;
/// Fewer switches a second are no storm, whatever samples show.
const LEAST_RATE: f64 = 2_000.0;
/// Share of the CPU time below calls that yield, from which on that is what they do.
const BUSY_WAIT: f64 = 0.5;
const YIELDS: &[(Cost, &str)] =
    &[(Cost::Yielding, "yielding: giving the CPU back and asking again at once, a busy wait")];
/// Share of the switching that is on behalf of one function, from which on it is named.
const NAMED: f64 = 0.4;
/// What switching is put below in call trees.
const SCHEDULING: &str = "kernel: scheduling";

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let used = scene.cores?;
    let rows = &scene.analysis.threads.rows;
    let switches: u64 = rows.iter().map(|row| row.voluntary + row.involuntary).sum();
    let rate = switches as f64 / scene.seconds;
    // Who is pushed off a CPU, or spins and gives it away for a moment (`sched_yield`), hands no work to anybody: on a busy
    // machine that is thousands a second.
    let own = rows.iter().map(|row| row.voluntary).sum::<u64>() as f64 / scene.seconds;
    let counted = if scene.analysis.threads.exact { own } else { rate };
    let share = if scene.sampled > 0.0 { scene.facts.scheduling.as_secs_f64() / scene.sampled } else { 0.0 };
    if used < LEAST_CORES
        || (counted < SWITCHES * used.max(0.5) && share < SCHEDULER)
        || (scene.analysis.threads.exact && rate < LEAST_RATE)
    {
        return None;
    }
    let severity = grade(share, SHARE)?;
    let yields = on(scene, YIELDS).filter(|spent| spent.share >= BUSY_WAIT);
    let tree = &scene.analysis.flames.all.cpu;
    let is_switch = |_, row: &FunctionRow| row.kind == FunctionKind::Heading && row.name == SCHEDULING;
    let place = yields.as_ref().and_then(|spent| spent.place);
    let place = place.or_else(|| Some(scene.caller_of(tree, is_switch).filter(|(_, of)| *of >= NAMED)?.0));
    let in_place = scene.function_name(place).map_or(String::new(), |name| format!(" in {name}"));
    let busiest = rows.iter().max_by_key(|row| (row.voluntary + row.involuntary, std::cmp::Reverse(row.tid)));
    let mut evidence = Vec::new();
    evidence.extend(yields.as_ref().and_then(|spent| spent.evidence.first().cloned()));
    if rate > 0.0 {
        evidence
            .push(fact(format!("{} context switches a second", number(rate)), Some(Value::PerSecond(rate))));
        if scene.analysis.threads.exact && own < rate * 0.5 {
            evidence.push(fact(
                format!(
                    "{} of them against the will of the thread, or because it spins and yields",
                    percent(1.0 - own / rate)
                ),
                None,
            ));
        }
    }
    evidence.push(fact(
        format!("{} of the CPU time is in the kernel's scheduler", percent(share)),
        Some(Value::Share(share)),
    ));
    if let Some(row) = busiest.filter(|row| row.voluntary + row.involuntary > 0) {
        let own = (row.voluntary + row.involuntary) as f64 / scene.seconds;
        evidence.push(at(
            Reference::Thread(row.tid),
            format!("the most has {}: {} a second", scene.thread_name(row.tid), number(own)),
            Some(Value::PerSecond(own)),
        ));
    }
    let waits = scene.analysis.waits.functions.iter().find(|row| row.function.is_some());
    if let Some((row, name)) = waits.and_then(|row| Some((row, scene.function_name(row.function)?))) {
        evidence.push(at(
            row.function.map_or(Reference::Recording, Reference::WaitFunction),
            format!("they wait most in {name}, for {}", row.reason.words()),
            Some(Value::Time(row.time)),
        ));
    }
    let cost = if share > 0.0 {
        format!("; switching takes {} of its CPU time", percent(share))
    } else {
        String::new()
    };
    Some(Finding {
        id: FindingId::SwitchStorm,
        severity,
        impact: share.max(0.05),
        title: match &yields {
            Some(_) => format!(
                "Busy waiting{in_place}: threads of {} yield in a loop and switch {} times a second{cost}",
                scene.name,
                number(rate)
            ),
            None => format!("Threads of {} switch {} times a second{in_place}{cost}", scene.name, number(rate)),
        },
        explanation: match yields {
            Some(_) => "They look again and again whether something has happened, and give the CPU back for a moment in between: that is \
                        no sleep, so they use all CPUs that nobody else wants. Waiting for the event itself (a condition, a semaphore) \
                        costs nothing.",
            None => "Most likely threads hand very small pieces of work to each other, or take turns at a lock for very short \
                      times. Each switch costs microseconds and cold caches. On a virtual machine it costs more.",
        }
        .to_owned(),
        evidence,
        next_steps: steps(&[
            "See under `activated by` which threads wake each other",
            "Hand over larger pieces of work, or use fewer threads",
        ]),
    })
}
