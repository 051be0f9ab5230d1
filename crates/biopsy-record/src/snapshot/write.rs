//! Writing a snapshot into a recording.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use biopsy_dotnet::graph::Graph;
use biopsy_dotnet::graph::columns::{self, Column};
use biopsy_model::heap::HeapFacts;
use biopsy_recording::{RecordingFolder, WriteError, layout};

/// What was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Written {
    /// The folder in the recording.
    pub folder: String,
    /// Bytes of all its members but the facts.
    pub bytes: u64,
}

/// Writes a graph as the snapshot of this number. The facts come last: a snapshot without them is not whole.
///
/// # Errors
/// The recording cannot be written.
pub fn write(
    graph: &Graph,
    facts: &HeapFacts,
    number: u32,
    folder: &RecordingFolder,
) -> Result<Written, WriteError> {
    let (next, bytes) = (AtomicUsize::new(0), AtomicU64::new(folder.heap_types(number, graph.types())?));
    let failed = Mutex::new(None);
    let work = || {
        while let Some(column) = Column::ALL.get(next.fetch_add(1, Relaxed)) {
            // Nobody has looked what is reachable, or nothing was noted.
            if !columns::has(graph, *column) {
                continue;
            }
            let write = |out: &mut dyn std::io::Write| columns::write(graph, *column, out).map(|_| ());
            match folder.heap_column(number, column.name(), write) {
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
    folder.heap_facts(number, facts)?;
    let folder = format!("{}{number}", layout::SNAPSHOTS_FOLDER);
    Ok(Written { folder, bytes: bytes.into_inner() })
}
