//! Heaps, of whatever holds one: a recording's snapshot, a `.gcdump`, a `.hprof` of Java, a `.heapsnapshot` of V8, a core or minidump of a .NET process.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_blocks::MOST_BLOCKS;
use biopsy_bytes::ReadError;
use biopsy_dotnet::gcdump;
use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::graph::columns::{self, Column, ColumnSource, ColumnsError};
use biopsy_dotnet::heap::{self, HeapOptions, Refused};
use biopsy_dotnet::runtime::{self, LocalFiles, MissingFiles, RuntimeError, find_runtimes_with};
use biopsy_image::Opened;
use biopsy_model::heap::{HeapFacts, HeapSource};
use biopsy_model::printable::printable;
use biopsy_recording::{HeapReadError, Heaps, Limits, Location};
use biopsy_stacks::symbols::FileSources;

use crate::heapsnapshot::{self, HeapSnapshotError};
use crate::hprof::{self, HprofError};

/// A heap that was read.
#[derive(Debug)]
pub struct Heap {
    /// Of the process or of the file, for headings.
    pub name: String,
    /// Its objects.
    pub graph: Graph,
    /// What is told of them.
    pub facts: HeapFacts,
}

/// Why there is no heap to be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeapError {
    /// The recording cannot be opened.
    #[error(transparent)]
    Recording(#[from] biopsy_recording::OpenError),
    /// Its snapshot cannot be read.
    #[error(transparent)]
    Snapshot(#[from] HeapReadError),
    /// The columns of its snapshot are no graph.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// The dump cannot be opened.
    #[error(transparent)]
    Dump(#[from] biopsy_image::OpenError),
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A `.gcdump` is damaged.
    #[error("`{}` is damaged", path.display())]
    GcDump {
        /// Which.
        path: PathBuf,
        /// Where.
        source: ReadError,
    },
    /// A heap dump of Java cannot be read.
    #[error("`{}` cannot be read as a heap dump", path.display())]
    Hprof {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: HprofError,
    },
    /// A snapshot of V8 cannot be read.
    #[error("`{}` cannot be read as a `.heapsnapshot`", path.display())]
    HeapSnapshot {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: HeapSnapshotError,
    },
    /// There is no .NET runtime in a dump, and no block of an allocator.
    #[error("`{}` has no .NET runtime that can be read, and no blocks of glibc's malloc", path.display())]
    NoRuntime {
        /// Which.
        path: PathBuf,
    },
    /// The .NET runtime in a dump has no heap.
    #[error("`{}` has no .NET heap", path.display())]
    NoHeap {
        /// Which.
        path: PathBuf,
    },
    /// The .NET runtime in a dump cannot be read.
    #[error("the .NET runtime in `{program}` cannot be read")]
    Runtime {
        /// The library or program that it is in, printable.
        program: String,
        /// Why not.
        source: RuntimeError,
    },
    /// Its heap cannot be read.
    #[error(transparent)]
    Heap(heap::HeapError),
}

impl HeapError {
    /// What the reader can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Recording(error) => error.hint(),
            Self::Dump(error) => error.hint(),
            Self::Runtime { program, .. } => Some(format!(
                "what the dump lacks is read from the process's own files where `--symbols` says: `--symbols /` where `{program}` \
                 is on this machine as it was"
            )),
            Self::Snapshot(_)
            | Self::Columns(_)
            | Self::Io { .. }
            | Self::GcDump { .. }
            | Self::Hprof { .. }
            | Self::HeapSnapshot { .. }
            | Self::NoRuntime { .. }
            | Self::NoHeap { .. }
            | Self::Heap(_) => None,
        }
    }
}

impl From<Refused<'_>> for HeapError {
    fn from(refused: Refused<'_>) -> Self {
        match refused {
            Refused::Runtime { of, source } => {
                Self::Runtime { program: printable(&String::from_utf8_lossy(&of.path)), source }
            }
            Refused::Heap(error) => Self::Heap(error),
        }
    }
}

/// Most bytes of a `.gcdump`: places in it are 32-bit numbers with sign.
const MOST_GCDUMP: u64 = 1 << 33;
/// How a `.gcdump` begins.
const GCDUMP_START: &[u8] = b"\x14\0\0\0!FastSerialization.1\x04\x04\x01";

