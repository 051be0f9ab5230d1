//! A heap of one moment: spans of objects, roots, and what is live.

use std::io;

use biopsy_model::Avma;
use biopsy_model::heap::HeapType;
use rustc_hash::FxHashMap;

use super::Generation;
use super::bits::Bits;
use super::object::{EMPTY, MOST_OBJECTS, NO_OBJECT, Object, ObjectIndex, TypeIndex};
use super::root::{Root, RootKind};
use super::span::Span;

/// A heap of one moment.
#[derive(Clone, Default, Debug)]
pub struct Graph {
    pub(crate) types: Vec<HeapType>,
    pub(crate) spans: Vec<Span>,
    /// The first span with an object that begins in each page of 4 MiB.
    pages: FxHashMap<u64, u32>,
    /// The span of the first object of each [`BLOCK`].
    blocks: Vec<u32>,
    objects: u32,
    /// Edges, empty places among them.
    edges: u64,
    empty: u64,
    pub(crate) roots: Vec<Root>,
    /// Objects that keep others alive without a reference, by a dependent handle: key and value, by key.
    pub(crate) dependents: Vec<(ObjectIndex, ObjectIndex)>,
    /// Which objects are such keys; empty: none.
    keys: Bits,
    pub(crate) live: Option<Bits>,
    /// Type and number of the static field at each address.
    statics: FxHashMap<Avma, (u32, u32)>,
}

/// Bytes of address space in one entry of the page table.
const PAGE: u32 = 22;
/// Objects in one entry of the table of spans, as a power of two.
const BLOCK: u32 = 10;

impl Graph {
    /// From spans in any order. Spans that overlap an earlier one are left out, and counted.
    pub(crate) fn from_spans(types: Vec<HeapType>, mut spans: Vec<Span>) -> (Self, u64) {
        spans.retain(|span| span.len() > 0);
        spans.sort_by_key(|span| span.start);
        let mut graph = Self { types, ..Self::default() };
        let (mut first, mut end, mut left_out) = (0u32, 0u64, 0u64);
        for mut span in spans {
            let count = u32::try_from(span.len()).unwrap_or(u32::MAX);
            let next = first.checked_add(count).filter(|next| u64::from(*next) <= MOST_OBJECTS);
            let (Some(next), true) = (next, span.start >= end) else {
                left_out += span.len() as u64;
                continue;
            };
            span.first = first;
            (first, end) = (next, span.end);
            graph.edges += span.edges.len() as u64;
            graph.empty += span.empty;
            let number = graph.spans.len() as u32;
            // Of beginnings, not of ends: the size of an object is what a damaged heap says it is.
            for page in span.start >> PAGE..=span.last >> PAGE {
                graph.pages.entry(page).or_insert(number);
            }
            // Every block that begins in this span, or before it where that one was the last.
            while (graph.blocks.len() as u64) << BLOCK < u64::from(next) {
                graph.blocks.push(number);
            }
            graph.spans.push(span);
        }
        graph.objects = first;
        graph.index_statics();
        (graph, left_out)
    }

    /// How many objects there are, free space included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects as usize
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// How many references there are.
    #[must_use]
    pub fn edge_count(&self) -> u64 {
        self.edges - self.empty
    }

    /// The same with the empty places for references.
    pub(crate) fn places_count(&self) -> u64 {
        self.edges
    }

    /// The types; a [`TypeIndex`] counts in here.
    #[must_use]
    pub fn types(&self) -> &[HeapType] {
        &self.types
    }

    /// The type of this number.
    #[must_use]
    pub fn type_of(&self, index: TypeIndex) -> Option<&HeapType> {
        self.types.get(index.0 as usize)
    }

    /// What keeps objects alive from outside the heap.
    #[must_use]
    pub fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Keys and values of dependent handles, by key.
    #[must_use]
    pub fn dependents(&self) -> &[(ObjectIndex, ObjectIndex)] {
        &self.dependents
    }

    /// Which objects are reachable; `None`: not computed yet.
    #[must_use]
    pub fn live(&self) -> Option<&Bits> {
        self.live.as_ref()
    }

