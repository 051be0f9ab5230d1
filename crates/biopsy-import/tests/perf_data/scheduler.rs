//! Thread states and waits, from the records of context switches.

use biopsy_model::timeline::{Timeline, WaitState};
use biopsy_model::{MonoNanos, Nanos, Tid};

use crate::build::{Event, File, Row, Side, bit, clock, codes, import, sample, timeline};

const MS: u64 = 1_000_000;
const A: [u32; 2] = [100, 101];

/// Running, ready and waiting of a thread, in milliseconds; switches by itself and against its will; wake-ups.
fn sums(timeline: &Timeline, tid: u32) -> ([u64; 3], [u32; 3]) {
    let mut all = ([0; 3], [0; 3]);
    for slice in timeline.states.iter().filter(|slice| slice.tid == Tid(tid)) {
        for (sum, part) in all.0.iter_mut().zip([slice.running, slice.ready, slice.waiting]) {
            *sum += part.0;
        }
        for (sum, part) in all.1.iter_mut().zip([slice.voluntary, slice.involuntary, slice.wakeups]) {
            *sum += part;
        }
    }
    (all.0.map(|sum| sum / MS), all.1)
}

fn side() -> Side {
    Side { event: clock() }
}

#[test]
fn switch_records_become_exact_sums_and_long_waits() {
    let away = |from: u64, preempted| side().switch(from * MS, A, true, preempted);
    let back = |at: u64| side().switch(at * MS, A, false, false);
    let records = [
        back(100),
        away(110, false),
        back(160), // 50 ms waiting
        away(200, true),
        back(230), // 30 ms ready
        away(240, false),
        side().switch(240 * MS + MS / 2, A, false, false), // too short to be written down by itself
        side().comm(260 * MS, A, "worker", false),
    ];
    let capture = import(&File::new(&[clock()], &records));
    let timeline = timeline(&capture);
    // 10 + 40 + 10 + 19.5 ms on a CPU.
    assert_eq!(sums(timeline, A[1]), ([79, 30, 50], [2, 1, 0]));
    let waits: Vec<_> =
        timeline.waits.iter().map(|wait| (wait.start.0 / MS, wait.end.0 / MS, wait.state)).collect();
    assert_eq!(waits, [(110, 160, WaitState::Other), (200, 230, WaitState::Preempted)]);
    assert!(timeline.settings.has_states && !timeline.settings.has_wakeups);
    assert_eq!(timeline.settings.wait_threshold, Nanos(MS));
    assert_eq!(timeline.wait_samples, [], "no stacks were taken");
}

/// `sched:sched_switch`, `sched:sched_waking` and `cpu-clock`, told apart by ids.
struct Scheduler {
    events: [Event; 3],
}

impl Scheduler {
    fn new() -> Scheduler {
        let tracepoint = |id, name| Event {
            kind: 2,
            config: u64::from(id),
            ids: vec![u64::from(id)],
            name,
            sample_type: bit::USUAL | bit::ID | bit::RAW,
            ..clock()
        };
        let clock = Event { kind: 1, config: 0, name: "cpu-clock", ..tracepoint(1_u32, "") };
        Scheduler {
            events: [clock, tracepoint(2, "sched:sched_switch"), tracepoint(3, "sched:sched_waking")],
        }
    }

    fn of(&self, event: usize, time: u64, [pid, tid]: [u32; 2], raw: Vec<u8>) -> Vec<u8> {
        let event = &self.events[event];
        let chain = vec![0x1000 + u64::from(tid)];
        let row =
            Row { id: event.ids[0], time: time * MS, pid, tid, raw, chain, period: 1, ..Row::default() };
        sample(event, &row)
    }

    /// common 8, prev_comm 16, prev_pid 4, prev_prio 4, prev_state 8, next_comm 16, next_pid 4, next_prio 4.
    fn switch(&self, time: u64, from: [u32; 2], state: u64, to: u32) -> Vec<u8> {
        let mut raw = vec![0; 8 + 16];
        raw.extend(from[1].to_le_bytes());
        raw.extend(120_u32.to_le_bytes());
        raw.extend(state.to_le_bytes());
        raw.extend([0; 16]);
        raw.extend(to.to_le_bytes());
        raw.extend(120_u32.to_le_bytes());
        self.of(1, time, from, raw)
    }

