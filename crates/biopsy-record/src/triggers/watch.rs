//! Watching one process until a trigger fires.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use biopsy_model::ProcessKey;
use biopsy_target::catch::{CatchError, CatchOn, Caught, Followed, Follower, disarms_setuid};

use super::comparison::Quantity;
use super::conditions::{Conditions, Due};
use super::dotnet::DotNetCondition;
use super::error::WatchError;
use super::latch::Again;
use super::reading::Reader;
use super::trigger::Trigger;

/// Readings once a second, unless a trigger lasts for less than five.
const INTERVAL: Duration = Duration::from_secs(1);
/// Shortest time between two readings: CPU time is counted in hundredths of a second.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
/// How soon a watch notices that it is to stop.
const SLICE: Duration = Duration::from_millis(100);

/// How to watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Ends after so many times; `None`: never.
    pub count: Option<u32>,
    /// Shortest time from one firing to the next.
    pub every: Duration,
    /// Whether a condition that stays true fires again.
    pub again: Again,
    /// Time between two readings; `None`: once a second, more often when a trigger lasts for less than five seconds.
    pub interval: Option<Duration>,
    /// Ends when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// The longest that a process is held at its end or at a fatal signal.
    pub hold_limit: Duration,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            count: Some(1),
            every: Duration::ZERO,
            again: Again::AfterFalse,
            interval: None,
            stop: Arc::new(AtomicBool::new(false)),
            hold_limit: Duration::from_secs(60),
        }
    }
}

/// A trigger that fired.
#[derive(Debug)]
pub struct Fired {
    /// Which.
    pub trigger: Trigger,
    /// Why, in words: `cpu was above 90% for 30 s, last 97.3%`.
    pub reason: String,
    /// The last value, for triggers that compare one: per cent, bytes, or a number.
    pub value: Option<f64>,
    /// The line of a log that matched. Not redacted.
    pub line: Option<Vec<u8>>,
    /// When.
    pub at: SystemTime,
    /// The process, held at its end or at a fatal signal, for triggers that hold it. It goes on when this is dropped. For
    /// all other triggers the process runs, and nobody traces it, so that it can be frozen.
    pub caught: Option<Box<Caught>>,
}

/// Why a watch has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WatchEnd {
    /// The process has ended, with this wait status where it was seen.
    ProcessEnded {
        /// wait(2).
        status: Option<i32>,
    },
    /// All triggers have fired as often as was asked for.
    Done,
    /// It was told to.
    Stopped,
}

/// What comes next of a watch.
#[derive(Debug)]
pub enum Watched {
    /// A trigger fired.
    Fired(Box<Fired>),
    /// Nothing more will come.
    Ended(WatchEnd),
}

/// Watches one process. Costs one reading of `/proc/PID/stat` a second, and more only for triggers that need it; a
/// process is traced only for `exit`, `exit!=0` and `crash`.
#[derive(Debug)]
pub struct Watch {
    key: ProcessKey,
    options: WatchOptions,
    conditions: Conditions,
    reader: Reader,
    /// What to hold the process at; `None`: no trigger needs it.
    hold: Option<CatchOn>,
    follower: Option<Follower>,
    interval: Duration,
    next_reading: Instant,
    fired: u32,
    last_fired: Option<Instant>,
    end: Option<WatchEnd>,
}

