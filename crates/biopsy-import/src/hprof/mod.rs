//! Heap dumps of Java (`jcmd PID GC.heap_dump`, `-XX:+HeapDumpOnOutOfMemoryError`): all objects, with what is live.
//!
//! The format is that of OpenJDK's `heapDumper.cpp`: records with a tag and a length, in two of them (`HEAP DUMP`, `HEAP DUMP SEGMENT`) the
//! objects. It is read twice: for the names and layouts of the classes, then for the objects. A file that ends early, as that of a machine
//! whose disk was full, gives what is there, and says so.

mod classes;
mod objects;
mod records;
mod stream;
mod types;

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::path::Path;

use biopsy_dotnet::graph::{Graph, Root, mark};
use biopsy_model::heap::{HeapFacts, HeapSource};

pub(crate) use records::MAGIC;
pub use stream::HprofError;

use classes::Classes;
use objects::Objects;
use stream::Stream;

/// Bytes that are read ahead.
const BUFFER: usize = 1 << 20;

/// The heap in a file.
///
/// # Errors
/// The file system refuses, or it is no heap dump; one that is cut gives what is there.
pub fn read(path: &Path) -> Result<(Graph, HeapFacts), HprofError> {
    let open = || {
        File::open(path)
            .map(|file| BufReader::with_capacity(BUFFER, file))
            .map_err(|source| HprofError::Io { offset: 0, source })
    };
    read_from(open()?, open()?)
}

/// Reads the same bytes twice.
fn read_from<R: BufRead + Seek>(first: R, second: R) -> Result<(Graph, HeapFacts), HprofError> {
    let mut classes = Classes::default();
    let (millis, cut) = records::read(Stream::new(first)?, &mut classes)?;
    let mut objects = Objects::new(&classes);
    // It ends where it did before.
    let _ = records::read(Stream::new(second)?, &mut objects)?;
    let Objects { builder, strange, .. } = objects;
    let in_memory = |source| HprofError::Io { offset: 0, source };
    let (mut graph, left_out, dangling) = builder.finish().map_err(in_memory)?;
    let mut roots: Vec<Root> = classes
        .roots
        .iter()
        .filter_map(|(kind, address)| {
            let object = graph.find(*address)?;
            Some(Root { kind: *kind, address: *address, object, is_interior: false, thread: 0 })
        })
        .collect();
    roots.sort_by_key(|root| (root.object, root.kind));
    roots.dedup_by_key(|root| (root.object, root.kind));
    graph.set_roots(roots, Vec::new());
    let live = mark(&graph).map_err(in_memory)?;
    graph.set_live(live);
    let mut warnings = vec![
        "sizes are those of HotSpot's default layout: the file has the fields of an object, not what is between them".to_owned(),
    ];
    warnings.extend(cut.as_ref().map(|error| format!("the file is not whole: {error}")));
    if strange > 0 {
        warnings.push(format!(
            "{strange} objects have a class that the file does not describe: what they refer to is not known"
        ));
    }
    let facts = HeapFacts {
        source: HeapSource::Memory,
        taken_at_unix_seconds: millis as f64 / 1e3,
        whole: cut.is_none() && left_out == 0 && strange == 0,
        problems: left_out.saturating_add(strange).saturating_add(u64::from(cut.is_some())),
        dangling,
        warnings,
        ..graph.facts()
    };
    Ok((graph, facts))
}

/// Reads arbitrary bytes.
pub fn fuzz(bytes: &[u8]) {
    let _ = read_from(std::io::Cursor::new(bytes), std::io::Cursor::new(bytes));
}

#[cfg(test)]
mod tests;
