//! Sums over waits of a few threads, made by hand.

use super::*;
use crate::trace::frames::FrameTable;
use crate::trace::waits::WaitReason::{Condition, Disk, Events, Lock, LockOrCondition, Peer};
use biopsy_model::process::ThreadInfo;
use biopsy_model::stack::{Frame, FrameHandle, FrameSpace, StackEnd, StackHandle, StackNode};
use biopsy_model::symbol::{FrameSymbols, Function, SymbolSource};
use biopsy_model::timeline::{ThreadLife, Wait, WaitSample, WaitState};
use biopsy_model::{LookupAddress, MonoNanos, Pid};

const MS: u64 = 1_000_000;
const RECV: u32 = 45;
const FSYNC: u32 = 74;
const FUTEX: u32 = 202;
const EPOLL: u32 = 232;

#[derive(Default)]
struct Build {
    timeline: Timeline,
}

impl Build {
    fn threads(mut self, tids: std::ops::Range<u32>) -> Build {
        for tid in tids {
            self.timeline.threads.push(ThreadLife {
                info: ThreadInfo { tid: Tid(tid), pid: Pid(1), name: format!("worker-{tid}") },
                start: MonoNanos(0),
                born: false,
                by: None,
                exit: None,
            });
        }
        self
    }

    /// A stack of kernel functions, outermost first.
    fn stack(&mut self, names: &[&str]) -> Option<StackHandle> {
        let mut caller = None;
        for name in names {
            let frame = FrameHandle(self.timeline.frames.len() as u32);
            let (space, name) = match name.strip_prefix("k:") {
                Some(name) => (FrameSpace::Kernel, name),
                None => (FrameSpace::User, *name),
            };
            self.timeline.frames.push(Frame {
                space,
                module: None,
                address: LookupAddress(u64::from(frame.0) * 16),
            });
            let functions = vec![Function { name: name.to_owned(), file: None, line: None }];
            let symbols = FrameSymbols { frame, functions, source: SymbolSource::ElfSymbols };
            self.timeline.symbols.push(Some(symbols));
            self.timeline.stacks.push(StackNode { caller, frame });
            caller = Some(StackHandle(self.timeline.stacks.len() as u32 - 1));
        }
        caller
    }

    /// A wait from `from` to `to` in milliseconds, ended by `waker`.
    fn wait(&mut self, tid: u32, (from, to): (u64, u64), syscall: u32, waker: Option<u32>) -> &mut Build {
        self.timeline.waits.push(Wait {
            tid: Tid(tid),
            start: MonoNanos(from * MS),
            end: MonoNanos(to * MS),
            ready: None,
            waker: waker.map(Tid),
            state: WaitState::Sleep,
            syscall: Some(syscall),
            stack: None,
        });
        self
    }

    fn sample(&mut self, tid: u32, ms: u64, syscall: u32, stack: Option<StackHandle>) -> &mut Build {
        self.timeline.wait_samples.push(WaitSample {
            time: MonoNanos(0),
            tid: Tid(tid),
            stack,
            end: StackEnd::Root,
            weight: Nanos(ms * MS),
            syscall: Some(syscall),
            state: WaitState::Sleep,
        });
        self
    }

    /// Sums over a window of `seconds`.
    fn sums(&self, seconds: u64) -> (Waits, WaitFacts) {
        let frames = FrameTable::new(&self.timeline);
        let mut sites = WaitSites::new(&self.timeline, &frames, "x86_64");
        let threads = ThreadTable::new(&self.timeline, None);
        sum(&self.timeline, &mut sites, &threads, Nanos(seconds * 1_000 * MS))
    }
}

fn reasons_of(waits: &Waits) -> Vec<(WaitReason, u64, u64)> {
    waits.reasons.iter().map(|row| (row.reason, row.time.0 / MS, row.count)).collect()
}

#[test]
fn waits_are_summed_by_reason_most_time_first() {
    let mut build = Build::default().threads(1..4);
    build.wait(1, (0, 10), RECV, None).wait(1, (20, 25), RECV, None).wait(2, (0, 40), FSYNC, None);
    build.wait(3, (0, 7), EPOLL, None);
    let (waits, _) = build.sums(1);
    assert_eq!(reasons_of(&waits), [(Disk, 40, 1), (Peer, 15, 2), (Events, 7, 1)]);
    assert_eq!((waits.count, waits.recorded.0 / MS, waits.total.0 / MS), (4, 62, 62));
    assert_eq!(waits.reasons[1].syscalls, [("recvfrom".to_owned(), Nanos(15 * MS))]);
    let longest: Vec<u64> = waits.longest.iter().map(|long| long.time.0 / MS).collect();
    assert_eq!(longest, [40, 10, 5], "waiting for events is no long wait for something");
}

