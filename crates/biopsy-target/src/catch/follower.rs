//! Following one running process to its crash or end.

use std::time::Duration;

use biopsy_model::ProcessKey;

use super::caught::Caught;
use super::engine::Settings;
use super::error::CatchError;
use super::options::CatchOn;
use super::tracer::{Next, Tracer};
use super::{CatchStatistics, Ended};

/// What became of a process that is followed.
#[derive(Debug)]
pub enum Followed {
    /// It is held, at what was asked for.
    Caught(Box<Caught>),
    /// Nothing happened in the time.
    Nothing,
    /// It has ended, or was let go.
    Ended(Ended),
}

/// Follows one running process. All its threads are traced and none is stopped; signals are passed on.
///
/// After it was caught it is let go for good: what comes after a fatal signal is its end.
#[derive(Debug)]
pub struct Follower {
    tracer: Tracer,
}

impl Follower {
    /// Follows the process from now on.
    ///
    /// # Errors
    /// [`CatchError`]: it is gone, traced by a debugger, or not ours to trace.
    pub fn new(key: &ProcessKey, on: CatchOn, hold_limit: Duration) -> Result<Self, CatchError> {
        let settings = Settings { name: None, below: None, on, hold_limit, max_held: 1, max_waiting: 1 };
        let key = key.clone();
        let (tracer, ()) = Tracer::start(settings, move |mut engine| {
            engine.trace_process(&key)?;
            Ok((engine, ()))
        })?;
        Ok(Self { tracer })
    }

    /// What happens next.
    ///
    /// # Errors
    /// When the thread that traces has failed; the process is untraced then.
    pub fn next(&mut self, timeout: Duration) -> Result<Followed, CatchError> {
        Ok(match self.tracer.next(timeout)? {
            Next::Caught(caught) => Followed::Caught(caught),
            Next::Nothing => Followed::Nothing,
            Next::Ended(ended) => Followed::Ended(ended),
        })
    }

    /// What it has cost so far.
    #[must_use]
    pub fn statistics(&self) -> CatchStatistics {
        self.tracer.statistics()
    }

    /// Stops following, and returns when the process is untraced, so that it can be frozen. If it is held, that is
    /// waited for.
    pub fn finish(self) {
        self.tracer.finish();
    }
}
