//! Threads of timelines made by hand.

use super::*;
use crate::trace::calls::Purpose;
use crate::trace::made::{MS, Made};
use proptest::prelude::*;

fn window(ms: u64) -> Option<(MonoNanos, MonoNanos)> {
    Some((MonoNanos(0), MonoNanos(ms * MS)))
}

fn row(table: &ThreadTable, tid: u32) -> &ThreadRow {
    table.rows.iter().find(|row| row.tid == Tid(tid)).expect("a thread")
}

#[test]
fn an_id_that_is_used_again_is_one_row() {
    let mut made = Made::default();
    let first = made.life(5, 1, "worker-1");
    (first.start, first.exit) = (MonoNanos(3), Some(MonoNanos(40)));
    let second = made.life(5, 2, "");
    (second.start, second.born, second.by) = (MonoNanos(60), true, Some(Tid(9)));
    made.cpu(6, 10, 4, None);
    let table = ThreadTable::new(&made.timeline, window(100));
    let row = row(&table, 5);
    assert_eq!((row.name.as_str(), row.pid, row.start), ("worker-1", Pid(2), MonoNanos(3)));
    assert_eq!((row.born, row.by, row.exit), (false, None, None), "the later life has not ended");
    assert_eq!(table.rows.len(), 2);
    // Only seen in a sample.
    let unknown = &table.rows[0];
    assert_eq!((unknown.name.as_str(), unknown.pid, unknown.samples), ("thread 6", Pid(0), 1));
}

#[test]
fn times_come_from_the_scheduler_where_it_was_heard_else_from_samples() {
    let mut made = Made::default();
    made.life(1, 1, "main");
    made.cpu(1, 10, 30, None).cpu(1, 20, 30, None);
    let sampled = ThreadTable::new(&made.timeline, window(100));
    let one = row(&sampled, 1);
    assert!(!sampled.exact);
    assert_eq!((one.running, one.waiting, one.sampled), (Nanos(60 * MS), Nanos(0), Nanos(60 * MS)));
    made.states(1, (0, 50), [10, 5, 35]);
    made.states(1, (50, 100), [20, 10, 20]);
    let exact = ThreadTable::new(&made.timeline, window(100));
    let one = row(&exact, 1);
    assert!(exact.exact);
    assert_eq!((one.running, one.ready, one.waiting), (Nanos(30 * MS), Nanos(15 * MS), Nanos(55 * MS)));
    assert_eq!((one.sampled, one.voluntary, one.involuntary, one.wakeups), (Nanos(60 * MS), 6, 4, 2));
    // A damaged file says more than was recorded.
    let short = ThreadTable::new(&made.timeline, window(40));
    assert_eq!((row(&short, 1).running, row(&short, 1).waiting), (Nanos(30 * MS), Nanos(40 * MS)));
    made.timeline.settings.has_states = false;
    assert!(!ThreadTable::new(&made.timeline, None).exact, "states that nobody said were recorded");
}

#[test]
fn threads_are_grouped_by_process_and_name() {
    let mut made = Made::default();
    for (tid, pid, name, ms) in [
        (1, 1, "main", 5),
        (2, 1, "worker-1", 10),
        (3, 1, "worker-2", 30),
        (4, 2, "worker-3", 90),
        (5, 1, "worker-x", 20),
        (6, 1, "http-80-1", 1),
        (7, 1, "http-80-2", 1),
    ] {
        made.life(tid, pid, name);
        made.states(tid, (0, 100), [ms, 1, 2]);
    }
    let table = ThreadTable::new(&made.timeline, window(100));
    let groups: Vec<_> = table
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.pid.0, group.threads, group.running.0 / MS, group.wakeups))
        .collect();
    assert_eq!(
        groups,
        [
            ("worker-3", 2, 1, 90, 1),
            ("worker-*", 1, 2, 40, 2),
            ("worker-x", 1, 1, 20, 1),
            ("main", 1, 1, 5, 1),
            ("http-80-*", 1, 2, 2, 2),
        ]
    );
    for row in &table.rows {
        assert_eq!(row.pid, table.groups[row.group].pid, "{}", row.name);
    }
    assert_eq!(row(&table, 3).group, 1);
    let order: Vec<u32> = table.rows.iter().map(|row| row.tid.0).collect();
    assert_eq!(order, [4, 3, 5, 2, 1, 6, 7], "most time first, then by id");
}

#[test]
fn threads_are_counted_over_the_window() {
    // Born at, ended at; in milliseconds of 100.
    for (lives, start, peak, end) in [
        (&[][..], 0, 0, 0),
        (&[(None, None), (None, None)], 2, 2, 2),
        (&[(None, Some(50)), (None, None)], 2, 2, 1),
        (&[(Some(10), None), (None, None)], 1, 2, 2),
        // One ends as the other begins: they are not there together.
        (&[(None, Some(50)), (Some(50), None)], 1, 1, 1),
        (&[(Some(10), Some(20)), (Some(15), Some(30)), (Some(40), None)], 0, 2, 1),
        // It ends with the recording: it was there to the end.
        (&[(None, Some(100))], 1, 1, 1),
    ] {
        let mut made = Made::default();
        for (tid, (born, exit)) in (1..).zip(lives) {
            let life = made.life(tid, 1, "worker");
            life.born = born.is_some();
            life.start = MonoNanos(born.unwrap_or(0) * MS);
            life.exit = exit.map(|ms: u64| MonoNanos(ms * MS));
        }
        let table = ThreadTable::new(&made.timeline, window(100));
        let counts = (table.count_at_start, table.count_peak, table.count_at_end);
        assert_eq!(counts, (start, peak, end), "{lives:?}");
        assert_eq!(table.born, lives.iter().filter(|life| life.0.is_some()).count());
        assert_eq!(table.exited, lives.iter().filter(|life| life.1.is_some()).count());
    }
}

