//! Which logs are taken, and how much of them.

use std::path::PathBuf;
use std::time::Duration;

use biopsy_model::Pid;

/// Which logs, and how much of them.
#[derive(Clone, Debug)]
pub struct Config {
    /// Patterns of paths: `*`, `?`, `[...]` within a name, `**` for any folders.
    pub globs: Vec<String>,
    /// systemd units whose journal is taken.
    pub journal_units: Vec<String>,
    /// Time before the start and after the end of the recording that is taken as well.
    pub margin: Duration,
    /// Bytes taken of one source at most; the newest are kept.
    pub source_bytes: u64,
    /// Bytes taken of all sources together at most.
    pub total_bytes: u64,
    /// All reading together may take this long; sources that are not reached by then are left out.
    pub longest: Duration,
    /// The program that reads the journal.
    pub journalctl: PathBuf,
    /// Patterns that match nothing from our root are looked for from the root of this process: it may be in a
    /// container.
    pub inside: Option<Pid>,
    /// IANA name of the zone that time stamps without one are read in; `None`: the machine's own.
    pub zone: Option<String>,
}

impl Config {
    /// The usual limits: a margin of one minute, 64 MiB of one source, 256 MiB of all, one minute of reading.
    #[must_use]
    pub fn new(globs: Vec<String>, journal_units: Vec<String>) -> Config {
        Config {
            globs,
            journal_units,
            margin: Duration::from_secs(60),
            source_bytes: 64 << 20,
            total_bytes: 256 << 20,
            longest: Duration::from_secs(60),
            journalctl: PathBuf::from("journalctl"),
            inside: None,
            zone: None,
        }
    }
}
