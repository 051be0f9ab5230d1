//! Where nothing is wrong: what the process does. One of four findings, or none.

use crate::findings::evidence::{at, fact, metric, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::trace::waits::WaitReason;
use crate::words::{cores, cpus, percent};

/// Below this many cores a process does nothing worth mentioning.
const IDLE_CORES: f64 = 0.1;

/// The last word: idle, or busy without a bottleneck. Nothing where something is most likely wrong.
///
/// `held_back`: something that was found holds it back; `room`: nothing that was found says what it does.
pub(crate) fn find(scene: &Scene<'_>, held_back: bool, room: bool) -> Option<Finding> {
    match scene.cores {
        None if !scene.analysis.completeness.has_metrics
            && scene.capture.timeline.is_none()
            && scene.capture.runtimes.is_empty() =>
        {
            Some(nothing_recorded())
        }
        None => None,
        Some(used) if used < IDLE_CORES && !held_back => Some(idle(scene, used)),
        Some(used) if room => Some(moderate(scene, used)),
        Some(_) => None,
    }
}

fn nothing_recorded() -> Finding {
    Finding {
        id: FindingId::NothingRecorded,
        severity: Severity::Notice,
        impact: 1.0,
        title: "The recording holds neither a trace nor metrics, so there is nothing to conclude from"
            .to_owned(),
        explanation: "See what could not be determined, and the warnings of the recorder.".to_owned(),
        evidence: vec![fact("no samples, no thread states, no readings", None)],
        next_steps: steps(&["Run `biopsy doctor` to see what can be recorded here, and record again"]),
    }
}

fn idle(scene: &Scene<'_>, used: f64) -> Finding {
    let mut evidence = vec![fact(format!("{} used on average", cores(used)), Some(Value::Cores(used)))];
    let waits = &scene.analysis.waits;
    let all: f64 = waits.reasons.iter().map(|row| row.time.as_secs_f64()).sum();
    for row in waits.reasons.iter().take(3).filter(|_| all > 0.0) {
        let share = row.time.as_secs_f64() / all;
        let call = row.syscalls.first().map_or(String::new(), |(name, _)| format!(", mostly in `{name}`"));
        evidence.push(fact(
            format!("{} of the waiting is for {}{call}", percent(share), row.reason.words()),
            Some(Value::Share(share)),
        ));
    }
    let place = waits.functions.iter().find(|row| row.function.is_some());
    if let Some((row, name)) = place.and_then(|row| Some((row, scene.function_name(row.function)?))) {
        evidence.push(at(
            row.function.map_or(Reference::Recording, Reference::WaitFunction),
            format!("most waiting is in {name}"),
            Some(Value::Time(row.time)),
        ));
    }
    let for_what = waits.reasons.first().map_or(String::new(), |row| match row.reason {
        WaitReason::Unknown | WaitReason::Other => String::new(),
        reason => format!(", waiting for {}", reason.words()),
    });
    let unknown: f64 = waits
        .reasons
        .iter()
        .filter(|row| row.reason == WaitReason::Unknown)
        .map(|row| row.time.as_secs_f64())
        .sum();
    if all <= 0.0 || unknown > all / 2.0 {
        return Finding {
            id: FindingId::LittleCpu,
            severity: Severity::Info,
            impact: 1.0 - used,
            title: format!("{} uses little CPU ({}); what its threads waited for was not recorded", scene.name, cores(used)),
            explanation: "It may be idle, or held back by locks, disks or another program: system calls and stacks of waiting \
                          threads would tell."
                .to_owned(),
            evidence,
            next_steps: steps(&["Record with biopsy and enough privileges for wait stacks: `biopsy doctor` says which"]),
        };
    }
    Finding {
        id: FindingId::Idle,
        severity: Severity::Info,
        impact: 1.0 - used,
        title: format!("Mostly idle: {} uses {}{for_what}", scene.name, cores(used)),
        explanation: "Nothing in the recording holds the process back. If it was slow at the time, then most likely it was not \
                      asked to do anything, the problem was elsewhere, or it was not there during the recording."
            .to_owned(),
        evidence,
        next_steps: with_memory(scene, "Record while the problem is there, and record the processes that talk to this one"),
    }
}

/// What a recording of time cannot show: what is in memory, and operations that wait without a thread.
fn with_memory(scene: &Scene<'_>, first: &str) -> Vec<String> {
    let mut next = steps(&[first]);
    if scene.analysis.runtimes.iter().any(|runtime| runtime.seconds > 0.5) {
        let pid = scene.pid();
        next.push(if scene.capture.looks.is_empty() {
            format!(
                "If something does not get on: `biopsy stacks {pid}` (or `--stacks`, when the recording ends) shows asynchronous \
                 operations that wait without a thread; if memory grows: `biopsy snapshot {pid}`"
            )
        } else {
            format!("If memory grows: `biopsy snapshot {pid}`; what waited when the recording ended is in `stacks/`")
        });
    }
    next
}

fn moderate(scene: &Scene<'_>, used: f64) -> Finding {
    let of = if scene.knows_cpus { format!(", of {}", cpus(scene.cpus)) } else { String::new() };
    let mut evidence = vec![fact(format!("{} used on average{of}", cores(used)), Some(Value::Cores(used)))];
    if let Some(row) = scene.analysis.threads.rows.first().filter(|_| scene.tells_threads) {
        let share = row.running.as_secs_f64() / scene.seconds;
        evidence.push(at(
            Reference::Thread(row.tid),
            format!("the busiest, {}, runs {} of the time", scene.thread_name(row.tid), percent(share)),
            Some(Value::Share(share)),
        ));
    }
    if let Some(busy) = scene.system("cpu.busy") {
        evidence.push(at(
            metric("system", "cpu.busy", ""),
            format!("the machine's CPUs are {} busy", percent(busy.mean())),
            Some(Value::Share(busy.mean())),
        ));
    }
    let timeline = scene.capture.timeline.as_ref();
    let saw_waits = timeline.is_none_or(|timeline| {
        timeline.settings.has_states || !timeline.wait_samples.is_empty() || !timeline.waits.is_empty()
    });
    Finding {
        id: FindingId::NoBottleneck,
        severity: Severity::Info,
        impact: 0.1,
        title: if saw_waits {
            format!(
                "No bottleneck stands out: {} uses {} and waits for nothing in particular",
                scene.name,
                cores(used)
            )
        } else {
            format!(
                "No bottleneck stands out: {} uses {}; what it waited for was not recorded",
                scene.name,
                cores(used)
            )
        },
        explanation: if saw_waits {
            "CPU, locks, disks, memory and quotas were all within bounds in this recording.".to_owned()
        } else {
            "The CPU was within bounds. Locks, disks and memory may not have been: thread states or stacks of waiting threads would tell."
                .to_owned()
        },
        evidence,
        next_steps: with_memory(scene, "Compare with a recording from when the problem is there"),
    }
}
