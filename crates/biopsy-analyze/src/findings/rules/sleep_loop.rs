//! Sleeping in a loop.

use crate::findings::evidence::{at, fact, steps};
use crate::findings::finding::{Finding, FindingId, Reference, Severity, Value};
use crate::findings::scene::Scene;
use crate::managed_names::is_runtime_thread;
use crate::trace::waits::WaitReason;
use crate::words::{percent, seconds};

/// Sleeps a second and thread from which on a sleep is part of the work. Timers of healthy programs are slower: whoever sleeps 50 ms and
/// more keeps a pace.
const OFTEN: f64 = 20.0;
/// Share of the time that a thread sleeps.
const SHARE: f64 = 0.5;
/// Share of the time that it waits for something else, or runs, from which on it does something between its sleeps.
const WORKS: f64 = 0.1;
const RUNS: f64 = 0.25;

pub(super) fn find(scene: &Scene<'_>) -> Option<Finding> {
    let waits = scene.thread_waits(|reason| reason == WaitReason::Sleep);
    let often = |count: u64| count as f64 / scene.seconds >= OFTEN;
    let is_timer = |name: &str| {
        ["sysmon", "runtime.", "timer", "Timer", "watchdog"].iter().any(|part| name.contains(part))
    };
    // Who works, or waits for others, between its sleeps keeps a pace.
    let works = scene.thread_waits(|reason| {
        matches!(reason, WaitReason::Disk | WaitReason::Peer | WaitReason::Child | WaitReason::Lock)
    });
    let works = |tid| {
        let waits = works.iter().find(|wait| wait.tid == tid).map_or(0.0, |wait| wait.share);
        let runs = scene.thread(tid).map_or(0.0, |row| row.running.as_secs_f64() / scene.seconds);
        waits >= WORKS || runs >= RUNS
    };
    let worst = waits.iter().find(|wait| {
        let row = wait.function.and_then(|function| scene.row(function));
        // The runtime hands on its events ten times a second while somebody listens, which is what we do.
        let of_runtime = scene.thread(wait.tid).is_some_and(|row| is_runtime_thread(&row.name));
        !of_runtime
            && !works(wait.tid)
            && wait.share >= SHARE
            && often(wait.count)
            && !row.is_some_and(|row| is_timer(&row.name))
    })?;
    let alike = waits.iter().filter(|wait| wait.share >= SHARE && wait.function == worst.function).count();
    let place = scene.function_name(worst.function);
    let in_place = place.map_or(String::new(), |place| format!(" in {place}"));
    let rate = worst.count as f64 / scene.seconds;
    let mean = worst.share * scene.seconds / (worst.count as f64);
    let mut evidence = vec![at(
        worst.function.map_or(Reference::Thread(worst.tid), Reference::WaitFunction),
        format!(
            "{} sleeps {} of the time, at least {rate:.0} times a second, {} each",
            scene.thread_name(worst.tid),
            percent(worst.share),
            seconds(mean)
        ),
        Some(Value::Share(worst.share)),
    )];
    if alike > 1 {
        evidence
            .push(fact(format!("{alike} threads sleep at the same place"), Some(Value::Count(alike as f64))));
    }
    Some(Finding {
        id: FindingId::SleepLoop,
        severity: Severity::Notice,
        // It costs its own thread's time, and says little beside a cause.
        impact: worst.share * 0.1,
        title: format!("Sleeping in a loop{in_place}: {} of the time, {rate:.0} times a second", percent(worst.share)),
        explanation: "Most likely the program looks again and again whether something has happened. Each look comes late by up \
                      to the length of the sleep, which adds to response times; waiting for the event itself does not. A \
                      deliberate pace (a rate limit, a timer) looks the same and is fine."
            .to_owned(),
        evidence,
        next_steps: steps(&["See what the function waits for, and whether it can be told instead of looking"]),
    })
}
