//! What a dump is to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use biopsy_image::write::{Compression, CoreKind, DEFAULT_LEVEL};
use biopsy_record::dump::{DumpSettings, Format};
use biopsy_record::triggers::Trigger;
use biopsy_target::freeze::FreezeOptions;

use crate::failure::{Failure, FailureKind};

/// Of which process, how much, when, and where it goes.
#[derive(Clone, Debug)]
pub struct DumpPlan {
    /// The process: pid, name, .NET entry assembly, systemd unit or container id.
    pub target: String,
    /// What the user typed, for the header of the recording, which masks it.
    pub command: Vec<String>,
    /// All processes below it too, frozen in one moment.
    pub tree: bool,
    /// How much of the memory.
    pub kind: CoreKind,
    /// A minidump instead of a core.
    pub minidump: bool,
    /// Mask secrets in the dumped memory.
    pub scrub: bool,
    /// Say what it would cost, and do nothing.
    pub dry_run: bool,
    /// It is refused where the process would stand still longer.
    pub max_pause: Duration,
    /// Make huge pages of the heap before.
    pub collapse: bool,
    /// Where it goes: a folder, a bundle, a core alone, by its name; `None`: a folder named after the target and the time.
    pub output: Option<PathBuf>,
    /// The core alone goes through the stream, and whoever has that seals it into this file.
    pub sealed: Option<PathBuf>,
    /// A sparse core that is not compressed.
    pub raw: bool,
    /// Level of zstd; `None`: the usual one.
    pub level: Option<i32>,
    /// Most bytes of one core.
    pub max_bytes: Option<u64>,
    /// It is dumped when one of these happens; empty: at once.
    pub on: Vec<Trigger>,
    /// How often it is dumped.
    pub count: u32,
    /// Shortest time between two dumps, and time between two looks.
    pub every: Duration,
    /// How often it is looked at, the dump included.
    pub looks: u8,
    /// If there is no such process yet, wait for it to start.
    pub wait: bool,
    /// Processes of this name below the target are caught as they start.
    pub wait_for: Option<String>,
    /// How long is waited at most.
    pub length: Option<Duration>,
}

/// What may stand behind `--on`.
///
/// # Errors
/// [`FailureKind::Usage`].
pub fn trigger(text: &str) -> Result<Trigger, Failure> {
    Trigger::parse(text)
        .map_err(|error| Failure::from_error(FailureKind::Usage, &error).with_hint(Some(error.hint())))
}

/// Whether a file of this name is a minidump.
#[must_use]
pub fn is_minidump_name(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "dmp")
}

impl DumpPlan {
    /// Whether something has to happen before anything is dumped.
    pub(super) fn waits(&self) -> bool {
        !self.on.is_empty() || self.wait || self.wait_for.is_some()
    }

    pub(super) fn freeze_options(&self) -> FreezeOptions {
        FreezeOptions {
            max_pause: self.max_pause,
            collapse: self.collapse,
            stacks_only: self.kind == CoreKind::Stacks,
            ..FreezeOptions::default()
        }
    }

    /// What the writer needs to know.
    pub(super) fn settings(&self) -> DumpSettings {
        let format = if self.minidump {
            Format::Minidump
        } else if self.raw {
            Format::Core(Compression::None)
        } else {
            Format::Core(Compression::SeekableZstd { level: self.level.unwrap_or(DEFAULT_LEVEL) })
        };
        DumpSettings { kind: self.kind, format, max_size: self.max_bytes, scrubbed: self.scrub }
    }
}
