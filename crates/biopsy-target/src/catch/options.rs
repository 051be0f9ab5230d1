//! What is to be caught.

use std::time::Duration;

use biopsy_model::ProcessKey;

/// At which moments a process is held.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CatchOn {
    /// At its end, however it ends.
    pub exit: bool,
    /// At its end, when its exit code is not 0 or a signal ends it.
    pub failure: bool,
    /// At a signal that is about to end it, before it does.
    pub fatal_signal: bool,
    /// When it has run for so long. It is then in the middle of its work and is held only until it is released: let it
    /// go and freeze it, where the pause matters.
    pub after: Option<Duration>,
}

impl CatchOn {
    /// At its end, and earlier where a signal is the cause: there are more threads to see then.
    pub const EXIT: Self = Self { exit: true, failure: true, fatal_signal: true, after: None };
    /// At an exit code other than 0, or a fatal signal.
    pub const FAILURE: Self = Self { exit: false, failure: true, fatal_signal: true, after: None };
    /// At a fatal signal.
    pub const CRASH: Self = Self { exit: false, failure: false, fatal_signal: true, after: None };
}

/// Which way to use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub enum Way {
    /// The gate where it is permitted, else the parent where one is given.
    #[default]
    Automatic,
    /// Hold executions by fanotify permission events.
    Gate,
    /// Trace the parent, and everything it starts.
    Parent,
}

/// What is to be caught, and how gently.
#[derive(Clone, Debug)]
pub struct CatchOptions {
    /// What the process answers to: its name, the file name of its executable, the entry assembly of .NET with or
    /// without `.dll`, a script, jar or main class; as [`crate::Selector::Name`].
    pub name: String,
    /// Only what descends from this process.
    pub below: Option<ProcessKey>,
    /// When to hold it.
    pub on: CatchOn,
    /// Which way to use.
    pub way: Way,
    /// The longest time that one process is held. Then it goes on, dumped or not. 60 s.
    pub hold_limit: Duration,
    /// Most processes that are handed out and not yet released. 4.
    pub max_held: usize,
    /// Most processes that wait behind those, held too. What comes after is let go and counted as missed. 64.
    pub max_waiting: usize,
}

impl CatchOptions {
    /// Catches what answers to `name`, wherever it starts.
    #[must_use]
    pub fn new(name: impl Into<String>, on: CatchOn) -> Self {
        Self {
            name: name.into(),
            below: None,
            on,
            way: Way::Automatic,
            hold_limit: Duration::from_secs(60),
            max_held: 4,
            max_waiting: 64,
        }
    }

    /// Only what descends from this process.
    #[must_use]
    pub fn below(mut self, parent: ProcessKey) -> Self {
        self.below = Some(parent);
        self
    }
}