    /// common 8, comm 16, pid 4, prio 4, target_cpu 4.
    fn waking(&self, time: u64, by: [u32; 2], woken: u32) -> Vec<u8> {
        let mut raw = vec![0; 8 + 16];
        raw.extend(woken.to_le_bytes());
        raw.extend([0; 8]);
        self.of(2, time, by, raw)
    }

    fn side(&self) -> Side {
        Side { event: self.events[0].clone() }
    }

    fn import(&self, records: &[Vec<u8>]) -> biopsy_model::capture::Capture {
        let mapped = self.side().map(0, A[0], [0, 0x10_0000, 0], "//anon");
        import(&File::new(&self.events, &[vec![mapped], records.to_vec()].concat()))
    }
}

const IDLE: [u32; 2] = [0, 0];
const B: [u32; 2] = [100, 102];

#[test]
fn the_scheduler_tells_why_a_thread_left() {
    let of = Scheduler::new();
    for (state, expected) in [
        (0, WaitState::Preempted),
        (0x100, WaitState::Preempted),
        (1, WaitState::Sleep),
        (2, WaitState::Disk),
        (4, WaitState::Stopped),
        (8, WaitState::Stopped),
        (0x40, WaitState::Other),
    ] {
        let records = [of.switch(100, A, state, 0), of.switch(150, IDLE, 0, A[1])];
        let capture = of.import(&records);
        let timeline = timeline(&capture);
        let [wait] = &timeline.waits[..] else { panic!("{state}: {:?}", timeline.waits) };
        assert_eq!((wait.state, wait.start.0 / MS, wait.end.0 / MS), (expected, 100, 150), "{state}");
        let innermost = timeline.frames_of(wait.stack).next().unwrap();
        assert_eq!(timeline.frames[innermost.0 as usize].address.0, 0x1000 + u64::from(A[1]), "{state}");
        let waiting = expected != WaitState::Preempted;
        assert_eq!(timeline.wait_samples.len(), usize::from(waiting), "{state}");
        assert_eq!(sums(timeline, A[1]).0, if waiting { [0, 0, 50] } else { [0, 50, 0] }, "{state}");
    }
}

#[test]
fn who_woke_whom_and_how_long_it_was_ready() {
    let of = Scheduler::new();
    let records = [
        of.switch(100, A, 1, 0),
        of.waking(130, B, A[1]),
        of.waking(140, IDLE, A[1]), // the first counts
        of.switch(150, IDLE, 0, A[1]),
        of.waking(160, B, A[1]), // it runs
        of.waking(170, B, 999),  // somebody else's
    ];
    let capture = of.import(&records);
    let timeline = timeline(&capture);
    let wait = timeline.waits[0];
    assert_eq!((wait.ready, wait.waker), (Some(MonoNanos(130 * MS)), Some(Tid(B[1]))));
    let (times, counts) = sums(timeline, A[1]);
    // On a CPU from 150 to the end at 170.
    assert_eq!((times, counts), ([20, 20, 30], [1, 0, 1]));
    assert_eq!(timeline.wait_samples[0].weight, Nanos(30 * MS), "what it was ready is no waiting");
    assert!(timeline.settings.has_wakeups);
    assert!(timeline.threads.iter().all(|life| life.info.tid != Tid(999)));
}

#[test]
fn a_switch_that_is_told_twice_is_one_with_what_both_know() {
    let of = Scheduler::new();
    let records = [
        of.side().switch(100 * MS, A, true, false),
        of.switch(100, A, 2, 0),
        of.side().switch(150 * MS, A, false, false),
    ];
    let capture = of.import(&records);
    let timeline = timeline(&capture);
    assert_eq!(timeline.waits.len(), 1);
    assert!(timeline.waits[0].state == WaitState::Disk && timeline.waits[0].stack.is_some());
    assert_eq!(sums(timeline, A[1]).1, [1, 0, 0]);
}