#[test]
fn time_until_ready_counts_and_a_moment_outside_of_the_wait_does_not() {
    for (ready, time) in [(Some(6), 6), (Some(0), 0), (Some(10), 10), (Some(11), 10), (None, 10)] {
        let mut build = Build::default().threads(1..2);
        build.wait(1, (0, 10), RECV, Some(0));
        build.timeline.waits[0].ready = ready.map(|ms| MonoNanos(ms * MS));
        assert_eq!(build.sums(1).0.recorded, Nanos(time * MS), "{ready:?}");
    }
}

#[test]
fn samples_tell_how_much_from_eight_tenths_and_where_from_three_tenths() {
    for (sampled, reasons, functions) in
        [(29, Peer, Peer), (30, Peer, Disk), (79, Peer, Disk), (80, Disk, Disk), (200, Disk, Disk)]
    {
        let mut build = Build::default().threads(1..2);
        build.wait(1, (0, 100), RECV, None).sample(1, sampled, FSYNC, None);
        let (waits, facts) = build.sums(1);
        assert_eq!(waits.reasons[0].reason, reasons, "{sampled} of 100 ms, reasons");
        assert_eq!(waits.functions[0].reason, functions, "{sampled} of 100 ms, functions");
        assert!(facts.by_thread.keys().all(|(_, site)| site.reason == reasons), "{sampled} of 100 ms, facts");
        assert!(facts.recorded.keys().all(|(_, site)| site.reason == Peer));
    }
}

#[test]
fn a_wait_without_a_stack_takes_the_usual_site_of_its_system_call() {
    // Of the thread's time in this call: at a lock, at a condition.
    for (at_lock, elsewhere, expected) in
        [(80, 20, Lock), (79, 21, LockOrCondition), (100, 0, Lock), (50, 50, LockOrCondition)]
    {
        let mut build = Build::default().threads(1..2);
        let lock = build.stack(&["append", "pthread_mutex_lock", "k:futex_wait"]);
        let other = build.stack(&["take", "pthread_cond_wait", "k:futex_wait"]);
        build.sample(1, at_lock, FUTEX, lock).sample(1, elsewhere, FUTEX, other);
        build.wait(1, (0, 1_000), FUTEX, None).wait(1, (1_000, 1_010), RECV, None);
        let (_, facts) = build.sums(1);
        let mut reasons: Vec<WaitReason> = facts.recorded.keys().map(|(_, site)| site.reason).collect();
        reasons.sort();
        let mut wanted = vec![expected, Peer];
        wanted.sort();
        assert_eq!(reasons, wanted, "{at_lock} and {elsewhere} ms");
    }
}

#[test]
fn a_usual_site_that_contradicts_the_call_is_not_taken() {
    let mut build = Build::default().threads(1..3);
    let lock = build.stack(&["append", "pthread_mutex_lock", "k:futex_wait"]);
    // The same thread in another call, and another thread in the same call.
    build.sample(1, 10, FSYNC, lock).sample(2, 10, FUTEX, lock);
    build.wait(1, (0, 1_000), FSYNC, None).wait(1, (1_000, 1_900), FUTEX, None);
    let (waits, _) = build.sums(1);
    assert_eq!(reasons_of(&waits), [(Disk, 1_000, 1), (LockOrCondition, 900, 1)]);
}

/// A wait of thread 1 from 10 to 20 ms that thread 2 ends, after a wait of its own.
fn behind_after(own: (u64, u64), call: u32) -> Vec<(WaitReason, u64)> {
    let mut build = Build::default().threads(1..3);
    build.wait(2, own, call, None).wait(1, (10, 20), FUTEX, Some(2));
    build.sums(1).0.behind.iter().map(|row| (row.cause, row.time.0 / MS)).collect()
}

#[test]
fn who_ends_a_wait_may_have_waited_itself() {
    for (own, call, expected) in [
        ((12, 18), FSYNC, Some((Disk, 6))),
        // Only what lies within the wait of the other counts.
        ((0, 15), RECV, Some((Peer, 5))),
        ((10, 20), FSYNC, Some((Disk, 10))),
        // Over before the other began, or not over when it ended the wait.
        ((0, 10), FSYNC, None),
        ((0, 25), FSYNC, None),
        // Idle waits and links of the chain are no cause.
        ((12, 18), EPOLL, None),
        ((12, 18), FUTEX, None),
    ] {
        assert_eq!(behind_after(own, call), Vec::from_iter(expected), "{own:?} in call {call}");
    }
}

#[test]
fn who_wakes_itself_or_is_woken_by_an_interrupt_is_behind_nobody() {
    for waker in [Some(1), Some(0), None] {
        let mut build = Build::default().threads(1..3);
        build.wait(2, (12, 18), FSYNC, None).wait(1, (10, 20), FUTEX, waker);
        let (waits, facts) = build.sums(1);
        assert!(waits.behind.is_empty(), "{waker:?}");
        assert!(!facts.ended_by.contains_key(&Tid(1)), "{waker:?}");
    }
}

