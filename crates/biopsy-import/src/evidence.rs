//! Whatever a file or folder holds: one way to open it, told apart by what is in it.
//!
//! ```text
//!  folder, .zip ──► recording: capture, dumps, snapshots
//!  core, minidump ─► one dump, which may hold a heap
//!  .gcdump ────────► one heap
//!  perf.data, .nettrace, profiles of pprof ─► a capture
//!  any of them, sealed ──► the same, with the key
//! ```
//!
//! Looking is cheap; each piece is read when it is asked for, because dumps and heaps may be as large as the memory of a server.

use biopsy_model::order::Order as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use biopsy_image::Opened;
use biopsy_model::Pid;
use biopsy_model::capture::Capture;
use biopsy_model::footprint::Footprint;
use biopsy_model::peers::PeerLook;
use biopsy_recording::{
    BundledMemory, Limits, Location, OpenError, layout, read_footprints, read_header, read_last_words,
    read_peers, warnings_in_words,
};
use biopsy_stacks::symbols::FileSources;

use crate::error::ImportError;
use crate::heap::{self, Heap, HeapError};
use crate::{nettrace, perf_data, pprof};

/// First bytes of the formats that dumps have, packed ones included.
const DUMPS: &[&[u8]] =
    &[b"\x7fELF", b"\x28\xb5\x2f\xfd", b"\x1f\x8b", b"MDMP", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18"];
/// First bytes of a perf.data file (tools/perf/Documentation/perf.data-file-format.txt).
const PERF_DATA: &[u8] = b"PERFILE2";
/// First bytes of a bundle, which is a zip.
const BUNDLE: &[u8] = b"PK";
/// Bytes that are looked at to tell a file from others.
const HEAD: u64 = 32;

/// What a path leads to.
#[derive(Debug)]
pub struct Evidence {
    location: Location,
    head: Vec<u8>,
    dumps: Dumps,
    /// It is a profile of pprof, which is told by what gzip packed.
    is_profile: bool,
    /// Something other than a bundle was sealed: what it was is here, in memory, as long as this lives.
    _unsealed: Option<File>,
    is_memory_only: bool,
}

/// Where the dumps are.
#[derive(Debug)]
enum Dumps {
    /// Each in a file of its own.
    Files(Vec<PathBuf>),
    /// Members of a bundle.
    Bundled(Box<BundledMemory>),
}

/// Why evidence cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvidenceError {
    /// A recording is damaged, or is none.
    #[error(transparent)]
    Recording(#[from] OpenError),
    /// A file of another tool cannot be read.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// A dump cannot be opened.
    #[error(transparent)]
    Dump(#[from] biopsy_image::OpenError),
    /// A heap cannot be read.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The file system refuses.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl EvidenceError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Recording(error) => error.hint(),
            Self::Import(error) => error.hint().map(str::to_owned),
            Self::Dump(error) => error.hint(),
            Self::Heap(error) => error.hint(),
            Self::Io { .. } => None,
        }
    }
}

/// A dump that was opened.
#[derive(Debug)]
pub struct Dump {
    /// The image, and what its writer said of it.
    pub opened: Opened,
    /// Size of its file.
    pub file_bytes: Option<u64>,
}

impl Evidence {
    /// Looks what is there.
    ///
    /// # Errors
    /// A folder or bundle cannot be gone through. A file that is nothing known is refused when its capture is read.
    pub fn look(location: impl Into<Location>) -> Result<Self, EvidenceError> {
        let mut location = location.into();
        let mut head = head_of(location.path());
        let is_memory_only = location.is_sealed();
        let mut unsealed = None;
        if is_memory_only {
            let (start, memory) = unseal(&location)?;
            head = start;
            if let Some(memory) = memory {
                location = format!("/proc/self/fd/{}", memory.as_raw_fd()).into();
                unsealed = Some(memory);
            }
        } else if biopsy_seal::is_sealed(&head) {
            // Says that it is sealed, and what to do about it.
            biopsy_recording::read_header(&location, &Limits::default())?;
        }
        let path = location.path();
        let is_profile = pprof::is_one(path);
        let dumps = if path.is_dir() {
            Dumps::Files(
                dumps_below(path).map_err(|source| EvidenceError::Io { path: path.to_owned(), source })?,
            )
        } else if head.starts_with(BUNDLE) {
            BundledMemory::open(&location, &Limits::default())?
                .map_or(Dumps::Files(Vec::new()), |memory| Dumps::Bundled(Box::new(memory)))
        } else if !is_profile && DUMPS.iter().any(|magic| head.starts_with(magic)) {
            Dumps::Files(vec![path.to_owned()])
        } else {
            Dumps::Files(Vec::new())
        };
        Ok(Self { location, head, dumps, is_profile, _unsealed: unsealed, is_memory_only })
    }

