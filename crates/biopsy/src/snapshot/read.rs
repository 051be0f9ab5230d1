//! Opening heaps again: snapshots of recordings, `.gcdump` files, cores.

use std::path::{Path, PathBuf};

use biopsy_import::heap::{self, Heap, HeapError};

use crate::cli::AnalyzeArgs;
use crate::exit_codes::Code;
use crate::render::terminal::Terminal;
use biopsy_capture::{Failure, FailureKind};

use super::show;

/// The heap in a recording (its last snapshot) or in a `.gcdump`; `None`: it is something else.
pub(crate) fn open(path: &Path) -> Result<Option<Heap>, Failure> {
    heap::open(path).map_err(|error| failure(&error))
}

/// The heap in a core: all objects, with what is live. `roots`: folders below which the files of the process are looked for.
pub(crate) fn of_core(path: &Path, roots: &[PathBuf]) -> Result<Heap, Failure> {
    heap::of_dump(path, roots).map_err(|error| failure(&error))
}

fn failure(error: &HeapError) -> Failure {
    Failure::from_error(FailureKind::BadInput, error).with_hint(error.hint())
}

/// `biopsy analyze` of a heap.
pub(crate) fn analyze(heap: &Heap, args: &AnalyzeArgs, terminal: Terminal) -> Result<Code, Failure> {
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
