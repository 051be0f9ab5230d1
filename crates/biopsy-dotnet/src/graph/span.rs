//! A stretch of the heap with its objects.

use std::io;

use super::edges::{Edges, Spill};
use super::starts::Starts;
use super::{EMPTY, Generation, ObjectIndex, TypeIndex};

/// Objects of 64-bit processes begin at multiples of this.
const UNIT: u64 = 8;
/// Those of 32-bit processes begin at multiples of this; what does not is no object.
pub(crate) const FINEST: u64 = 4;
/// Size that says: it is in the list of large ones.
const LARGE: u32 = u32::MAX;

/// Objects that follow each other in memory.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// Address of the first possible object.
    pub(crate) start: u64,
    /// Address of the last object.
    pub(crate) last: u64,
    /// Behind the last object.
    pub(crate) end: u64,
    pub(crate) generation: Generation,
    /// Bytes of one position in `starts`.
    pub(crate) unit: u64,
    /// Index of the first object.
    pub(crate) first: u32,
    pub(crate) starts: Starts,
    pub(crate) types: Vec<u32>,
    sizes: Vec<u32>,
    /// Sizes of 4 GiB and more, by number.
    large: Vec<(u32, u64)>,
    /// For each object, the number of its first reference in `edges`; one more at the end. Empty: there are none at all.
    edge_starts: Vec<u32>,
    pub(crate) edges: Edges,
    /// How many of the edges are empty places.
    pub(crate) empty: u64,
    /// What was noted of objects, in their order: as many numbers as their types say.
    pub(crate) noted: Vec<u32>,
    /// Fingerprints of the texts of strings, in their order, until their numbers are known.
    pub(crate) texts: Vec<u64>,
}

impl Span {
    pub(crate) fn len(&self) -> usize {
        self.types.len()
    }

    /// The number, in this span, of the object that begins at the address.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(self.start)?;
        if !offset.is_multiple_of(self.unit) {
            return None;
        }
        self.starts.find(u32::try_from(offset / self.unit).ok()?)
    }

    /// The number of the object that holds the address.
    pub(crate) fn find_holder(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(self.start)?;
        // The last object may be larger than positions reach.
        let number = self.starts.find_before(u32::try_from(offset / self.unit).unwrap_or(u32::MAX))?;
        (address < self.address(number)?.saturating_add(self.size(number))).then_some(number)
    }

    pub(crate) fn address(&self, number: u32) -> Option<u64> {
        Some(self.start + u64::from(self.starts.position(number)?) * self.unit)
    }

    pub(crate) fn size(&self, number: u32) -> u64 {
        match self.sizes.get(number as usize) {
            Some(&LARGE) => {
                // A damaged file may say that all are large.
                let found = self.large.binary_search_by_key(&number, |(of, _)| *of);
                found.ok().and_then(|at| self.large.get(at)).map_or(u64::from(LARGE), |(_, size)| *size)
            }
            Some(size) => u64::from(*size),
            None => 0,
        }
    }

    /// Whether there are objects of 4 GiB and more.
    pub(crate) fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// First and end of an object's references in `edges`.
    #[inline]
    pub(crate) fn edge_range(&self, number: u32) -> (usize, usize) {
        let at = |number: usize| self.edge_starts.get(number).map_or(0, |start| *start as usize);
        (at(number as usize), at(number as usize + 1))
    }

    /// Bytes of memory that it takes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let words = self.types.capacity() + self.sizes.capacity() + self.edge_starts.capacity();
        words * 4
            + self.large.capacity() * 16
            + self.starts.heap_bytes()
            + self.edges.heap_bytes()
            + self.noted.capacity() * 4
            + self.texts.capacity() * 8
    }
}

/// Makes a span of objects that come by address.
#[derive(Debug)]
pub(crate) struct SpanBuilder {
    start: u64,
    end: u64,
    generation: Generation,
    unit: u64,
    positions: Vec<u32>,
    types: Vec<u32>,
    sizes: Vec<u32>,
    large: Vec<(u32, u64)>,
    edge_starts: Vec<u32>,
    /// The targets so far; [`SpanBuilder::push`] ends those of the object before.
    pub(crate) targets: Vec<u32>,
    /// What was noted so far.
    pub(crate) noted: Vec<u32>,
    /// Fingerprints of texts so far.
    pub(crate) texts: Vec<u64>,
}

