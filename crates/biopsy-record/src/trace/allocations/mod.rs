//! `--allocations` of native processes: who allocates, and what of it stays.
//!
//! Each call of malloc and free that is watched costs the target two or three breakpoints. So they are watched all the time only where
//! that takes less than a part of the target's own processor time ([`BUDGET`]); else for a moment, again and again, with pauses until the
//! target has earned the next. In each such window first both are watched, then for as long only what is given back: each sampled
//! allocation had time to be released.

mod functions;
mod launched;
mod price;
mod probes;

use std::io;

use biopsy_model::loss::Warning;
use biopsy_model::timeline::AllocationWatch;
use biopsy_model::{FileOffset, MonoNanos, Pid};

use biopsy_target::identity::ticks_per_second;

use super::kernel::allocations::{AllocationCounts, AllocationPrograms};
use crate::metrics::parse::parse_stat;
use functions::Function;
pub(super) use launched::Counted;
pub use launched::{CannotCount, CountedProgram};
use probes::Probes;

/// Part of the target's own processor time that probes may take: a twenty-fifth. Not of the machine's: a target that waits for its turn has
/// little, and each breakpoint is a larger part of it.
const BUDGET: u64 = 25;
/// What may be taken in advance, in nanoseconds of processor time: nobody knows the rate before the first window.
const CREDIT: u64 = 5_000_000;
/// Breakpoints for one allocation: two at malloc, one at free, and one more at a free of the second half of the window.
const HITS: u64 = 4;
/// How long both are watched in a window, in nanoseconds.
const WINDOW: u64 = 40_000_000;
/// How often it is looked in a pause whether it may end.
const LOOK: u64 = 100_000_000;
/// Samples that are wanted in a second that is watched.
const SAMPLES: u64 = 1_000;
/// Bytes between two samples: of slow programs all large allocations are taken, of fast ones no more than can be unwound.
const SMALLEST_INTERVAL: u64 = 4 << 10;
const LARGEST_INTERVAL: u64 = 8 << 20;
const FIRST_INTERVAL: u64 = 64 << 10;
const SECOND: u64 = 1_000_000_000;

/// Where in a window we are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Both are watched since then.
    Both { since: u64, counts: AllocationCounts },
    /// What was watched is known; what is given back is still seen until then.
    Releases { watch: AllocationWatch, until: u64 },
    /// Nothing is watched until then.
    Pause { until: u64 },
    /// It cannot go on.
    Given,
}

/// The watch over the allocations of processes.
#[derive(Debug)]
pub(super) struct Allocations {
    // Before the programs: they go first.
    probes: Probes,
    programs: AllocationPrograms,
    pids: Vec<u32>,
    functions: Vec<(Pid, Vec<Function>)>,
    /// Nothing was heard of these functions: the process may have executed another program since.
    is_stale: bool,
    /// What one breakpoint costs, in nanoseconds.
    price: u64,
    /// What all of them have cost.
    spent: u64,
    /// Calls that are in that.
    paid: u64,
    /// Processor time of the processes at the beginning.
    used_before: u64,
    interval: u64,
    phase: Phase,
}

impl Allocations {
    /// Finds the functions of the processes. `Err`: why their allocations cannot be watched.
    pub(super) fn prepare(programs: AllocationPrograms, pids: &[u32]) -> Result<Self, String> {
        let functions = functions_of(pids).map_err(|error| format!("mappings of a process: {error}"))?;
        if functions.is_empty() {
            return Err("no malloc and free are known in it by their names".to_owned());
        }
        programs.set_interval(FIRST_INTERVAL).map_err(|error| format!("bpf map: {error}"))?;
        let price = u64::try_from(price::of_a_probe(&programs).as_nanos()).unwrap_or(SECOND);
        tracing::debug!(price, "nanoseconds that a breakpoint costs");
        let (probes, interval, phase) = (Probes::default(), FIRST_INTERVAL, Phase::Pause { until: 0 });
        let (pids, is_stale, spent) = (pids.to_vec(), false, 0);
        // Those of the measurement were ours.
        let paid = programs.counts().calls;
        let used_before = processor_time(&pids);
        Ok(Self {
            probes,
            programs,
            pids,
            functions,
            is_stale,
            price,
            spent,
            paid,
            used_before,
            interval,
            phase,
        })
    }

