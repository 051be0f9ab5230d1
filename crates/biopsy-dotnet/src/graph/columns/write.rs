//! Writing columns.

use std::io::{self, BufWriter, Write};

use super::npy::write_header;
use super::{Column, generation_number};
use crate::graph::{Graph, RootKind, Span};

/// Elements of `roots`.
pub(super) const ROOT: &str =
    "[('kind', '|u1'), ('interior', '|u1'), ('thread', '<u4'), ('address', '<u8'), ('object', '<u4')]";

/// Whether a graph has this column.
#[must_use]
pub fn has(graph: &Graph, column: Column) -> bool {
    match column {
        Column::Live => graph.live().is_some(),
        Column::Noted => graph.spans.iter().any(|span| !span.noted.is_empty()),
        Column::Addresses
        | Column::Types
        | Column::Sizes
        | Column::Generations
        | Column::EdgeStarts
        | Column::Edges
        | Column::Roots
        | Column::Dependents => true,
    }
}

/// Writes one column of a graph; `false`: it has none, and nothing was written.
///
/// # Errors
/// Writing failed, or references that were spilled cannot be read.
pub fn write(graph: &Graph, column: Column, out: impl Write) -> io::Result<bool> {
    if !has(graph, column) {
        return Ok(false);
    }
    let out = &mut BufWriter::with_capacity(1 << 16, out);
    let objects = format!("({},)", graph.len());
    match column {
        Column::Addresses => {
            write_header(out, "<u8", &objects)?;
            for object in graph.objects() {
                out.write_all(&object.address.0.to_le_bytes())?;
            }
        }
        Column::Types => {
            write_header(out, "<u4", &objects)?;
            for span in &graph.spans {
                words(out, &span.types)?;
            }
        }
        Column::Sizes => sizes(graph, &objects, out)?,
        Column::Generations => {
            write_header(out, "|u1", &objects)?;
            for span in &graph.spans {
                let number = generation_number(span.generation);
                repeat(out, number, span.len())?;
            }
        }
        Column::Live => {
            let Some(live) = graph.live() else { return Ok(false) };
            write_header(out, "|u1", &objects)?;
            for index in 0..graph.len() {
                out.write_all(&[u8::from(live.contains(index))])?;
            }
        }
        Column::EdgeStarts => edge_starts(graph, out)?,
        Column::Edges => {
            write_header(out, "<u4", &format!("({},)", graph.places_count()))?;
            let mut buffer = Vec::new();
            for span in &graph.spans {
                let (mut first, count) = (0, span.edges.len());
                while first < count {
                    let end = count.min(first + (1 << 16));
                    words(out, span.edges.get(first, end, &mut buffer)?)?;
                    first = end;
                }
            }
        }
        Column::Roots => {
            write_header(out, ROOT, &format!("({},)", graph.roots().len()))?;
            for root in graph.roots() {
                let kind = RootKind::ALL.iter().position(|kind| *kind == root.kind).unwrap_or_default();
                out.write_all(&[kind as u8, u8::from(root.is_interior)])?;
                out.write_all(&root.thread.to_le_bytes())?;
                out.write_all(&root.address.0.to_le_bytes())?;
                out.write_all(&root.object.0.to_le_bytes())?;
            }
        }
        Column::Dependents => {
            write_header(out, "<u4", &format!("({}, 2)", graph.dependents().len()))?;
            for (key, value) in graph.dependents() {
                words(out, &[key.0, value.0])?;
            }
        }
        Column::Noted => {
            let count: usize = graph.spans.iter().map(|span| span.noted.len()).sum();
            write_header(out, "<u4", &format!("({count},)"))?;
            for span in &graph.spans {
                words(out, &span.noted)?;
            }
        }
    }
    out.flush()?;
    Ok(true)
}

fn words(out: &mut dyn Write, words: &[u32]) -> io::Result<()> {
    for word in words {
        out.write_all(&word.to_le_bytes())?;
    }
    Ok(())
}

fn repeat(out: &mut dyn Write, byte: u8, count: usize) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(byte), count as u64), out).map(|_| ())
}

fn sizes(graph: &Graph, objects: &str, out: &mut dyn Write) -> io::Result<()> {
    let numbers = |span: &Span| 0..u32::try_from(span.len()).unwrap_or(u32::MAX);
    let is_wide = graph.spans.iter().any(Span::has_large);
    write_header(out, if is_wide { "<u8" } else { "<u4" }, objects)?;
    for span in &graph.spans {
        for number in numbers(span) {
            let size = span.size(number);
            if is_wide {
                out.write_all(&size.to_le_bytes())?;
            } else {
                out.write_all(&(size as u32).to_le_bytes())?;
            }
        }
    }
    Ok(())
}

fn edge_starts(graph: &Graph, out: &mut dyn Write) -> io::Result<()> {
    let is_wide = graph.places_count() > u64::from(u32::MAX);
    write_header(out, if is_wide { "<u8" } else { "<u4" }, &format!("({},)", graph.len() + 1))?;
    let mut put = |start: u64| {
        if is_wide {
            out.write_all(&start.to_le_bytes())
        } else {
            out.write_all(&(start as u32).to_le_bytes())
        }
    };
    let mut before = 0u64;
    for span in &graph.spans {
        for number in 0..u32::try_from(span.len()).unwrap_or(u32::MAX) {
            put(before + span.edge_range(number).0 as u64)?;
        }
        before += span.edges.len() as u64;
    }
    put(before)
}