/// The heap in a `.gcdump`, in a heap dump of Java, in a snapshot of V8, or in a recording (its last snapshot); `None`: it is something else, or has no snapshot.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn open(location: impl Into<Location>) -> Result<Option<Heap>, HeapError> {
    let location = location.into();
    let path = location.path();
    if let Some(heap) = of_gcdump(path)? {
        return Ok(Some(heap));
    }
    if let Some(heap) = of_hprof(path)? {
        return Ok(Some(heap));
    }
    match of_heapsnapshot(path)? {
        Some(heap) => Ok(Some(heap)),
        None => of_recording(location, None),
    }
}

/// The heap in a heap dump of Java; `None`: it is something else.
///
/// # Errors
/// It cannot be read. One that ends early gives what is there.
pub fn of_hprof(path: &Path) -> Result<Option<Heap>, HeapError> {
    let mut head = [0; hprof::MAGIC.len()];
    if !starts_with(path, &mut head, hprof::MAGIC) {
        return Ok(None);
    }
    let (graph, facts) =
        hprof::read(path).map_err(|source| HeapError::Hprof { path: path.to_owned(), source })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(Heap { name, graph, facts }))
}

/// The heap in a snapshot of V8, as Node.js, Chromium and `biopsy export --to heapsnapshot` write it; `None`: it is something else.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn of_heapsnapshot(path: &Path) -> Result<Option<Heap>, HeapError> {
    let failed = |source| HeapError::HeapSnapshot { path: path.to_owned(), source };
    if !path.is_file() || !heapsnapshot::is_one(path) {
        return Ok(None);
    }
    let (graph, facts) = heapsnapshot::read(path).map_err(failed)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Some(Heap { name, graph, facts }))
}

/// Whether a regular file begins so.
fn starts_with(path: &Path, head: &mut [u8], magic: &[u8]) -> bool {
    path.is_file() && File::open(path).and_then(|mut file| file.read_exact(head)).is_ok() && head == magic
}

/// Numbers of the snapshots in a recording that were finished; none where it has none. Where none was finished, that one.
///
/// # Errors
/// The recording is damaged.
pub fn numbers(location: impl Into<Location>) -> Result<Vec<u32>, HeapError> {
    let Some(mut heaps) = Heaps::open(location, &Limits::default())? else { return Ok(Vec::new()) };
    let all = heaps.numbers().to_vec();
    let mut finished = all.clone();
    finished.retain(|number| !matches!(heaps.facts(*number), Err(HeapReadError::Unfinished { .. })));
    Ok(if finished.is_empty() { all } else { finished })
}

/// How many objects a snapshot of a recording has; `None`: it does not say.
pub fn objects(location: impl Into<Location>, number: u32) -> Option<u64> {
    let mut heaps = Heaps::open(location, &Limits::default()).ok()??;
    heaps.facts(number).ok().map(|facts| facts.objects)
}

/// The snapshot of that number in a recording, the last one where none is given; `None`: there is none, or it is no recording.
///
/// # Errors
/// The recording or the snapshot is damaged, or it was not finished.
pub fn of_recording(location: impl Into<Location>, number: Option<u32>) -> Result<Option<Heap>, HeapError> {
    let location = location.into();
    let Some(mut heaps) = Heaps::open(&location, &Limits::default())? else { return Ok(None) };
    let number = match number {
        Some(number) => heaps.numbers().contains(&number).then_some(number),
        None => heaps.numbers().last().copied(),
    };
    let Some(number) = number else { return Ok(None) };
    let types = heaps.types(number)?;
    let facts = heaps.facts(number)?;
    let graph = columns::read(&Columns { heaps: RefCell::new(heaps), number }, types)?;
    let header = biopsy_recording::read_header(&location, &Limits::default());
    let name = header.map(|header| header.target_name).unwrap_or_default();
    Ok(Some(Heap { name, graph, facts }))
}

/// The columns of one snapshot of a recording.
struct Columns {
    heaps: RefCell<Heaps>,
    number: u32,
}

impl ColumnSource for Columns {
    fn open(&self, column: Column) -> io::Result<Option<Box<dyn Read + '_>>> {
        // A heap of equal objects packs to nothing in the columns that have a number for each object. How many these are is bound
        // by the addresses, of which no two are equal.
        let ratio = match column {
            Column::Addresses | Column::Edges | Column::Roots | Column::Dependents => Limits::default().ratio,
            Column::Types
            | Column::Sizes
            | Column::Generations
            | Column::Live
            | Column::EdgeStarts
            | Column::Noted => u64::MAX,
        };
        let from = self.heaps.borrow_mut().open_column(self.number, column.name(), ratio)?;
        Ok(from.map(|from| Box::new(from) as Box<dyn Read>))
    }
}

