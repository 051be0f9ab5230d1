//! Reading columns.

use std::io::{self, BufReader, Read};

use biopsy_model::Avma;

use super::npy::read_header;
use super::{Column, ColumnSource, GENERATIONS};
use crate::graph::{
    Bits, EMPTY, Generation, Graph, HeapType, MOST_OBJECTS, NO_OBJECT, ObjectIndex, Root, RootKind,
    SpanBuilder, Spill, TypeIndex,
};

/// Why columns are no graph.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// A column that every graph has is missing.
    #[error("column `{}` is missing", column.name())]
    Missing {
        /// Which.
        column: Column,
    },
    /// A column cannot be read.
    #[error("column `{}` cannot be read", column.name())]
    Io {
        /// Which.
        column: Column,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A column does not fit the others, or holds what cannot be.
    #[error("column `{}` is damaged: {what}", column.name())]
    Damaged {
        /// Which.
        column: Column,
        /// What is wrong.
        what: String,
    },
}

/// Most numbers that are believed to be noted of an object.
const MOST_NOTED: usize = 16;
/// Numbers of a column that are decoded together.
const BLOCK: usize = 1 << 10;
/// Longest span that is made, in bytes of the heap.
const SPAN_BYTES: u64 = 32 << 20;

/// A column that is being read.
struct Numbers<'a> {
    column: Column,
    from: BufReader<Box<dyn Read + 'a>>,
    element: String,
    /// Bytes of an element that is a number.
    width: u8,
    count: u64,
    /// Those that are decoded together.
    bytes: Vec<u8>,
}

impl<'a> Numbers<'a> {
    fn open(source: &'a dyn ColumnSource, column: Column) -> Result<Option<Self>, ColumnsError> {
        let failed = |source| ColumnsError::Io { column, source };
        let Some(from) = source.open(column).map_err(failed)? else { return Ok(None) };
        let mut from = BufReader::with_capacity(1 << 16, from);
        let (element, count) = read_header(&mut from).map_err(failed)?;
        let width = match element.as_str() {
            "<u8" => 8,
            "<u4" => 4,
            _ => 1,
        };
        Ok(Some(Self { column, from, element, width, count, bytes: Vec::new() }))
    }

    fn required(source: &'a dyn ColumnSource, column: Column) -> Result<Self, ColumnsError> {
        Self::open(source, column)?.ok_or(ColumnsError::Missing { column })
    }

    fn expect(self, element: &[&str], count: u64) -> Result<Self, ColumnsError> {
        if !element.contains(&self.element.as_str()) {
            return Err(self.damaged(format!("elements are `{}`", self.element)));
        }
        if self.count != count {
            return Err(self.damaged(format!("{} elements where {count} belong", self.count)));
        }
        Ok(self)
    }

    fn damaged(&self, what: String) -> ColumnsError {
        ColumnsError::Damaged { column: self.column, what }
    }

    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], ColumnsError> {
        let mut bytes = [0; N];
        self.from
            .read_exact(&mut bytes)
            .map_err(|source| ColumnsError::Io { column: self.column, source })?;
        Ok(bytes)
    }

    /// The next so many numbers, of whatever width, in place of what is there.
    fn fill(&mut self, count: usize, into: &mut Vec<u64>) -> Result<(), ColumnsError> {
        let width = usize::from(self.width);
        self.bytes.resize(count * width, 0);
        self.from
            .read_exact(&mut self.bytes)
            .map_err(|source| ColumnsError::Io { column: self.column, source })?;
        into.clear();
        match width {
            8 => into.extend(self.bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))),
            4 => into
                .extend(self.bytes.as_chunks().0.iter().map(|bytes| u64::from(u32::from_le_bytes(*bytes)))),
            _ => into.extend(self.bytes.iter().map(|byte| u64::from(*byte))),
        }
        Ok(())
    }

    /// The next so many numbers of four bytes, behind what is there.
    fn append(
        &mut self,
        count: u64,
        into: &mut Vec<u32>,
        change: impl Fn(u32) -> u32,
    ) -> Result<(), ColumnsError> {
        let mut left = count;
        while left > 0 {
            let piece = left.min(BLOCK as u64);
            self.bytes.resize(piece as usize * 4, 0);
            self.from
                .read_exact(&mut self.bytes)
                .map_err(|source| ColumnsError::Io { column: self.column, source })?;
            let words = self.bytes.as_chunks().0.iter().map(|bytes| change(u32::from_le_bytes(*bytes)));
            into.extend(words);
            left -= piece;
        }
        Ok(())
    }

    /// The next number, of whatever width.
    fn next(&mut self) -> Result<u64, ColumnsError> {
        match self.width {
            8 => self.bytes().map(u64::from_le_bytes),
            4 => self.bytes().map(|bytes| u32::from_le_bytes(bytes).into()),
            _ => self.bytes::<1>().map(|[byte]| byte.into()),
        }
    }
}

