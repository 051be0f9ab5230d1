//! `biopsy export --to gcdump` and `--to heapsnapshot`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use biopsy_capture::snapshot::{gcdump_options, write_gcdump, write_heapsnapshot};
use biopsy_dotnet::{gcdump, heapsnapshot};
use biopsy_import::heap::Heap;

use biopsy_capture::{Failure, FailureKind};

use crate::commands::input::{bad_input, look};
use crate::commands::symbols::SymbolArgs;

/// A format of heaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeapFormat {
    /// What PerfView, Visual Studio and dotnet-gcdump open.
    GcDump,
    /// What the memory panel of Chrome's DevTools opens.
    HeapSnapshot,
}

impl HeapFormat {
    fn ending(self) -> &'static str {
        match self {
            Self::GcDump => "gcdump",
            Self::HeapSnapshot => "heapsnapshot",
        }
    }

    /// What opens it.
    pub(crate) fn opens_with(self) -> &'static str {
        match self {
            Self::GcDump => "open it in PerfView or Visual Studio, or with `dotnet-gcdump report FILE`",
            Self::HeapSnapshot => "open it in the memory panel of Chrome's DevTools (`Load profile`)",
        }
    }
}

/// A heap that was written.
pub(crate) struct Exported {
    /// Where it is; `None`: on standard output.
    pub(crate) path: Option<PathBuf>,
    /// What is worth knowing of the heap.
    pub(crate) notes: Vec<String>,
    /// Nothing of the heap is known to be missing.
    pub(crate) whole: bool,
}

/// Writes a heap: a snapshot of a recording (the last, if no number is given), or that of a core.
pub(crate) fn export_heap(
    file: &Path,
    to: HeapFormat,
    snapshot: Option<u32>,
    symbols: &SymbolArgs,
    output: Option<&Path>,
) -> Result<Exported, Failure> {
    let Heap { name, graph, facts } = read_heap(file, snapshot, symbols)?;
    let mut exported = Exported { path: None, notes: facts.warnings.clone(), whole: facts.whole };
    if !facts.whole {
        exported.notes.push(format!("not whole: {} places could not be read", facts.problems));
    }
    if output.is_some_and(|path| path.as_os_str() == "-") {
        let mut out = BufWriter::new(biopsy_foreground::out::stdout());
        match to {
            HeapFormat::GcDump => gcdump::write(&graph, &gcdump_options(&facts, &name), &mut out)
                .map(drop)
                .map_err(|error| Failure::from_error(FailureKind::Output, &error))?,
            HeapFormat::HeapSnapshot => heapsnapshot::write(&graph, &mut out)
                .map(drop)
                .map_err(|error| Failure::from_error(FailureKind::Output, &error))?,
        }
        biopsy_foreground::out::written(out.flush())?;
        return Ok(exported);
    }
    let path = output.map_or_else(|| beside(file, to), Path::to_owned);
    match to {
        HeapFormat::GcDump => write_gcdump(&graph, &facts, &name, &path)?,
        HeapFormat::HeapSnapshot => write_heapsnapshot(&graph, &path)?,
    };
    exported.path = Some(path);
    Ok(exported)
}

/// A heap by the number of its snapshot; the last, if no number is given.
pub(crate) fn read_heap(file: &Path, snapshot: Option<u32>, symbols: &SymbolArgs) -> Result<Heap, Failure> {
    let evidence = look(file, symbols)?;
    let Some(number) = snapshot else {
        return evidence.any_heap(&symbols.roots()?).map_err(bad_input);
    };
    evidence.heap(number).map_err(bad_input)?.ok_or_else(|| {
        Failure::new(FailureKind::Usage, format!("`{}` has no snapshot {number}", file.display()))
    })
}

/// `name.core.zst` becomes `name.gcdump`.
fn beside(file: &Path, to: HeapFormat) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut stem: &str = &name;
    for ending in [".age", ".zst", ".gz", ".core", ".zip", ".biopsy"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    file.with_file_name(format!("{stem}.{}", to.ending()))
}