    /// It is a recording of ours: a folder, or a bundle.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.location.path().is_dir() || self.head.starts_with(BUNDLE)
    }

    /// How many dumps there are, the target's first.
    #[must_use]
    pub fn dumps(&self) -> usize {
        match &self.dumps {
            Dumps::Files(files) => files.len(),
            Dumps::Bundled(memory) => memory.names().len(),
        }
    }

    /// Opens a dump. One that is packed in a bundle is unpacked to a file without a name first.
    ///
    /// # Errors
    /// It cannot be read, or is no dump.
    pub fn dump(&mut self, number: usize) -> Result<Dump, EvidenceError> {
        let limits = self.image_limits();
        let path = self.location.path();
        let gone =
            |path: &Path| EvidenceError::Io { path: path.to_owned(), source: io::ErrorKind::NotFound.into() };
        match &mut self.dumps {
            Dumps::Files(files) => {
                let file = files.get(number).ok_or_else(|| gone(path))?;
                let opened = biopsy_image::open(file, &limits)?;
                Ok(Dump { opened, file_bytes: std::fs::metadata(file).ok().map(|meta| meta.len()) })
            }
            Dumps::Bundled(memory) => {
                let name = memory.names().get(number).cloned().ok_or_else(|| gone(path))?;
                let shown = path.join(&name);
                let failed = |source| EvidenceError::Io { path: shown.clone(), source };
                let (file, range) = match memory.place(&name).map_err(failed)? {
                    Some(place) => place,
                    None => {
                        let unnamed = if self.is_memory_only { memory_file() } else { tempfile::tempfile() };
                        let mut file = unnamed.map_err(failed)?;
                        let bytes = memory.unpack(&name, &mut file).map_err(failed)?;
                        (file, 0..bytes)
                    }
                };
                let file_bytes = Some(range.end.saturating_sub(range.start));
                Ok(Dump { opened: biopsy_image::open_part(&shown, file, range, &limits)?, file_bytes })
            }
        }
    }

    /// What the threads of a dumped process waited for in others; `None`: nobody looked.
    #[must_use]
    pub fn peers(&self, pid: Pid) -> Option<PeerLook> {
        self.is_recording().then(|| read_peers(&self.location, pid, &Limits::default())).flatten()
    }

    /// What a dumped process wrote last; empty: nobody looked.
    #[must_use]
    pub fn last_words(&self, pid: Pid) -> Vec<String> {
        if !self.is_recording() {
            return Vec::new();
        }
        read_last_words(&self.location, pid, &Limits::default())
    }

    /// What the recording around its dumps says of itself, in words; nothing where there is none.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        if self.is_recording() { warnings_in_words(&self.location, &Limits::default()) } else { Vec::new() }
    }

    /// Where the memory of processes went, each with the name of the process, the oldest first; and what of it cannot be read.
    #[must_use]
    pub fn footprints(&self) -> (Vec<(String, Footprint)>, Vec<String>) {
        if !self.is_recording() {
            return Default::default();
        }
        let limits = Limits::default();
        let (footprints, warnings) = read_footprints(&self.location, &limits);
        if footprints.is_empty() {
            return (Vec::new(), warnings);
        }
        let name = read_header(&self.location, &limits).map(|header| header.target_name).unwrap_or_default();
        (footprints.into_iter().map(|footprint| (name.clone(), footprint)).collect(), warnings)
    }

    /// Numbers of the heaps that there are, as they were taken: those of a recording's snapshots, or 1 for a file that is one.
    ///
    /// # Errors
    /// The recording is damaged.
    pub fn heaps(&self) -> Result<Vec<u32>, EvidenceError> {
        Ok(if self.is_recording() { heap::numbers(&self.location)? } else { vec![1] })
    }

    /// A heap by its number: a snapshot of a recording, or what is in a `.gcdump` or `.hprof`; `None`: there is none.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub fn heap(&self, number: u32) -> Result<Option<Heap>, EvidenceError> {
        self.heap_place(number).read()
    }

    /// Where the heap of this number is, for as long as this evidence is there.
    #[must_use]
    pub fn heap_place(&self, number: u32) -> HeapPlace {
        HeapPlace { location: self.location.clone(), number, is_recording: self.is_recording() }
    }

    /// The heap, also that in a dump. `sources`: where files may be looked for that the dump names.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn any_heap(&self, sources: &FileSources) -> Result<Heap, EvidenceError> {
        match heap::open(&self.location)? {
            Some(heap) => Ok(heap),
            None => Ok(heap::of_dump(self.location.path(), sources, &self.image_limits())?),
        }
    }

    /// Whether there is a heap: in a recording over time as a snapshot, else whatever it is.
    #[must_use]
    pub fn has_heap(&self, is_recording: bool, sources: &FileSources) -> bool {
        if !is_recording {
            return self.any_heap(sources).is_ok();
        }
        self.heaps().unwrap_or_default().into_iter().any(|number| {
            self.heap_place(number).objects().is_some() || matches!(self.heap(number), Ok(Some(_)))
        })
    }

    /// What was recorded over time. `sources`: where files may be looked for that it names.
    ///
    /// # Errors
    /// It is nothing of that kind, or damaged beyond use.
    pub fn capture(&self, sources: &FileSources) -> Result<Capture, EvidenceError> {
        if self.head.starts_with(nettrace::MAGIC) {
            return Ok(nettrace::read(self.location.path(), &nettrace::Limits::default())?);
        }
        if self.head.starts_with(PERF_DATA) {
            return Ok(perf_data::read(self.location.path(), sources, &crate::Limits::default())?);
        }
        if self.is_profile {
            return Ok(pprof::read(self.location.path(), &pprof::Limits::default())?);
        }
        Ok(biopsy_recording::open(&self.location, &Limits::default())?)
    }
}

