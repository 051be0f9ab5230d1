//! When the context is taken, and how much of it.

use biopsy_target::ProcRoot;

/// When the context is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// At the start of the recording: everything.
    Start,
    /// At its end: what changes while a process runs. Members end in `-end`.
    End,
}

/// How much is taken.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where `/proc` is.
    pub root: ProcRoot,
    /// Processes beyond this many are left out.
    pub max_processes: usize,
    /// Bytes of one text at most.
    pub member_bytes: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { root: ProcRoot::live(), max_processes: 64, member_bytes: 4 << 20 }
    }
}
