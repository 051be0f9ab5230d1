//! What is said of recordings that lack something.

use super::*;
use crate::recorded::analyze;
use crate::trace::made::{MS, Made};
use biopsy_model::capture::CaptureHeader;
use biopsy_model::log::{LogFile, LogLevel, LogLine};
use biopsy_model::look::Look;
use biopsy_model::metric::{Column, MetricRow, MetricTable, Unit};
use biopsy_model::timeline::{AllocationCount, Wait, WaitState};
use biopsy_model::{ClockPair, Pid, Tid};
use proptest::prelude::*;

fn clock(mono_ms: u64, wall_ms: u64) -> ClockPair {
    ClockPair {
        mono: MonoNanos(mono_ms * MS),
        wall_unix_nanos: i128::from(wall_ms * MS),
        ..ClockPair::default()
    }
}

/// Of ten seconds, with a timeline.
fn capture(timeline: Option<Timeline>) -> Capture {
    let header = CaptureHeader {
        start: clock(1_000, 1_000),
        end: Some(clock(11_000, 11_000)),
        ..CaptureHeader::default()
    };
    Capture { header, timeline, ..Capture::default() }
}

/// A trace that lacks nothing.
fn whole() -> Made {
    let mut made = Made::default();
    let (work, wait) = (made.stack(&["main", "work"]), made.stack(&["main", "k:do_poll"]));
    made.cpu(1, 2_000, 10, work).off_cpu(1, 10, wait);
    let settings = &mut made.timeline.settings;
    (settings.has_states, settings.has_wakeups, settings.has_kernel_stacks) = (true, true, true);
    settings.sampling_event = SamplingEvent::Cycles;
    made
}

fn metrics() -> MetricTable {
    let row = MetricRow { time: MonoNanos(2_000 * MS), keys: vec![], values: vec![Some(0.5)] };
    let column = Column { name: "cpu.busy".to_owned(), unit: Unit::Ratio };
    MetricTable { name: "system".to_owned(), keys: vec![], columns: vec![column], rows: vec![row] }
}

fn log() -> LogFile {
    let line = LogLine { time: None, level: LogLevel::Info, text: "started".to_owned() };
    LogFile {
        source: "app".to_owned(),
        member: String::new(),
        assumed_zone: String::new(),
        lines: vec![line],
    }
}

fn of(capture: &Capture) -> Completeness {
    analyze(capture).completeness
}

#[test]
fn of_a_whole_recording_nothing_is_undetermined() {
    let mut capture = capture(Some(whole().timeline));
    (capture.metrics, capture.logs) = (vec![metrics()], vec![log()]);
    let found = of(&capture);
    assert_eq!(found.undetermined, [""; 0]);
    assert!(found.has_trace && found.has_metrics && found.has_logs && !found.partial);
    assert_eq!((found.seconds, found.samples, found.sampled), (10.0, 1, Nanos(10 * MS)));
    assert_eq!((found.reaching_root, found.unnamed_frames), (Some(1.0), Some(0.0)));
    assert_eq!(found.named, NamedShares { managed: None, native: Some(1.0), kernel: None });
    // Tables without readings and logs without lines are none.
    capture.metrics[0].rows.clear();
    capture.logs[0].lines.clear();
    let found = of(&capture);
    assert!(!found.has_metrics && !found.has_logs);
    assert_eq!(found.undetermined.len(), 2, "{:?}", found.undetermined);
}

/// What is said, and what makes it so.
type Change<'a> = (&'a str, &'a dyn Fn(&mut Capture));

#[test]
fn each_thing_that_is_missing_is_said_once() {
    let changes: &[Change<'_>] = &[
        ("what happened at the end", &|capture| capture.header.end = None),
        ("which code used the CPU", &|capture| capture.timeline = None),
        ("how long threads waited", &|capture| settings(capture).has_states = false),
        ("which thread woke which", &|capture| settings(capture).has_wakeups = false),
        ("in which functions threads waited", &|capture| timeline(capture).wait_samples.clear()),
        ("with interrupts off", &|capture| settings(capture).sampling_event = SamplingEvent::CpuClock),
        ("where CPU time went", &|capture| timeline(capture).samples.clear()),
        ("whether CPU, memory, disk", &|capture| capture.metrics.clear()),
        ("what the process itself logged", &|capture| capture.logs.clear()),
        ("names of 50 % of the frames: no symbols for server;", &|capture| {
            timeline(capture).symbols[1] = None
        }),
        ("callers of 100 % of the samples", &|capture| {
            timeline(capture).samples[0].end = StackEnd::Truncated
        }),
        ("process 8: no symbols of it", &|capture| {
            let undetermined = vec!["no symbols of it".to_owned()];
            let name = "shop".to_owned();
            let (time, pause) = (MonoNanos(5), Nanos(1));
            let (threads, operations, findings) = (1, None, Vec::new());
            capture.looks.push(Look {
                pid: Pid(8),
                name,
                time,
                pause,
                threads,
                operations,
                findings,
                undetermined,
            });
        }),
    ];
    for (words, change) in changes {
        let mut capture = capture(Some(whole().timeline));
        (capture.metrics, capture.logs) = (vec![metrics()], vec![log()]);
        change(&mut capture);
        let found = of(&capture).undetermined;
        assert_eq!(found.len(), 1, "{words}: {found:?}");
        assert!(found[0].contains(words), "{words}: {found:?}");
    }
}