#[test]
fn the_top_function_is_the_one_with_most_time_of_its_own() {
    let mut made = Made::default();
    let stacks = [
        made.stack(&["main", "parse"]),
        made.stack(&["main", "price"]),
        made.stack(&["main", "k:schedule"]),
        made.stack(&["main"]),
    ];
    // Thread 1: as much in both; the heading has most and is no function. Thread 2: price. Thread 3: no stack.
    made.cpu(1, 1, 20, stacks[0]).cpu(1, 2, 20, stacks[1]).cpu(1, 3, 60, stacks[2]);
    made.cpu(2, 4, 10, stacks[3]).cpu(2, 5, 30, stacks[1]).cpu(3, 6, 5, None);
    for tid in 1..4 {
        made.life(tid, 1, "worker-1");
    }
    let mut frames = FrameTable::new(&made.timeline);
    let tree = CallTree::new(&made.timeline, &mut frames, Purpose::Cpu { by_timer: true });
    let mut table = ThreadTable::new(&made.timeline, window(100));
    table.add_top_functions(&made.timeline, &tree, &frames);
    let top = |tid: u32| {
        let row = row(&table, tid);
        let name = row.top_function.and_then(|function| frames.row(function)).map(|row| row.name.as_str());
        (name, (row.top_share * 1000.0).round())
    };
    assert_eq!(top(1), (Some("parse"), 200.0), "of two that are equal the one that was seen first");
    assert_eq!(top(2), (Some("price"), 750.0));
    assert_eq!(top(3), (None, 0.0));
    let of_group = table.groups[0].top_function.and_then(|function| frames.row(function));
    assert_eq!(of_group.map(|row| row.name.as_str()), Some("price"), "50 ms of both threads");
}

#[test]
fn strips_show_when_a_thread_did_what() {
    let mut made = Made::default();
    // A bucket is one millisecond.
    let end = STRIP_BUCKETS as u64;
    made.states(1, (2, 6), [2, 1, 1]);
    let table = ThreadTable::new(&made.timeline, window(end));
    assert_eq!((table.bucket, table.rows[0].strip.len()), (Nanos(MS), STRIP_BUCKETS));
    let bucket = |at: usize| {
        let StripBucket { running, ready, waiting } = table.rows[0].strip[at];
        (running, ready, waiting)
    };
    assert_eq!(
        [bucket(1), bucket(2), bucket(5), bucket(6)],
        [(0., 0., 0.), (0.5, 0.25, 0.25), (0.5, 0.25, 0.25), (0., 0., 0.)]
    );
    let mut made = Made::default();
    made.cpu(1, 3, 5, None).cpu(1, end, 1, None).cpu(1, end + 1, 1, None);
    let strip = &ThreadTable::new(&made.timeline, window(end)).rows[0].strip;
    let filled: Vec<_> = strip.iter().enumerate().filter(|(_, one)| one.running > 0.0).collect();
    let places: Vec<_> = filled.iter().map(|(at, one)| (*at, one.running)).collect();
    assert_eq!(places, [(3, 1.0), (STRIP_BUCKETS - 1, 1.0)], "never more than all of a bucket");
    assert!(ThreadTable::new(&made.timeline, None).rows[0].strip.is_empty(), "there is no axis");
}

proptest! {
    /// Whatever is recorded, groups are the sums of their threads.
    #[test]
    fn groups_are_sums(
        lives in prop::collection::vec((1_u32..9, 1_u32..3, "[ab]-[0-9]{0,2}"), 0..12),
        states in prop::collection::vec((1_u32..12, 0_u64..90, [0_u64..30, 0..30, 0..30]), 0..30),
    ) {
        let mut made = Made::default();
        for (tid, pid, name) in &lives {
            made.life(*tid, *pid, name);
        }
        for (tid, from, times) in &states {
            made.states(*tid, (*from, from + 90), *times);
        }
        let table = ThreadTable::new(&made.timeline, window(1000));
        let sum = |of: &dyn Fn(&ThreadRow) -> u64, group: usize| -> u64 {
            table.rows.iter().filter(|row| row.group == group).map(of).sum()
        };
        for (at, group) in table.groups.iter().enumerate() {
            prop_assert_eq!(group.threads, table.rows.iter().filter(|row| row.group == at).count());
            prop_assert_eq!(group.running.0, sum(&|row| row.running.0, at));
            prop_assert_eq!(group.ready.0, sum(&|row| row.ready.0, at));
            prop_assert_eq!(group.waiting.0, sum(&|row| row.waiting.0, at));
            prop_assert_eq!(group.voluntary, sum(&|row| row.voluntary, at));
        }
        prop_assert!(table.groups.is_sorted_by(|a, b| a.running >= b.running));
        let drawn: f64 = table.rows.iter().flat_map(|row| &row.strip).map(|one| f64::from(one.running)).sum();
        let running: f64 = states.iter().map(|(_, _, times)| times[0] as f64).sum();
        let bucket = table.bucket.as_secs_f64() * 1e3;
        // Less where slices of one thread overlap, which they do not in a sound file.
        prop_assert!(table.rows.is_empty() || drawn * bucket <= running + 1e-3, "{drawn} of {bucket} ms, {running}");
    }
}