    /// Bytes that an allocation of this size stands for: the chance that it is taken is `1 - exp(-size / interval)`.
    pub(super) fn weight(&self, size: u64) -> u64 {
        weight(size, self.interval)
    }

    /// Whether a function of the process that hands out memory begins at this place of a file.
    pub(super) fn begins_at(&self, pid: Pid, offset: FileOffset) -> bool {
        let of_process =
            self.functions.iter().filter(|(of, _)| *of == pid).flat_map(|(_, functions)| functions);
        of_process.into_iter().any(|function| function.offset == offset.0)
    }

    /// What is due: probes are set and taken away. Gives back what was watched, and what went wrong.
    pub(super) fn round(&mut self, now: u64) -> (Option<AllocationWatch>, Option<Warning>) {
        let phase = self.phase;
        match phase {
            Phase::Pause { until } if now >= until && self.is_in_debt() => {
                self.phase = Phase::Pause { until: now.saturating_add(LOOK) };
                (None, None)
            }
            Phase::Pause { until } if now >= until => match self.begin() {
                Ok(()) => (None, None),
                Err(error) => {
                    self.phase = Phase::Given;
                    let message = format!("allocations of native code are no longer seen: {error}");
                    (None, Some(warning("allocations.not-watched", message)))
                }
            },
            Phase::Both { since, counts } if now.saturating_sub(since) >= WINDOW => {
                (self.look(now, since, counts), None)
            }
            Phase::Releases { watch, until } if now >= until => {
                self.probes.remove_releasing();
                self.phase = Phase::Pause { until: now };
                (Some(AllocationWatch { released_to: MonoNanos(now), ..watch }), None)
            }
            Phase::Pause { .. } | Phase::Both { .. } | Phase::Releases { .. } | Phase::Given => (None, None),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_stale) {
            // Of a process that has just ended there are none, which is no mistake.
            self.functions = functions_of(&self.pids).unwrap_or_default();
        }
        let counts = self.programs.counts();
        self.probes.set(&self.programs, &self.functions)?;
        self.phase = Phase::Both { since: biopsy_sys::clock::monotonic_nanos(), counts };
        Ok(())
    }

    /// Whether it can go on like this, or has to make a pause.
    fn look(&mut self, now: u64, since: u64, before: AllocationCounts) -> Option<AllocationWatch> {
        let counts = self.programs.counts();
        let watch = AllocationWatch {
            from: MonoNanos(since),
            to: MonoNanos(now),
            released_to: MonoNanos(now),
            calls: counts.calls.wrapping_sub(before.calls),
            bytes: counts.bytes.wrapping_sub(before.bytes),
            interval: self.interval,
        };
        let length = now.saturating_sub(since).max(1);
        let cost = watch.calls.saturating_mul(HITS).saturating_mul(self.price);
        let affordable = self.spent.saturating_add(cost) <= self.earned();
        if affordable && length < SECOND {
            return None;
        }
        self.spent = self.spent.saturating_add(cost);
        self.paid = counts.calls;
        self.adapt(&watch, length);
        if watch.calls == 0 {
            self.probes.remove_allocating();
            self.probes.remove_releasing();
            self.is_stale = true;
            self.phase = Phase::Pause { until: now };
            return Some(watch);
        }
        if affordable {
            self.phase = Phase::Both { since: now, counts };
            return Some(watch);
        }
        self.probes.remove_allocating();
        self.phase = Phase::Releases { watch, until: now.saturating_add(length.min(WINDOW)) };
        None
    }

