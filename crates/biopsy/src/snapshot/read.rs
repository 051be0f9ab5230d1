//! Opening heaps again: snapshots of recordings, `.gcdump` files, cores.

use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_dotnet::gcdump;
use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::graph::columns::{self, Column, ColumnSource};
use biopsy_dotnet::heap::{self, HeapOptions};
use biopsy_dotnet::runtime::{
    self, FoundRuntime, LocalFiles, MissingFiles, Runtime, RuntimeError, find_runtimes_with,
};
use biopsy_record::snapshot::{FACTS, SnapshotFacts, read_types};
use biopsy_recording::{Limits, SnapshotMembers, layout};

use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::render::terminal::Terminal;
use biopsy_capture::{Failure, FailureKind};

use super::show;

/// A heap that was read.
pub(crate) struct HeapFile {
    /// Of the process, for headings.
    pub(crate) name: String,
    pub(crate) graph: Graph,
    pub(crate) facts: SnapshotFacts,
}

/// Most bytes of a `.gcdump`: places in it are 32-bit numbers with sign.
const MOST_GCDUMP: u64 = 1 << 33;
/// How a `.gcdump` begins.
const GCDUMP_START: &[u8] = b"\x14\0\0\0!FastSerialization.1\x04\x04\x01";

/// The columns of one snapshot of a recording.
struct Columns {
    path: PathBuf,
    number: u32,
}

impl ColumnSource for Columns {
    fn open(&self, column: Column) -> io::Result<Option<Box<dyn Read + '_>>> {
        let name = format!("{}{}", column.name(), layout::COLUMN);
        let members = SnapshotMembers::open(&self.path, &column_limits(column)).map_err(io::Error::other)?;
        let Some(mut members) = members else { return Ok(None) };
        let from = members.open_unpacked(self.number, &name)?;
        Ok(from.map(|from| Box::new(from) as Box<dyn Read>))
    }
}

/// A heap of equal objects packs to nothing in the columns that have a number for each object. How many these are is bound by the
/// addresses, of which no two are equal.
fn column_limits(column: Column) -> Limits {
    match column {
        Column::Addresses | Column::Edges | Column::Roots | Column::Dependents => Limits::default(),
        Column::Types | Column::Sizes | Column::Generations | Column::Live | Column::EdgeStarts => {
            Limits { ratio: u64::MAX, ..Limits::default() }
        }
    }
}

/// The heap in a recording (its last snapshot) or in a `.gcdump`; `None`: it is something else.
pub(crate) fn open(path: &Path) -> Result<Option<HeapFile>, Failure> {
    let unreadable = |error: io::Error| {
        Failure::new(FailureKind::BadInput, format!("cannot read `{}`: {error}", path.display()))
    };
    if begins_like_gcdump(path) {
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(unreadable)?;
        file.take(MOST_GCDUMP).read_to_end(&mut bytes).map_err(unreadable)?;
        let dump = gcdump::read(&bytes).map_err(|error| {
            Failure::new(FailureKind::BadInput, format!("`{}` is damaged: {error}", path.display()))
        })?;
        let warnings =
            dump.incomplete.map(|error| format!("process, time and tool are not all known: {error}"));
        let facts = SnapshotFacts {
            pid: dump.pid,
            source: "runtime".to_owned(),
            taken_at_unix_seconds: dump.local_unix_seconds.map_or(0.0, |seconds| seconds as f64),
            whole: dump.left_out == 0,
            problems: dump.left_out,
            dangling: dump.dangling,
            warnings: Vec::from_iter(warnings),
            ..SnapshotFacts::of_graph(&dump.graph)
        };
        return Ok(Some(HeapFile { name: dump.process_name, graph: dump.graph, facts }));
    }
    let members = SnapshotMembers::open(path, &Limits::default())
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
    let Some(mut members) = members else { return Ok(None) };
    let Some(number) = members.numbers().last().copied() else { return Ok(None) };
    let limits = Limits::default();
    let types = match members.open_unpacked(number, layout::TYPES).map_err(unreadable)? {
        Some(from) => read_types(BufReader::new(from), &limits).map_err(|error| {
            Failure::new(
                FailureKind::BadInput,
                format!("the types of snapshot {number} are damaged: {error}"),
            )
        })?,
        None => Vec::new(),
    };
    let mut facts = String::new();
    if let Some(from) = members.open_member(number, FACTS).map_err(unreadable)? {
        from.take(limits.json_bytes).read_to_string(&mut facts).map_err(unreadable)?;
    }
    if facts.is_empty() {
        let message = format!("snapshot {number} of `{}` was not finished", path.display());
        return Err(Failure::new(FailureKind::BadInput, message));
    }
    let facts: SnapshotFacts = serde_json::from_str(&facts).map_err(|error| {
        Failure::new(FailureKind::BadInput, format!("the facts of snapshot {number} are damaged: {error}"))
    })?;
    let graph = columns::read(&Columns { path: path.to_owned(), number }, types)
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error))?;
    let name = biopsy_recording::open(path, &Limits::default())
        .map(|capture| capture.header.target_name)
        .unwrap_or_default();
    Ok(Some(HeapFile { name, graph, facts }))
}

