//! Where a process switches very often, whoever records it for days watches its switches in turns, and says so.

#![allow(clippy::disallowed_methods, reason = "tests read files of proc")]

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use biopsy_model::loss::LossKind;
use biopsy_model::timeline::{StateSlice, Timeline, Wait};
use biopsy_model::{MonoNanos, Pid, Tid};
use biopsy_record::trace::{self, Destination, TraceOptions};
use biopsy_recording::Limits;
use biopsy_recording::timeline::{Ring, RingLimits};
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, machine_to_myself, require_all};

const MILLISECOND: u64 = 1_000_000;
const NAP: u64 = 700 * MILLISECOND;

/// What is kept of a process after some time.
fn record(pid: u32, time: Duration) -> Timeline {
    let ring = Arc::new(Mutex::new(Ring::new(RingLimits::default()).unwrap()));
    let options = TraceOptions {
        pids: vec![Pid(pid)],
        frequency_hz: Some(49),
        wait_threshold: Duration::from_millis(10),
        wait_period: Some(Duration::from_millis(200)),
        wakeups: false,
        ..TraceOptions::default()
    };
    let handle = trace::start(&options, Destination::Ring(Arc::clone(&ring)), None).unwrap();
    std::thread::sleep(time);
    assert_eq!(handle.stop().cut_short, None);
    let recent = ring.lock().unwrap().recent(MonoNanos(0)).unwrap();
    let bytes = recent.write(MonoNanos(0), MonoNanos(u64::MAX)).unwrap();
    let (timeline, mut warnings) =
        biopsy_recording::timeline::read(bytes.as_slice(), &Limits::default()).unwrap();
    // Of libraries without symbols on this machine.
    warnings.retain(|warning| warning.code != "trace.symbols");
    assert_eq!(warnings, []);
    timeline
}

fn tid_of(timeline: &Timeline, name: &str) -> Tid {
    timeline.threads.iter().find(|life| life.info.name == name).unwrap().info.tid
}

/// When switches were not watched.
fn unwatched(timeline: &Timeline) -> Vec<(u64, u64)> {
    let losses = timeline.losses.iter().filter(|loss| loss.kind == LossKind::Switches);
    losses.map(|loss| (loss.from.0, loss.to.0)).collect()
}

fn naps(timeline: &Timeline) -> Vec<Wait> {
    let tid = tid_of(timeline, "naps");
    timeline.waits.iter().filter(|wait| wait.tid == tid).copied().collect()
}

#[test]
fn many_switches_are_watched_in_turns_and_nothing_is_claimed_that_was_not_seen() {
    if !require_all(&[Privilege::Cc, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::SwitchStorm, &["0", "700"]);
    let survival = Survival::before(target.pid());
    let timeline = record(target.pid(), Duration::from_secs(10));
    let switches_by_proc = switches(target.pid(), tid_of(&timeline, "ping"));
    survival.assert_unharmed();
    target.stop();

    let gaps = unwatched(&timeline);
    assert!(gaps.len() >= 2, "{gaps:?}");
    assert!(gaps.iter().all(|(from, to)| from < to));
    assert!(gaps.windows(2).all(|pair| pair[0].1 < pair[1].0), "they are watched in between: {gaps:?}");
    let without: u64 = gaps.iter().map(|(from, to)| to - from).sum();
    let (from, to) = (gaps[0].0, gaps[gaps.len() - 1].1);
    assert!(without * 2 > to - from, "for the larger part they are not: {gaps:?}");

    // Times and counts are whole all the same: one slice begins where the other ends.
    let mut by_thread: HashMap<Tid, Vec<StateSlice>> = HashMap::new();
    for slice in &timeline.states {
        by_thread.entry(slice.tid).or_default().push(*slice);
    }
    let ping = &by_thread[&tid_of(&timeline, "ping")];
    for pair in ping.windows(2) {
        // The programs, and then the scheduler, are asked at two moments.
        let hole = pair[1].from.0.abs_diff(pair[0].to.0);
        assert!(hole < 50 * MILLISECOND, "{pair:?}");
    }
    for slice in ping {
        let (length, sum) = (slice.to.since(slice.from).0, slice.running.0 + slice.ready.0 + slice.waiting.0);
        assert!(sum.abs_diff(length) <= length / 10 + 20 * MILLISECOND, "{slice:?}");
    }
    let counted: u64 =
        ping.iter().map(|slice| u64::from(slice.voluntary) + u64::from(slice.involuntary)).sum();
    assert!(counted <= switches_by_proc, "{counted} of {switches_by_proc}");
    assert!(counted * 10 >= switches_by_proc * 5, "{counted} of {switches_by_proc}");

    // Waits that reach over what was not watched are told, and none longer than it was.
    let naps = naps(&timeline);
    assert!(naps.len() >= 5, "{naps:?}");
    for nap in &naps {
        let length = nap.end.since(nap.start).0;
        assert!((150 * MILLISECOND..NAP * 3).contains(&length), "{nap:?}");
        assert!(nap.syscall.is_some_and(|call| [35, 230].contains(&call)), "{nap:?}");
    }
    assert!(naps.windows(2).all(|pair| pair[0].end <= pair[1].start), "each is told once: {naps:?}");
    let slept: u64 = naps.iter().map(|nap| nap.end.since(nap.start).0).sum();
    assert!(slept * 3 > (to - from), "{slept} of {}", to - from);
    let tid = tid_of(&timeline, "naps");
    let looks: Vec<_> = timeline.wait_samples.iter().filter(|look| look.tid == tid).collect();
    let weight: u64 = looks.iter().map(|look| look.weight.0).sum();
    assert!(weight * 2 > to - from, "{weight} of {}", to - from);
    assert!(looks.iter().any(|look| look.stack.is_some()), "{looks:?}");
}

#[test]
fn few_switches_are_all_watched_again() {
    if !require_all(&[Privilege::Cc, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::SwitchStorm, &["5000", "700"]);
    let timeline = record(target.pid(), Duration::from_secs(16));
    target.stop();
    let gaps = unwatched(&timeline);
    let Some(&(_, end)) = gaps.last() else { panic!("it was never taken in turns") };
    // The programs know when a nap began and ended.
    let whole: Vec<_> = naps(&timeline).into_iter().filter(|nap| nap.start.0 > end).collect();
    assert!(!whole.is_empty(), "{end}: {:?}", naps(&timeline));
    for nap in whole {
        assert!(nap.end.since(nap.start).0 >= NAP, "{nap:?}");
    }
}

#[test]
fn who_switches_seldom_is_watched_all_the_time() {
    if !require_all(&[Privilege::Cc, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::ManyThreads, &[]);
    let timeline = record(target.pid(), Duration::from_secs(5));
    target.stop();
    assert_eq!(unwatched(&timeline), []);
}

/// All switches of a thread in its life.
fn switches(pid: u32, tid: Tid) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{}/status", tid.0)).unwrap();
    text.lines()
        .filter_map(|line| line.split_once("voluntary_ctxt_switches:"))
        .map(|(_, count)| count.trim().parse::<u64>().unwrap())
        .sum()
}
