//! Parts of a comparison by themselves: trees, times of requests, remarks, what is held against what.

use super::beside::{Both, changes};
use super::difference::Quantity;
use super::noise::Mean;
use super::slices::{Node, Series, Slices};
use super::*;
use crate::trace::function::FunctionKind;
use crate::trace::waits::WaitReason;
use biopsy_model::capture::Capture;
use biopsy_model::process::{Runtime, RuntimeKind};
use biopsy_model::runtime_trace::{RequestGroup, RuntimeTrace};
use biopsy_model::{Nanos, Pid};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn function(name: &str) -> Quantity {
    Quantity::Function { kind: FunctionKind::Native, module: "server".to_owned(), name: name.to_owned() }
}

/// Of so many seconds, a call tree by parent, name and own time.
fn with_tree(seconds: f64, requests: Option<u64>, tree: &[(u32, &str, f64)]) -> Slices {
    let node = |(parent, name, own): &(u32, &str, f64)| Node {
        parent: *parent,
        function: function(name),
        own: *own,
    };
    Slices { seconds, requests, tree: tree.iter().map(node).collect(), ..Slices::default() }
}

fn told(tree: &DifferenceTree) -> Vec<(u32, &str, f64, f64)> {
    let row = |node: &DifferenceNode| (node.parent, node.before, node.after);
    let rounded = |value: f64| (value * 1e6).round() / 1e6;
    let rows = tree.nodes.iter().map(|node| (row(node), node.name.as_str()));
    rows.map(|((parent, before, after), name)| (parent, name, rounded(before), rounded(after))).collect()
}

#[test]
fn calls_of_both_are_put_together_by_their_path() {
    let before =
        with_tree(10.0, Some(100), &[(0, "", 0.0), (0, "main", 1.0), (1, "load", 3.0), (1, "save", 1.0)]);
    let after = with_tree(
        20.0,
        Some(50),
        &[(0, "", 0.0), (0, "main", 2.0), (1, "send", 4.0), (1, "load", 2.0), (3, "load", 2.0)],
    );
    let a_second = tree::merge(&before, &after, Unit::Second);
    assert_eq!(
        told(&a_second),
        [
            (0, "", 0.5, 0.5),
            (0, "main", 0.5, 0.5),
            (1, "load", 0.3, 0.2),
            (1, "save", 0.1, 0.0),
            (1, "send", 0.0, 0.2),
            (2, "load", 0.0, 0.1),
        ]
    );
    let a_request = tree::merge(&before, &after, Unit::Request);
    assert_eq!(told(&a_request)[1], (0, "main", 0.05, 0.2));
    let nothing = tree::merge(&Slices::default(), &Slices::default(), Unit::Request);
    assert_eq!(told(&nothing), [(0, "", 0.0, 0.0)]);
}

#[test]
fn calls_below_a_thousandth_are_left_out_and_count_above() {
    let before = with_tree(
        1.0,
        None,
        &[(0, "", 0.0), (0, "main", 1.0), (1, "small", 0.0009), (2, "smaller", 0.00001), (1, "just", 0.0011)],
    );
    let tree = tree::merge(&before, &with_tree(1.0, None, &[(0, "", 0.0)]), Unit::Second);
    let names: Vec<_> = tree.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["", "main", "just"]);
    assert!((tree.nodes[1].before - 1.00201).abs() < 1e-9, "all of it is in main");
}

