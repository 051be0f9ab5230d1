//! Moments and lengths of time: they stop at their ends, and keep their order whatever clock they were read from.

use biopsy_model::{ClockPair, MonoNanos, Nanos};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_length_of_time_is_told_in_seconds() {
    for (nanos, seconds) in [
        (0, 0.0),
        (1, 1e-9),
        (SECOND / 2, 0.5),
        (SECOND, 1.0),
        (90 * SECOND, 90.0),
        (86_400 * SECOND, 86_400.0),
        // A year; doubles have no single nanoseconds any more, but still the seconds.
        (31_536_000 * SECOND, 31_536_000.0),
    ] {
        assert!((Nanos(nanos).as_secs_f64() - seconds).abs() <= seconds * f64::EPSILON, "{nanos}");
    }
    assert!(Nanos(u64::MAX).as_secs_f64().is_finite());
}

#[test]
fn what_nobody_has_set_is_the_beginning_of_all_clocks() {
    let pair = ClockPair::default();
    assert_eq!((pair.mono, pair.wall_unix_nanos), (MonoNanos(0), 0));
    assert_eq!((pair.utc_offset_seconds, pair.zone.as_str()), (0, ""));
    assert_eq!(Nanos::default(), MonoNanos::default().since(MonoNanos::default()));
}

/// Moments near the ends of the clock as often as any others.
fn any_nanos() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 0..1000_u64, (0..1000_u64).prop_map(|less| u64::MAX - less)]
}

proptest! {
    #[test]
    fn of_two_moments_one_is_since_the_other(one in any_nanos(), other in any_nanos()) {
        let (one, other) = (MonoNanos(one), MonoNanos(other));
        let (there, back) = (one.since(other), other.since(one));
        prop_assert_eq!(there.0.max(back.0), one.0.abs_diff(other.0));
        prop_assert_eq!(there.0.min(back.0), 0);
        // What lies between leads from the earlier to the later, and back.
        prop_assert_eq!(one.min(other) + there.max(back), one.max(other));
        prop_assert_eq!(one.max(other) - there.max(back), one.min(other));
    }

    #[test]
    fn lengths_add_up_in_any_order(lengths in prop::collection::vec(any_nanos(), 0..8)) {
        let sum = |lengths: &[u64]| lengths.iter().fold(Nanos(0), |sum, one| sum + Nanos(*one));
        let backwards: Vec<u64> = lengths.iter().rev().copied().collect();
        prop_assert_eq!(sum(&lengths), sum(&backwards));
        let exact: u128 = lengths.iter().map(|one| u128::from(*one)).sum();
        prop_assert_eq!(u128::from(sum(&lengths).0), exact.min(u128::from(u64::MAX)));
        // As one after the other from a moment on.
        let start = MonoNanos(7);
        let step_by_step = lengths.iter().fold(start, |at, one| at + Nanos(*one));
        prop_assert_eq!(step_by_step, start + sum(&lengths));
    }

    #[test]
    fn later_moments_stay_later(one in any_nanos(), other in any_nanos(), by in any_nanos()) {
        let (first, second) = (MonoNanos(one.min(other)), MonoNanos(one.max(other)));
        prop_assert!(first + Nanos(by) <= second + Nanos(by));
        prop_assert!(first - Nanos(by) <= second - Nanos(by));
        prop_assert!(second.since(first) <= second.since(MonoNanos(0)));
        prop_assert!(Nanos(first.0).as_secs_f64() <= Nanos(second.0).as_secs_f64());
    }
}
