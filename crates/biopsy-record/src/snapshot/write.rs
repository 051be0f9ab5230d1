//! Writing a snapshot into a recording.

use std::io::{self, BufRead, Read, Write};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use biopsy_dotnet::graph::columns::{self, Column};
use biopsy_dotnet::graph::{Graph, GraphType};
use biopsy_recording::{Limits, RecordingFolder, WriteError, layout};
use serde::{Deserialize, Serialize};

use super::SnapshotFacts;

/// Name of the facts.
pub const FACTS: &str = "snapshot.json";
/// Level of zstd: columns are large and wanted soon.
const LEVEL: i32 = 1;

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The folder in the recording.
    pub folder: String,
    /// Bytes of all its members but the facts.
    pub bytes: u64,
}

/// A line of `types.jsonl`.
#[derive(Serialize, Deserialize)]
struct TypeLine {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    module: String,
    #[serde(default, skip_serializing_if = "is_zero")]
    method_table: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    free: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Writes a graph as the snapshot of this number. Names of types are code and kept as they are. The facts come last: a snapshot without them is not whole.
///
/// # Errors
/// The recording cannot be written.
pub fn write(
    graph: &Graph,
    facts: &SnapshotFacts,
    number: u32,
    folder: &RecordingFolder,
) -> Result<Written, WriteError> {
    let types_member = layout::snapshot_member(number, layout::TYPES);
    let mut lines = Vec::new();
    for of in graph.types() {
        let (name, module) = (of.name.clone(), of.module.clone());
        let line = TypeLine { name, module, method_table: of.method_table, free: of.is_free };
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut lines, &line);
        lines.push(b'\n');
    }
    let file = folder.create_member(&types_member)?;
    let packed = zstd::encode_all(lines.as_slice(), LEVEL).map_err(|error| file.write_error(error))?;
    file.file().write_all(&packed).map_err(|error| file.write_error(error))?;
    let (next, bytes) = (AtomicUsize::new(0), AtomicUsize::new(packed.len()));
    let failed = Mutex::new(None);
    let work = || {
        while let Some(column) = Column::ALL.get(next.fetch_add(1, Relaxed)) {
            match column_member(graph, *column, number, folder) {
                Ok(written) => drop(bytes.fetch_add(written, Relaxed)),
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(Column::ALL.len());
    std::thread::scope(|scope| {
        // Where no more threads can be started, fewer do it.
        (1..threads).for_each(|_| drop(std::thread::Builder::new().spawn_scoped(scope, work)));
        work();
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    folder.write_json(&layout::snapshot_member(number, FACTS), facts)?;
    let folder = format!("{}{number}", layout::SNAPSHOTS_FOLDER);
    Ok(Written { folder, bytes: bytes.into_inner() as u64 })
}

fn column_member(
    graph: &Graph,
    column: Column,
    number: u32,
    folder: &RecordingFolder,
) -> Result<usize, WriteError> {
    if column == Column::Live && graph.live().is_none() {
        return Ok(0);
    }
    let name = layout::snapshot_member(number, &format!("{}{}", column.name(), layout::COLUMN));
    let file = folder.create_member(&name)?;
    let mut counted = Counted { file: file.file(), bytes: 0 };
    let mut write = || -> io::Result<()> {
        let mut packed = zstd::Encoder::new(&mut counted, LEVEL)?;
        columns::write(graph, column, &mut packed)?;
        packed.finish().map(|_| ())
    };
    write().map_err(|error| file.write_error(error))?;
    Ok(counted.bytes)
}

struct Counted<W> {
    file: W,
    bytes: usize,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.bytes += written;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Reads the types of `types.jsonl.zst`, unpacked; lines that are none become types without a name, so that the numbers of the
/// others stay.
///
/// # Errors
/// The bytes cannot be read, or there are more or longer lines than the limits allow.
pub fn read_types(mut from: impl BufRead, limits: &Limits) -> io::Result<Vec<GraphType>> {
    let over = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let longest = limits.line_bytes as u64;
    let mut types = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut from).take(longest).read_until(b'\n', &mut line)? == 0 {
            return Ok(types);
        }
        if line.len() as u64 == longest && !line.ends_with(b"\n") {
            return Err(over(format!("type {} has more than {longest} bytes", types.len())));
        }
        if types.len() >= limits.types {
            return Err(over(format!("there are more than {} types", limits.types)));
        }
        types.push(match serde_json::from_slice::<TypeLine>(&line) {
            Ok(TypeLine { name, module, method_table, free }) => {
                GraphType { name, module, method_table, is_free: free }
            }
            Err(_) => GraphType::default(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_keep_their_numbers_and_end_at_the_limits() {
        let limits = Limits { types: 3, line_bytes: 40, ..Limits::default() };
        let read = |text: &str| read_types(text.as_bytes(), &limits).map_err(|error| error.to_string());
        let names =
            |text: &str| -> Vec<String> { read(text).unwrap().into_iter().map(|of| of.name).collect() };
        assert_eq!(names("{\"name\":\"A\"}\n\n{\"name\":\"B\"}"), ["A", "", "B"]);
        assert_eq!(names(""), [""; 0]);
        assert_eq!(read("\n\n\n\n").unwrap_err(), "there are more than 3 types");
        assert_eq!(read(&"x".repeat(41)).unwrap_err(), "type 0 has more than 40 bytes");
    }
}
