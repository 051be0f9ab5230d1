//! Medians.

/// The middle value; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The value below which this share of the values lies, the nearest one; `None` of nothing.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index"
    )]
    let at = (sorted.len().checked_sub(1)? as f64 * share).round() as usize;
    sorted.get(at).copied()
}

/// Median of the ratios of values that belong together.
pub(crate) fn paired_ratio(values: &[f64], bases: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = values.iter().zip(bases).map(|(value, base)| value / base).collect();
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::{median, paired_ratio, quantile};

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN, 1.0]), Some(1.0));
    }

    #[test]
    fn quantiles() {
        assert_eq!(quantile(&[], 0.5), None);
        let values: Vec<f64> = (0..9).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.25, 0.75, 1.0].map(|share| quantile(&values, share)),
            [0.0, 2.0, 6.0, 8.0].map(Some)
        );
    }

    #[test]
    fn ratios_are_taken_before_the_median() {
        assert_eq!(paired_ratio(&[1.0, 10.0, 3.0], &[2.0, 10.0, 4.0]), Some(0.75));
    }
}