proptest! {
    /// A parent is as long as all that was counted below it, whatever tree there is.
    #[test]
    fn times_of_a_merged_tree_are_sums(
        trees in prop::array::uniform2(prop::collection::vec((0_u32..40, 0_usize..4, 0_u32..50), 0..40)),
    ) {
        let names = ["a", "b", "c", "d"];
        let made = trees.map(|nodes| {
            let mut tree = vec![(0, "", 0.0)];
            for (parent, name, own) in nodes {
                tree.push((parent % tree.len() as u32, names[name], f64::from(own)));
            }
            with_tree(1.0, None, &tree)
        });
        let merged = tree::merge(&made[0], &made[1], Unit::Second);
        let mut paths: BTreeMap<Vec<&Quantity>, [f64; 2]> = BTreeMap::new();
        for (side, of) in made.iter().enumerate() {
            let mut known: Vec<Vec<&Quantity>> = Vec::new();
            for (at, node) in of.tree.iter().enumerate() {
                let mut path = if at == 0 { vec![] } else { known[node.parent as usize].clone() };
                if at > 0 {
                    path.push(&node.function);
                }
                for end in 0..=path.len() {
                    paths.entry(path[..end].to_vec()).or_default()[side] += node.own;
                }
                known.push(path);
            }
        }
        let whole = paths.get(&vec![]).map_or(0.0, |times| times[0].max(times[1]));
        let expected = paths.iter().filter(|(path, times)| path.is_empty() || times[0].max(times[1]) >= 0.001 * whole);
        prop_assert_eq!(merged.nodes.len(), expected.count());
        let root = &merged.nodes[0];
        prop_assert_eq!([root.before, root.after], paths.get(&vec![]).copied().unwrap_or_default());
        for (at, node) in merged.nodes.iter().enumerate().skip(1) {
            prop_assert!((node.parent as usize) < at);
            let above = &merged.nodes[node.parent as usize];
            prop_assert!(above.before >= node.before - 1e-9 && above.after >= node.after - 1e-9);
        }
    }
}

fn group(route: &str, count: u64, mean_us: u64) -> RequestGroup {
    let mut durations = [0; 40];
    durations[(u64::BITS - mean_us.leading_zeros()) as usize] = count as u32;
    RequestGroup {
        method: "GET".to_owned(),
        route: route.to_owned(),
        count,
        unanswered: 0,
        failed: 0,
        total: Nanos(count * mean_us * 1000),
        longest: Nanos(mean_us * 1000),
        durations,
        children: (0, 0),
    }
}

/// A recording in which each process answered such requests.
fn answered(processes: &[&[RequestGroup]]) -> Recorded {
    let runtimes = (1..)
        .zip(processes)
        .map(|(pid, groups)| {
            let runtime = Runtime { kind: RuntimeKind::DotNet, version: None, entry: None };
            let trace = RuntimeTrace::new(Pid(pid), runtime, String::new());
            RuntimeTrace { request_groups: groups.to_vec(), ..trace }
        })
        .collect();
    Recorded::new(Capture { runtimes, ..Capture::default() })
}

#[test]
fn requests_of_all_processes_are_counted_together() {
    let one = answered(&[&[group("/a", 4000, 1000), group("/rare", 49, 1000), group("/b", 500, 8000)]]);
    // The same work, by two workers: a quick one and a slow one.
    let other = answered(&[
        &[group("/a", 3000, 1000), group("/rare", 25, 9000)],
        &[group("/a", 1000, 3000), group("/rare", 25, 9000)],
    ]);
    let found = request::times(&one, &other);
    let [(difference, is_claimed)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(difference.quantity, Quantity::Request { route: "GET /a".to_owned() });
    assert!(
        (difference.before - 0.001).abs() < 1e-12 && (difference.after - 0.0015).abs() < 1e-12,
        "{difference:?}"
    );
    assert!(*is_claimed, "half as much again of thousands of requests");
    let again = request::times(&one, &one);
    let claimed: Vec<_> = again.iter().map(|(one, is_claimed)| (&one.quantity, *is_claimed)).collect();
    let route = |route: &str| Quantity::Request { route: route.to_owned() };
    assert_eq!(claimed, [(&route("GET /a"), false), (&route("GET /b"), false)], "too few are not compared");
}

#[test]
fn a_mean_time_is_claimed_by_its_part_and_by_its_noise() {
    for (count, before, after, is_claimed) in [
        (5_000, 1000, 1140, false),
        (5_000, 1000, 1160, true),
        (5_000, 1000, 860, true),
        (5_000, 1000, 880, false),
        // Of few requests chance makes as much.
        (50, 1000, 1160, false),
        (50, 1000, 1000, false),
    ] {
        let (one, other) =
            (answered(&[&[group("/", count, before)]]), answered(&[&[group("/", count, after)]]));
        let found = request::times(&one, &other);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1, is_claimed, "{count} requests, {before} and {after} µs: {:?}", found[0].0);
    }
}

