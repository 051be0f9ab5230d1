//! Context: what `/proc` says about the processes of the tree and about the machine, masked.
//!
//! Everything is taken at the start, and what changes is taken again at the end.

use std::path::PathBuf;

use biopsy_model::Pid;
use biopsy_model::loss::Warning;
use biopsy_recording::{RecordingFolder, WriteError};

use crate::masking::Masking;

mod clock;
mod host;

pub use clock::clock_pair;
pub use host::host_info;

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
    /// `/proc`, or a copy of it.
    pub proc_root: PathBuf,
    /// Processes beyond this many are left out.
    pub max_processes: usize,
    /// Bytes of one text at most.
    pub member_bytes: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config { proc_root: PathBuf::from("/proc"), max_processes: 64, member_bytes: 4 << 20 }
    }
}

/// What was taken, and what was not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Members written.
    pub members: Vec<String>,
    /// What a reader of the recording should know.
    pub warnings: Vec<Warning>,
}

/// Takes the context of these processes, the target first.
///
/// # Errors
/// When the recording cannot be written (disk full). Everything else is a warning.
pub fn collect(
    _config: &Config,
    _moment: Moment,
    _processes: &[Pid],
    _folder: &RecordingFolder,
    _masking: &Masking,
) -> Result<Summary, WriteError> {
    Ok(Summary::default())
}
