//! Two recordings held against each other: what is claimed, and what is not.

mod build;

use biopsy_analyze::Recorded;
use biopsy_analyze::compare::{Comparison, Quantity, compare};
use biopsy_model::stack::StackEnd;
use biopsy_model::timeline::{Sample, WaitState};
use biopsy_model::{Nanos, Tid};
use build::{Build, START, Waiting, call};

/// Shares of a core of five functions.
const USUAL: [f64; 5] = [0.08, 0.2, 0.05, 0.07, 0.1];
const NAMES: [&str; 5] = ["parse", "price", "check", "render", "pack"];

/// Numbers that look like chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A server whose load goes up and down by some percent from second to second, sampled 999 times a second.
fn recording(seed: u64, seconds: u64, shares: [f64; 5], name: &str) -> Build {
    let mut build = Build::new(name, seconds, 2);
    build.thread(1, "worker");
    let stacks =
        NAMES.map(|function| build.stack(&["server!main", "server!handle", &format!("server!{function}")]));
    let mut chance = Chance(seed.wrapping_mul(0x9e37_79b9).wrapping_add(7));
    (0..10).for_each(|_| {
        chance.next();
    });
    let mut load = 1.0;
    for tick in 0..seconds * 999 {
        if tick % 999 == 0 {
            load = 0.95 + 0.1 * chance.next();
        }
        let mut at = chance.next() / load;
        for (share, stack) in shares.iter().zip(stacks) {
            if at < *share {
                build.timeline.samples.push(Sample {
                    time: biopsy_model::MonoNanos(START + tick * 1_001_001),
                    tid: Tid(1),
                    cpu: 0,
                    stack,
                    end: StackEnd::Root,
                    weight: Nanos(1_001_001),
                });
                break;
            }
            at -= share;
        }
    }
    build
}

fn hold(one: Build, other: Build) -> Comparison {
    compare(&Recorded::new(one.done()), &Recorded::new(other.done()))
}

fn named(comparison: &Comparison) -> Vec<String> {
    let name = |quantity: &Quantity| match quantity {
        Quantity::Function { name, .. } => name.clone(),
        Quantity::Wait { function, .. } => function.clone().unwrap_or_default(),
        Quantity::Request { route } => route.clone(),
    };
    comparison.differences.iter().map(|one| name(&one.quantity)).collect()
}

#[test]
fn of_the_same_load_twice_nothing_is_claimed() {
    for seed in 0..40 {
        // The length of a recording does not matter.
        let seconds = if seed % 4 == 0 { 25 } else { 10 };
        let comparison =
            hold(recording(seed, 10, USUAL, "server"), recording(seed + 1_000, seconds, USUAL, "server"));
        assert_eq!(named(&comparison), [""; 0], "{seed}: {:?}", comparison.differences);
        assert!(comparison.compared >= 5 && comparison.unchanged.len() >= 5);
        assert!(comparison.refused.is_none() && comparison.remarks.is_empty(), "{:?}", comparison.remarks);
    }
}

#[test]
fn a_function_that_is_slower_is_named_first() {
    let mut right = 0;
    for seed in 0..20 {
        let mut slower = USUAL;
        slower[1] *= 1.2;
        let comparison =
            hold(recording(seed, 15, USUAL, "server"), recording(seed + 500, 15, slower, "server"));
        right += usize::from(named(&comparison).first().is_some_and(|name| name == "price"));
        if let Some(first) = comparison.differences.first() {
            let ratio = first.ratio().unwrap_or_default();
            assert!((0.06..0.4).contains(&ratio), "{seed}: {ratio}");
            assert!(first.change().abs() > 0.0 && first.noise > 0.0);
        }
    }
    assert!(right >= 19, "{right} of 20");
}

#[test]
fn what_makes_all_code_slower_is_no_function() {
    let comparison =
        hold(recording(1, 20, USUAL, "server"), recording(2, 20, USUAL.map(|share| share * 1.15), "server"));
    assert_eq!(named(&comparison), [""; 0], "{:?}", comparison.differences);
}

/// On a machine that others use up, all of a program takes more CPU time or less from one recording to the next: beside the rest of the
/// program a change is seen all the same, and in no other function.
#[test]
fn a_machine_that_wavers_hides_no_function() {
    let mut right = 0;
    for seed in 0..8 {
        let weather = 0.8 + 0.05 * seed as f64;
        let (usual, mut slower) = (USUAL, USUAL.map(|share| share * weather));
        let (one, other) =
            (recording(seed, 40, usual, "server"), recording(seed + 700, 40, slower, "server"));
        assert_eq!(named(&hold(one, other)), [""; 0], "{seed}");
        slower[1] *= 1.15;
        let comparison =
            hold(recording(seed, 40, usual, "server"), recording(seed + 900, 40, slower, "server"));
        right += usize::from(named(&comparison) == ["price"]);
    }
    assert!(right >= 7, "{right} of 8");
}