#[test]
fn by_how_much_all_code_changed_is_said_from_a_tenth_on() {
    for (factor, words) in [
        (1.0, None),
        (1.099, None),
        (1.101, Some("10 % more")),
        (0.901, None),
        (0.899, Some("10 % less")),
        (3.0, Some("200 % more")),
    ] {
        let said = remarks::rest(factor);
        match words {
            Some(words) => assert!(said.as_ref().is_some_and(|said| said.contains(words)), "{said:?}"),
            None => assert_eq!(said, None, "{factor}"),
        }
    }
}

#[test]
fn idle_and_lock_waits_are_told_by_their_reason() {
    let wait = |reason| Quantity::Wait { reason, function: None };
    for (reason, is_idleness, is_lock) in [
        (WaitReason::Events, true, false),
        (WaitReason::Sleep, true, false),
        (WaitReason::Condition, true, false),
        (WaitReason::Lock, false, true),
        (WaitReason::LockOrCondition, false, true),
        (WaitReason::KernelLock, false, true),
        (WaitReason::Disk, false, false),
        (WaitReason::Peer, false, false),
    ] {
        assert_eq!(
            (wait(reason).is_idleness(), wait(reason).is_lock()),
            (is_idleness, is_lock),
            "{reason:?}"
        );
    }
    assert!(!function("main").is_idleness() && !function("main").is_lock());
    let difference = |before, after| Difference { quantity: function("main"), before, after, noise: 0.1 };
    assert_eq!((difference(2.0, 3.0).change(), difference(2.0, 3.0).ratio()), (1.0, Some(0.5)));
    assert_eq!((difference(2.0, 0.0).change(), difference(2.0, 0.0).ratio()), (-2.0, Some(-1.0)));
    assert_eq!(difference(0.0, 3.0).ratio(), None);
}

const COUNT: usize = 40;

/// Functions that take so much of a core, as even as can be, over ten seconds.
fn even(functions: &[(&str, f64)]) -> Slices {
    let mut slices = Slices { seconds: 10.0, count: COUNT, ..Slices::default() };
    for (name, share) in functions {
        let each = share * 10.0 / COUNT as f64;
        let samples = (share * 10_000.0) as u64;
        let series = Series { slices: vec![each; COUNT], samples, in_kernel: 0 };
        slices.samples += samples;
        slices.cpu_seconds += share * 10.0;
        slices.of.insert(function(name), series);
    }
    slices
}

fn judged(before: &[(&str, f64)], after: &[(&str, f64)]) -> judge::Judged {
    judge::judge(&even(before), &even(after), Unit::Second, Vec::new())
}

fn claimed(judged: &judge::Judged) -> Vec<String> {
    let name = |one: &Difference| match &one.quantity {
        Quantity::Function { name, .. } => name.clone(),
        Quantity::Wait { .. } | Quantity::Request { .. } => String::new(),
    };
    judged.claimed.iter().map(name).collect()
}

#[test]
fn of_functions_that_changed_each_is_claimed_and_no_other() {
    const USUAL: &[(&str, f64)] = &[("a", 0.1), ("b", 0.2), ("c", 0.15), ("d", 0.1)];
    let with = |factors: [f64; 4]| -> Vec<(&str, f64)> {
        USUAL.iter().zip(factors).map(|((name, share), factor)| (*name, share * factor)).collect()
    };
    for (factors, names) in [
        ([1.0, 1.0, 1.0, 1.0], &[][..]),
        ([1.3, 1.3, 1.3, 1.3], &[]),
        ([2.0, 1.0, 1.0, 1.0], &["a"]),
        ([1.0, 0.5, 1.0, 1.0], &["b"]),
        // What got slower before what got faster by as much.
        ([2.0, 0.5, 1.0, 1.0], &["a", "b"]),
        ([2.6, 1.3, 1.3, 1.3], &["a"]),
    ] {
        let found = judged(USUAL, &with(factors));
        assert_eq!(claimed(&found), names, "{factors:?}");
        assert_eq!((found.compared, found.claimed.len() + found.others.len()), (4, 4));
    }
}

