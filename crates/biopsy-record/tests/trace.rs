//! Each way of tracing, on real processes: the hot function is found, states are told, and the target is unharmed.

#![allow(clippy::disallowed_methods, reason = "tests open what they wrote, and files of proc")]

use std::time::Duration;

use biopsy_model::Pid;
use biopsy_model::timeline::Timeline;
use biopsy_record::trace::{self, Method, TraceOptions, TraceSummary};
use biopsy_recording::{Limits, RecordingFolder, layout};
use biopsy_testkit::{Privilege, Program, Survival, TargetProcess, machine_to_myself, require_all, temp_dir};

/// Records a process for a while, by one method.
fn record(pid: u32, method: Method, time: Duration) -> (Timeline, TraceSummary) {
    let options = TraceOptions { pids: vec![Pid(pid)], method: Some(method), ..TraceOptions::default() };
    record_with(&options, time)
}

fn record_with(options: &TraceOptions, time: Duration) -> (Timeline, TraceSummary) {
    let parent = temp_dir("trace");
    let folder = RecordingFolder::create(parent.path().join("recording")).unwrap();
    let handle = trace::start(options, folder.create_member(layout::TIMELINE).unwrap(), None).unwrap();
    std::thread::sleep(time);
    let summary = handle.stop();
    let file = std::fs::File::open(folder.path().join(layout::TIMELINE)).unwrap();
    let (timeline, warnings) = biopsy_recording::timeline::read(file, &Limits::default()).unwrap();
    assert_eq!(warnings, [], "the timeline is whole");
    (timeline, summary)
}

/// Share of the samples whose stack holds a function.
fn share(timeline: &Timeline, function: &str) -> f64 {
    let named = |frame: biopsy_model::stack::FrameHandle| {
        let symbols = timeline.symbols[frame.0 as usize].as_ref();
        symbols.is_some_and(|symbols| symbols.functions.iter().any(|known| known.name == function))
    };
    let holding =
        timeline.samples.iter().filter(|sample| timeline.frames_of(sample.stack).any(named)).count();
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let share = holding as f64 / timeline.samples.len().max(1) as f64;
    share
}

fn finds_the_hot_function(method: Method) {
    if !require_all(&[Privilege::Cc, Privilege::Perf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::HotFunction, &[]);
    let survival = Survival::before(target.pid());
    let (timeline, summary) = record(target.pid(), method, Duration::from_secs(2));
    survival.assert_unharmed();
    target.stop();
    assert_eq!(summary.method, method.recorded());
    assert_eq!(timeline.settings.method, method.recorded());
    assert!(timeline.samples.len() > 50, "{} samples", timeline.samples.len());
    let hot = share(&timeline, "compute_checksum_bit_by_bit");
    assert!(hot > 0.8, "{hot} of the samples are in the hot function");
    let running: u64 = timeline.states.iter().map(|slice| slice.running.0).sum();
    assert!(running > 100_000_000, "{running} ns running");
}

#[test]
fn by_programs_in_the_kernel() {
    if require_all(&[Privilege::Bpf]) {
        finds_the_hot_function(Method::Bpf);
    }
}

#[test]
fn by_events_of_each_cpu() {
    finds_the_hot_function(Method::PerCpu);
}

#[test]
fn by_events_of_each_thread() {
    finds_the_hot_function(Method::PerTask);
}

#[test]
fn by_events_without_the_kernel() {
    finds_the_hot_function(Method::UserOnly);
}

/// Whatever the method: shorter waits are in the sums alone, and the recording says the threshold that was used.
#[test]
fn only_waits_as_long_as_was_asked_for_are_written_one_by_one() {
    if !require_all(&[Privilege::Cc, Privilege::Perf]) {
        return;
    }
    let threshold = Duration::from_millis(30);
    for method in [Method::PerCpu, Method::UserOnly] {
        let mut target = TargetProcess::start(Program::LockConvoy, &[]);
        let survival = Survival::before(target.pid());
        let options = TraceOptions {
            pids: vec![Pid(target.pid())],
            method: Some(method),
            wait_threshold: threshold,
            ..TraceOptions::default()
        };
        let (timeline, _) = record_with(&options, Duration::from_secs(2));
        survival.assert_unharmed();
        target.stop();
        let nanos = u64::try_from(threshold.as_nanos()).unwrap();
        assert_eq!(timeline.settings.wait_threshold.0, nanos, "{method:?}");
        let short = timeline.waits.iter().filter(|wait| wait.end.since(wait.start).0 < nanos).count();
        assert_eq!(short, 0, "{method:?}: of {}", timeline.waits.len());
        let switches: u64 = timeline.states.iter().map(|slice| u64::from(slice.voluntary)).sum();
        assert!(switches > timeline.waits.len() as u64, "{method:?}: {switches}");
    }
}

#[test]
fn a_convoy_shows_who_waits_where_and_who_woke_them() {
    if !require_all(&[Privilege::Cc, Privilege::Bpf]) {
        return;
    }
    let _machine = machine_to_myself();
    let mut target = TargetProcess::start(Program::LockConvoy, &[]);
    let survival = Survival::before(target.pid());
    let (timeline, _) = record(target.pid(), Method::Bpf, Duration::from_secs(3));
    survival.assert_unharmed();
    target.stop();
    let named = |frame: biopsy_model::stack::FrameHandle| {
        let symbols = timeline.symbols[frame.0 as usize].as_ref();
        symbols.is_some_and(|symbols| symbols.functions.iter().any(|known| known.name == "append_under_lock"))
    };
    let waited: u64 = timeline.wait_samples.iter().map(|sample| sample.weight.0).sum();
    let in_function: u64 = timeline
        .wait_samples
        .iter()
        .filter(|sample| timeline.frames_of(sample.stack).any(named))
        .map(|sample| sample.weight.0)
        .sum();
    assert!(in_function * 2 > waited, "{in_function} of {waited} ns of waiting are in the function");
    let own: Vec<_> = timeline.threads.iter().map(|thread| thread.info.tid).collect();
    let by_each_other = timeline.waits.iter().filter(|wait| wait.waker.is_some_and(|tid| own.contains(&tid)));
    assert!(by_each_other.count() > 20, "the threads wake each other");
}