fn timeline(capture: &mut Capture) -> &mut Timeline {
    capture.timeline.as_mut().expect("a trace")
}

fn settings(capture: &mut Capture) -> &mut biopsy_model::timeline::TraceSettings {
    &mut timeline(capture).settings
}

#[test]
fn without_kernel_frames_that_is_said_unless_there_are_some() {
    let mut made = whole();
    made.timeline.settings.has_kernel_stacks = false;
    let said = |made: &Made| {
        of(&capture(Some(made.timeline.clone())))
            .undetermined
            .iter()
            .any(|text| text.contains("kernel frames"))
    };
    assert!(!said(&made), "one is there");
    made.timeline.frames.retain(|frame| frame.space == FrameSpace::User);
    assert!(said(&made));
}

#[test]
fn a_threshold_of_waits_is_written_as_people_write_it() {
    for (nanos, words) in [
        (0, None),
        (1_000_000, Some("1 ms")),
        (9_000, Some("0.009 ms")),
        (1_001_000_000, Some("1001 ms")),
        (1_500_000, Some("1.5 ms")),
        (21_000, Some("0.021 ms")),
    ] {
        let mut made = whole();
        made.timeline.settings.wait_threshold = Nanos(nanos);
        let said = |made: &Made| {
            let all = of(&capture(Some(made.timeline.clone()))).undetermined;
            all.into_iter().find(|text| text.contains("single waits"))
        };
        assert_eq!(said(&made), None, "there are none");
        let (start, end) = (MonoNanos(0), MonoNanos(5));
        let (tid, state) = (Tid(1), WaitState::Sleep);
        let wait = Wait { tid, start, end, ready: None, waker: None, state, syscall: None, stack: None };
        made.timeline.waits.push(wait);
        let expected =
            words.map(|words| format!("single waits shorter than {words}: only their sums were recorded"));
        assert_eq!(said(&made), expected, "{nanos} ns");
    }
}

#[test]
fn names_that_are_missing_are_weighed_by_samples() {
    let mut made = Made::default();
    let stacks = [
        made.stack(&["main", "libz.so!", "?"]),
        made.stack(&["main", "jit!Shop.Run", "jit!"]),
        made.stack(&["main", "k:read"]),
    ];
    for (stack, times) in stacks.iter().zip([3, 1, 4]) {
        for at in 0..times {
            made.cpu(1, 2_000 + at, 1, *stack);
        }
    }
    let found = of(&capture(Some(made.timeline)));
    // Frames: 8 main, 3 of libz and 3 outside, 2 compiled, 4 of the kernel.
    assert_eq!(found.unnamed_frames, Some(7.0 / 20.0));
    let expected = NamedShares { managed: Some(0.5), native: Some(8.0 / 14.0), kernel: Some(1.0) };
    assert_eq!(found.named, expected);
    let modules: Vec<_> = found.unnamed_modules.iter().map(|(name, share)| (name.as_str(), *share)).collect();
    assert_eq!(modules, [("libz.so", 0.15), ("outside all modules", 0.15), ("jit", 0.05)]);
    let said = "names of 35 % of the frames: no symbols for libz.so, outside all modules, jit;";
    assert!(found.undetermined.iter().any(|text| text.starts_with(said)), "{:?}", found.undetermined);
}

#[test]
fn a_clock_that_was_set_is_told_from_one_that_drifts() {
    // Milliseconds by the monotonic and by the wall clock.
    for (mono, wall, step) in [
        (10_000, 10_000, 0.0),
        (10_000, 10_025, 0.0),
        (10_000, 10_026, 26.0),
        (10_000, 9_974, -26.0),
        (10_000, 9_975, 0.0),
        (3_600_000, 3_601_800, 0.0),
        (3_600_000, 3_601_900, 1_900.0),
        (10_000, 3_610_000, 3_600_000.0),
    ] {
        let mut capture = capture(None);
        capture.header.start = clock(50_000, 7_000_000);
        capture.header.end = Some(clock(50_000 + mono, 7_000_000 + wall));
        assert_eq!(of(&capture).clock_step_ms, step, "{mono} and {wall}");
        capture.header.end = None;
        assert_eq!(of(&capture).clock_step_ms, 0.0);
    }
    let mut hostile = capture(None);
    hostile.header.start.wall_unix_nanos = i128::MIN;
    hostile.header.end = Some(ClockPair { wall_unix_nanos: i128::MAX, ..ClockPair::default() });
    assert!(of(&hostile).clock_step_ms > 0.0);
}

