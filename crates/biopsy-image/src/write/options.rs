//! What to write, where to, and who is told.

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::time::Duration;

use crate::vendor::{CaptureMethod, CoreKind};

/// Level of zstd where none is named: lower ones save little time and cost much size, higher ones the other way round
/// (measured in `docs/formats/core.md`).
pub const DEFAULT_LEVEL: i32 = 1;

/// How the file is packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Independent frames of zstd with a table, readable at any place without unpacking.
    SeekableZstd {
        /// Level, -7 to 19.
        level: i32,
    },
    /// A plain core; sparse when it is a file.
    None,
}

/// How a core is written.
#[derive(Clone, Debug)]
pub struct CoreOptions {
    /// What goes in.
    pub kind: CoreKind,
    /// How it is packed.
    pub compression: Compression,
    /// Most bytes that the output may have. A plain core is planned to fit (headers are not counted as waste). A compressed one
    /// stops taking memory when it is reached, so that it is a little larger; what is missing then is in its end note.
    pub max_size: Option<u64>,
    /// Threads that read and compress; `None`: as many as the process may use, at most [`CoreOptions::MAX_THREADS`].
    pub threads: Option<NonZero<usize>>,
    /// Secrets were masked by the image.
    pub scrubbed: bool,
    /// How the memory was got.
    pub method: CaptureMethod,
    /// How long the process was stopped.
    pub pause: Option<Duration>,
    /// What it lacks for how it was taken, in words: told to whoever opens it.
    pub warnings: Vec<String>,
    /// Name and version of the program that writes.
    pub writer: String,
}

impl CoreOptions {
    /// More threads would need more than 64 MB of buffers.
    pub const MAX_THREADS: usize = 12;

    /// A core of this kind, compressed at the default level, without ceiling.
    #[must_use]
    pub fn new(kind: CoreKind) -> Self {
        Self {
            kind,
            compression: Compression::SeekableZstd { level: DEFAULT_LEVEL },
            max_size: None,
            threads: None,
            scrubbed: false,
            method: CaptureMethod::Unknown,
            pause: None,
            warnings: Vec::new(),
            writer: concat!("biopsy ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        let allowed = || std::thread::available_parallelism().map_or(1, NonZero::get);
        self.threads.map_or_else(allowed, NonZero::get).clamp(1, Self::MAX_THREADS)
    }
}

/// Where a core goes.
#[expect(missing_debug_implementations, reason = "a writer has none")]
pub enum CoreOutput<'a> {
    /// A new, empty regular file. Plain cores are sparse there.
    File(&'a File),
    /// Anything; bytes come in order, and nothing is sought.
    Stream(&'a mut dyn Write),
}

/// Is told how far it is. Called from several threads.
pub trait CoreProgress: Sync {
    /// Bytes of the uncompressed core that are read, of all.
    fn read(&self, _done: u64, _total: u64) {}

    /// All memory that changes when the process goes on was read: the freeze may be released. Said once.
    fn anonymous_memory_done(&self) {}

    /// Whether to go on; asked for every block.
    fn keep_going(&self) -> bool {
        true
    }
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl CoreProgress for NoProgress {}
