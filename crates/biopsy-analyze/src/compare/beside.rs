//! Functions held against the rest of their program, so that what a machine or a load does to all of it cancels out.
//!
//! In each recording a function has so much CPU time for each second of the rest, and how that wavers is seen in slices: neighbours, clock
//! rates and load act on both, and their quotient stays. What changed is found one by one, the surest first, and is no part of the rest
//! from then on: a function that takes longer would make all others look faster.

use super::noise::{Mean, least as noise, mean};
use super::slices::{Series, Slices};

/// A function that is new or gone has no quotient: it is told by its time alone.
const FEWEST: u64 = 30;
/// The least part of the variance of independent samples that is believed where slices show less. Measured: a third.
const EVENLY: f64 = 0.25;
/// The rest of a program tells the machine's part if it has so much of the CPU time.
pub(super) const REST: f64 = 0.1;

/// A function that is mostly the kernel's work has no quotient either: what waking a thread costs depends on what else runs.
pub(super) const KERNEL: f64 = 0.5;
/// For the same reason one that is partly the kernel's has to change by so much of that share more.
const OF_KERNEL: f64 = 0.5;
/// Two that are as sure as each other.
const ALIKE: f64 = 1.05;

/// A function in both recordings.
pub(super) struct Both<'s> {
    pub(super) before: &'s Series,
    pub(super) after: &'s Series,
}

impl Both<'_> {
    fn can_be_held(&self) -> bool {
        self.before.samples.min(self.after.samples) >= FEWEST && self.kernel_share() < KERNEL
    }

    fn kernel_share(&self) -> f64 {
        self.before.kernel_share().max(self.after.kernel_share())
    }
}

/// How a function changed beside the rest.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Change {
    /// By so much longer, as a factor.
    pub(super) factor: f64,
    /// A factor from which on it is claimed, this way or that.
    pub(super) least: f64,
    /// The same of the rest of the program: by so much more CPU time in the second recording.
    pub(super) rest: f64,
    /// It is claimed.
    pub(super) claimed: bool,
}

/// Holds each function against the rest. `least`: the factor below which nothing is claimed; `chance` is that of claiming anything in
/// `tests` where nothing changed. `None`: there is no rest, or too little of the function.
pub(super) fn changes(
    (before, after): (&Slices, &Slices),
    functions: &[Both<'_>],
    least: f64,
    (chance, tests): (f64, usize),
) -> Vec<Option<Change>> {
    let mut changed = vec![false; functions.len()];
    let mut found: Vec<Option<Change>> = vec![None; functions.len()];
    // Each round finds one, or is the last.
    for _ in 0..=functions.len() {
        let sums = [
            rest(functions, &changed, before.count, |both| both.before),
            rest(functions, &changed, after.count, |both| both.after),
        ];
        let mut surest: Option<(usize, f64, f64, Change)> = None;
        for (at, both) in functions.iter().enumerate().filter(|(_, both)| both.can_be_held()) {
            if changed.get(at).copied().unwrap_or_default() {
                continue;
            }
            let one = quotient(before, both.before, &sums[0]);
            let other = quotient(after, both.after, &sums[1]);
            let (Some((one, rest_before)), Some((other, rest_after))) = (one, other) else { continue };
            let (factor, chance) = (other.mean - one.mean, noise(&one, &other, chance, tests));
            let least = least + OF_KERNEL * both.kernel_share();
            let change = Change {
                factor: factor.exp(),
                least: chance.exp().max(least),
                rest: rest_after / rest_before,
                claimed: factor.abs() > chance.max(least.ln()),
            };
            if let Some(slot) = found.get_mut(at) {
                *slot = Some(change);
            }
            // How many times the noise of it, whatever its size. Of two functions each is the rest of the other: then the one whose own
            // time changed more.
            let raw = (both.after.sum() / after.seconds / (both.before.sum() / before.seconds)).ln().abs();
            let sure = factor.abs() / chance.max(f64::MIN_POSITIVE);
            let is_surer = |(_, most, by, _): &(usize, f64, f64, Change)| {
                if sure.max(*most) < ALIKE * sure.min(*most) { raw > *by } else { sure > *most }
            };
            if change.claimed && surest.as_ref().is_none_or(is_surer) {
                surest = Some((at, sure, raw, change));
            }
        }
        let Some((at, _, _, change)) = surest else { break };
        // What others look like beside it is asked again without it.
        for (slot, is_changed) in found.iter_mut().zip(&changed) {
            if !is_changed {
                *slot = None;
            }
        }
        if let (Some(slot), Some(is_changed)) = (found.get_mut(at), changed.get_mut(at)) {
            *slot = Some(change);
            *is_changed = true;
        }
    }
    found
}

/// All functions that are not known to have changed, together.
fn rest<'s>(
    functions: &[Both<'s>],
    changed: &[bool],
    count: usize,
    of: impl Fn(&Both<'s>) -> &'s Series,
) -> Series {
    let mut sum = Series::new(count);
    for both in functions.iter().zip(changed).filter(|(both, changed)| !**changed && both.can_be_held()) {
        sum.add(of(both.0));
    }
    sum
}

/// The logarithm of a function's time for each second of the rest (`all` without it), with its noise; and that rest, a second.
fn quotient(of: &Slices, function: &Series, all: &Series) -> Option<(Mean, f64)> {
    let samples = all.samples.checked_sub(function.samples).filter(|samples| *samples >= FEWEST)?;
    let rest: Vec<f64> =
        all.slices.iter().zip(&function.slices).map(|(all, own)| (all - own).max(0.0)).collect();
    let (own, others) = (function.sum(), rest.iter().sum::<f64>());
    if own <= 0.0 || others < REST * of.cpu_seconds {
        return None;
    }
    let share = own / others;
    // By how much each slice has more of the function than the quotient says, as a share of what there is of it in a slice.
    let usual = own / of.count.max(1) as f64;
    let odd: Vec<f64> =
        function.slices.iter().zip(&rest).map(|(own, rest)| (own - share * rest) / usual).collect();
    // Samples fall here or there: of counts that are independent, the variance of the logarithm is one part in each. A timer finds work
    // that comes again and again more evenly; slices with enough samples show how evenly.
    let independent = 1.0 / function.samples as f64 + 1.0 / samples as f64;
    let by_slice = function.samples.min(samples) / of.count.max(1) as u64;
    let sampling = if by_slice >= FEWEST { EVENLY * independent } else { independent };
    let count = of.count.max(1) as f64;
    let wavers = mean(&odd, 1.0, sampling * count * count);
    Some((Mean { mean: share.ln(), ..wavers }, others / of.seconds.max(f64::MIN_POSITIVE)))
}