/// The heap in a `.gcdump`; `None`: it is something else.
///
/// # Errors
/// It is damaged or cannot be read.
pub fn of_gcdump(path: &Path) -> Result<Option<Heap>, HeapError> {
    let mut head = [0; GCDUMP_START.len()];
    if !starts_with(path, &mut head, GCDUMP_START) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MOST_GCDUMP).read_to_end(&mut bytes))
        .map_err(|source| HeapError::Io { path: path.to_owned(), source })?;
    let dump = gcdump::read(&bytes).map_err(|source| HeapError::GcDump { path: path.to_owned(), source })?;
    let warnings = dump.incomplete.map(|error| format!("process, time and tool are not all known: {error}"));
    let facts = HeapFacts {
        pid: dump.pid,
        source: HeapSource::Runtime,
        taken_at_unix_seconds: dump.local_unix_seconds.map_or(0.0, |seconds| seconds as f64),
        whole: dump.left_out == 0,
        problems: dump.left_out,
        dangling: dump.dangling,
        warnings: Vec::from_iter(warnings),
        ..dump.graph.facts()
    };
    Ok(Some(Heap { name: dump.process_name, graph: dump.graph, facts }))
}

/// The blocks of native code in a dump, and who holds them; `None`: there are none, or too many, or their allocator is not understood.
fn of_blocks(opened: &Opened, path: &Path, sources: &FileSources) -> Option<Heap> {
    let image = &*opened.image;
    let memory = biopsy_allocators::with_blocks(image, &[], MOST_BLOCKS);
    let blocks = memory.blocks.filter(|blocks| !blocks.is_empty())?;
    let native = biopsy_blocks::read(image, blocks, &memory.areas, sources, MOST_BLOCKS).ok()?;
    let process = image.process();
    let mut facts = HeapFacts { pid: process.pid, ..native.facts };
    facts.taken_at_unix_seconds = process.taken_at_unix_nanos.map_or(0.0, |nanos| nanos as f64 / 1e9);
    facts.warnings.extend(memory.footprint.warnings);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Some(Heap { name, graph: native.graph, facts })
}

/// The largest managed heap in a core or minidump: all objects, with what is live; of a program without one its native blocks. `sources`: where the files of the
/// process are looked for.
///
/// # Errors
/// It is no dump, there is no .NET heap in it, or that cannot be read.
pub fn of_dump(path: &Path, sources: &FileSources, limits: &biopsy_image::Limits) -> Result<Heap, HeapError> {
    let opened = biopsy_image::open(path, limits)?;
    // Dumps seldom hold the text of files: names of types and where the runtime keeps its data are read from the same files.
    let local = Arc::new(LocalFiles::new(&*opened.image, &sources.roots));
    let files = Some(Arc::clone(&local) as Arc<dyn MissingFiles>);
    let found = find_runtimes_with(&*opened.image, files.clone());
    if found.is_empty() {
        return of_blocks(&opened, path, sources)
            .ok_or_else(|| HeapError::NoRuntime { path: path.to_owned() });
    }
    let mut options = runtime::Options::default();
    options.files = files;
    let heap = heap::read_largest(&*opened.image, &found, &options, &HeapOptions::default(), false)
        .map_err(|why| why.map_or_else(|| HeapError::NoHeap { path: path.to_owned() }, HeapError::from))?;
    let mut warnings = Vec::from_iter(heap.others);
    warnings.extend(heap.refused.into_iter().map(|refused| with_causes(&HeapError::from(refused))));
    warnings.extend(heap.missing);
    warnings.extend(heap.nameless.map(|nameless| {
        format!("{nameless}: the metadata of their assemblies is neither in the dump nor below a folder of `--symbols`")
    }));
    if heap.is_torn_by_sweep {
        warnings.push("a background collection was sweeping the heap at that moment".to_owned());
    }
    let unverified = local.unverified().len();
    if unverified > 0 {
        warnings.push(format!(
            "{unverified} files of this machine were used that nothing in the dump says are the same"
        ));
    }
    let process = opened.image.process();
    let facts = HeapFacts {
        pid: process.pid,
        taken_at_unix_seconds: process.taken_at_unix_nanos.map_or(0.0, |nanos| nanos as f64 / 1e9),
        warnings,
        ..heap.facts
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Heap { name, graph: heap.graph, facts })
}

/// An error as a sentence, causes included.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    text
}