    /// Whether more was taken than was earned, with what ran into breakpoints that were about to go.
    fn is_in_debt(&mut self) -> bool {
        let calls = self.programs.counts().calls;
        let more = calls.wrapping_sub(self.paid).saturating_mul(HITS).saturating_mul(self.price);
        self.spent = self.spent.saturating_add(more);
        self.paid = calls;
        self.spent > self.earned()
    }

    /// Nanoseconds of its processor time that may have been taken from the target by now.
    fn earned(&self) -> u64 {
        processor_time(&self.pids).saturating_sub(self.used_before) / BUDGET + CREDIT
    }

    fn adapt(&mut self, watch: &AllocationWatch, length: u64) {
        let each_second = u128::from(watch.bytes) * u128::from(SECOND) / u128::from(length);
        let wanted = u64::try_from(each_second / u128::from(SAMPLES)).unwrap_or(u64::MAX);
        let wanted = wanted.clamp(SMALLEST_INTERVAL, LARGEST_INTERVAL).next_power_of_two();
        if wanted != self.interval && self.programs.set_interval(wanted).is_ok() {
            self.interval = wanted;
        }
    }

    /// The end: nothing is set any more. What was watched last.
    pub(super) fn finish(&mut self, now: u64) -> Option<AllocationWatch> {
        let watch = match self.phase {
            Phase::Both { since, counts } => {
                let after = self.programs.counts();
                Some(AllocationWatch {
                    from: MonoNanos(since),
                    to: MonoNanos(now),
                    released_to: MonoNanos(now),
                    calls: after.calls.wrapping_sub(counts.calls),
                    bytes: after.bytes.wrapping_sub(counts.bytes),
                    interval: self.interval,
                })
            }
            Phase::Releases { watch, .. } => Some(AllocationWatch { released_to: MonoNanos(now), ..watch }),
            Phase::Pause { .. } | Phase::Given => None,
        };
        self.probes = Probes::default();
        self.phase = Phase::Given;
        watch
    }
}

/// The functions of each process that has some.
fn functions_of(pids: &[u32]) -> io::Result<Vec<(Pid, Vec<Function>)>> {
    let found = pids.iter().map(|&pid| Ok((Pid(pid), functions::find(Pid(pid))?)));
    found.filter(|found| !matches!(found, Ok((_, of)) if of.is_empty())).collect()
}

/// Nanoseconds that the processes have run; of those that have ended none.
fn processor_time(pids: &[u32]) -> u64 {
    let ticks = |pid: &u32| {
        let line = biopsy_files::read_kernels(format!("/proc/{pid}/stat")).ok()?;
        parse_stat(&line).map(|stat| stat.user.saturating_add(stat.system))
    };
    let all: u64 = pids.iter().filter_map(ticks).fold(0, u64::saturating_add);
    all.saturating_mul(SECOND / ticks_per_second().max(1))
}

fn weight(size: u64, interval: u64) -> u64 {
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let (size, interval) = (size as f64, interval as f64);
    let chance = -(-size / interval.max(1.0)).exp_m1();
    if chance <= 0.0 {
        return 0;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
    let weight = (size / chance) as u64;
    weight
}

fn warning(code: &str, message: String) -> Warning {
    Warning { code: code.to_owned(), message, hint: None, time: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_stand_for_an_interval_and_large_ones_for_themselves() {
        assert_eq!(weight(0, 1000), 0);
        assert_eq!(weight(1, 1000), 1000);
        assert_eq!(weight(100_000, 1000), 100_000);
        assert_eq!(weight(1000, 1000), 1581);
    }

    #[test]
    fn processor_time_is_that_of_all_and_of_none_that_is_gone() {
        let own = std::process::id();
        let begun = std::time::Instant::now();
        while processor_time(&[own]) == 0 {
            assert!(begun.elapsed().as_secs() < 60, "a minute of work is no time");
        }
        assert_eq!(processor_time(&[u32::MAX]), 0);
        assert!(processor_time(&[own, own]) >= processor_time(&[own]));
    }
}
