//! When a condition that comes and goes fires.

use std::time::{Duration, Instant};

/// Whether a condition that stays true fires again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Again {
    /// Only after it was false in between: one rise is one event, however long it lasts.
    #[default]
    AfterFalse,
    /// Also while it stays true, each time the spacing and its own duration are over. For comparing dumps of a leak.
    WhileTrue,
}

/// The state of one condition.
#[derive(Clone, Debug)]
pub(super) struct Latch {
    lasting: Duration,
    again: Again,
    since: Option<Instant>,
    armed: bool,
}

impl Latch {
    pub(super) fn new(lasting: Duration, again: Again) -> Self {
        Self { lasting, again, since: None, armed: true }
    }

    /// Takes a reading, and says whether the condition has lasted long enough and has not fired since it was false.
    /// `None`: nothing could be read, and nothing is known of the time in between.
    pub(super) fn is_due(&mut self, now: Instant, condition: Option<bool>) -> bool {
        match condition {
            None => {
                self.since = None;
                false
            }
            Some(false) => {
                self.since = None;
                self.armed = true;
                false
            }
            Some(true) => {
                let since = *self.since.get_or_insert(now);
                self.armed && now.duration_since(since) >= self.lasting
            }
        }
    }

    /// It has fired.
    pub(super) fn fired(&mut self) {
        match self.again {
            Again::AfterFalse => self.armed = false,
            // It has to last anew.
            Again::WhileTrue => self.since = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Fires at these seconds, of one reading a second.
    fn fires(mut latch: Latch, readings: &str) -> Vec<usize> {
        let start = Instant::now();
        let mut fired = Vec::new();
        for (second, reading) in readings.bytes().enumerate() {
            let condition = match reading {
                b'1' => Some(true),
                b'0' => Some(false),
                _ => None,
            };
            if latch.is_due(start + SECOND * u32::try_from(second).unwrap(), condition) {
                fired.push(second);
                latch.fired();
            }
        }
        fired
    }

    #[test]
    fn a_condition_must_last() {
        let latch = || Latch::new(SECOND * 3, Again::AfterFalse);
        assert!(fires(latch(), "0111").is_empty());
        assert_eq!(fires(latch(), "01111"), [4]);
        assert_eq!(fires(latch(), "011011110"), [7]);
        assert!(fires(latch(), "0111?1110").is_empty(), "a gap in the readings is no duration");
    }

    #[test]
    fn it_fires_again_only_after_it_was_false() {
        assert_eq!(fires(Latch::new(Duration::ZERO, Again::AfterFalse), "1110111"), [0, 4]);
        assert_eq!(fires(Latch::new(SECOND, Again::AfterFalse), "111101111"), [1, 6]);
        assert_eq!(
            fires(Latch::new(Duration::ZERO, Again::AfterFalse), "11?11"),
            [0],
            "unreadable is not false"
        );
    }

    #[test]
    fn while_true_it_lasts_anew() {
        assert_eq!(fires(Latch::new(SECOND * 2, Again::WhileTrue), "1111111"), [2, 5]);
    }
}
