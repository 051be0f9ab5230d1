//! What becomes of an image, and how it was got.

use std::time::Duration;

use biopsy_image::DumpKind;
use biopsy_image::write::{CaptureMethod, Compression, CoreKind};

/// What kind of file a dump becomes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// An ELF core, packed like this.
    Core(Compression),
    /// A minidump: stacks, registers and modules, whatever kind was asked for.
    Minidump,
}

impl Format {
    /// Without how it is packed.
    #[must_use]
    pub fn kind(self) -> DumpKind {
        match self {
            Self::Core(_) => DumpKind::Core,
            Self::Minidump => DumpKind::Minidump,
        }
    }

    /// How files of this format end.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::Core(Compression::SeekableZstd { .. }) => "core.zst",
            Self::Core(Compression::None) => "core",
            Self::Minidump => "dmp",
        }
    }
}

/// What is common to the dumps of one command.
#[derive(Clone, Debug)]
pub struct DumpSettings {
    /// What goes in.
    pub kind: CoreKind,
    /// What it is written as.
    pub format: Format,
    /// Most bytes of one file.
    pub max_size: Option<u64>,
    /// Secrets are masked by the image that is handed in.
    pub scrubbed: bool,
}

/// How one image was got.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// How its memory is kept.
    pub method: CaptureMethod,
    /// How long the process stood still.
    pub pause: Duration,
    /// What was predicted, where it was.
    pub predicted_pause: Option<Duration>,
    /// Why the dump was taken: `asked for`, or the trigger in words.
    pub reason: String,
    /// What the one who froze it wants said.
    pub warnings: Vec<String>,
    /// Those of them that say what the image lacks: whoever opens the core is told.
    pub lacking: Vec<String>,
    /// Counts this process's dumps of this recording, from 1.
    pub number: u32,
}
