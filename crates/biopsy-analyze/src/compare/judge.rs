//! Which differences are claimed.
//!
//! A difference has to be larger than the noise inside of both recordings, and than what a machine makes of the same program from one
//! time to the next, which no single recording shows: when everything got slower by the same part, it is the machine, or the load, and
//! no function. So a function is held against the rest of the program (`beside`); what has no rest, is new, or is no code of the program
//! (the scheduler, waits) by its time alone.

use super::beside::{self, Both, Change, REST};
use super::difference::{Difference, Quantity, Unit};
use super::noise::{Mean, least, mean};
use super::slices::{Series, Slices};
use crate::trace::function::FunctionKind;
use biopsy_model::order::Order as _;

/// Of so many comparisons of the same with the same, one claims a difference: 200.
pub(super) const CHANCE: f64 = 0.005;
/// Changes below this part are not claimed: caches, clocks and neighbours make as much.
const LEAST: f64 = 0.06;
/// The same where no rest of the program tells the machine's part.
const LEAST_ALONE: f64 = 0.08;
/// Waits, and functions that no rest tells the machine's part of, where others took the CPUs meanwhile: without any change of the program
/// they took a third less, half as much again, twice as much.
const LEAST_STARVED: f64 = 2.0;
/// Such a function has at least so much of the CPU time.
const LARGE: f64 = 0.01;
/// Threads that want to run and cannot, for so much of the time that they want to.
const STARVED: f64 = 0.2;
/// Waits waver more than code.
const LEAST_OF_WAITS: f64 = 0.15;
/// Waits come in bursts that few slices show: their noise is taken for so much larger.
const BURSTS: f64 = 1.5;
/// Quantities below this, in seconds per second, are not looked at.
const SMALLEST: f64 = 0.002;
/// Quantities without a difference that are listed.
const LISTED: usize = 20;

/// What was judged.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) claimed: Vec<Difference>,
    pub(super) others: Vec<Difference>,
    pub(super) compared: usize,
    /// By so much more CPU time the functions of the program take that did not change; `None`: there are too few to tell.
    pub(super) rest: Option<f64>,
}

impl Judged {
    fn add(&mut self, difference: Difference, is_claimed: bool) {
        if is_claimed { self.claimed.push(difference) } else { self.others.push(difference) }
    }
}

struct Pair {
    quantity: Quantity,
    before: Mean,
    after: Mean,
}

/// Judges every quantity. `requests`: times of requests, which have their noise already.
pub(super) fn judge(
    before: &Slices,
    after: &Slices,
    unit: Unit,
    requests: Vec<(Difference, bool)>,
) -> Judged {
    let mut all: Vec<Pair> = pairs(before, after);
    all.retain(|pair| pair.before.mean.max(pair.after.mean) >= SMALLEST);
    all.order_by(|a, b| a.quantity.cmp(&b.quantity));
    let tests = all.len() + requests.len();
    let (per_before, per_after) = (scale(before, unit), scale(after, unit));
    let mut judged = Judged { compared: tests, ..Judged::default() };
    for (difference, is_claimed) in requests {
        judged.add(difference, is_claimed);
    }
    let beside = beside_the_rest(before, after, &all, tests);
    // As one that did not change sees it: what changed was held against others of which it was not known yet that they changed too.
    let is_usual = |change: &&Change| !change.claimed;
    let seen = beside.iter().flatten().find(is_usual).or(beside.iter().flatten().next_back());
    judged.rest = seen.map(|change| change.rest * per_after / per_before);
    for (pair, beside) in all.iter().zip(&beside) {
        if let Some(change) = beside {
            let mean = pair.before.mean * per_before;
            let noise = mean * (change.least - 1.0);
            let quantity = pair.quantity.clone();
            let difference = Difference { quantity, before: mean, after: mean * change.factor, noise };
            judged.add(difference, change.claimed);
            continue;
        }
        let scaled =
            |mean: &Mean, by: f64| Mean { mean: mean.mean * by, variance: mean.variance * by * by, ..*mean };
        let (one, other) = (scaled(&pair.before, per_before), scaled(&pair.after, per_after));
        let machine = machine(&all, pair).map(|ratio| ratio * per_after / per_before);
        let in_kernel =
            [before, after].map(|side| side.of.get(&pair.quantity).map_or(0.0, Series::kernel_share));
        let starved = before.starved.max(after.starved) >= STARVED;
        let part = match (&pair.quantity, machine) {
            (Quantity::Function { .. } | Quantity::Wait { .. }, _) if starved => LEAST_STARVED,
            // The kernel's work wavers like waits.
            (Quantity::Function { .. }, _) if in_kernel.iter().any(|share| *share >= beside::KERNEL) => {
                LEAST_OF_WAITS
            }
            (Quantity::Function { .. }, Some(_)) => LEAST,
            (Quantity::Function { .. }, None) => LEAST_ALONE,
            (Quantity::Wait { .. } | Quantity::Request { .. }, _) => LEAST_OF_WAITS,
        };
        let bursts = if part < LEAST_OF_WAITS { 1.0 } else { BURSTS };
        let chance = bursts * least(&one, &other, CHANCE, tests);
        let noise = chance.max(part * one.mean.min(other.mean));
        let difference =
            Difference { quantity: pair.quantity.clone(), before: one.mean, after: other.mean, noise };
        let change = difference.change();
        // Against the rest of the program it has to be as large, in the same direction.
        let beside = machine.map_or(change, |ratio| other.mean - one.mean * ratio);
        // A machine that is busy makes all of a program's code change; the code that changed changes otherwise.
        let agrees = change * beside > 0.0 && change.abs() > chance.min(noise) && beside.abs() > noise;
        let is_claimed = match pair.quantity {
            Quantity::Function { .. } if starved => agrees && is_large(before, after, pair),
            Quantity::Function { .. } => agrees,
            Quantity::Wait { .. } | Quantity::Request { .. } => change.abs() > noise,
        };
        judged.add(difference, is_claimed);
    }
    // What costs time, then what only says how busy threads are; what got slower before what got faster by as much.
    let weight = |one: &Difference| {
        let size = one.change().abs() * if one.change() > 0.0 { 1.0 } else { 0.5 };
        (
            !matches!(one.quantity, Quantity::Function { .. } | Quantity::Request { .. })
                && !one.quantity.is_lock(),
            one.quantity.is_idleness(),
            size,
        )
    };
    judged.claimed.order_by(|a, b| {
        let (a, b) = (weight(a), weight(b));
        (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.total_cmp(&a.2))
    });
    judged.others.order_by(|a, b| b.before.max(b.after).total_cmp(&a.before.max(a.after)));
    judged.others.truncate(LISTED);
    judged
}

