//! How much a mean over a recording wavers, estimated from its slices.

/// The mean of a quantity per second, and how sure it is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Mean {
    /// Seconds per second.
    pub(super) mean: f64,
    /// Its variance.
    pub(super) variance: f64,
    /// Degrees of freedom of that.
    pub(super) freedom: f64,
}

/// The mean of slices of `length` seconds each. `sampling`: variance that the sum has at least, because it was estimated from samples.
///
/// What happens in one slice goes on in the next one: a mean wavers more than independent slices would let it. So slices are put
/// together into batches of 1, 2, 4, and the largest of the estimates is taken.
pub(super) fn mean(slices: &[f64], length: f64, sampling: f64) -> Mean {
    /// With fewer batches an estimate of their variance says nothing.
    const FEWEST: usize = 8;
    let count = slices.len() as f64;
    let all = count * length;
    if slices.is_empty() || length <= 0.0 {
        return Mean::default();
    }
    let mean = slices.iter().sum::<f64>() / all;
    let mut worst = Mean { mean, variance: sampling / (all * all), freedom: count - 1.0 };
    for size in [1, 2, 4] {
        let batches: Vec<f64> = slices
            .chunks_exact(size)
            .map(|batch| batch.iter().sum::<f64>() / (size as f64 * length))
            .collect();
        if batches.len() < FEWEST {
            break;
        }
        let number = batches.len() as f64;
        let middle = batches.iter().sum::<f64>() / number;
        let spread = batches.iter().map(|batch| (batch - middle).powi(2)).sum::<f64>() / (number - 1.0);
        if spread / number > worst.variance {
            worst = Mean { mean, variance: spread / number, freedom: number - 1.0 };
        }
    }
    worst
}

/// The smallest difference of two means that chance makes in fewer than `chance` of all cases, one of `tests` that are made.
pub(super) fn least(before: &Mean, after: &Mean, chance: f64, tests: usize) -> f64 {
    let variance = before.variance + after.variance;
    if variance <= 0.0 {
        return 0.0;
    }
    // Welch and Satterthwaite.
    let part = |mean: &Mean| mean.variance.powi(2) / mean.freedom.max(1.0);
    let freedom = variance.powi(2) / (part(before) + part(after)).max(f64::MIN_POSITIVE);
    quantile(1.0 - chance / (2.0 * tests.max(1) as f64), freedom) * variance.sqrt()
}

/// Quantile of Student's t, by the expansion of Cornish and Fisher around the normal one: good to some percent from 7 degrees on,
/// and too large rather than too small below.
fn quantile(probability: f64, freedom: f64) -> f64 {
    let z = normal(probability);
    let v = freedom.max(3.0);
    let powers = [z.powi(3), z.powi(5), z.powi(7)];
    z + (powers[0] + z) / (4.0 * v)
        + (5.0 * powers[1] + 16.0 * powers[0] + 3.0 * z) / (96.0 * v.powi(2))
        + (3.0 * powers[2] + 19.0 * powers[1] + 17.0 * powers[0] - 15.0 * z) / (384.0 * v.powi(3))
}

/// Quantile of the normal distribution above one half: Abramowitz and Stegun 26.2.23, to 0.00045.
fn normal(probability: f64) -> f64 {
    let t = (-2.0 * (1.0 - probability).max(1e-300).ln()).sqrt();
    let above = 2.515_517 + 0.802_853 * t + 0.010_328 * t * t;
    let below = 1.0 + 1.432_788 * t + 0.189_269 * t * t + 0.001_308 * t * t * t;
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (probability, freedom, table) in [
            (0.975, 1e9, 1.960),
            (0.9995, 30.0, 3.646),
            (0.9995, 10.0, 4.587),
            (0.99995, 20.0, 4.841),
            (0.9999, 1e9, 3.719),
        ] {
            let found = quantile(probability, freedom);
            assert!((found / table - 1.0).abs() < 0.02, "{probability} {freedom}: {found} and not {table}");
        }
    }

    #[test]
    fn what_goes_on_over_slices_counts_as_more_noise() {
        let fast: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { 0.0 } else { 1.0 }).collect();
        let slow: Vec<f64> = (0..40).map(|at| if at % 8 < 4 { 0.0 } else { 1.0 }).collect();
        let (fast, slow) = (mean(&fast, 1.0, 0.0), mean(&slow, 1.0, 0.0));
        assert_eq!((fast.mean, slow.mean), (0.5, 0.5));
        assert!(slow.variance > 3.0 * fast.variance, "{slow:?} {fast:?}");
    }

    #[test]
    fn what_was_sampled_is_never_exact() {
        let even = mean(&[0.5; 40], 1.0, 4.0);
        assert!((even.variance - 4.0 / 1600.0).abs() < 1e-12, "{even:?}");
        assert_eq!(mean(&[], 1.0, 0.0), Mean::default());
        assert!(least(&even, &even, 0.005, 40) > 4.0 * (2.0 * even.variance).sqrt());
        assert_eq!(least(&Mean::default(), &Mean::default(), 0.005, 40), 0.0);
    }
}