#[test]
fn without_coming_back_waits_have_no_length() {
    let event = Event { kind: 1, config: 3, ..clock() };
    let row = |time| Row { time, pid: A[0], tid: A[1], chain: vec![0x1000], period: 1, ..Row::default() };
    let records = [sample(&event, &row(10 * MS)), sample(&event, &row(20 * MS))];
    let capture = import(&File::new(std::slice::from_ref(&event), &records));
    assert_eq!(codes(&capture), ["import.no-cpu-event", "import.no-switch-in"]);
    let timeline = timeline(&capture);
    assert!(timeline.states.is_empty() && timeline.waits.is_empty() && timeline.wait_samples.is_empty());
    assert!(!timeline.settings.has_states);
}

/// With a frequency perf takes some switches and says for how many each stands.
#[test]
fn looks_stand_for_the_exact_waiting_time_together() {
    let switches = Event { kind: 1, config: 3, ..clock() };
    let side = Side { event: switches.clone() };
    let row =
        |time, period| Row { time, pid: A[0], tid: A[1], chain: vec![0x1000], period, ..Row::default() };
    let mut records = vec![side.map(0, A[0], [0, 0x10_0000, 0], "//anon")];
    for number in 0..4 {
        let at = (100 + number * 100) * MS;
        if number % 2 == 0 {
            // Every second switch has a stack, and counts for two.
            records.push(sample(&switches, &row(at, 2)));
        }
        records.push(side.switch(at, A, true, false));
        records.push(side.switch(at + 40 * MS, A, false, false));
    }
    let capture = import(&File::new(std::slice::from_ref(&switches), &records));
    let timeline = timeline(&capture);
    let looked: u64 = timeline.wait_samples.iter().map(|look| look.weight.0).sum();
    assert_eq!((timeline.wait_samples.len(), timeline.waits.len()), (2, 4));
    assert_eq!((looked / MS, sums(timeline, A[1]).0[2]), (160, 160));
    assert_eq!(timeline.settings.wait_sample_period, Nanos(1));
}

#[test]
fn what_is_open_at_the_end_is_counted_to_there() {
    let records = [
        side().switch(100 * MS, A, false, false),
        side().switch(130 * MS, A, true, false),
        side().switch(140 * MS, [100, 102], false, false),
        side().comm(200 * MS, A, "worker", false),
    ];
    let capture = import(&File::new(&[clock()], &records));
    let timeline = timeline(&capture);
    assert_eq!(sums(timeline, A[1]).0, [30, 0, 70]);
    assert_eq!(sums(timeline, 102).0, [60, 0, 0]);
    assert_eq!(timeline.waits, [], "it has not come back");
}

/// Slices are at least 100 ms long; what crosses their borders is in both.
#[test]
fn states_are_spread_over_slices_of_equal_length() {
    let records = [
        side().switch(150 * MS, A, false, false),
        side().switch(420 * MS, A, true, false),
        side().switch(430 * MS, A, false, false),
    ];
    let capture = import(&File::new(&[clock()], &records));
    let slices: Vec<_> = timeline(&capture)
        .states
        .iter()
        .map(|slice| (slice.from.0 / MS, slice.to.0 / MS, slice.running.0 / MS, slice.waiting.0 / MS))
        .collect();
    assert_eq!(slices, [(100, 200, 50, 0), (200, 300, 100, 0), (300, 400, 100, 0), (400, 500, 20, 10)]);
}

#[test]
fn the_idle_thread_has_no_states() {
    let records = [side().switch(100 * MS, IDLE, false, false), side().switch(130 * MS, IDLE, true, false)];
    let capture = import(&File::new(&[clock()], &records));
    assert_eq!(timeline(&capture).states, []);
    assert_eq!(timeline(&capture).threads, []);
}
