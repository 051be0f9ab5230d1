//! A snapshot as a `.gcdump`, or as a `.heapsnapshot`.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::heapsnapshot;
use biopsy_model::heap::HeapFacts;

use crate::failure::{Failure, FailureKind};
use crate::place::create_new;

/// Writes a `.gcdump`; a file that could not be finished is removed. Returns its bytes.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_gcdump(graph: &Graph, facts: &HeapFacts, name: &str, path: &Path) -> Result<u64, Failure> {
    write_new(path, |out| gcdump::write(graph, &gcdump_options(facts, name), out).map(drop))
}

/// Writes a `.heapsnapshot`; a file that could not be finished is removed. Returns its bytes.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_heapsnapshot(graph: &Graph, path: &Path) -> Result<u64, Failure> {
    write_new(path, |out| heapsnapshot::write(graph, out).map(drop))
}

fn write_new<E: std::error::Error + 'static>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<(), E>,
) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let file = create_new(path).map_err(failed)?;
    match write(&mut BufWriter::with_capacity(1 << 20, &file)) {
        Ok(()) => Ok(file.metadata().map_err(failed)?.len()),
        Err(error) => {
            let _ = std::fs::remove_file(path);
            Err(Failure::from_error(FailureKind::Output, &error))
        }
    }
}

/// What else is in a `.gcdump`.
#[must_use]
pub fn gcdump_options(facts: &HeapFacts, name: &str) -> WriteOptions {
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