    /// Sets roots and dependents.
    pub fn set_roots(&mut self, roots: Vec<Root>, mut dependents: Vec<(ObjectIndex, ObjectIndex)>) {
        dependents.sort_unstable();
        dependents.dedup();
        self.keys = Bits::new(if dependents.is_empty() { 0 } else { self.len() });
        for (key, _) in &dependents {
            self.keys.insert(key.0 as usize);
        }
        self.roots = roots;
        self.dependents = dependents;
        self.live = None;
    }

    /// Says which objects are reachable.
    pub fn set_live(&mut self, live: Bits) {
        self.live = Some(live);
    }

    /// The object that begins at the address.
    #[must_use]
    #[inline]
    pub fn find(&self, Avma(address): Avma) -> Option<ObjectIndex> {
        let mut at = *self.pages.get(&(address >> PAGE))? as usize;
        loop {
            let span = self.spans.get(at).filter(|span| span.start <= address)?;
            if address <= span.last {
                return Some(span.index(span.find(address)?));
            }
            at += 1;
        }
    }

    /// The object that the address is in, and whether it is its beginning.
    #[must_use]
    pub fn find_holder(&self, Avma(address): Avma) -> Option<(ObjectIndex, bool)> {
        let at = self.spans.partition_point(|span| span.start <= address).checked_sub(1)?;
        let span = self.spans.get(at)?;
        let number = span.find_holder(address)?;
        Some((span.index(number), span.address(number) == Some(address)))
    }

    #[inline]
    fn span_of(&self, index: ObjectIndex) -> Option<(&Span, u32)> {
        let mut at = *self.blocks.get((index.0 >> BLOCK) as usize)? as usize;
        loop {
            let span = self.spans.get(at)?;
            let number = index.0.checked_sub(span.first)?;
            if (number as usize) < span.len() {
                return Some((span, number));
            }
            at += 1;
        }
    }

    /// The object of this number.
    #[must_use]
    pub fn object(&self, index: ObjectIndex) -> Option<Object> {
        let (span, number) = self.span_of(index)?;
        Some(Object {
            index,
            address: Avma(span.address(number)?),
            of: TypeIndex(*span.types.get(number as usize)?),
            size: span.size(number),
            generation: span.generation,
        })
    }

    /// Type and size of an object: all but its address, which takes longest to find.
    #[must_use]
    #[inline]
    pub fn type_and_size(&self, index: ObjectIndex) -> Option<(TypeIndex, u64)> {
        let (span, number) = self.span_of(index)?;
        Some((TypeIndex(*span.types.get(number as usize)?), span.size(number)))
    }

