//! When context switches are watched, where watching all of them would cost the target too much.
//!
//! Programs at each switch cost what they cost, and an empty one costs half of that: what is to be saved is saved by not being there. So above
//! a rate they are attached for a moment and away for several, and what the scheduler itself keeps stands for the time between.

use std::time::Duration;

use super::kernel::ThreadTimes;

const SECOND: u64 = 1_000_000_000;

/// So many switches of the target's threads in a second of its CPU time, or of the clock if it uses less than one CPU, may be watched: at 0.25
/// to 0.4 µs each, one to two thousandths of its time.
const BUDGET: u64 = 5_000;
/// Above so many times the budget, watching is taken in turns; below the budget, it is whole again.
const MUCH: u64 = 2;
/// So many readings in a row say that it is much, or little.
const READINGS: u32 = 2;
/// Length of a time in which switches are watched. To attach takes 7 ms, nearly all of it waiting.
const WATCHED: u64 = Duration::from_millis(100).as_nanos() as u64;
/// Longest time without.
const LONGEST_GAP: u64 = 5 * SECOND;

/// What to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// All goes on as it is.
    Stay,
    /// Switches were all watched; from now on in turns, beginning with a time in which they are not.
    Begin,
    /// They are watched for a moment.
    Open,
    /// That is over.
    Close,
    /// From now on all of them are watched.
    End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Now {
    Whole,
    Away { until: u64 },
    Watched { until: u64 },
}

/// Decides. It has no clock.
#[derive(Debug)]
pub(crate) struct Turns {
    now: Now,
    /// Switches for each second, as [`BUDGET`] counts them, and how many readings in a row said much, and little.
    rate: u64,
    much: u32,
    little: u32,
    /// Time and totals at the last reading.
    before: Option<(u64, Used)>,
    /// Of a generator: turns must not keep step with anything that the target does regularly.
    random: u64,
}

/// What the target's threads have used up to a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Used {
    pub(crate) switches: u64,
    pub(crate) running: u64,
}

impl Used {
    /// By one more thread.
    pub(crate) fn add(&mut self, times: &ThreadTimes) {
        self.switches = self.switches.saturating_add(times.voluntary).saturating_add(times.involuntary);
        self.running = self.running.saturating_add(times.running);
    }
}

impl Turns {
    pub(crate) fn new(seed: u64) -> Self {
        Self { now: Now::Whole, rate: 0, much: 0, little: 0, before: None, random: seed | 1 }
    }

    /// Totals at a moment. They become smaller when threads end: such a reading says nothing.
    pub(crate) fn read(&mut self, now: u64, used: Used) {
        let Some((at, before)) = self.before.replace((now, used)) else { return };
        let Some(switches) = used.switches.checked_sub(before.switches) else { return };
        let nanos = used.running.saturating_sub(before.running).max(now.saturating_sub(at)).max(1);
        self.rate =
            u64::try_from(u128::from(switches) * u128::from(SECOND) / u128::from(nanos)).unwrap_or(u64::MAX);
        let row = |is: bool, so_far: u32| if is { so_far.saturating_add(1) } else { 0 };
        self.much = row(self.rate > BUDGET * MUCH, self.much);
        self.little = row(self.rate < BUDGET, self.little);
    }

    /// What is due.
    pub(crate) fn next(&mut self, now: u64) -> Turn {
        match self.now {
            Now::Whole if self.much >= READINGS => {
                // Threads are counted in another way from here on.
                (self.before, self.little) = (None, 0);
                self.now = Now::Away { until: now.saturating_add(self.gap()) };
                Turn::Begin
            }
            Now::Away { .. } if self.little >= READINGS => {
                (self.before, self.much) = (None, 0);
                self.now = Now::Whole;
                Turn::End
            }
            Now::Away { until } if now >= until => {
                self.now = Now::Watched { until: now.saturating_add(WATCHED) };
                Turn::Open
            }
            Now::Watched { until } if now >= until => {
                self.now = Now::Away { until: now.saturating_add(self.gap()) };
                Turn::Close
            }
            Now::Whole | Now::Away { .. } | Now::Watched { .. } => Turn::Stay,
        }
    }

    /// What was to end could not: it goes on.
    pub(crate) fn stay_away(&mut self, now: u64) {
        self.now = Now::Away { until: now.saturating_add(self.gap()) };
    }

