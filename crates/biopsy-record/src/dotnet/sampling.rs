//! When which kinds of events were taken in part only.

use biopsy_model::MonoNanos;
use biopsy_model::order::Order as _;
use biopsy_model::runtime_trace::Sampled;
use rustc_hash::FxHashMap;

use super::plan::Lane;

/// Turns that lie so close together are one interval.
const SAME: u64 = 30_000_000_000;

#[derive(Debug)]
struct Interval {
    from: MonoNanos,
    /// Last time it was closed or opened.
    last: MonoNanos,
    closed_since: Option<MonoNanos>,
    /// Nanoseconds in which nothing was taken.
    closed: u64,
    why: String,
    /// It is taken in turns, so that what follows the last of them belongs to it too.
    turns: bool,
}

/// Adds up the time in which sessions were closed.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    current: FxHashMap<Lane, Interval>,
    done: Vec<Sampled>,
}

impl Sampling {
    /// A kind is closed from now on, until it has its turn again.
    pub(crate) fn closed(&mut self, lane: Lane, now: MonoNanos, why: &str) {
        self.missing(lane, now, why, true);
    }

    /// A kind has no session from now on, because another one takes its place.
    pub(crate) fn replaced(&mut self, lane: Lane, now: MonoNanos) {
        self.missing(lane, now, "its session was replaced by another one", false);
    }

    fn missing(&mut self, lane: Lane, now: MonoNanos, why: &str, turns: bool) {
        if self.current.get(&lane).is_some_and(|interval| now.0.saturating_sub(interval.last.0) > SAME) {
            self.end(lane, None);
        }
        let interval = self.current.entry(lane).or_insert_with(|| Interval {
            from: now,
            last: now,
            closed_since: None,
            closed: 0,
            why: why.to_owned(),
            turns,
        });
        if turns && !interval.turns {
            (interval.turns, interval.why) = (true, why.to_owned());
        }
        interval.last = now;
        interval.closed_since = Some(now);
    }

    /// A kind is open again.
    pub(crate) fn opened(&mut self, lane: Lane, now: MonoNanos) {
        let Some(interval) = self.current.get_mut(&lane) else { return };
        if let Some(since) = interval.closed_since.take() {
            interval.closed += now.0.saturating_sub(since.0);
        }
        interval.last = now;
    }

    /// All intervals so far; those that go on begin anew.
    pub(crate) fn up_to(&mut self, now: MonoNanos) -> Vec<Sampled> {
        let open: Vec<(Lane, String, bool, bool)> = self
            .current
            .iter()
            .map(|(lane, one)| (*lane, one.why.clone(), one.turns, one.closed_since.is_some()))
            .collect();
        let done = self.finish(now);
        for (lane, why, turns, is_closed) in open {
            if is_closed {
                self.missing(lane, now, &why, turns);
            }
        }
        done
    }

    /// All intervals, at the end of the recording.
    pub(crate) fn finish(&mut self, now: MonoNanos) -> Vec<Sampled> {
        let lanes: Vec<Lane> = self.current.keys().copied().collect();
        for lane in lanes {
            self.end(lane, Some(now));
        }
        let mut done = std::mem::take(&mut self.done);
        done.order_by_key(|one| (one.from, one.what.as_str().to_owned()));
        done
    }

    /// Ends an interval. While turns go on, the open part behind the last one belongs to it too.
    #[expect(clippy::cast_precision_loss, reason = "a share of hours in nanoseconds")]
    fn end(&mut self, lane: Lane, now: Option<MonoNanos>) {
        let Some(mut interval) = self.current.remove(&lane) else { return };
        let to = match now {
            Some(now) if interval.turns && now.0.saturating_sub(interval.last.0) <= SAME => now,
            // It was not opened any more.
            Some(now) if interval.closed_since.is_some() => now,
            _ => interval.last,
        };
        if let Some(since) = interval.closed_since.take() {
            interval.closed += to.0.saturating_sub(since.0);
        }
        let length = to.0.saturating_sub(interval.from.0).max(1);
        let share = 1.0 - interval.closed.min(length) as f64 / length as f64;
        self.done.extend(lane.sampled().iter().map(|what| Sampled {
            what: what.clone(),
            from: interval.from,
            to,
            share,
            why: interval.why.clone(),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use biopsy_model::runtime_trace::SampledKind;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn turns_become_one_interval_with_its_share() {
        let mut sampling = Sampling::default();
        for turn in 0..3 {
            sampling.closed(Lane::Logs, MonoNanos((10 + turn * 10) * SECOND), "many");
            sampling.opened(Lane::Logs, MonoNanos((17 + turn * 10) * SECOND));
        }
        let done = sampling.finish(MonoNanos(40 * SECOND));
        assert_eq!(done.len(), 1);
        assert_eq!((done[0].from, done[0].to), (MonoNanos(10 * SECOND), MonoNanos(40 * SECOND)));
        assert!((done[0].share - 0.3).abs() < 1e-9);
        assert_eq!((&done[0].what, done[0].why.as_str()), (&SampledKind::Messages, "many"));
    }

    #[test]
    fn closed_until_the_end() {
        let mut sampling = Sampling::default();
        sampling.closed(Lane::Requests, MonoNanos(SECOND), "many");
        let done = sampling.finish(MonoNanos(5 * SECOND));
        assert_eq!(done.iter().map(|one| one.what.as_str()).collect::<Vec<_>>(), ["commands", "requests"]);
        assert!(done[0].share < 1e-9);
    }

    #[test]
    fn a_session_that_was_replaced_is_a_gap_and_no_turn() {
        let mut sampling = Sampling::default();
        sampling.replaced(Lane::Runtime, MonoNanos(SECOND));
        sampling.opened(Lane::Runtime, MonoNanos(SECOND + 20_000_000));
        let done = sampling.finish(MonoNanos(5 * SECOND));
        assert_eq!((done[0].from, done[0].to), (MonoNanos(SECOND), MonoNanos(SECOND + 20_000_000)));
        assert!(done[0].share < 1e-9, "nothing of that time is there");
        assert_eq!(done[0].what, SampledKind::Runtime);
    }

    #[test]
    fn far_apart_is_another_interval() {
        let mut sampling = Sampling::default();
        for second in [1, 100] {
            sampling.closed(Lane::Logs, MonoNanos(second * SECOND), "many");
            sampling.opened(Lane::Logs, MonoNanos((second + 5) * SECOND));
        }
        let done = sampling.finish(MonoNanos(500 * SECOND));
        let ends: Vec<u64> = done.iter().map(|one| one.to.0 / SECOND).collect();
        assert_eq!(ends, [6, 105]);
    }
}