impl Watch {
    /// Watches from now on.
    ///
    /// # Errors
    /// [`WatchError`]: no trigger, a log that cannot be read, a process that cannot be traced for a trigger that needs it.
    pub fn new(key: &ProcessKey, triggers: Vec<Trigger>, options: WatchOptions) -> Result<Self, WatchError> {
        if triggers.is_empty() {
            return Err(WatchError::NoTrigger);
        }
        let quantity = |one: &Trigger| match one {
            Trigger::Bound { quantity, .. } => Some(*quantity),
            _ => None,
        };
        let quantities: Vec<Quantity> = triggers.iter().filter_map(quantity).collect();
        let hold = hold_of(&triggers);
        let interval = options.interval.unwrap_or_else(|| interval_of(&triggers));
        let now = Instant::now();
        let mut watch = Self {
            key: key.clone(),
            conditions: Conditions::new(key, triggers, options.again, now)?,
            reader: Reader::new(key, &quantities)?,
            hold,
            follower: None,
            interval,
            next_reading: now,
            fired: 0,
            last_fired: None,
            end: None,
            options,
        };
        watch.follow()?;
        if watch.follower.is_some() && disarms_setuid(key.pid) {
            watch.conditions.warn(format!(
                "while it is followed, process {} executes setuid programs without their rights (its children execute them as ever); \
                 run biopsy as root, or grant CAP_SYS_PTRACE",
                key.pid
            ));
        }
        Ok(watch)
    }

    /// Waits for the next trigger, or the end. A process that was held must have been released before.
    ///
    /// # Errors
    /// [`WatchError`]: the process cannot be traced (any more).
    #[expect(clippy::should_implement_trait, reason = "it blocks, and its end says why")]
    pub fn next(&mut self) -> Result<Watched, WatchError> {
        loop {
            if let Some(end) = self.end {
                return Ok(Watched::Ended(end));
            }
            if self.options.stop.load(Ordering::Relaxed) {
                self.finish(WatchEnd::Stopped);
                continue;
            }
            if self.options.count.is_some_and(|count| self.fired >= count) {
                self.finish(WatchEnd::Done);
                continue;
            }
            self.follow()?;
            if self.end.is_some() {
                continue;
            }
            let now = Instant::now();
            if now >= self.next_reading {
                // Readings that are late are not made up for.
                self.next_reading = now + self.interval;
                if let Some(fired) = self.read() {
                    return Ok(Watched::Fired(Box::new(fired)));
                }
                continue;
            }
            let nap = self.next_reading.duration_since(now).min(SLICE);
            if let Some(fired) = self.wait(nap)? {
                return Ok(Watched::Fired(Box::new(fired)));
            }
        }
    }

    /// What could not be watched for, in words.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        self.conditions.warnings()
    }

    fn finish(&mut self, end: WatchEnd) {
        self.end.get_or_insert(end);
        if let Some(follower) = self.follower.take() {
            follower.finish();
        }
    }

    /// Traces the process, where a trigger needs that and it is not traced yet.
    fn follow(&mut self) -> Result<(), WatchError> {
        let Some(on) = self.hold else { return Ok(()) };
        if self.follower.is_some() || self.end.is_some() {
            return Ok(());
        }
        match Follower::new(&self.key, on, self.options.hold_limit) {
            Ok(follower) => self.follower = Some(follower),
            Err(CatchError::Identity(_)) => self.end = Some(WatchEnd::ProcessEnded { status: None }),
            // Between two looks it may have ended.
            Err(_) if !biopsy_target::is_same(&self.key) => {
                self.end = Some(WatchEnd::ProcessEnded { status: None });
            }
            Err(source) => return Err(WatchError::Follow { key: self.key.clone(), source }),
        }
        Ok(())
    }

    fn wait(&mut self, nap: Duration) -> Result<Option<Fired>, WatchError> {
        let Some(follower) = &mut self.follower else {
            std::thread::sleep(nap);
            return Ok(None);
        };
        match follower.next(nap) {
            Ok(Followed::Nothing) => Ok(None),
            Ok(Followed::Ended(ended)) => {
                self.finish(WatchEnd::ProcessEnded { status: ended.status });
                Ok(None)
            }
            Ok(Followed::Caught(caught)) => {
                // The end of a process comes once, whatever the spacing.
                let trigger = self.conditions.trigger_of(caught.cause());
                let Some(trigger) = trigger else { return Ok(None) };
                self.fired += 1;
                self.follower = None;
                self.end = Some(WatchEnd::ProcessEnded { status: None });
                Ok(Some(Fired {
                    reason: caught.cause().to_string(),
                    trigger,
                    value: None,
                    line: None,
                    at: SystemTime::now(),
                    caught: Some(caught),
                }))
            }
            Err(source) => Err(WatchError::Follow { key: self.key.clone(), source }),
        }
    }

    fn read(&mut self) -> Option<Fired> {
        let Some(reading) = self.reader.read() else {
            // Whoever follows it knows how it ended, and may hold it at its end.
            if self.follower.is_none() {
                self.finish(WatchEnd::ProcessEnded { status: None });
            }
            return None;
        };
        let spaced = self.last_fired.is_none_or(|last| reading.at.duration_since(last) >= self.options.every);
        let Due { trigger, reason, value, line } = self.conditions.read(&reading, spaced)?;
        self.fired += 1;
        self.last_fired = Some(reading.at);
        // Untraced, so that it can be frozen; it is followed again when the next trigger is waited for.
        if let Some(follower) = self.follower.take() {
            follower.finish();
        }
        Some(Fired { trigger, reason, value, line, at: SystemTime::now(), caught: None })
    }
}

