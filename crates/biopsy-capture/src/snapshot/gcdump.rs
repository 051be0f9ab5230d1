//! A snapshot as a `.gcdump`.

use std::io::BufWriter;
use std::path::Path;

use biopsy_dotnet::gcdump::{self, WriteOptions};
use biopsy_dotnet::graph::Graph;
use biopsy_model::heap::HeapFacts;

use crate::failure::{Failure, FailureKind};
use crate::place::create_new;

/// Writes a `.gcdump`; a file that could not be finished is removed. Returns its bytes.
///
/// # Errors
/// [`FailureKind::Output`].
pub fn write_gcdump(graph: &Graph, facts: &HeapFacts, name: &str, path: &Path) -> Result<u64, Failure> {
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Output, format!("cannot write `{}`: {error}", path.display()))
    };
    let file = create_new(path).map_err(failed)?;
    let written =
        gcdump::write(graph, &gcdump_options(facts, name), BufWriter::with_capacity(1 << 20, &file));
    match written {
        Ok(_) => Ok(file.metadata().map_err(failed)?.len()),
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
        pid: facts.pid.0,
        unix_seconds,
        tool: format!("biopsy {}", env!("CARGO_PKG_VERSION")),
    }
}
