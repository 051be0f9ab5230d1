//! Series out of metric tables: one column of one key, without the readings that failed.

use biopsy_model::MonoNanos;
use biopsy_model::capture::Capture;

use crate::keyed::Keyed;

/// One column of one key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// Values of the key columns, joined by a space.
    pub(crate) key: String,
    pub(crate) points: Vec<(MonoNanos, f64)>,
}

/// A stretch of readings.
#[derive(Debug)]
pub(crate) struct Run {
    /// The reading before the first: rates are over the interval that ends at a reading.
    pub(crate) from: MonoNanos,
    pub(crate) to: MonoNanos,
    pub(crate) values: Vec<f64>,
}

/// No column can be less than nothing, and none counts or measures more than 64 bits: what is beyond is of a damaged file.
const POSSIBLE: std::ops::Range<f64> = 0.0..1.9e19;

/// All series of a column, in the order in which their keys first appear.
pub(crate) fn all(capture: &Capture, table: &str, column: &str) -> Vec<Series> {
    let Some(table) = capture.metrics.iter().find(|candidate| candidate.name == table) else {
        return Vec::new();
    };
    let Some(at) = table.columns.iter().position(|candidate| candidate.name == column) else {
        return Vec::new();
    };
    let mut series: Keyed<&[String], Series> = Keyed::default();
    for row in &table.rows {
        let Some(value) = row.values.get(at).copied().flatten().filter(|value| POSSIBLE.contains(value))
        else {
            continue;
        };
        let new = || Series { key: row.keys.join(" "), points: Vec::new() };
        series.of(row.keys.as_slice(), new).points.push((row.time, value));
    }
    series.into_rows()
}

/// The series of one key.
pub(crate) fn one(capture: &Capture, table: &str, column: &str, key: &str) -> Option<Series> {
    all(capture, table, column).into_iter().find(|series| series.key == key)
}

impl Series {
    pub(crate) fn mean(&self) -> f64 {
        self.points.iter().map(|point| point.1).sum::<f64>() / count(self.points.len())
    }

    pub(crate) fn max(&self) -> f64 {
        self.points.iter().map(|point| point.1).fold(0.0, f64::max)
    }

    /// Stretches of readings for which `holds`; one reading in between for which it does not is let pass.
    pub(crate) fn runs(&self, holds: impl Fn(f64) -> bool) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        let mut last_hit: Option<usize> = None;
        for (at, &(time, value)) in self.points.iter().enumerate() {
            if !holds(value) {
                continue;
            }
            let previous = at.checked_sub(1).and_then(|at| self.points.get(at)).map_or(time, |point| point.0);
            match (runs.last_mut(), last_hit) {
                (Some(run), Some(last)) if at - last <= 2 => {
                    run.to = time;
                    run.values.push(value);
                }
                _ => runs.push(Run { from: previous, to: time, values: vec![value] }),
            }
            last_hit = Some(at);
        }
        runs
    }

    /// Means of the first, middle and last third.
    pub(crate) fn thirds(&self) -> (f64, f64, f64) {
        let third = (self.points.len() / 3).max(1);
        let part = |from: usize, to: usize| {
            let values: Vec<f64> =
                self.points.get(from..to).unwrap_or(&[]).iter().map(|point| point.1).collect();
            mean(&values)
        };
        let end = self.points.len();
        (
            part(0, third.min(end)),
            part(third.min(end), end.saturating_sub(third).max(third.min(end))),
            part(end.saturating_sub(third), end),
        )
    }
}

/// A straight line through points.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Change a second.
    pub(crate) per_second: f64,
    /// r².
    pub(crate) fit: f64,
}

impl Line {
    /// Least squares; `None` where all points are at one moment.
    pub(crate) fn fit(points: &[(MonoNanos, f64)]) -> Option<Line> {
        let first = points.first()?.0;
        let n = count(points.len());
        let xs = || points.iter().map(|point| point.0.since(first).as_secs_f64());
        let mean_x = xs().sum::<f64>() / n;
        let mean_y = points.iter().map(|point| point.1).sum::<f64>() / n;
        let sum = |f: &dyn Fn(f64, f64) -> f64| {
            xs().zip(points).map(|(x, point)| f(x - mean_x, point.1 - mean_y)).sum::<f64>()
        };
        let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
        if xx <= 0.0 {
            return None;
        }
        let fit = if yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 };
        Some(Line { per_second: xy / xx, fit })
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / count(values.len())
}

/// A number of things, at least 1, to divide by.
#[expect(clippy::cast_precision_loss, reason = "tables hold far fewer than 2^53 readings")]
fn count(number: usize) -> f64 {
    number.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64]) -> Series {
        let points =
            values.iter().enumerate().map(|(at, &value)| (MonoNanos(at as u64 * 1_000_000_000), value));
        Series { key: String::new(), points: points.collect() }
    }

    #[test]
    fn a_line_fits() {
        let line = Line::fit(&series(&[1.0, 3.0, 5.0, 7.0]).points).expect("points at several moments");
        assert!((line.per_second - 2.0).abs() < 1e-9 && (line.fit - 1.0).abs() < 1e-9, "{line:?}");
        assert!(Line::fit(&series(&[1.0]).points).is_none());
        assert!(Line::fit(&[]).is_none());
    }

    #[test]
    fn runs_bridge_one_reading() {
        let runs = series(&[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]).runs(|value| value > 0.5);
        let spans: Vec<(u64, u64)> =
            runs.iter().map(|run| (run.from.0 / 1_000_000_000, run.to.0 / 1_000_000_000)).collect();
        assert_eq!(spans, [(0, 3), (5, 6)]);
    }

    #[test]
    fn thirds_of_little() {
        assert_eq!(series(&[1.0, 2.0, 3.0]).thirds(), (1.0, 2.0, 3.0));
        series(&[]).thirds();
        series(&[1.0]).thirds();
        series(&[1.0, 2.0]).thirds();
    }
}
