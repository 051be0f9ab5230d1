//! When events of a kind come too fast, they are taken for a share of the time only.

use std::time::{Duration, Instant};

use super::options::Budget;

/// Length of one measurement of the rate.
const MEASURE: Duration = Duration::from_secs(1);
/// Bytes of an event, where the events themselves are still held back to be put in order: the start and the end of a request
/// have 70 on average.
const EVENT_BYTES: u64 = 70;
/// Least share of a turn in which events are taken: every kind is seen in each turn.
const LEAST_SHARE: f64 = 0.01;
/// It is open for this long at least, so that something that began is also seen to end.
const LEAST_OPEN: Duration = Duration::from_millis(100);

/// What to do with the session of a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Advice {
    /// Nothing.
    Stay,
    /// Close it.
    Close,
    /// Open it again.
    Open,
}

/// Watches the rate of one kind of event.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    budget: Budget,
    /// Since when this is measured.
    since: Instant,
    events: u64,
    bytes: u64,
    /// The kind is taken in turns of which this share is open.
    share: Option<f64>,
    /// Last change.
    changed: Instant,
    open: bool,
    /// Events a second that made it close.
    rate: f64,
}

impl Throttle {
    pub(crate) fn new(budget: Budget, now: Instant) -> Self {
        Self { budget, since: now, events: 0, bytes: 0, share: None, changed: now, open: true, rate: 0.0 }
    }

    /// The share of the time in which the kind is taken; `None`: always.
    pub(crate) fn share(&self) -> Option<f64> {
        self.share
    }

    /// Why it is not always taken.
    pub(crate) fn why(&self) -> String {
        format!("{:.0} events a second, above the budget of {}", self.rate, self.budget.events_per_second)
    }

    /// Counts what came. Events that are put in order are counted when they are; their bytes come at once.
    pub(crate) fn count(&mut self, events: u64, bytes: u64) {
        self.events += events;
        self.bytes += bytes;
    }

    /// What may be taken in a measurement, or in a turn, has come already: the process need not pay for the rest of it.
    fn is_used_up(&self) -> bool {
        let allowance = if self.share.is_some() { self.budget.turn } else { MEASURE }.as_secs_f64();
        let events = self.events.max(self.bytes / EVENT_BYTES);
        #[expect(clippy::cast_precision_loss, reason = "counts of some seconds")]
        let (events, bytes) = (events as f64, self.bytes as f64);
        events >= f64::from(self.budget.events_per_second) * allowance
            || bytes >= self.budget.bytes_per_second as f64 * allowance
    }

    /// Looks at the rate.
    #[expect(clippy::cast_precision_loss, reason = "counts of one second")]
    pub(crate) fn look(&mut self, now: Instant) -> Advice {
        if !self.open {
            let closed_for = self.budget.turn.mul_f64(1.0 - self.share.unwrap_or(1.0));
            if now.duration_since(self.changed) < closed_for {
                return Advice::Stay;
            }
            (self.open, self.changed) = (true, now);
            (self.since, self.events, self.bytes) = (now, 0, 0);
            return Advice::Open;
        }
        let open_for = now.duration_since(self.since);
        // A turn that is short is measured as long as it is.
        let enough = match self.share {
            Some(share) => self.budget.turn.mul_f64(share).max(LEAST_OPEN),
            None => MEASURE,
        };
        if open_for < enough && !(open_for >= LEAST_OPEN && self.is_used_up()) {
            return Advice::Stay;
        }
        let seconds = open_for.as_secs_f64().max(0.001);
        self.rate = self.events.max(self.bytes / EVENT_BYTES) as f64 / seconds;
        let byte_rate = self.bytes as f64 / seconds;
        let over = (self.rate / f64::from(self.budget.events_per_second.max(1)))
            .max(byte_rate / self.budget.bytes_per_second.max(1) as f64);
        (self.since, self.events, self.bytes) = (now, 0, 0);
        if over <= 1.0 {
            // Also after turns: the load has gone.
            self.share = None;
            return Advice::Stay;
        }
        self.share = Some((1.0 / over).max(LEAST_SHARE));
        (self.open, self.changed) = (false, now);
        Advice::Close
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget { events_per_second: 1000, ..Budget::default() }
    }

    /// Seconds (tenths) at which it closes and opens, for so many events a second.
    fn run(seconds: u64, rate: impl Fn(u64) -> u64) -> (Vec<u64>, Vec<u64>, Throttle) {
        let start = Instant::now();
        let mut throttle = Throttle::new(budget(), start);
        let (mut closed, mut opened) = (Vec::new(), Vec::new());
        for tenth in 1..=seconds * 10 {
            if throttle.open {
                throttle.count(rate(tenth / 10) / 10, 10);
            }
            match throttle.look(start + Duration::from_millis(tenth * 100)) {
                Advice::Close => closed.push(tenth),
                Advice::Open => opened.push(tenth),
                Advice::Stay => {}
            }
        }
        (closed, opened, throttle)
    }

    #[test]
    fn within_the_budget_nothing_is_left_out() {
        let (closed, _, throttle) = run(60, |_| 990);
        assert!(closed.is_empty() && throttle.share().is_none());
    }

    #[test]
    fn four_times_the_budget_is_taken_a_quarter_of_the_time() {
        let (closed, opened, throttle) = run(60, |_| 4000);
        assert_eq!(throttle.share(), Some(0.25));
        assert_eq!(&closed[..3], [3, 103, 203], "what a second may have, then 2.5 seconds of every 10");
        assert_eq!(&opened[..2], [78, 178]);
        assert!(throttle.why().starts_with("4000 events a second"));
    }

    #[test]
    fn events_that_are_held_back_are_told_by_their_bytes() {
        let start = Instant::now();
        let mut throttle = Throttle::new(budget(), start);
        throttle.count(0, 4000 * EVENT_BYTES);
        assert_eq!(throttle.look(start + Duration::from_secs(1)), Advice::Close);
        assert_eq!(throttle.share(), Some(0.25));
    }

    #[test]
    fn a_hundred_times_the_budget_is_still_looked_at() {
        let (closed, opened, throttle) = run(60, |_| 100_000);
        assert_eq!(throttle.share(), Some(LEAST_SHARE));
        assert_eq!(
            (&closed[..2], &opened[..2]),
            (&[1, 101][..], &[100, 200][..]),
            "a tenth of a second of every ten"
        );
    }

    #[test]
    fn a_turn_ends_when_it_has_had_its_events() {
        // Twice the budget when it is measured, then so many that a turn's share is used up at once.
        let (closed, opened, _) = run(60, |second| if second < 5 { 2000 } else { 100_000 });
        assert_eq!((closed[0], opened[0], closed[1]), (5, 55, 56));
    }

    #[test]
    fn it_is_always_taken_again_when_the_load_has_gone() {
        let (closed, _, throttle) = run(60, |second| if second < 15 { 4000 } else { 10 });
        assert!(throttle.share().is_none() && throttle.open);
        assert!(closed.iter().all(|tenth| *tenth < 200), "{closed:?}");
    }
}
