//! The last minutes of a timeline.

use super::super::{Ring, RingLimits, Shift};
use super::*;

const SECOND: u64 = 1_000_000_000;

fn limits(seconds: u64) -> RingLimits {
    RingLimits { age_nanos: seconds * SECOND, ..RingLimits::default() }
}

fn exit(time: u64, tid: u32) -> TimelineEvent {
    TimelineEvent::ThreadExit { time: MonoNanos(time), tid: Tid(tid), pid: Pid(1) }
}

fn read_ring(ring: &mut Ring, from: u64, until: u64) -> Timeline {
    let (from, until) = (MonoNanos(from * SECOND), MonoNanos(until * SECOND));
    let bytes = ring.recent(from).unwrap().write(from, until).unwrap();
    let (timeline, warnings) = read(bytes.as_slice(), &Limits::default()).unwrap();
    assert_eq!(warnings, []);
    timeline
}

/// One function each hundred seconds, sampled each second.
fn record(ring: &mut Ring, seconds: std::ops::Range<u64>) {
    let mut defined = 0;
    for second in seconds {
        if defined == 0 || second.is_multiple_of(100) {
            ring.push(&user_frame(second / 100)).unwrap();
            ring.push(&stack_node(None, defined)).unwrap();
            defined += 1;
        }
        ring.push(&sample(second * SECOND, 7, Some(defined - 1))).unwrap();
        ring.forget();
    }
}

#[track_caller]
fn check_samples(timeline: &Timeline, first: u64, last: u64) {
    let seconds: Vec<u64> = timeline.samples.iter().map(|sample| sample.time.0 / SECOND).collect();
    assert_eq!(seconds, (first..=last).collect::<Vec<_>>());
    for sample in &timeline.samples {
        let frames: Vec<u64> = timeline
            .frames_of(sample.stack)
            .map(|frame| timeline.frames[frame.0 as usize].address.0)
            .collect();
        assert_eq!(frames, [sample.time.0 / SECOND / 100], "at {}", sample.time.0);
    }
}

#[test]
fn the_last_minutes_are_there_and_no_more_is_held() {
    let mut ring = Ring::new(limits(300)).unwrap();
    ring.push(&start(0, 7, "worker", false)).unwrap();
    record(&mut ring, 1000..2000);
    let timeline = read_ring(&mut ring, 1799, 1999);
    check_samples(&timeline, 1800, 1999);
    assert_eq!(timeline.threads.len(), 1, "it was there all the time");
    check_samples(&read_ring(&mut ring, 1799, 1900), 1800, 1900);
    let begins = ring.begins().unwrap().0 / SECOND;
    assert!((1690..=1699).contains(&begins), "{begins}");
}

#[test]
fn begun_anew_it_still_has_what_was_before() {
    let mut ring = Ring::new(limits(300)).unwrap();
    record(&mut ring, 1000..1500);
    ring.begin_anew().unwrap();
    record(&mut ring, 1500..1600);
    ring.begin_anew().unwrap();
    record(&mut ring, 1600..1700);
    check_samples(&read_ring(&mut ring, 1399, 1699), 1400, 1699);
    record(&mut ring, 1700..2000);
    let timeline = read_ring(&mut ring, 1699, 1999);
    assert_eq!(timeline.samples.len(), 300);
    assert_eq!(ring.begins().unwrap().0 / SECOND / 100, 16);
}

#[test]
fn it_never_holds_more_bytes_than_it_may() {
    let mut ring = Ring::new(RingLimits { bytes: 64 << 10, ..limits(100_000) }).unwrap();
    // Times that do not compress.
    let mut time = 0;
    for number in 0..200_000_u64 {
        time += number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 34;
        ring.push(&sample(time, 7, None)).unwrap();
        if number.is_multiple_of(1000) {
            ring.forget();
            assert!(ring.bytes() < (64 << 10) + (600 << 10), "{}", ring.bytes());
        }
    }
    let newest = read_ring(&mut ring, 0, time / SECOND + 1).samples.last().map(|sample| sample.time.0);
    assert_eq!(newest, Some(time), "the newest are never lost");
}

#[test]
fn threads_that_ended_long_ago_are_forgotten() {
    let mut ring = Ring::new(limits(10)).unwrap();
    ring.push(&start(1, 1, "main", false)).unwrap();
    for number in 0..5_000_u32 {
        let time = u64::from(number) * SECOND / 100;
        ring.push(&start(time, 100 + number, "short", true)).unwrap();
        ring.push(&sample(time + 1, 100 + number, None)).unwrap();
        ring.push(&exit(time + 2, 100 + number)).unwrap();
        ring.forget();
    }
    let timeline = read_ring(&mut ring, 40, 50);
    assert!(timeline.threads.len() < 4_000, "{}", timeline.threads.len());
    assert!(timeline.threads.iter().any(|life| life.info.name == "main"));
    for sample in &timeline.samples {
        let life = timeline.threads.iter().find(|life| life.info.tid == sample.tid).unwrap();
        assert_eq!(life.info.name, "short");
    }
}

#[test]
fn full_of_definitions_it_says_so() {
    let mut ring = Ring::new(RingLimits { definitions: 10, ..limits(10) }).unwrap();
    for number in 0..9 {
        ring.push(&user_frame(number)).unwrap();
    }
    assert!(!ring.is_full());
    ring.push(&stack_node(None, 0)).unwrap();
    assert!(ring.is_full());
    ring.begin_anew().unwrap();
    assert!(!ring.is_full());
}

#[test]
fn a_lost_frame_stays_lost_when_handles_are_moved() {
    let shift = Shift { modules: 1, frames: 2, stacks: 3 };
    for (mut event, moved) in [
        (stack_node(None, u32::MAX), stack_node(None, u32::MAX)),
        (stack_node(Some(1), 1), stack_node(Some(4), 3)),
        (sample(5, 7, Some(0)), sample(5, 7, Some(3))),
        (sample(5, 7, None), sample(5, 7, None)),
    ] {
        shift.event(&mut event);
        assert_eq!(event, moved);
    }
}