/// Reads a graph whose types are known already.
///
/// # Errors
/// [`ColumnsError`].
pub fn read(source: &dyn ColumnSource, mut types: Vec<HeapType>) -> Result<Graph, ColumnsError> {
    let mut addresses = Numbers::required(source, Column::Addresses)?;
    let count = addresses.count;
    if addresses.element != "<u8" || count > MOST_OBJECTS {
        return Err(addresses.damaged(format!("{count} elements of `{}`", addresses.element)));
    }
    let mut of = Numbers::required(source, Column::Types)?.expect(&["<u4"], count)?;
    let mut sizes = Numbers::required(source, Column::Sizes)?.expect(&["<u4", "<u8"], count)?;
    let mut generations = Numbers::required(source, Column::Generations)?.expect(&["|u1"], count)?;
    let mut starts = Numbers::required(source, Column::EdgeStarts)?.expect(&["<u4", "<u8"], count + 1)?;
    let mut edges = Numbers::required(source, Column::Edges)?;
    let edge_count = edges.count;
    edges = edges.expect(&["<u4"], edge_count)?;
    let mut noted = Numbers::open(source, Column::Noted)?;
    let mut left = 0;
    if let Some(column) = noted.take() {
        left = column.count;
        noted = Some(column.expect(&["<u4"], left)?);
    } else {
        types.iter_mut().for_each(|of| of.noted = Vec::new());
    }
    if types.iter().any(|of| of.noted.len() > MOST_NOTED) {
        let what = format!("more than {MOST_NOTED} numbers are noted of each object");
        return Err(ColumnsError::Damaged { column: Column::Types, what });
    }
    let widths: Vec<usize> = types.iter().map(|of| of.noted.len()).collect();
    let spill = Spill::never();
    let finish = |span: SpanBuilder| {
        span.finish(&spill).map_err(|source| ColumnsError::Io { column: Column::Edges, source })
    };
    let mut spans = Vec::new();
    let mut builder: Option<(SpanBuilder, Generation)> = None;
    let mut end = 0u64;
    let mut first = starts.next()?;
    if first != 0 {
        return Err(starts.damaged(format!("references begin at {first}")));
    }
    let mut block: [Vec<u64>; 5] = Default::default();
    let mut done = 0;
    while done < count {
        let length = (count - done).min(BLOCK as u64) as usize;
        done += length as u64;
        let columns = [&mut addresses, &mut of, &mut sizes, &mut generations, &mut starts];
        for (column, into) in columns.into_iter().zip(&mut block) {
            column.fill(length, into)?;
        }
        let [block_addresses, block_types, block_sizes, block_generations, block_starts] = &block;
        let numbers = block_addresses.iter().zip(block_types).zip(block_sizes).zip(block_generations);
        for ((((address, of), size), generation), next) in numbers.zip(block_starts) {
            let (address, of, size, next) = (*address, *of, *size, *next);
            let generation = GENERATIONS.get(*generation as usize).copied().unwrap_or(Generation::Unknown);
            if of >= types.len() as u64 {
                return Err(ColumnsError::Damaged {
                    column: Column::Types,
                    what: format!("there is no type {of}"),
                });
            }
            if address < end {
                return Err(addresses.damaged(format!("{address:#x} comes behind {end:#x}")));
            }
            end = address.saturating_add(size.max(1));
            if builder
                .as_ref()
                .is_some_and(|(span, of)| *of != generation || !span.has_room(address, SPAN_BYTES))
            {
                spans.extend(builder.take().map(|(span, _)| finish(span)).transpose()?);
            }
            let (span, _) =
                builder.get_or_insert_with(|| (SpanBuilder::new(address, generation), generation));
            if !span.push(address, TypeIndex(of as u32), size) {
                return Err(addresses.damaged(format!("{address:#x} is no place for an object")));
            }
            if next < first || next > edge_count {
                return Err(starts.damaged(format!("{next} comes behind {first}")));
            }
            edges.append(next - first, &mut span.targets, |target| {
                if u64::from(target) < count || target == EMPTY { target } else { NO_OBJECT }
            })?;
            first = next;
            let width = widths.get(of as usize).copied().unwrap_or(0);
            if let Some(noted) = noted.as_mut().filter(|_| width > 0) {
                if left < width as u64 {
                    return Err(noted.damaged(format!("{} numbers are not enough", noted.count)));
                }
                left -= width as u64;
                noted.append(width as u64, &mut span.noted, |number| number)?;
            }
        }
    }
    if first != edge_count {
        return Err(starts.damaged(format!("{edge_count} references, of which the objects have {first}")));
    }
    spans.extend(builder.map(|(span, _)| finish(span)).transpose()?);
    let (mut graph, _) = Graph::from_spans(types, spans);
    if graph.len() as u64 != count {
        return Err(addresses.damaged("objects overlap".to_owned()));
    }
    let (roots, dependents) = (read_roots(source, count)?, read_dependents(source, count)?);
    graph.set_roots(roots, dependents);
    if let Some(live) = Numbers::open(source, Column::Live)? {
        let mut live = live.expect(&["|u1"], count)?;
        let mut bits = Bits::new(graph.len());
        for index in 0..graph.len() {
            if live.next()? != 0 {
                bits.insert(index);
            }
        }
        graph.set_live(bits);
    }
    Ok(graph)
}

