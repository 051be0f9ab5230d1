//! Time that is spread over a chart is the time that was there: all of it inside of the window, none from outside.

use super::*;
use proptest::prelude::*;

fn buckets(from: u64, bucket: u64, count: usize) -> Buckets {
    Buckets { from: MonoNanos(from), bucket, count }
}

fn spread(buckets: &Buckets, from: u64, to: u64, amount: u64) -> Vec<f64> {
    let mut sums = vec![0.0; buckets.count];
    buckets.spread(&mut sums, MonoNanos(from), MonoNanos(to), Nanos(amount));
    sums
}

#[test]
fn a_slice_gives_each_bucket_its_part() {
    let of = buckets(1_000, 100, 4);
    for (from, to, expected) in [
        (1_000, 1_100, [80.0, 0.0, 0.0, 0.0]),
        (1_050, 1_250, [20.0, 40.0, 20.0, 0.0]),
        // What began before the window, or ends behind it, leaves there what belongs there.
        (900, 1_100, [40.0, 0.0, 0.0, 0.0]),
        (1_300, 1_500, [0.0, 0.0, 0.0, 40.0]),
        (800, 900, [0.0; 4]),
        (1_100, 1_100, [0.0; 4]),
        (1_200, 1_100, [0.0; 4]),
        (1_000, 1_400, [20.0; 4]),
    ] {
        assert_eq!(spread(&of, from, to, 80), expected, "{from} to {to}");
    }
}

#[test]
fn the_last_moment_of_the_window_is_in_its_last_bucket() {
    let of = buckets(1_000, 100, 4);
    for (time, index) in
        [(999, None), (1_000, Some(0)), (1_099, Some(0)), (1_399, Some(3)), (1_400, Some(3)), (1_500, None)]
    {
        assert_eq!(of.index(MonoNanos(time)), index, "{time}");
    }
}

proptest! {
    #[test]
    fn no_time_is_lost_or_made(from in 0..3_000_u64, length in 1..3_000_u64, bucket in 1..200_u64, count in 1..20_usize, amount in 0..1_000_000_u64) {
        let of = buckets(1_000, bucket, count);
        let (to, end) = (from + length, 1_000 + bucket * count as u64);
        let inside = to.min(end).saturating_sub(from.max(1_000));
        let sum: f64 = spread(&of, from, to, amount).iter().sum();
        let meant = to_f64(amount) * to_f64(inside) / to_f64(length);
        prop_assert!((sum - meant).abs() <= meant * 1e-9 + 1e-6, "{} is not {}", sum, meant);
    }

    #[test]
    fn hostile_times_do_no_harm(from: u64, to: u64, start: u64, bucket in 1..=u64::MAX, amount: u64) {
        let sums = spread(&buckets(start, bucket, 5), from, to, amount);
        prop_assert!(sums.iter().all(|sum| sum.is_finite() && *sum >= 0.0), "{:?}", sums);
    }
}
