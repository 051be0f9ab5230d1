//! The time axis: first and last moment of a recording, and buckets over it.

use biopsy_model::capture::Capture;
use biopsy_model::{MonoNanos, Nanos};

/// First and last moment. Header first; where it has no end, the last thing recorded is the end.
pub(crate) fn window(capture: &Capture) -> Option<(MonoNanos, MonoNanos)> {
    let header = &capture.header;
    let start = Some(header.start.mono).filter(|start| start.0 > 0);
    let end = header.end.as_ref().map(|end| end.mono);
    let span = capture.timeline.as_ref().and_then(|timeline| timeline.span);
    let readings = capture.metrics.iter().filter_map(|table| {
        Some((table.rows.first()?.time, table.rows.last()?.time)).filter(|(from, to)| from <= to)
    });
    let recorded = span
        .into_iter()
        .chain(readings)
        .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
        .filter(|(from, to)| from <= to);
    let from = start.or(recorded.map(|(from, _)| from))?;
    let to = end.or(recorded.map(|(_, to)| to)).unwrap_or(from);
    // A header that contradicts what was recorded (hostile, or imported without one) gives way.
    if to > from { Some((from, to)) } else { recorded.filter(|(from, to)| from < to) }
}

/// Length of a window.
pub(crate) fn length(window: Option<(MonoNanos, MonoNanos)>) -> Nanos {
    window.map_or(Nanos(0), |(from, to)| to.since(from))
}

/// Equal buckets over a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    from: MonoNanos,
    to: MonoNanos,
    /// Length of one bucket, at least 1 ns.
    pub(crate) length: Nanos,
    count: usize,
}

impl Buckets {
    pub(crate) fn new(window: Option<(MonoNanos, MonoNanos)>, count: usize) -> Option<Buckets> {
        let (from, to) = window?;
        let count = count.max(1);
        let length = Nanos(to.since(from).0.div_ceil(count as u64).max(1));
        Some(Buckets { from, to, length, count })
    }

    /// The bucket a moment lies in.
    pub(crate) fn of(&self, time: MonoNanos) -> Option<usize> {
        if time < self.from || time > self.to {
            return None;
        }
        let bucket = usize::try_from(time.since(self.from).0 / self.length.0).unwrap_or(usize::MAX);
        Some(bucket.min(self.count - 1))
    }

    /// Calls `give(bucket, part)` for each bucket that the interval overlaps, with the part of `from..to` in it, 0 to 1.
    pub(crate) fn spread(&self, from: MonoNanos, to: MonoNanos, mut give: impl FnMut(usize, f64)) {
        let (start, end) = (from.max(self.from), to.min(self.to));
        let (Some(first), Some(last)) = (self.of(start), self.of(end)) else { return };
        if start > end {
            return;
        }
        let whole = to.since(from).as_secs_f64();
        if whole <= 0.0 {
            return give(first, 1.0);
        }
        for bucket in first..=last {
            let begin = self.from + Nanos(self.length.0.saturating_mul(bucket as u64));
            let overlap = end.min(begin + self.length).since(start.max(begin)).as_secs_f64();
            if overlap > 0.0 {
                give(bucket, overlap / whole);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_spread_over_its_buckets() {
        let buckets = Buckets::new(Some((MonoNanos(100), MonoNanos(200))), 10).expect("a window");
        let mut parts = Vec::new();
        buckets.spread(MonoNanos(105), MonoNanos(125), |bucket, part| parts.push((bucket, part)));
        assert_eq!(parts, [(0, 0.25), (1, 0.5), (2, 0.25)]);
        parts.clear();
        buckets.spread(MonoNanos(195), MonoNanos(215), |bucket, part| parts.push((bucket, part)));
        assert_eq!(parts, [(9, 0.25)]);
        buckets.spread(MonoNanos(300), MonoNanos(400), |_, _| panic!("outside"));
        assert_eq!(buckets.of(MonoNanos(200)), Some(9));
        assert_eq!(buckets.of(MonoNanos(99)), None);
    }
}