/// Where a heap is: what another thread may read it by.
#[derive(Clone, Debug)]
pub struct HeapPlace {
    location: Location,
    number: u32,
    is_recording: bool,
}

impl HeapPlace {
    /// How many objects a snapshot of a recording has; `None`: it is none, or does not say.
    #[must_use]
    pub fn objects(&self) -> Option<u64> {
        self.is_recording.then(|| heap::objects(&self.location, self.number)).flatten()
    }

    /// Reads it; `None`: there is none.
    ///
    /// # Errors
    /// It is damaged or cannot be read.
    pub fn read(&self) -> Result<Option<Heap>, EvidenceError> {
        if self.is_recording {
            return Ok(heap::of_recording(&self.location, Some(self.number))?);
        }
        Ok(heap::open(&self.location)?)
    }
}

impl Evidence {
    fn image_limits(&self) -> biopsy_image::Limits {
        let limits = biopsy_image::Limits::default();
        if self.is_memory_only { limits.memory_only() } else { limits }
    }
}

/// The first bytes of what was sealed, and, unless that is a bundle, all of it in memory.
fn unseal(location: &Location) -> Result<(Vec<u8>, Option<File>), EvidenceError> {
    let failed = |source| EvidenceError::Io { path: location.path().to_owned(), source };
    let Some(mut sealed) = location.open_sealed().map_err(OpenError::from)? else {
        return Ok((Vec::new(), None));
    };
    let mut head = Vec::new();
    (&mut sealed).take(HEAD).read_to_end(&mut head).map_err(failed)?;
    if head.starts_with(BUNDLE) {
        return Ok((head, None));
    }
    let mut memory = memory_file().map_err(failed)?;
    memory.write_all(&head).map_err(failed)?;
    io::copy(&mut sealed, &mut memory).map_err(failed)?;
    Ok((head, Some(memory)))
}

/// A file that is on no disk, and is gone with this process.
fn memory_file() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("unsealed", rustix::fs::MemfdFlags::CLOEXEC)?.into())
}

/// The first bytes of a regular file; of anything else, nothing.
fn head_of(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // What cannot be read is said by whoever needs it.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        let _ = file.take(HEAD).read_to_end(&mut head);
    }
    head
}

/// The dumps in a recording's folder. The target was written first, and its children after it.
fn dumps_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(relative) = open.pop() {
        for entry in std::fs::read_dir(folder.join(&relative))? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let path = relative.join(entry.file_name());
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && path.to_str().is_some_and(layout::is_memory) {
                found.push(path);
            }
        }
    }
    found.sort();
    let mut found: Vec<PathBuf> = found.into_iter().map(|path| folder.join(path)).collect();
    found.order_by_key(|path| path.metadata().and_then(|meta| meta.created()).ok());
    Ok(found)
}
