//! When requests are counted in turns: a runtime that is asked for counters of requests counts at each request, for nothing but them.
//!
//! The EventSource of ASP.NET Core is asked at the beginning and at the end of each request whether somebody listens, and then
//! counts with operations that all CPUs share: 0.7 µs a request, 4 % of the CPU of a server with 70,000 requests a second.
//! Its meters cost as much again.

use std::time::{Duration, Instant};

use biopsy_dotnet::nettrace::{Event, Value, Values};

use super::budget::Advice;
use super::options::Budget;
use super::providers::{HOSTING, HTTP_CLIENT};

/// Counters come each second. They are open for so much of a turn at least; they stay open until they have come.
const OPEN: Duration = Duration::from_millis(1100);

/// Watches the rate of requests, as the counters tell it.
#[derive(Clone, Debug)]
pub(crate) struct RequestRates {
    /// Requests a second up to which they are always counted.
    limit: f64,
    turn: Duration,
    /// What has come since they are open.
    told: Option<f64>,
    /// Requests a second that made it close.
    rate: f64,
    /// Last change.
    changed: Instant,
    open: bool,
    in_turns: bool,
}

impl RequestRates {
    pub(crate) fn new(budget: Budget, now: Instant) -> Self {
        Self {
            limit: f64::from(budget.counted_per_second),
            turn: budget.turn,
            told: None,
            rate: 0.0,
            changed: now,
            open: true,
            in_turns: false,
        }
    }

    /// Whether they are counted for a part of the time only.
    pub(crate) fn is_in_turns(&self) -> bool {
        self.in_turns
    }

    /// Why they are not always counted.
    pub(crate) fn why(&self) -> String {
        format!(
            "{:.0} requests a second, above {:.0}: counting each of them costs the process",
            self.rate, self.limit
        )
    }

    /// Takes an event; others than counters of requests say nothing here.
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        let name = match event.metadata.provider.as_str() {
            HOSTING => "requests-per-second",
            HTTP_CLIENT => "requests-started-rate",
            _ => return,
        };
        if event.metadata.name == "EventCounters"
            && let Some(rate) = rate_of(event.values(), name)
        {
            self.tell(rate);
        }
    }

    fn tell(&mut self, rate: f64) {
        self.told = Some(self.told.map_or(rate, |told| told.max(rate)));
    }

    /// Looks at the rate.
    pub(crate) fn look(&mut self, now: Instant) -> Advice {
        if !self.open {
            if now.duration_since(self.changed) < self.turn.saturating_sub(OPEN) {
                return Advice::Stay;
            }
            (self.open, self.changed, self.told) = (true, now, None);
            return Advice::Open;
        }
        let Some(rate) = self.told.take() else { return Advice::Stay };
        self.in_turns = rate > self.limit;
        if !self.in_turns {
            return Advice::Stay;
        }
        (self.open, self.changed, self.rate) = (false, now, rate);
        Advice::Close
    }
}

/// The value a second of the counter `name`, wherever in the payload it lies.
fn rate_of(values: Values<'_>, name: &str) -> Option<f64> {
    let mut open = vec![values];
    // `{"": {"Payload": {...}}}` since .NET Core 3.0.
    for _ in 0..8 {
        let fields = open.pop()?;
        if let Some(found) = fields.clone().get("Name") {
            if found.text()?.to_string_of(100) != name {
                return None;
            }
            let increment = fields.clone().get("Increment")?.number()?;
            let seconds = fields.get("IntervalSec")?.number()?;
            return (seconds > 0.0).then(|| increment / seconds);
        }
        open.extend(fields.filter_map(|(_, value)| match value {
            Value::Object(inside) => Some(inside),
            _ => None,
        }));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        Budget { counted_per_second: 1000, ..Budget::default() }
    }

    /// Tenths of a second at which it closes and opens, where counters come each second that it is open.
    fn run(seconds: u64, rate: impl Fn(u64) -> f64) -> (Vec<u64>, Vec<u64>, RequestRates) {
        let start = Instant::now();
        let mut rates = RequestRates::new(budget(), start);
        let (mut closed, mut opened, mut open_for) = (Vec::new(), Vec::new(), 0);
        for tenth in 1..=seconds * 10 {
            open_for = if rates.open { open_for + 1 } else { 0 };
            if open_for > 0 && open_for % 10 == 0 {
                // Requests that are served and that are sent: the faster ones decide.
                rates.tell(rate(tenth / 10));
                rates.tell(1.0);
            }
            match rates.look(start + Duration::from_millis(tenth * 100)) {
                Advice::Close => closed.push(tenth),
                Advice::Open => opened.push(tenth),
                Advice::Stay => {}
            }
        }
        (closed, opened, rates)
    }

    #[test]
    fn few_requests_are_always_counted() {
        let (closed, _, rates) = run(60, |_| 1000.0);
        assert!(closed.is_empty() && !rates.is_in_turns());
    }

    #[test]
    fn many_requests_are_counted_for_a_second_of_ten() {
        let (closed, opened, rates) = run(60, |_| 70_000.0);
        assert_eq!((&closed[..3], &opened[..2]), (&[10, 109, 208][..], &[99, 198][..]));
        assert!(rates.is_in_turns());
        assert!(rates.why().starts_with("70000 requests a second, above 1000"), "{}", rates.why());
    }

    #[test]
    fn they_are_always_counted_again_when_the_load_has_gone() {
        let (closed, opened, rates) = run(60, |second| if second < 15 { 4000.0 } else { 10.0 });
        assert_eq!((closed.len(), opened.len()), (2, 2));
        assert!(rates.open && !rates.is_in_turns());
    }

    #[test]
    fn without_counters_nothing_changes() {
        let start = Instant::now();
        let mut rates = RequestRates::new(budget(), start);
        assert_eq!(rates.look(start + Duration::from_secs(3600)), Advice::Stay);
    }
}
