//! What a recording costs, held against what it may.

use std::time::Duration;

use crate::moment::Moment;

/// What a recording does at its beginning (attach, read the tables of all modules) is not what it costs.
const SETTLES: Duration = Duration::from_secs(10);
/// Over so long it is looked at.
const SPAN: Duration = Duration::from_secs(10);

/// The cost of one recording, as it goes on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Cost {
    begun: Moment,
    /// When it was looked at, and the CPU time of the recorder by then.
    looked: Option<(Moment, Duration)>,
}

impl Cost {
    pub(crate) fn begin(now: Moment) -> Self {
        Self { begun: now, looked: None }
    }

    /// Per cent of a core that the recorder has taken since it was looked at, by all CPU time that it has used; `None`: it is too early
    /// to tell.
    pub(crate) fn percent(&mut self, now: Moment, used: Duration) -> Option<f64> {
        if now.since(self.begun) < SETTLES {
            return None;
        }
        let Some((then, before)) = self.looked else {
            self.looked = Some((now, used));
            return None;
        };
        let span = now.since(then);
        if span < SPAN {
            return None;
        }
        self.looked = Some((now, used));
        Some(used.saturating_sub(before).as_secs_f64() / span.as_secs_f64() * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_is_not_counted_and_a_clock_that_stands_is_no_cost() {
        let at = |seconds| Moment(Duration::from_secs(seconds));
        let used = Duration::from_millis;
        let mut cost = Cost::begin(at(100));
        assert_eq!(cost.percent(at(105), used(5_000)), None);
        assert_eq!(cost.percent(at(110), used(9_000)), None, "from here on it is looked at");
        assert_eq!(cost.percent(at(119), used(19_000)), None);
        assert_eq!(cost.percent(at(120), used(10_000)), Some(10.0));
        assert_eq!(cost.percent(at(121), used(10_500)), None);
        assert_eq!(cost.percent(at(140), used(20_000)), Some(50.0));
        assert_eq!(cost.percent(at(90), used(30_000)), None, "a clock that goes back");
        assert_eq!(cost.percent(at(150), used(10_000)), Some(0.0), "a reading that goes back");
    }
}