/// What is said of all code is of the code that did not change: a function that changed is found while others that changed too are
/// still taken for the rest.
#[test]
fn the_rest_is_what_did_not_change_whatever_its_name() {
    let before = [("a", 0.2), ("m", 0.2), ("n", 0.2), ("y", 0.2), ("z", 0.2)];
    for changed in [["a", "m"], ["y", "z"], ["a", "z"]] {
        let after = before.map(|(name, share)| {
            (
                name,
                if name == changed[0] {
                    share * 4.0
                } else if name == changed[1] {
                    share * 2.0
                } else {
                    share
                },
            )
        });
        let found = judged(&before, &after);
        let mut names = claimed(&found);
        names.sort();
        assert_eq!(names, changed);
        let rest = found.rest.expect("enough of it");
        assert!((rest - 1.0).abs() < 0.02, "{changed:?}: {rest}");
    }
}

#[test]
fn a_function_of_few_samples_or_of_the_kernel_has_no_quotient() {
    let few = [("a", 0.0029), ("b", 0.2), ("c", 0.2)];
    let (before, after) = (even(&few), even(&few));
    let both = |name: &str| Both { before: &before.of[&function(name)], after: &after.of[&function(name)] };
    let found = changes((&before, &after), &[both("a"), both("b"), both("c")], 1.06, (0.005, 3));
    let is_held: Vec<_> = found.iter().map(Option::is_some).collect();
    assert_eq!(is_held, [false, true, true], "29 samples");
    let mut of_kernel = even(&few);
    if let Some(series) = of_kernel.of.get_mut(&function("b")) {
        series.in_kernel = series.samples / 2;
    }
    let both =
        |name: &str| Both { before: &before.of[&function(name)], after: &of_kernel.of[&function(name)] };
    let found = changes((&before, &of_kernel), &[both("b"), both("c")], 1.06, (0.005, 2));
    assert_eq!(found, [None, None], "and without it c has no rest");
    assert!(changes((&before, &after), &[], 1.06, (0.005, 1)).is_empty());
}

proptest! {
    /// The smallest difference grows with the noise, with the number of comparisons, and is the same both ways.
    #[test]
    fn chance_is_the_same_both_ways(
        variances in prop::array::uniform2(0.0_f64..10.0),
        freedoms in prop::array::uniform2(1.0_f64..100.0),
        tests in 1_usize..500,
    ) {
        let mean = |at: usize| Mean { mean: 1.0, variance: variances[at], freedom: freedoms[at] };
        let (one, other) = (mean(0), mean(1));
        let least = noise::least(&one, &other, 0.005, tests);
        prop_assert_eq!(least, noise::least(&other, &one, 0.005, tests));
        prop_assert!(least >= 2.5 * (variances[0] + variances[1]).sqrt());
        prop_assert!(noise::least(&one, &other, 0.005, tests * 2) >= least);
        prop_assert!(noise::least(&one, &other, 0.05, tests) <= least);
    }

    /// Of slices that differ by chance alone, the variance of their mean is told about right.
    #[test]
    fn the_variance_of_a_mean_is_that_of_its_slices(values in prop::collection::vec(0.0_f64..1.0, 8..60), length in 0.1_f64..2.0) {
        let found = noise::mean(&values, length, 0.0);
        let number = values.len() as f64;
        let middle = values.iter().sum::<f64>() / number;
        prop_assert!((found.mean - middle / length).abs() < 1e-9);
        let single = values.iter().map(|value| (value - middle).powi(2)).sum::<f64>() / (number - 1.0) / number;
        prop_assert!(found.variance >= single / (length * length) * (1.0 - 1e-9), "never less than of single slices");
        prop_assert!(found.freedom >= 7.0 - 1e-9);
    }
}
