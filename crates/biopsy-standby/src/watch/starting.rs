//! Programs that rules record from their start wait before their first instruction until that goes on.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError, RwLock};

use biopsy_target::Glance;
use biopsy_target::catch::{Arriving, StartGate, Wanted};
use biopsy_target::glance::Program;
use biopsy_watch::Engine;
use biopsy_watch::engine::Starters;

use crate::observed::{Eyes, may_be_watched, of_program};

/// Whoever is asked at the gate has this, and never waits for the watcher.
#[derive(Debug)]
struct Asked {
    starters: Arc<Starters>,
    eyes: Eyes,
}

struct Rules(Arc<RwLock<Asked>>);

impl Wanted for Rules {
    fn may_be(&self, program: &Program) -> bool {
        let starters = Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner).starters);
        starters.may_concern(&of_program(program))
    }

    fn is(&self, glance: &Glance) -> bool {
        let (starters, mut eyes) = {
            let asked = self.0.read().unwrap_or_else(PoisonError::into_inner);
            (Arc::clone(&asked.starters), asked.eyes.clone())
        };
        // Who cannot be seen now is not held; the watcher looks again when it runs.
        let process = eyes.observe(glance.clone(), true);
        process.is_ok_and(|process| starters.concern(&process) && may_be_watched(&process))
    }
}

/// The gate, as long as a rule needs it.
#[derive(Debug)]
pub(super) struct Starting {
    asked: Arc<RwLock<Asked>>,
    gate: Option<StartGate>,
    /// It was refused, which does not change.
    is_refused: bool,
}

impl Starting {
    /// Closed.
    pub(super) fn new(eyes: Eyes) -> Self {
        let asked = Asked { starters: Arc::default(), eyes };
        Self { asked: Arc::new(RwLock::new(asked)), gate: None, is_refused: false }
    }

    /// From now on by these rules. What is worth saying about it.
    pub(super) fn follow(&mut self, engine: &Engine, eyes: &Eyes) -> Option<String> {
        let asked = Asked { starters: Arc::new(engine.starters()), eyes: eyes.clone() };
        *self.asked.write().unwrap_or_else(PoisonError::into_inner) = asked;
        if !engine.records_starts() {
            self.gate = None;
            return None;
        }
        if self.gate.is_some() || self.is_refused {
            return None;
        }
        match StartGate::open(Arc::new(Rules(Arc::clone(&self.asked)))) {
            Ok(gate) => {
                let limits = gate.limits().join("; ");
                self.gate = Some(gate);
                (!limits.is_empty()).then(|| {
                    format!("of some programs, recordings begin some tens of milliseconds behind the start: {limits}")
                })
            }
            Err(why) => {
                self.is_refused = true;
                Some(format!(
                    "recordings begin some tens of milliseconds behind a start, because programs cannot be held: {why}"
                ))
            }
        }
    }

    /// The next program that waits.
    pub(super) fn next(&self) -> Option<Arriving> {
        self.gate.as_ref()?.next()
    }

    /// Why nobody waits any more.
    pub(super) fn failure(&mut self) -> Option<String> {
        let why = self.gate.as_ref()?.failure()?;
        self.gate = None;
        self.is_refused = true;
        Some(format!("recordings begin some tens of milliseconds behind a start from now on: {why}"))
    }

    /// Readable when somebody waits.
    pub(super) fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.gate.as_ref().map(StartGate::as_fd)
    }
}
