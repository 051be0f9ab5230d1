//! One clock: CLOCK_MONOTONIC nanoseconds, and pairs that tie it to the wall clock.

use std::ops::{Add, Sub};

/// A moment on CLOCK_MONOTONIC, in nanoseconds. All events of a recording are on this clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct MonoNanos(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Nanos(pub u64);

impl MonoNanos {
    /// Time since `earlier`, or zero where the order is the other way round.
    #[must_use]
    pub fn since(self, earlier: MonoNanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for MonoNanos {
    type Output = MonoNanos;
    fn add(self, rhs: Nanos) -> MonoNanos {
        MonoNanos(self.0.saturating_add(rhs.0))
    }
}

impl Sub<Nanos> for MonoNanos {
    type Output = MonoNanos;
    fn sub(self, rhs: Nanos) -> MonoNanos {
        MonoNanos(self.0.saturating_sub(rhs.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, rhs: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(rhs.0))
    }
}

impl Nanos {
    /// As seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display: 2^53 ns are 104 days")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// The same moment on the monotonic and on the wall clock: two of them (start, end) show whether the wall
/// clock stepped during the recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClockPair {
    /// CLOCK_MONOTONIC.
    pub mono: MonoNanos,
    /// CLOCK_REALTIME, nanoseconds since 1970-01-01 UTC.
    pub wall_unix_nanos: i128,
    /// Offset of the local time zone from UTC at that moment, seconds east.
    pub utc_offset_seconds: i32,
    /// Name of the local zone (IANA where known, else abbreviation).
    pub zone: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stops_at_its_ends() {
        let last = MonoNanos(u64::MAX);
        assert_eq!(MonoNanos(5).since(MonoNanos(7)), Nanos(0), "a clock that is behind");
        assert_eq!(last.since(MonoNanos(0)), Nanos(u64::MAX));
        assert_eq!(last + Nanos(1), last);
        assert_eq!(MonoNanos(1) - Nanos(2), MonoNanos(0));
        assert_eq!(Nanos(u64::MAX) + Nanos(1), Nanos(u64::MAX));
        assert!((Nanos(1_500_000_000).as_secs_f64() - 1.5).abs() < f64::EPSILON);
    }

    /// Moments and lengths at which sums and differences could turn over.
    const EDGES: [u64; 8] = [0, 1, 2, 1_000_000_000, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 1, u64::MAX];

    #[test]
    fn a_later_moment_is_never_before_an_earlier_one() {
        for (moment, length) in EDGES.iter().flat_map(|one| EDGES.map(|other| (*one, other))) {
            let (at, took) = (MonoNanos(moment), Nanos(length));
            assert!(at + took >= at && at - took <= at, "{at:?} {took:?}");
            let whole = moment.checked_add(length).is_some();
            assert_eq!((at + took).since(at) == took, whole, "{at:?} {took:?}");
            assert!(whole || (at + took) == MonoNanos(u64::MAX), "{at:?} {took:?}");
            let other = MonoNanos(length);
            assert_eq!(at.since(other) == Nanos(0), at <= other, "{at:?} {other:?}");
            assert!(at.since(other) == Nanos(0) || other.since(at) == Nanos(0), "both are later");
            assert_eq!(Nanos(moment) + took, took + Nanos(moment), "the order does not matter");
        }
        assert!(EDGES.map(|one| Nanos(one).as_secs_f64()).is_sorted());
    }
}
