//! Rates from counters that may be missing, reset, or read at uneven moments.

use biopsy_model::MonoNanos;

/// The last value of one counter, and when it was read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    last: Option<(u64, MonoNanos)>,
}

impl Counter {
    /// Growth per second since the last reading.
    ///
    /// `None` at the first reading, after one that failed, and where the counter went back (a reset: how
    /// much was counted before it is not known).
    #[expect(clippy::cast_precision_loss, reason = "rates: 53 bits are plenty")]
    pub(crate) fn rate(&mut self, value: Option<u64>, time: MonoNanos) -> Option<f64> {
        let (grown, seconds) = self.step(value, time)?;
        Some(grown as f64 / seconds)
    }

    /// Growth and the seconds it took.
    pub(crate) fn step(&mut self, value: Option<u64>, time: MonoNanos) -> Option<(u64, f64)> {
        let last = std::mem::replace(&mut self.last, value.map(|value| (value, time)));
        let ((before, since), now) = (last?, value?);
        let grown = now.checked_sub(before)?;
        let seconds = time.since(since).as_secs_f64();
        (seconds > 0.0).then_some((grown, seconds))
    }

    /// The counter is known to be as it was at the last reading, without reading it.
    pub(crate) fn rest(&mut self, time: MonoNanos) {
        if let Some((_, since)) = &mut self.last {
            *since = time;
        }
    }

    /// The value that was read last.
    pub(crate) fn value(&self) -> Option<u64> {
        self.last.map(|(value, _)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn rates_need_two_whole_readings() {
        let mut counter = Counter::default();
        assert_eq!(counter.rate(Some(10), MonoNanos(SECOND)), None);
        assert_eq!(counter.rate(Some(30), MonoNanos(3 * SECOND)), Some(10.0));
        assert_eq!(counter.rate(None, MonoNanos(4 * SECOND)), None);
        assert_eq!(counter.rate(Some(50), MonoNanos(5 * SECOND)), None, "what happened between is not known");
        assert_eq!(counter.rate(Some(50), MonoNanos(6 * SECOND)), Some(0.0));
    }

    #[test]
    fn a_reset_is_no_rate() {
        let mut counter = Counter::default();
        counter.rate(Some(u64::MAX), MonoNanos(0));
        assert_eq!(counter.rate(Some(5), MonoNanos(SECOND)), None);
        assert_eq!(counter.rate(Some(7), MonoNanos(2 * SECOND)), Some(2.0));
    }

    #[test]
    fn the_same_moment_is_no_rate() {
        let mut counter = Counter::default();
        counter.rate(Some(1), MonoNanos(SECOND));
        assert_eq!(counter.rate(Some(2), MonoNanos(SECOND)), None);
    }
}
