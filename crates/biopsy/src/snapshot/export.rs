//! `biopsy export --to gcdump`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use biopsy_capture::snapshot::{gcdump_options, write_gcdump};
use biopsy_dotnet::gcdump;
use biopsy_import::heap::Heap;

use biopsy_capture::{Failure, FailureKind};

use crate::commands::input::{bad_input, look};
use crate::commands::symbols::SymbolArgs;

/// A `.gcdump` that was written.
pub(crate) struct Exported {
    /// Where it is; `None`: on standard output.
    pub(crate) path: Option<PathBuf>,
    /// What is worth knowing of the heap.
    pub(crate) notes: Vec<String>,
    /// Nothing of the heap is known to be missing.
    pub(crate) whole: bool,
}

/// Writes the heap of a recording's last snapshot, or of a core, as `.gcdump`.
pub(crate) fn export_gcdump(
    file: &Path,
    symbols: &SymbolArgs,
    output: Option<&Path>,
) -> Result<Exported, Failure> {
    let Heap { name, graph, facts } = look(file, symbols)?.any_heap(&symbols.roots()?).map_err(bad_input)?;
    let mut exported = Exported { path: None, notes: facts.warnings.clone(), whole: facts.whole };
    if !facts.whole {
        exported.notes.push(format!("not whole: {} places could not be read", facts.problems));
    }
    if output.is_some_and(|path| path.as_os_str() == "-") {
        let mut out = BufWriter::new(crate::render::out::stdout());
        gcdump::write(&graph, &gcdump_options(&facts, &name), &mut out)
            .map_err(|error| Failure::from_error(FailureKind::Output, &error))?;
        crate::render::out::written(out.flush())?;
        return Ok(exported);
    }
    let path = output.map_or_else(|| beside(file), Path::to_owned);
    write_gcdump(&graph, &facts, &name, &path)?;
    exported.path = Some(path);
    Ok(exported)
}

/// `name.core.zst` becomes `name.gcdump`.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut stem: &str = &name;
    for ending in [".age", ".zst", ".gz", ".core", ".zip", ".biopsy"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    file.with_file_name(format!("{stem}.gcdump"))
}