/// `threads` threads that wait for each other `rate` times a second, each wait ended by a thread of the queue for `inside` of ten.
fn queue(stack: &[&str], threads: u32, rate: u64, inside: u64) -> Vec<Convoy> {
    let mut build = Build::default().threads(1..threads + 1);
    let stack = build.stack(stack);
    for number in 0..rate {
        let from = number * 1_000 / rate;
        for tid in 1..=threads {
            let waker = if number % 10 < inside { tid % threads + 1 } else { 99 };
            build.wait(tid, (from, from + 900 / rate), FUTEX, Some(waker));
            if let Some(last) = build.timeline.waits.last_mut() {
                last.stack = stack;
            }
        }
    }
    build.sums(1).0.convoys
}

#[test]
fn a_queue_for_a_lock_is_told_from_idle_workers() {
    const LOCK: &[&str] = &["append", "pthread_mutex_lock", "k:futex_wait"];
    const CONDITION: &[&str] = &["a", "b", "c", "take", "pthread_cond_wait", "k:futex_wait"];
    const EITHER: &[&str] = &["take", "k:futex_wait"];
    for (stack, threads, rate, inside, seen) in [
        // A lock is one, whoever hands it on, if more than one thread waits.
        (LOCK, 2, 10, 0, true),
        (LOCK, 1, 10, 10, false),
        // What may be a condition must be handed on by its own queue: six of ten, and often enough.
        (EITHER, 3, 10, 10, true),
        (EITHER, 3, 20, 6, true),
        (EITHER, 3, 20, 5, false),
        (EITHER, 3, 5, 10, false),
        (EITHER, 4, 50, 0, false),
        // A condition more so: four threads, nine of ten, fifty times a second.
        (CONDITION, 4, 20, 10, true),
        (CONDITION, 4, 20, 9, true),
        (CONDITION, 4, 20, 8, false),
        (CONDITION, 4, 10, 10, false),
        (CONDITION, 3, 50, 10, false),
    ] {
        let convoys = queue(stack, threads, rate, inside);
        assert_eq!(
            !convoys.is_empty(),
            seen,
            "{stack:?}: {threads} threads, {rate} a second, {inside} of 10: {convoys:?}"
        );
    }
    let [convoy] = &queue(CONDITION, 4, 20, 10)[..] else { panic!("one queue") };
    assert_eq!((convoy.reason, convoy.threads, convoy.handed_on), (Condition, 4, Some(1.0)));
    assert!((convoy.mean_queue - 3.6).abs() < 0.1 && (convoy.share - 0.9).abs() < 0.03, "{convoy:?}");
}

#[test]
fn the_twenty_longest_waits_are_kept_longest_first() {
    let mut build = Build::default().threads(1..2);
    for number in 0..50 {
        let from = number * 100;
        build.wait(1, (from, from + 1 + (number * 7) % 50), RECV, None);
    }
    let longest: Vec<u64> = build.sums(10).0.longest.iter().map(|long| long.time.0 / MS).collect();
    assert_eq!(longest, (31..=50).rev().collect::<Vec<u64>>());
}

mod any_waits {
    use super::*;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};
    use proptest::sample::select;

    proptest! {
        /// Tables are sums of the same waits, so they agree with each other.
        #[test]
        fn tables_agree(
            waits in proptest::collection::vec((1u32..6, 0u64..1_000, 0u64..300, select(vec![RECV, FSYNC, FUTEX, EPOLL, 999]), proptest::option::of(0u32..7)), 0..60),
            samples in proptest::collection::vec((1u32..6, 1u64..300, select(vec![RECV, FUTEX])), 0..20),
            with_samples in any::<bool>(),
        ) {
            let mut build = Build::default().threads(1..6);
            for &(tid, from, length, call, waker) in &waits {
                build.wait(tid, (from, from + length), call, waker);
            }
            for &(tid, ms, call) in samples.iter().filter(|_| with_samples) {
                build.sample(tid, ms, call, None);
            }
            let (sums, facts) = build.sums(2);
            prop_assert_eq!(sums.count, waits.len() as u64);
            prop_assert_eq!(sums.recorded.0, waits.iter().map(|wait| wait.2 * MS).sum::<u64>());
            let by_reason: u64 = sums.reasons.iter().map(|row| row.time.0).sum();
            let by_thread: u64 = facts.by_thread.values().map(|sum| sum.time.0).sum();
            prop_assert_eq!(by_reason, by_thread);
            let source = if with_samples && sums.sampled.0 >= sums.recorded.0 / 10 * 8 && sums.sampled.0 > 0 { sums.sampled } else { sums.recorded };
            prop_assert_eq!(by_thread, source.0);
            for row in &sums.behind {
                prop_assert!(row.share > 0.0 && row.share <= 1.0 && row.count >= row.threads as u64, "{:?}", row);
            }
            for row in &sums.convoys {
                prop_assert!(row.share <= 1.0 && row.threads >= 2 && row.mean_queue >= 0.5, "{:?}", row);
            }
            for rows in sums.longest.windows(2) {
                prop_assert!(rows[0].time >= rows[1].time);
            }
        }
    }
}
