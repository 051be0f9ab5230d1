//! Requests and commands by kind, and what went on while they were slow.

use super::{MS, collection, trace};
use crate::limits::RUNTIME_ROWS;
use crate::runtimes::{Coincidence, Meanwhile, coincide, requests};
use biopsy_model::runtime_trace::{
    Collection, CollectionReason, CommandGroup, DataCommand, Request, RequestGroup, ThreadPoolChange,
    ThreadPoolEvent,
};
use biopsy_model::{MonoNanos, Nanos};
use proptest::prelude::*;

fn group(route: &str, count: u64, total_ms: u64) -> RequestGroup {
    RequestGroup {
        method: "GET".to_owned(),
        route: route.to_owned(),
        count,
        unanswered: 0,
        failed: 0,
        total: Nanos(total_ms * MS),
        longest: Nanos(total_ms * MS),
        durations: [0; 40],
        children: (0, 0),
    }
}

#[test]
fn requests_and_commands_are_in_the_order_of_their_time() {
    let mut waiting = group("/b", 0, 0);
    waiting.unanswered = 3;
    let mut chatty = group("/c", 4, 10);
    chatty.children = (10, 6);
    let rows = requests::groups(&[group("/z", 0, 0), group("/a", 0, 0), waiting, chatty]);
    let told: Vec<_> = rows
        .iter()
        .map(|row| (row.route.as_str(), row.mean.0, row.children_mean, row.children_most))
        .collect();
    assert_eq!(told, [("/c", 2_500_000, 2.5, 6), ("/b", 0, 0.0, 0), ("/a", 0, 0.0, 0), ("/z", 0, 0.0, 0)]);
    let command = |text: &str, count, total| CommandGroup {
        text: text.to_owned(),
        source: "db".to_owned(),
        count,
        failed: 1,
        total: Nanos(total),
        longest: Nanos(total),
        most_in_one_request: 2,
    };
    let rows = requests::commands(&[command("b", 3, 10), command("a", 3, 10), command("never ended", 0, 11)]);
    let told: Vec<_> = rows.iter().map(|row| (row.text.as_str(), row.mean.0)).collect();
    assert_eq!(told, [("never ended", 0), ("a", 3), ("b", 3)]);
    let many: Vec<_> = (0..RUNTIME_ROWS as u64 + 5).map(|number| group("/", 1, number)).collect();
    let rows = requests::groups(&many);
    assert_eq!(rows.len(), RUNTIME_ROWS);
    assert_eq!(
        rows.last().map(|row| row.total),
        Some(Nanos(5 * MS)),
        "those with the least time are left out"
    );
}