    /// Type and size of all objects, by number.
    pub fn types_and_sizes(&self) -> impl Iterator<Item = (TypeIndex, u64)> + '_ {
        self.spans.iter().flat_map(|span| {
            let numbered = span.types.iter().zip(0_u32..);
            numbered.map(|(of, number)| (TypeIndex(*of), span.size(number)))
        })
    }

    /// All objects, by address, free space included.
    pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        self.spans.iter().flat_map(|span| {
            span.starts.iter().zip(&span.types).enumerate().map(move |(number, (position, of))| Object {
                index: span.index(number as u32),
                address: Avma(span.start + u64::from(position) * span.unit),
                of: TypeIndex(*of),
                size: span.size(number as u32),
                generation: span.generation,
            })
        })
    }

    /// Calls `each` with every reference of the object, in the order of its fields; what is no object of the graph is left out.
    ///
    /// # Errors
    /// References that were spilled cannot be read.
    #[inline]
    pub fn for_each_reference(
        &self,
        index: ObjectIndex,
        buffer: &mut Vec<u32>,
        mut each: impl FnMut(ObjectIndex),
    ) -> io::Result<()> {
        self.for_each_target(index, buffer, |target| target.into_iter().for_each(&mut each))
    }

    /// Where the references of each object begin among those of its span, by number: for walks out of order, that keep it beside what they
    /// know of the object.
    pub fn reference_starts(&self) -> impl Iterator<Item = u32> + '_ {
        self.spans
            .iter()
            .flat_map(|span| (0..span.len() as u32).map(|number| span.edge_range(number).0 as u32))
    }

    /// The same as [`Graph::for_each_reference`], with what [`Graph::reference_starts`] gave for the object and for the next one.
    ///
    /// # Errors
    /// As [`Graph::for_each_reference`].
    #[inline]
    pub fn for_each_reference_from(
        &self,
        index: ObjectIndex,
        (first, next): (u32, u32),
        buffer: &mut Vec<u32>,
        mut each: impl FnMut(ObjectIndex),
    ) -> io::Result<()> {
        let Some((span, number)) = self.span_of(index) else { return Ok(()) };
        let is_last = number as usize + 1 == span.len();
        let end = if is_last { span.edges.len() } else { next as usize };
        for target in span.edges.get(first as usize, end, buffer)? {
            if !matches!(*target, EMPTY | NO_OBJECT) {
                each(ObjectIndex(*target));
            }
        }
        Ok(())
    }

    /// The same with references that lead to no object, as `None`.
    #[inline]
    pub(crate) fn for_each_target(
        &self,
        index: ObjectIndex,
        buffer: &mut Vec<u32>,
        mut each: impl FnMut(Option<ObjectIndex>),
    ) -> io::Result<()> {
        let Some((span, number)) = self.span_of(index) else { return Ok(()) };
        let (first, end) = span.edge_range(number);
        if first == end {
            return Ok(());
        }
        for target in span.edges.get(first, end, buffer)?.iter().filter(|target| **target != EMPTY) {
            each((*target != NO_OBJECT).then_some(ObjectIndex(*target)));
        }
        Ok(())
    }

    /// Calls `each` with every reference and its number, by which [`HeapType::field_of`] knows its field.
    ///
    /// # Errors
    /// As [`Graph::for_each_reference`].
    pub fn for_each_numbered_reference(
        &self,
        index: ObjectIndex,
        buffer: &mut Vec<u32>,
        mut each: impl FnMut(usize, ObjectIndex),
    ) -> io::Result<()> {
        let Some((span, number)) = self.span_of(index) else { return Ok(()) };
        let (first, end) = span.edge_range(number);
        for (number, target) in span.edges.get(first, end, buffer)?.iter().enumerate() {
            if !matches!(*target, EMPTY | NO_OBJECT) {
                each(number, ObjectIndex(*target));
            }
        }
        Ok(())
    }

    /// What the object keeps alive, from place `from` on: its references, then what dependent handles add. Returns the place behind it, so
    /// that a walk can go on there later; `None`: there is no more.
    ///
    /// # Errors
    /// As [`Graph::for_each_reference`].
    #[inline]
    pub fn next_kept(
        &self,
        index: ObjectIndex,
        from: u32,
        buffer: &mut Vec<u32>,
    ) -> io::Result<Option<(u32, ObjectIndex)>> {
        /// References that are read at once where they are on disk.
        const PIECE: usize = 64;
        let Some((span, number)) = self.span_of(index) else { return Ok(None) };
        let (first, end) = span.edge_range(number);
        let (places, mut at) = (end - first, from as usize);
        while at < places {
            let piece = match &span.edges {
                super::edges::Edges::Memory(_) => end,
                super::edges::Edges::Spilled { .. } => end.min(first + at + PIECE),
            };
            for target in span.edges.get(first + at, piece, buffer)? {
                at += 1;
                if !matches!(*target, EMPTY | NO_OBJECT) {
                    return Ok(Some((at as u32, ObjectIndex(*target))));
                }
            }
        }
        if self.dependents.is_empty() {
            return Ok(None);
        }
        let of_key = self.dependents.partition_point(|(key, _)| *key < index);
        let next = self.dependents.get(of_key + (at - places)).filter(|(key, _)| *key == index);
        Ok(next.map(|(_, value)| (at as u32 + 1, *value)))
    }

    /// Calls `each` with what the object keeps alive as the key of dependent handles.
    #[inline]
    pub fn for_each_dependent(&self, key: ObjectIndex, each: impl FnMut(ObjectIndex)) {
        if !self.keys.contains(key.0 as usize) {
            return;
        }
        let first = self.dependents.partition_point(|(of, _)| *of < key);
        let of_key = self.dependents.iter().skip(first).take_while(|(of, _)| *of == key);
        of_key.map(|(_, value)| *value).for_each(each);
    }

    /// Objects that live without anybody who keeps them: roots refer to them, or they are never collected. Certain ones first, and each
    /// with the best root that says so.
    #[must_use]
    pub fn first_kept(&self) -> Vec<(ObjectIndex, Option<Root>)> {
        let mut roots: Vec<&Root> = self.roots.iter().collect();
        roots.sort_by_key(|root| root.kind.by_what_it_tells());
        let frozen = self.spans.iter().filter(|span| span.generation == Generation::Frozen);
        let frozen = frozen.flat_map(|span| span.first..span.first.saturating_add(span.len() as u32));
        let certain = roots.partition_point(|root| root.kind != RootKind::Stack);
        let (certain, stacks) = roots.split_at(certain);
        let mut seen = Bits::new(self.len());
        let of_roots =
            |roots: &[&Root]| roots.iter().map(|root| (root.object, Some(**root))).collect::<Vec<_>>();
        of_roots(certain)
            .into_iter()
            .chain(frozen.map(|index| (ObjectIndex(index), None)))
            .chain(of_roots(stacks))
            .filter(|(object, _)| (object.0 as usize) < self.len() && seen.insert(object.0 as usize))
            .collect()
    }

    /// Name and declaring type of the static field at an address; `None`: it is none that is known.
    #[must_use]
    pub fn static_at(&self, address: Avma) -> Option<(&HeapType, &str)> {
        let (of, field) = *self.statics.get(&address)?;
        let of = self.types.get(of as usize)?;
        Some((of, of.statics.get(field as usize)?.0.as_str()))
    }

    /// Adds types with static fields; a type that the heap has already gets its fields.
    pub(crate) fn add_statics(&mut self, found: Vec<HeapType>) {
        let known: FxHashMap<Avma, usize> =
            self.types.iter().enumerate().map(|(number, of)| (of.method_table, number)).collect();
        for of in found {
            match known.get(&of.method_table).and_then(|number| self.types.get_mut(*number)) {
                Some(known) => known.statics = of.statics,
                None => self.types.push(of),
            }
        }
        self.index_statics();
    }

    pub(crate) fn index_statics(&mut self) {
        let numbered = |(of, one): (usize, &HeapType)| {
            let places = one.statics.iter().enumerate();
            places.map(move |(field, (_, at))| (*at, (of as u32, field as u32))).collect::<Vec<_>>()
        };
        self.statics = self.types.iter().enumerate().flat_map(numbered).collect();
    }

    /// Calls `each` with every object that something was noted of, by address, and these numbers, in the order that its type says.
    pub fn for_each_noted(&self, mut each: impl FnMut(ObjectIndex, TypeIndex, &[u32])) {
        let widths: Vec<usize> = self.types.iter().map(|of| of.noted.len()).collect();
        for span in &self.spans {
            let mut noted = span.noted.as_slice();
            for (number, of) in span.types.iter().enumerate() {
                let width = widths.get(*of as usize).copied().unwrap_or(0);
                if let Some((own, rest)) = noted.split_at_checked(width).filter(|_| width > 0) {
                    noted = rest;
                    each(span.index(number as u32), TypeIndex(*of), own);
                }
            }
        }
    }

    /// The references of an object.
    ///
    /// # Errors
    /// As [`Graph::for_each_reference`].
    pub fn references(&self, index: ObjectIndex) -> io::Result<Vec<ObjectIndex>> {
        let mut found = Vec::new();
        self.for_each_reference(index, &mut Vec::new(), |target| found.push(target))?;
        Ok(found)
    }

    /// Bytes of memory that the graph takes.
    #[must_use]
    pub fn heap_bytes(&self) -> u64 {
        let spans: usize = self.spans.iter().map(Span::heap_bytes).sum();
        let live = self.live.as_ref().map_or(0, |bits| bits.words().len() * 8);
        (spans + live + self.roots.capacity() * size_of::<Root>()) as u64
    }
}
