//! A heap as a file of another tool.

use std::io::{BufWriter, Write};
use std::path::Path;

use biopsy_analyze::HeapSummary;
use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::heapsnapshot;
use biopsy_model::heap::HeapFacts;
use biopsy_report::export::write_heap_as_pprof;

use crate::failure::{Failure, FailureKind};
use crate::place::create_new;

/// A format of heaps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapFormat {
    /// What PerfView, Visual Studio and dotnet-gcdump open.
    GcDump,
    /// What the memory panel of Chrome's DevTools opens.
    HeapSnapshot,
    /// What viewers of pprof open.
    Pprof,
}

impl HeapFormat {
    /// How names of its files end.
    #[must_use]
    pub fn ending(self) -> &'static str {
        match self {
            Self::GcDump => "gcdump",
            Self::HeapSnapshot => "heapsnapshot",
            Self::Pprof => "heap.pb.gz",
        }
    }

    /// What opens it.
    #[must_use]
    pub fn opens_with(self) -> &'static str {
        match self {
            Self::GcDump => "open it in PerfView or Visual Studio, or with `dotnet-gcdump report FILE`",
            Self::HeapSnapshot => "open it in the memory panel of Chrome's DevTools (`Load profile`)",
            Self::Pprof => "`go tool pprof -http : FILE`, or any other pprof viewer",
        }
    }
}

/// Writes a heap of the process `name`.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_heap(
    to: HeapFormat,
    name: &str,
    graph: &Graph,
    facts: &HeapFacts,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let failed = |error: &dyn std::error::Error| Failure::from_error(FailureKind::Output, error);
    match to {
        HeapFormat::GcDump => gcdump::write(graph, &gcdump_options(facts, name), &mut *out)
            .map(drop)
            .map_err(|error| failed(&error))?,
        HeapFormat::HeapSnapshot => {
            heapsnapshot::write(graph, &mut *out).map(drop).map_err(|error| failed(&error))?;
        }
        HeapFormat::Pprof => write_heap_as_pprof(&HeapSummary::new(name, graph, facts), &mut *out)
            .map_err(|error| failed(&error))?,
    }
    Ok(())
}

/// Writes it to a new file; one that could not be finished is removed. Returns its bytes.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_heap_file(
    to: HeapFormat,
    name: &str,
    graph: &Graph,
    facts: &HeapFacts,
    path: &Path,
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let file = create_new(path).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    match write_heap(to, name, graph, facts, &mut out).and_then(|()| out.flush().map_err(failed)) {
        Ok(()) => Ok(file.metadata().map_err(failed)?.len()),
        Err(failure) => {
            let _ = std::fs::remove_file(path);
            Err(failure)
        }
    }
}

/// What else is in a `.gcdump`.
fn gcdump_options(facts: &HeapFacts, name: &str) -> WriteOptions {
    #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough")]
    let unix_seconds = (facts.taken_at_unix_seconds > 0.0).then_some(facts.taken_at_unix_seconds as i64);
    WriteOptions {
        garbage: false,
        process_name: name.to_owned(),
        pid: facts.pid,
        unix_seconds,
        tool: format!("biopsy {}", env!("CARGO_PKG_VERSION")),
    }
}