proptest! {
    /// The true value is in the same step of the histogram: against requests that are known one by one.
    #[test]
    fn a_quantile_is_in_the_step_of_the_true_one(
        mut micros in prop::collection::vec(0_u64..1 << 30, 1..60),
        share in 0.01_f64..1.0,
    ) {
        let mut group = group("/", 0, 0);
        let step = |micros: u64| (u64::BITS - micros.leading_zeros()) as usize;
        for one in &micros {
            group.durations[step(*one)] += 1;
        }
        micros.sort_unstable();
        group.longest = Nanos(micros.last().copied().unwrap_or(0) * 1000);
        let rank = ((share * micros.len() as f64).ceil() as usize).clamp(1, micros.len());
        let real = step(micros[rank - 1]);
        let found = requests::quantile(&group, share).0 / 1000;
        let from = if real == 0 { 0 } else { 1 << (real - 1) };
        prop_assert!((from..=1 << real).contains(&found), "{found} and not in step {real} of {micros:?}");
        prop_assert!(found * 1000 <= group.longest.0.max(from * 1000));
        let later = requests::quantile(&group, (share + 0.2).min(1.0)).0 / 1000;
        prop_assert!(found <= later, "{found} and later {later}");
    }

    /// Against a model that asks each millisecond by itself.
    #[test]
    fn coincidences_are_those_of_single_milliseconds(
        requests in prop::collection::vec((0_u64..900, prop::option::of(1_u64..600)), 1..8),
        pauses in prop::collection::vec((0_u64..1000, 0_u64..200), 0..6),
        commands in prop::collection::vec((0_u64..1000, prop::option::of(0_u64..300)), 0..6),
    ) {
        const END: u64 = 1000;
        let at = |ms: u64| MonoNanos(ms * MS);
        let mut trace = trace();
        trace.requests.items = requests.iter().map(|(start, ms)| request(*start, *ms)).collect();
        trace.collections.items = (0..)
            .zip(&pauses)
            .map(|(number, (start, ms))| Collection {
                start: at(*start),
                ..collection(number, 0, CollectionReason::Induced, *ms)
            })
            .collect();
        trace.commands.items = commands.iter().map(|(start, ms)| command(*start, *ms)).collect();
        let found = coincide::find(&trace, (at(0), at(END)));

        let end = |(start, ms): &(u64, Option<u64>)| ms.map_or(END, |ms| start + ms);
        let slow: Vec<(u64, u64)> = requests
            .iter()
            .map(|one| (one.0, end(one)))
            .filter(|(from, to)| to.saturating_sub(*from) >= 100)
            .collect();
        let covers = |of: &[(u64, u64)], ms: u64| of.iter().any(|(from, to)| (*from..*to).contains(&ms));
        let sources = [
            (Meanwhile::Collection, pauses.iter().map(|(start, ms)| (*start, start + ms)).collect::<Vec<_>>()),
            (Meanwhile::Command, commands.iter().map(|one| (one.0, end(one))).collect()),
        ];
        for (what, stretches) in sources {
            let row = found.iter().find(|row| row.what == what);
            let is_there = stretches.iter().any(|(from, to)| from < to) && !slow.is_empty();
            prop_assert_eq!(row.is_some(), is_there, "{:?}", what);
            let Some(row) = row else { continue };
            let during = |from: u64, to: u64| (from..to).filter(|ms| covers(&stretches, *ms)).count() as f64;
            let all: f64 = slow.iter().map(|(from, to)| (to - from) as f64).sum();
            let share = slow.iter().map(|(from, to)| during(*from, *to)).sum::<f64>() / all;
            let hit = slow.iter().filter(|(from, to)| during(*from, *to) >= (to - from) as f64 * 0.1 - 1e-9).count();
            prop_assert_eq!((row.requests, row.hit), (slow.len() as u64, hit as u64));
            prop_assert!((row.share - share).abs() < 1e-6, "{} and not {}", row.share, share);
            prop_assert!((row.usual - during(0, END) / END as f64).abs() < 1e-6, "{}", row.usual);
        }
        let shares: Vec<f64> = found.iter().map(|row| row.share).collect();
        prop_assert!(shares.is_sorted_by(|a, b| a >= b), "{:?}", shares);
    }
}

fn request(start: u64, ms: Option<u64>) -> Request {
    Request {
        start: MonoNanos(start * MS),
        duration: ms.map(|ms| Nanos(ms * MS)),
        method: "GET".to_owned(),
        path: "/".to_owned(),
        route: None,
        status: None,
        children: 0,
        trace_id: None,
    }
}

fn command(start: u64, ms: Option<u64>) -> DataCommand {
    DataCommand {
        start: MonoNanos(start * MS),
        duration: ms.map(|ms| Nanos(ms * MS)),
        text: String::new(),
        source: String::new(),
        failed: false,
        trace_id: None,
    }
}

#[test]
fn a_pool_that_says_so_twice_a_second_starves_in_between() {
    let mut trace = trace();
    trace.requests.items = vec![request(2_000, Some(1_000))];
    let starved = |ms: u64, kind| ThreadPoolEvent { time: MonoNanos(ms * MS), threads: None, kind };
    let reason = |reason: &str| ThreadPoolChange::Adjusted { reason: reason.to_owned(), throughput: None };
    trace.thread_pool.items = vec![
        starved(100, reason("Starvation")),
        starved(2_000, ThreadPoolChange::Workers),
        starved(2_200, reason("ClimbingMove")),
        starved(2_750, reason("CooperativeBlocking")),
    ];
    let span = (MonoNanos(0), MonoNanos(10_000 * MS));
    let found = coincide::find(&trace, span);
    // 0 to 600 ms, which begins with the recording, and 2,250 to 3,250 ms.
    let expected = Coincidence { what: Meanwhile::Starvation, requests: 1, hit: 1, share: 0.75, usual: 0.16 };
    assert_eq!(found, [expected]);
    assert_eq!(coincide::find(&trace, (span.1, span.0)), [], "time goes forward");
    trace.requests.items[0].duration = Some(Nanos(100 * MS - 1));
    assert_eq!(coincide::find(&trace, span), [], "that is slow to nobody");
}

#[test]
fn a_tenth_of_a_request_is_enough_of_it() {
    let mut trace = trace();
    trace.requests.items = vec![request(560, None)];
    for (ms, hit) in [(43, 0), (44, 1)] {
        trace.commands.items = vec![command(560, Some(ms))];
        let found = coincide::find(&trace, (MonoNanos(0), MonoNanos(1000 * MS)));
        assert_eq!(found[0].hit, hit, "{ms} of 440 ms");
    }
}
