//! Opening a dump: which kind it is, how it is packed, and what it holds.

use std::fmt;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

pub use biopsy_model::dump::DumpKind;
use biopsy_model::loss::Warning;

use crate::problem::{OpenError, OpenProblem};
use crate::storage::{BytesStorage, Encoding, PlainFile, Storage, Unpacked, open_storage};
use crate::vendor::DumpNote;
use crate::{Crash, Image, Limits, core, minidump};

/// A dump that was opened.
pub struct Opened {
    /// What is in it.
    pub image: Box<dyn Image>,
    /// Its format.
    pub kind: DumpKind,
    /// How the file is packed.
    pub encoding: Encoding,
    /// What biopsy wrote about a dump of its own: kind, pause, whether secrets were masked.
    pub dump: Option<DumpNote>,
    /// What a reader should know: what is cut off, contradicts itself or was skipped.
    pub warnings: Vec<Warning>,
}

/// Codes of warnings that say that a dump is damaged, or that not all of it is read.
const DAMAGE: &[&str] = &[
    "dump.truncated",
    "dump.odd-headers",
    "dump.limit",
    "dump.threads",
    "dump.modules",
    "dump.large-minidump",
];

impl Opened {
    /// Whether the file is damaged or cut off, so that what is said of it rests on a part.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.warnings.iter().any(|warning| DAMAGE.contains(&warning.code.as_str()))
    }

    /// What the process died of, where the dump says so.
    #[must_use]
    pub fn crash(&self) -> Option<&Crash> {
        self.image.crash()
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("kind", &self.kind)
            .field("encoding", &self.encoding)
            .field("warnings", &self.warnings)
            .finish_non_exhaustive()
    }
}

/// Opens a core or minidump, packed or not; what it is, is told by its content. Headers are read, memory is not: a
/// core larger than memory opens at once, unless it is packed in a way that has to be unpacked from the start.
///
/// # Errors
/// When the file cannot be read, is no dump, is one that is not supported, or asks for more than `limits`. A dump that
/// is cut off or damaged further behind opens, with warnings.
pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Opened, OpenError> {
    let path = path.as_ref();
    open_file(path, limits).map_err(|problem| OpenError { path: path.to_path_buf(), problem })
}

/// Opens a dump that is in memory. `name` is for messages.
///
/// # Errors
/// As [`open`].
pub fn open_bytes(
    name: impl AsRef<Path>,
    bytes: impl Into<Arc<[u8]>>,
    limits: &Limits,
) -> Result<Opened, OpenError> {
    open_any(Arc::new(BytesStorage(bytes.into())), None, limits)
        .map_err(|problem| OpenError { path: name.as_ref().to_path_buf(), problem })
}

/// Opens a dump that is a part of a file: `range` of its bytes, as far as it has them. `name` is for messages.
///
/// # Errors
/// As [`open`].
pub fn open_part(
    name: impl AsRef<Path>,
    file: File,
    range: Range<u64>,
    limits: &Limits,
) -> Result<Opened, OpenError> {
    PlainFile::part(file, range)
        .map_err(|source| OpenProblem::Io { doing: "read", source })
        .and_then(|part| open_any(Arc::new(part), None, limits))
        .map_err(|problem| OpenError { path: name.as_ref().to_path_buf(), problem })
}

fn open_file(path: &Path, limits: &Limits) -> Result<Opened, OpenProblem> {
    let io = |doing| move |source| OpenProblem::Io { doing, source };
    // Looked at before it is opened: opening a pipe waits for its writer.
    let kind = std::fs::metadata(path).map_err(io("find"))?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() {
            "a folder"
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_socket() {
            "a socket"
        } else {
            "a device"
        };
        return Err(OpenProblem::NotAFile { what });
    }
    let file = File::open(path).and_then(PlainFile::new).map_err(io("read"))?;
    let folder =
        path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    open_any(Arc::new(file), folder, limits)
}

fn open_any(file: Arc<dyn Storage>, folder: Option<&Path>, limits: &Limits) -> Result<Opened, OpenProblem> {
    if file.len() == 0 {
        return Err(OpenProblem::NotADump { what: "it is empty" });
    }
    let Unpacked { storage, encoding, mut warnings, cut } = open_storage(file, folder, limits)?;
    let mut magic = [0; 4];
    let read = storage.read_full(0, &mut magic)?;
    let (image, kind, dump): (Box<dyn Image>, _, _) = match &magic[..read] {
        b"\x7fELF" => {
            let core = core::open(storage, cut, limits, &mut warnings)?;
            let dump = core.dump_note().cloned();
            (Box::new(core), DumpKind::Core, dump)
        }
        b"MDMP" | b"PMDM" => {
            (Box::new(minidump::open(storage, limits, &mut warnings)?), DumpKind::Minidump, None)
        }
        _ if encoding != Encoding::Plain => {
            return Err(OpenProblem::NotADump {
                what: "what is packed in it is neither a core nor a minidump",
            });
        }
        _ => return Err(OpenProblem::NotADump { what: "it is neither a core nor a minidump" }),
    };
    Ok(Opened { image, kind, encoding, dump, warnings })
}