fn is_large(before: &Slices, after: &Slices, pair: &Pair) -> bool {
    let share = |of: &Slices, mean: &Mean| mean.mean * of.seconds / of.cpu_seconds.max(f64::MIN_POSITIVE);
    share(before, &pair.before).max(share(after, &pair.after)) >= LARGE
}

/// How each function of the program changed beside the rest; `None` for what is none, and where there is no rest.
fn beside_the_rest(before: &Slices, after: &Slices, all: &[Pair], tests: usize) -> Vec<Option<Change>> {
    let both = |pair: &Pair| {
        let is_code = matches!(
            pair.quantity,
            Quantity::Function { kind: FunctionKind::Native | FunctionKind::Jit, .. }
        );
        let both = is_code.then_some(&pair.quantity)?;
        Some(Both { before: before.of.get(both)?, after: after.of.get(both)? })
    };
    let (places, functions): (Vec<usize>, Vec<Both<'_>>) =
        all.iter().enumerate().filter_map(|(at, pair)| Some((at, both(pair)?))).unzip();
    let mut found = vec![None; all.len()];
    let changes = beside::changes((before, after), &functions, 1.0 + LEAST, (CHANCE, tests));
    for (at, change) in places.into_iter().zip(changes) {
        if let Some(slot) = found.get_mut(at) {
            *slot = change;
        }
    }
    found
}

fn scale(of: &Slices, unit: Unit) -> f64 {
    match unit {
        Unit::Second => 1.0,
        Unit::Request => of.seconds / of.requests.unwrap_or(1).max(1) as f64,
    }
}

fn pairs(before: &Slices, after: &Slices) -> Vec<Pair> {
    let none = Series::default();
    let new = after.of.keys().filter(|quantity| !before.of.contains_key(*quantity));
    let all = before.of.keys().chain(new);
    all.map(|quantity| Pair {
        quantity: quantity.clone(),
        before: of(before, before.of.get(quantity).unwrap_or(&none)),
        after: of(after, after.of.get(quantity).unwrap_or(&none)),
    })
    .collect()
}

fn of(slices: &Slices, series: &Series) -> Mean {
    let length = slices.seconds / slices.count.max(1) as f64;
    let empty;
    let all = if series.slices.is_empty() {
        empty = vec![0.0; slices.count];
        &empty
    } else {
        &series.slices
    };
    // Samples fall on a function or beside it: a binomial distribution, and never less sure than by one sample.
    let weight = slices.cpu_seconds / slices.samples.max(1) as f64;
    let count = series.samples as f64;
    let misses = (1.0 - series.sum() / slices.seconds.max(f64::MIN_POSITIVE)).clamp(0.1, 1.0);
    let each = if series.samples > 0 { series.sum() / count } else { weight };
    mean(all, length, (count * misses + 1.0) * each * each)
}

/// How much more CPU time the functions of the program take in the second recording, `pair` left out: the middle one of them, each
/// weighed by its time. `None`: there are too few to tell.
fn machine(all: &[Pair], pair: &Pair) -> Option<f64> {
    let is_code = |one: &&Pair| matches!(one.quantity, Quantity::Function { .. });
    let whole: f64 = all.iter().filter(is_code).map(|one| one.before.mean).sum();
    let rest =
        all.iter().filter(is_code).filter(|one| one.quantity != pair.quantity && one.before.mean > 0.0);
    let mut ratios: Vec<(f64, f64)> =
        rest.map(|one| (one.after.mean / one.before.mean, one.before.mean)).collect();
    let weight: f64 = ratios.iter().map(|(_, weight)| weight).sum();
    if ratios.len() < 2 || weight < REST * whole {
        return None;
    }
    ratios.order_by(|a, b| a.0.total_cmp(&b.0));
    let mut sum = 0.0;
    ratios
        .into_iter()
        .find(|(_, of)| {
            sum += of;
            sum * 2.0 >= weight
        })
        .map(|(ratio, _)| ratio)
}
