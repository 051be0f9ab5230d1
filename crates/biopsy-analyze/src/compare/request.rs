//! Times of requests by route: their counts are exact, their times are known by powers of two.

use std::collections::BTreeMap;

use biopsy_model::Nanos;
use biopsy_model::runtime_trace::RequestGroup;

use super::difference::{Difference, Quantity};
use super::judge::CHANCE;
use super::noise::{Mean, least};
use crate::recorded::Recorded;

/// Requests from which on a mean says something.
pub(super) const ENOUGH: u64 = 50;
/// Routes that are compared at most.
const ROUTES: usize = 50;
/// Changes of a mean time below this part are not claimed.
const LEAST: f64 = 0.15;
/// Requests come in bursts and wait for the same things: their mean wavers more than that of independent ones, by so much.
const TOGETHER: f64 = 4.0;
/// The mean time of each route that both answered often enough, with whether its difference is claimed.
pub(super) fn times(before: &Recorded, after: &Recorded) -> Vec<(Difference, bool)> {
    let (one, other) = (routes(before), routes(after));
    let both: Vec<_> =
        one.iter().filter_map(|(route, mean)| Some((route, mean, other.get(route)?))).take(ROUTES).collect();
    let tests = both.len();
    both.into_iter()
        .map(|(route, before, after)| {
            let noise = least(before, after, CHANCE, tests.max(20)).max(LEAST * before.mean.min(after.mean));
            let quantity = Quantity::Request { route: route.clone() };
            let difference = Difference { quantity, before: before.mean, after: after.mean, noise };
            let is_claimed = difference.change().abs() > noise;
            (difference, is_claimed)
        })
        .collect()
}

/// Of all processes together: several workers answer the same routes.
fn routes(of: &Recorded) -> BTreeMap<String, Mean> {
    let mut routes: BTreeMap<String, Times> = BTreeMap::new();
    for group in of.capture.runtimes.iter().flat_map(|runtime| &runtime.request_groups) {
        routes.entry(format!("{} {}", group.method, group.route)).or_insert(Times::NONE).add(group);
    }
    let enough = routes.into_iter().filter(|(_, times)| times.count >= ENOUGH);
    enough.map(|(route, times)| (route, mean(&times))).collect()
}

struct Times {
    count: u64,
    total: Nanos,
    durations: [u64; 40],
}

impl Times {
    const NONE: Self = Self { count: 0, total: Nanos(0), durations: [0; 40] };

    fn add(&mut self, group: &RequestGroup) {
        self.count = self.count.saturating_add(group.count);
        self.total = self.total + group.total;
        for (sum, number) in self.durations.iter_mut().zip(&group.durations) {
            *sum = sum.saturating_add(u64::from(*number));
        }
    }
}

fn mean(of: &Times) -> Mean {
    let count = of.count as f64;
    let mean = of.total.as_secs_f64() / count;
    // `durations[i]`: below 2^i microseconds; the middle of each.
    let middle = |at: usize| 0.75e-6 * 2.0_f64.powi(i32::try_from(at).unwrap_or(i32::MAX));
    let known: f64 = of.durations.iter().map(|number| *number as f64).sum();
    let squares: f64 = of
        .durations
        .iter()
        .enumerate()
        .map(|(at, number)| *number as f64 * (middle(at) - mean).powi(2))
        .sum();
    let spread = if known > 1.0 { squares / (known - 1.0) } else { mean * mean };
    Mean { mean, variance: TOGETHER * spread / count, freedom: (count - 1.0).max(1.0) }
}