fn loss(kind: LossKind, from: u64, to: u64, count: u64) -> Loss {
    Loss { kind, from: MonoNanos(from), to: MonoNanos(to), count, pid: None, tid: None }
}

#[test]
fn what_was_lost_is_a_share_of_what_there_was() {
    let mut made = Made::default();
    for at in 0..6 {
        made.cpu(1, at, 1, None);
    }
    made.timeline.losses = vec![
        loss(LossKind::StacksSkipped, 0, 9, 3),
        loss(LossKind::Samples, 30, 40, 1),
        loss(LossKind::Samples, 0, 10, 1),
        loss(LossKind::Waits, 0, 10, 4),
        loss(LossKind::Throttled, 5, 3, 0),
    ];
    let told: Vec<_> =
        losses(&made.timeline).into_iter().map(|row| (row.kind, row.count, row.time.0, row.share)).collect();
    assert_eq!(
        told,
        [
            (LossKind::Samples, 2, 20, Some(0.25)),
            (LossKind::Waits, 4, 10, Some(1.0)),
            (LossKind::Throttled, 0, 0, None),
            // Samples that were kept, without their stacks.
            (LossKind::StacksSkipped, 3, 9, Some(0.5)),
        ]
    );
    made.timeline.losses = vec![loss(LossKind::Samples, 0, 1, u64::MAX), loss(LossKind::Samples, 0, 1, 9)];
    assert_eq!(losses(&made.timeline)[0].count, u64::MAX);
    made.timeline.samples.clear();
    made.timeline.losses = vec![loss(LossKind::StacksSkipped, 0, 1, 9)];
    assert_eq!(losses(&made.timeline)[0].share, Some(0.0), "of nothing there is no part");
}

#[test]
fn switches_that_nobody_watched_are_told_by_their_share_of_the_time() {
    // The ends of what was not watched, in thousandths of ten seconds.
    for (gaps, told) in [
        (&[(0, 4_000), (5_000, 9_000)][..], Some("80 %")),
        // Overlaps count once.
        (&[(0, 4_000), (2_000, 6_000)], Some("60 %")),
        (&[(0, 100)], Some("1 %")),
        (&[(0, 99)], None),
        (&[], None),
    ] {
        let mut made = Made::default();
        made.timeline.settings.wait_threshold = Nanos(10_000_000);
        let milli = 1_000_000;
        made.timeline.span = Some((MonoNanos(0), MonoNanos(10_000 * milli)));
        made.timeline.losses =
            gaps.iter().map(|&(from, to)| loss(LossKind::Switches, from * milli, to * milli, 0)).collect();
        let found = of(&capture(Some(made.timeline)));
        let lines: Vec<_> =
            found.undetermined.iter().filter(|text| text.contains("watched in turns")).collect();
        assert_eq!(lines.len(), usize::from(told.is_some()), "{lines:?}");
        assert!(told.is_none_or(|share| lines[0].contains(&format!("in {share} of the time"))), "{lines:?}");
        let total = found.losses.iter().find(|row| row.kind == LossKind::Switches);
        assert!(total.is_none_or(|row| row.count == 0 && row.share.is_none()));
    }
}

#[test]
fn what_a_program_maps_by_itself_is_not_counted_and_that_is_said() {
    let count = AllocationCount {
        time: MonoNanos(5),
        pid: Pid(7),
        stack: None,
        calls: 1,
        bytes: 16,
        released: 0,
        released_bytes: 0,
        temporary: 0,
        peak: 16,
    };
    for (allocation_counts, told) in [(vec![], 0), (vec![count], 1)] {
        let found = of(&capture(Some(Timeline { allocation_counts, ..Timeline::default() })));
        assert_eq!(found.undetermined.iter().filter(|text| text.contains("`mmap`")).count(), told);
    }
}

proptest! {
    #[test]
    fn the_time_of_losses_counts_each_nanosecond_once(
        intervals in prop::collection::vec((0_u64..200, 0_u64..200), 0..20),
    ) {
        let losses = intervals.iter().map(|(from, to)| loss(LossKind::Waits, *from, *to, 1)).collect();
        let totals = super::losses(&Timeline { losses, ..Timeline::default() });
        let lost = |at: &u64| intervals.iter().any(|(from, to)| (from..to).contains(&at));
        let time: u64 = totals.iter().map(|total| total.time.0).sum();
        prop_assert_eq!(time, (0..200).filter(lost).count() as u64);
    }
}