fn begins_like_gcdump(path: &Path) -> bool {
    let mut head = [0; GCDUMP_START.len()];
    path.is_file()
        && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok()
        && head == *GCDUMP_START
}

/// The heap in a core: all objects, with what is live. `roots`: folders below which the files of the process are looked for.
pub(crate) fn of_core(path: &Path, roots: &[PathBuf]) -> Result<HeapFile, Failure> {
    let opened = biopsy_image::open(path, &biopsy_image::Limits::default())
        .map_err(|error| Failure::from_error(FailureKind::BadInput, &error).with_hint(error.hint()))?;
    let bad = |error: &dyn std::error::Error| Failure::from_error(FailureKind::BadInput, error);
    // Dumps seldom hold the text of files: names of types and where the runtime keeps its data are read from the same files.
    let local = Arc::new(LocalFiles::new(&*opened.image, roots));
    let files = Some(Arc::clone(&local) as Arc<dyn MissingFiles>);
    let found = find_runtimes_with(&*opened.image, files.clone());
    if found.is_empty() {
        let message = format!("`{}` has no .NET runtime that can be read", path.display());
        return Err(Failure::new(FailureKind::BadInput, message));
    }
    let mut options = runtime::Options::default();
    options.files = files;
    let (mut opened_runtimes, mut of_opened, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for one in &found {
        match Runtime::open(Box::new(&*opened.image), one, &options) {
            Ok(runtime) => {
                opened_runtimes.push(runtime);
                of_opened.push(one);
            }
            Err(error) => refused.push(unreadable_runtime(one, &error)),
        }
    }
    let (largest, without_heap) = heap::largest(&opened_runtimes);
    refused.extend(without_heap.iter().map(|error| bad(error)));
    let largest = largest.and_then(|(number, heap)| Some((*of_opened.get(number)?, heap)));
    let Some((of, heap)) = largest else {
        let message = format!("`{}` has no .NET heap", path.display());
        return Err(refused
            .into_iter()
            .next()
            .unwrap_or_else(|| Failure::new(FailureKind::BadInput, message)));
    };
    let (mut graph, mut problems) = heap.walk(&HeapOptions::default()).map_err(|error| bad(&error))?;
    let roots = heap.find_live(&mut graph, &mut problems).map_err(|error| bad(&error))?;
    let mut warnings = Vec::from_iter(heap::note_of_others(&found, of));
    warnings.extend(refused.iter().map(ToString::to_string));
    warnings.extend(roots.missing);
    warnings.extend(nameless(&graph));
    if heap.is_being_swept() && !problems.is_none() {
        warnings.push("a background collection was sweeping the heap at that moment".to_owned());
    }
    let unverified = local.unverified().len();
    if unverified > 0 {
        warnings.push(format!(
            "{unverified} files of this machine were used that nothing in the dump says are the same"
        ));
    }
    let process = opened.image.process();
    let facts = SnapshotFacts {
        pid: process.pid.0,
        runtime: of.version.as_ref().map(ToString::to_string).unwrap_or_default(),
        source: "memory".to_owned(),
        taken_at_unix_seconds: process.taken_at_unix_nanos.map_or(0.0, |nanos| nanos as f64 / 1e9),
        collector: if heap.is_server() { "server" } else { "workstation" }.to_owned(),
        segment_bytes: heap.bytes(),
        whole: problems.is_none(),
        problems: problems.count,
        skipped_bytes: problems.skipped_bytes,
        dangling: problems.dangling,
        stale: problems.stale,
        warnings,
        ..SnapshotFacts::of_graph(&graph)
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(HeapFile { name, graph, facts })
}

/// Why a runtime in a dump cannot be read, and what may help.
fn unreadable_runtime(of: &FoundRuntime, error: &RuntimeError) -> Failure {
    let program = biopsy_target::printable(&String::from_utf8_lossy(&of.path));
    let message = format!("the .NET runtime in `{program}` cannot be read: {error}");
    Failure::new(FailureKind::BadInput, message).with_hint(Some(format!(
        "what the dump lacks is read from the process's own files where `--symbols` says: `--symbols /` where `{program}` is on \
         this machine as it was"
    )))
}

/// Says so if types have no name: the metadata of their assemblies is missing.
fn nameless(graph: &Graph) -> Option<String> {
    let without = graph.types().iter().filter(|of| of.is_nameless()).count();
    (without > 0).then(|| {
        format!(
            "{without} of {} types have no name: the metadata of their assemblies is neither in the dump nor below a folder of `--symbols`",
            graph.types().len()
        )
    })
}

/// `biopsy analyze` of a heap.
pub(crate) fn analyze(heap: &HeapFile, args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
    /// Types that are listed.
    const TOP: usize = 50;
    if args.json {
        crate::render::out::document(&show::document(&heap.facts, &heap.graph, 0))?;
    } else {
        let mut shown = Vec::new();
        // Writing to a Vec does not fail.
        let _ = show::text(&mut shown, &heap.name, &heap.facts, &heap.graph, TOP, terminal);
        crate::render::out::bytes_of_text(&shown, terminal.colour)?;
    }
    Ok(if heap.facts.whole { Code::Ok } else { Code::Partial })
}
