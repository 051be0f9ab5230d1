//! `biopsy export --to gcdump`.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use biopsy_dotnet::gcdump;

use crate::exit_codes::Code;
use crate::failure::Failure;

use super::read::{self, HeapFile};
use super::take::{gcdump_options, write_gcdump};

/// Writes the heap of a recording's last snapshot, or of a core, as `.gcdump`; returns where it is, `None`: standard output.
pub(crate) fn export_gcdump(file: &Path, output: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let HeapFile { name, graph, facts } = match read::open(file)? {
        Some(heap) => heap,
        None => read::of_core(file)?,
    };
    if output.is_some_and(|path| path.as_os_str() == "-") {
        let mut out = BufWriter::new(std::io::stdout().lock());
        gcdump::write(&graph, &gcdump_options(&facts, &name), &mut out)
            .map_err(|error| Failure::from_error(Code::Output, &error))?;
        crate::commands::written(out.flush())?;
        return Ok(None);
    }
    let path = output.map_or_else(|| beside(file), Path::to_owned);
    write_gcdump(&graph, &facts, &name, &path)?;
    Ok(Some(path))
}

/// `name.core.zst` becomes `name.gcdump`.
fn beside(file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let mut stem: &str = &name;
    for ending in [".zst", ".gz", ".core", ".zip", ".biopsy"] {
        stem = stem.strip_suffix(ending).unwrap_or(stem);
    }
    file.with_file_name(format!("{stem}.gcdump"))
}