fn read_roots(source: &dyn ColumnSource, objects: u64) -> Result<Vec<Root>, ColumnsError> {
    let Some(column) = Numbers::open(source, Column::Roots)? else { return Ok(Vec::new()) };
    let count = column.count;
    let mut column = column.expect(&[super::write::ROOT], count)?;
    let mut roots = Vec::new();
    for _ in 0..count {
        let [kind, interior] = column.bytes()?;
        let thread = u32::from_le_bytes(column.bytes()?);
        let address = Avma(u64::from_le_bytes(column.bytes()?));
        let object = u32::from_le_bytes(column.bytes()?);
        if u64::from(object) < objects {
            roots.push(Root {
                kind: RootKind::ALL.get(usize::from(kind)).copied().unwrap_or(RootKind::Other),
                address,
                object: ObjectIndex(object),
                is_interior: interior != 0,
                thread,
            });
        }
    }
    Ok(roots)
}

fn read_dependents(
    source: &dyn ColumnSource,
    objects: u64,
) -> Result<Vec<(ObjectIndex, ObjectIndex)>, ColumnsError> {
    let Some(column) = Numbers::open(source, Column::Dependents)? else { return Ok(Vec::new()) };
    let count = column.count;
    let mut column = column.expect(&["<u4"], count)?;
    let mut dependents = Vec::new();
    for _ in 0..count {
        let (key, value) = (column.next()?, column.next()?);
        if key < objects && value < objects {
            dependents.push((ObjectIndex(key as u32), ObjectIndex(value as u32)));
        }
    }
    Ok(dependents)
}