    /// Time until the next one, so that the share that is watched keeps to the budget.
    fn gap(&mut self) -> u64 {
        let period = u128::from(WATCHED) * u128::from(self.rate) / u128::from(BUDGET);
        let gap = u64::try_from(period).unwrap_or(u64::MAX).saturating_sub(WATCHED).min(LONGEST_GAP);
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // Three to five quarters of it.
        gap / 4 * 3 + self.random % (gap / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings once a second and turns every tenth, of threads that switch so often in a second and use so many CPUs: what was done, and
    /// for how many tenths of a second switches were watched.
    fn run(turns: &mut Turns, from: u64, seconds: u64, switches: u64, cpus: u64) -> (Vec<Turn>, u64) {
        let (mut done, mut watched) = (Vec::new(), 0);
        for tenth in 0..seconds * 10 {
            let now = from + tenth * SECOND / 10;
            if tenth.is_multiple_of(10) {
                let second = tenth / 10;
                turns.read(now, Used { switches: switches * second, running: cpus * second * SECOND });
            }
            let turn = turns.next(now);
            done.extend((turn != Turn::Stay).then_some(turn));
            watched += u64::from(!matches!(turns.now, Now::Away { .. }));
        }
        (done, watched)
    }

    #[test]
    fn switches_are_watched_for_a_share_of_the_time_that_keeps_to_the_budget() {
        // Rate, CPUs, seconds, and of how many tenths of a second at least and at most they are watched behind the first three seconds.
        for (rate, cpus, least, most) in [
            (100, 1, 1000, 1000),
            // Up to twice the budget of each CPU that is used.
            (9_900, 1, 1000, 1000),
            (19_800, 2, 1000, 1000),
            (9_900, 0, 1000, 1000),
            (44_000, 1, 90, 140),
            (44_000, 2, 180, 260),
            (85_000, 2, 90, 140),
            (600_000, 1, 14, 32),
            (u64::MAX / 1_000_000, 1, 14, 32),
        ] {
            let mut turns = Turns::new(42);
            run(&mut turns, 0, 3, rate, cpus);
            let (_, watched) = run(&mut turns, 3 * SECOND, 100, rate, cpus);
            assert!((least..=most).contains(&watched), "{rate} on {cpus}: {watched} of 1000");
        }
    }

    #[test]
    fn it_is_whole_until_it_was_much_twice_and_again_when_it_is_little() {
        let mut turns = Turns::new(7);
        assert_eq!(run(&mut turns, 0, 2, 50_000, 1).0, []);
        assert!(turns.now == Now::Whole);
        let (begun, _) = run(&mut turns, 2 * SECOND, 30, 50_000, 1);
        assert_eq!(begun[..3], [Turn::Begin, Turn::Open, Turn::Close]);
        // Between the budget and what is much it stays as it is.
        let (on, _) = run(&mut turns, 40 * SECOND, 30, 7_000, 1);
        assert!(turns.now != Now::Whole && on.len() > 20, "{on:?}");
        let (mut ended, _) = run(&mut turns, 80 * SECOND, 10, 100, 1);
        assert_eq!(ended.pop(), Some(Turn::End));
        assert!(ended.iter().all(|turn| matches!(turn, Turn::Open | Turn::Close)), "{ended:?}");
        assert!(turns.now == Now::Whole);
        // It ends while nothing is attached: there is one way in.
        assert_ne!(ended.last(), Some(&Turn::Open));
        assert_eq!(run(&mut turns, 100 * SECOND, 30, 9_000, 1).0, [], "and begins at much alone");
    }

    #[test]
    fn what_could_not_end_goes_on_and_ends_later() {
        let mut turns = Turns::new(7);
        run(&mut turns, 0, 10, 50_000, 1);
        let (ended, _) = run(&mut turns, 20 * SECOND, 10, 100, 1);
        assert_eq!(ended.last(), Some(&Turn::End));
        turns.stay_away(30 * SECOND);
        assert!(matches!(turns.now, Now::Away { .. }));
        let (again, _) = run(&mut turns, 40 * SECOND, 10, 100, 1);
        assert_eq!(again.last(), Some(&Turn::End), "{again:?}");
    }

    #[test]
    fn totals_that_become_smaller_say_nothing() {
        let used = |switches| Used { switches, running: 0 };
        let mut turns = Turns::new(7);
        for second in 0..10 {
            turns.read(second * SECOND, used(1_000_000 - second * 100_000));
            assert_eq!(turns.next(second * SECOND), Turn::Stay);
        }
        // Threads that end every other second do not end it.
        let mut turns = Turns::new(7);
        run(&mut turns, 0, 5, 50_000, 1);
        assert_ne!(turns.now, Now::Whole);
        for second in 5..60 {
            turns.read(second * SECOND, used(if second % 2 == 0 { 100_000 } else { 150_000 }));
            assert_ne!(turns.next(second * SECOND), Turn::End);
        }
    }
}
