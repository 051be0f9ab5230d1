//! Sums become samples: so many as were taken, evenly over the time.

use biopsy_model::{MonoNanos, Nanos};

/// How often every how many-th is kept, so that all sums together become at most `limit` samples.
pub(super) fn each(total: u64, limit: usize) -> u64 {
    total.div_ceil(u64::try_from(limit).unwrap_or(u64::MAX).max(1)).max(1)
}

/// The times and weights of `count` samples (at least one) of a sum of `weight`, between `from` and `to`. The weights are the sum, exactly.
pub(super) fn spread(
    (from, to): (MonoNanos, MonoNanos),
    count: u64,
    weight: u64,
) -> impl Iterator<Item = (MonoNanos, Nanos)> {
    let count = count.max(1);
    let length = u128::from(to.since(from).0);
    (0..count).map(move |number| {
        // In the middle of its share of the time.
        let at = length * (2 * u128::from(number) + 1) / (2 * u128::from(count));
        let time = from + Nanos(u64::try_from(at).unwrap_or(u64::MAX));
        let part = |number: u64| u128::from(weight) * u128::from(number) / u128::from(count);
        let own = part(number + 1) - part(number);
        (time, Nanos(u64::try_from(own).unwrap_or(u64::MAX)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_sum_and_lie_within_the_time() {
        for (count, weight) in [(1, 10), (3, 10), (7, 3), (0, 5), (4, u64::MAX)] {
            let (from, to) = (MonoNanos(100), MonoNanos(200));
            let all: Vec<_> = spread((from, to), count, weight).collect();
            assert_eq!(all.len() as u64, count.max(1));
            assert_eq!(all.iter().map(|(_, part)| u128::from(part.0)).sum::<u128>(), u128::from(weight));
            assert!(all.iter().all(|(time, _)| *time >= from && *time < to));
            assert!(all.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        }
        let nothing: Vec<_> = spread((MonoNanos(5), MonoNanos(5)), 2, 2).collect();
        assert_eq!(nothing, [(MonoNanos(5), Nanos(1)), (MonoNanos(5), Nanos(1))]);
    }

    #[test]
    fn more_samples_than_are_kept_become_fewer() {
        for (total, limit, every) in
            [(0, 10, 1), (10, 10, 1), (11, 10, 2), (u64::MAX, 1, u64::MAX), (5, 0, 5)]
        {
            assert_eq!(each(total, limit), every, "{total} of {limit}");
        }
    }
}