impl SpanBuilder {
    pub(crate) fn new(start: u64, generation: Generation) -> Self {
        Self {
            start,
            end: start,
            generation,
            unit: UNIT,
            positions: Vec::new(),
            types: Vec::new(),
            sizes: Vec::new(),
            large: Vec::new(),
            edge_starts: Vec::new(),
            targets: Vec::new(),
            noted: Vec::new(),
            texts: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Whether an object at this address, and its references, would still fit.
    pub(crate) fn has_room(&self, address: u64, most_bytes: u64) -> bool {
        /// So that numbers of references fit 32 bits even after one more object of any size.
        const MOST_TARGETS: usize = 1 << 27;
        address.saturating_sub(self.start) < most_bytes && self.targets.len() < MOST_TARGETS
    }

    /// Adds an object behind all so far; its references are pushed to `targets` afterwards. `false`: it is not behind them, too
    /// far away, or at an address where no object can be.
    #[inline]
    pub(crate) fn push(&mut self, address: u64, of: TypeIndex, size: u64) -> bool {
        let Some(offset) = address.checked_sub(self.start) else { return false };
        if offset & (self.unit - 1) != 0 && !self.refine(offset) {
            return false;
        }
        let (Ok(position), Ok(first)) =
            (u32::try_from(offset / self.unit), u32::try_from(self.targets.len()))
        else {
            return false;
        };
        if self.positions.last().is_some_and(|last| *last >= position) {
            return false;
        }
        let small = u32::try_from(size).ok().filter(|small| *small != LARGE);
        if small.is_none() {
            self.large.push((self.positions.len() as u32, size));
        }
        self.positions.push(position);
        self.types.push(of.0);
        self.sizes.push(small.unwrap_or(LARGE));
        self.edge_starts.push(first);
        self.end = self.end.max(address.saturating_add(size));
        true
    }

    /// Goes over to the finest unit, for an object at this offset. `false`: that is no place for one, or the positions so far
    /// do not fit.
    #[cold]
    fn refine(&mut self, offset: u64) -> bool {
        let factor = (self.unit / FINEST) as u32;
        let fits = self.positions.last().is_none_or(|last| last.checked_mul(factor).is_some());
        if !offset.is_multiple_of(FINEST) || !fits {
            return false;
        }
        self.positions.iter_mut().for_each(|position| *position *= factor);
        self.unit = FINEST;
        true
    }

    pub(crate) fn finish(mut self, spill: &Spill) -> io::Result<Span> {
        let mut edge_starts = std::mem::take(&mut self.edge_starts);
        if self.targets.is_empty() {
            edge_starts = Vec::new();
        } else {
            edge_starts.push(u32::try_from(self.targets.len()).unwrap_or(u32::MAX));
            edge_starts.shrink_to_fit();
        }
        self.types.shrink_to_fit();
        self.sizes.shrink_to_fit();
        self.noted.shrink_to_fit();
        let empty = self.targets.iter().filter(|target| **target == EMPTY).count() as u64;
        Ok(Span {
            start: self.start,
            last: self.start + self.positions.last().map_or(0, |last| u64::from(*last) * self.unit),
            end: self.end,
            generation: self.generation,
            unit: self.unit,
            first: 0,
            starts: Starts::new(self.positions, self.end.saturating_sub(self.start) / self.unit),
            types: self.types,
            sizes: self.sizes,
            large: self.large,
            edge_starts,
            edges: spill.keep(self.targets)?,
            empty,
            noted: self.noted,
            texts: self.texts,
        })
    }
}

impl Span {
    /// Index of an object by its number in this span.
    pub(crate) fn index(&self, number: u32) -> ObjectIndex {
        ObjectIndex(self.first.saturating_add(number))
    }
}