fn hold_of(triggers: &[Trigger]) -> Option<CatchOn> {
    let mut on = CatchOn::default();
    for trigger in triggers {
        match trigger {
            Trigger::Exit => (on.exit, on.failure, on.fatal_signal) = (true, true, true),
            Trigger::Failure => (on.failure, on.fatal_signal) = (true, true),
            Trigger::Crash | Trigger::DotNet(DotNetCondition::Unhandled) => on.fatal_signal = true,
            Trigger::Bound { .. }
            | Trigger::Hang { .. }
            | Trigger::Log { .. }
            | Trigger::DotNet(_)
            | Trigger::After { .. } => {}
        }
    }
    (on != CatchOn::default()).then_some(on)
}

/// Five readings in the shortest time that a trigger lasts.
fn interval_of(triggers: &[Trigger]) -> Duration {
    let lasting = triggers.iter().filter_map(|trigger| match trigger {
        Trigger::Bound { lasting, .. } | Trigger::Hang { lasting } => {
            Some(*lasting).filter(|time| !time.is_zero())
        }
        Trigger::After { duration } => Some(*duration),
        // What happened is kept until it is asked for; it is asked for soon, and asking costs nothing.
        Trigger::DotNet(DotNetCondition::Unhandled) => None,
        Trigger::DotNet(_) => Some(SHORTEST_INTERVAL),
        Trigger::Log { .. } | Trigger::Exit | Trigger::Failure | Trigger::Crash => None,
    });
    lasting.min().map_or(INTERVAL, |shortest| (shortest / 5).clamp(SHORTEST_INTERVAL, INTERVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_triggers_are_read_more_often() {
        let interval = |texts: &[&str]| {
            interval_of(&texts.iter().map(|text| Trigger::parse(text).unwrap()).collect::<Vec<_>>())
        };
        assert_eq!(interval(&["cpu>90%:30s"]), INTERVAL);
        assert_eq!(interval(&["memory>2G", "crash"]), INTERVAL);
        assert_eq!(interval(&["cpu>90%:30s", "cpu>300%:2s"]), Duration::from_millis(400));
        assert_eq!(interval(&["hang:100ms"]), SHORTEST_INTERVAL);
    }

    #[test]
    fn what_the_process_is_held_at() {
        let hold = |text| hold_of(&[Trigger::parse(text).unwrap()]);
        assert_eq!(hold("cpu>1%"), None);
        assert_eq!(hold("crash"), Some(CatchOn::CRASH));
        assert_eq!(hold("exit!=0"), Some(CatchOn::FAILURE));
        assert_eq!(hold("exit"), Some(CatchOn::EXIT));
    }
}