/// A program that is one function has no rest: where others take the CPUs nothing is claimed of it.
#[test]
fn a_function_alone_is_not_believed_on_a_starved_machine() {
    let alone = |seed: u64, share: f64, ready: f64| {
        let mut build = recording(seed, 15, [0.0, share, 0.0, 0.0, 0.0], "server");
        build.ready(1, ready);
        build
    };
    assert_eq!(named(&hold(alone(1, 0.4, 0.0), alone(2, 0.55, 0.0))), ["price"]);
    assert_eq!(named(&hold(alone(1, 0.4, 0.4), alone(2, 0.55, 0.2))), [""; 0]);
}

#[test]
fn what_is_new_and_what_is_gone_is_claimed() {
    let mut without = USUAL;
    without[3] = 0.0;
    let comparison = hold(recording(1, 10, without, "server"), recording(2, 10, USUAL, "server"));
    assert_eq!(named(&comparison), ["render"]);
    assert_eq!(comparison.differences[0].ratio(), None);
    let comparison = hold(recording(1, 10, USUAL, "server"), recording(2, 10, without, "server"));
    assert_eq!(named(&comparison), ["render"]);
    assert_eq!(comparison.differences[0].after, 0.0);
}

#[test]
fn waits_for_a_lock_are_compared_by_their_site() {
    let with_lock = |seed: u64, share: f64| {
        let mut build = recording(seed, 10, USUAL, "server");
        build.thread(2, "writer");
        let stack = ["server!main", "server!append", "libc.so.6!pthread_mutex_lock", "k:futex_wait"];
        build.wait(
            2,
            Waiting {
                stack: &stack,
                syscall: call::FUTEX,
                state: WaitState::Sleep,
                share,
                each_ms: 4.0,
                waker: None,
            },
        );
        build
    };
    let comparison = hold(with_lock(1, 0.2), with_lock(2, 0.5));
    assert_eq!(named(&comparison), ["append"]);
    assert!(comparison.differences[0].quantity.is_lock());
    assert!((0.2..0.4).contains(&comparison.differences[0].change()), "{:?}", comparison.differences);
}

#[test]
fn what_speaks_against_a_comparison_is_said() {
    let usual = || recording(1, 10, USUAL, "server");
    let remarks = |one: Build, other: Build| hold(one, other).remarks.join("; ");
    assert!(remarks(usual(), usual()).contains("the same recording"));
    assert!(remarks(usual(), recording(2, 10, USUAL, "another")).contains("different programs"));
    let mut other = recording(2, 10, USUAL, "server");
    other.timeline.settings.method = "perf-per-task".into();
    other.timeline.settings.frequency_hz = 99;
    other.capture.header.host.cpus = 64;
    let said = remarks(usual(), other);
    for words in ["taken differently", "999 and 99 times", "different machines"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let mut cut = recording(2, 10, USUAL, "server");
    cut.capture.header.end = None;
    assert!(remarks(usual(), cut).contains("the second recording was cut short"));
    for (comparison, words) in [
        (hold(usual(), recording(2, 2, USUAL, "server")), "too short"),
        (compare(&Recorded::new(usual().done()), &Recorded::new(usual().without_trace())), "no trace"),
    ] {
        assert!(
            comparison.refused.as_ref().is_some_and(|why| why.contains(words)),
            "{:?}",
            comparison.refused
        );
        assert!(comparison.differences.is_empty());
    }
}

#[test]
fn the_calls_of_both_are_one_tree() {
    let comparison = hold(recording(1, 10, USUAL, "server"), recording(2, 10, USUAL, "server"));
    let nodes = &comparison.cpu.nodes;
    assert!(nodes.iter().enumerate().skip(1).all(|(at, node)| (node.parent as usize) < at));
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names.iter().filter(|name| **name == "price").count(), 1, "{names:?}");
    assert!((nodes[0].before - 0.5).abs() < 0.05 && (nodes[0].after - 0.5).abs() < 0.05, "{:?}", nodes[0]);
    let below: f64 =
        nodes.iter().filter(|node| NAMES.contains(&node.name.as_str())).map(|node| node.before).sum();
    assert!((below - nodes[0].before).abs() < 1e-9);
}
