//! A copy of what a core will hold, so that the process can go on before the core is written.
//!
//! Copying memory takes a tenth of the time that compressing and writing it takes. A process that is held, and whoever
//! waits for its end, is let go as soon as the copy is made. What is copied is what the plan of a core names, and the
//! pages that planning looks at: a core of the copy is, to the byte, the core of the process.

mod noting;
mod room;
mod store;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use self::noting::{Notes, Noting, joined};
use self::room::Taken;
use self::store::Store;
use super::contents::{Contents, State, ask};
use super::{CoreError, CoreKind};
use crate::mapping::is_memory_file;
use crate::{
    Absence, Crash, Image, ImageModule, Mapping, PAGE_SIZE, ProcessFacts, ReadError, Thread, mapping,
};

pub use room::CopyRoom;

/// An image in memory of our own, of as much as a core of one kind holds.
pub struct CopiedImage {
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    modules: Vec<ImageModule>,
    facts: ProcessFacts,
    crash: Option<Crash>,
    store: Store,
    /// By address, not overlapping.
    parts: Vec<Part>,
    /// What could not be read, and why; by address.
    gaps: Vec<(Range<u64>, Absence)>,
    notes: Notes,
    /// `None`: it is in a file.
    taken: Option<Taken>,
}

/// Memory, and where it is in the copy.
#[derive(Clone, Debug)]
struct Part {
    range: Range<u64>,
    at: usize,
}

impl CopiedImage {
    /// Copies from `image` what a core or minidump of `kind` holds, and `around` bytes on either side of each part of a file
    /// (for whoever looks at neighbours; of memory without a file, neighbours are in the core or were never written).
    /// Waits until there is room. `None`: it is more than the room has at all.
    ///
    /// # Errors
    /// [`CoreError::Image`] when the image cannot say what is there.
    pub fn copy(
        image: &dyn Image,
        kind: CoreKind,
        around: u64,
        room: &Arc<CopyRoom>,
    ) -> Result<Option<Self>, CoreError> {
        Self::copy_or_spill(image, kind, around, room, &|_| None)
    }

    /// As [`CopiedImage::copy`], but does not wait: when there is no room, `spill` is asked for an empty file for so many
    /// bytes, which the copy then is in. Where it has none, or the file takes no more, there is nothing but to wait.
    ///
    /// # Errors
    /// As [`CopiedImage::copy`].
    pub fn copy_or_spill(
        image: &dyn Image,
        kind: CoreKind,
        around: u64,
        room: &Arc<CopyRoom>,
        spill: &dyn Fn(u64) -> Option<File>,
    ) -> Result<Option<Self>, CoreError> {
        let noting = Noting::new(image);
        let ranges = ranges(&noting, kind, around)?;
        let notes = noting.finish();
        if notes.too_much {
            return Ok(None);
        }
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let wanted = bytes.saturating_add((notes.pages.len() as u64).saturating_mul(PAGE_SIZE));
        let mut copied = Self {
            mappings: image.mappings().to_vec(),
            threads: image.threads().to_vec(),
            modules: image.modules().to_vec(),
            facts: image.process().clone(),
            crash: image.crash().cloned(),
            store: Store::in_memory(0),
            parts: Vec::with_capacity(ranges.len()),
            gaps: Vec::new(),
            notes,
            taken: room.try_take(wanted),
        };
        if copied.taken.is_none()
            && let Some(file) = spill(bytes)
        {
            copied.store = Store::in_file(file);
            if copied.take_all(image, &ranges).is_ok() {
                return Ok(Some(copied));
            }
            (copied.parts, copied.gaps) = (Vec::with_capacity(ranges.len()), Vec::new());
        }
        if copied.taken.is_none() {
            copied.taken = room.take(wanted);
        }
        if copied.taken.is_none() {
            return Ok(None);
        }
        copied.store = Store::in_memory(bytes);
        // Memory takes all that it was made for.
        Ok(copied.take_all(image, &ranges).is_ok().then_some(copied))
    }

    /// Bytes of memory in it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.parts.iter().map(|part| part.range.end - part.range.start).sum()
    }

    fn take_all(&mut self, image: &dyn Image, ranges: &[Range<u64>]) -> io::Result<()> {
        let mut used = 0;
        for range in ranges {
            used = self.take(image, range, used)?;
        }
        Ok(())
    }

    /// Copies one range to `used` and what follows; returns how much is used then.
    fn take(&mut self, image: &dyn Image, range: &Range<u64>, mut used: usize) -> io::Result<usize> {
        let mut at = range.start;
        while at < range.end {
            let length = usize::try_from(range.end - at).unwrap_or(0);
            match self.store.put(used, length, |place| image.read(at, place))? {
                Ok(read) if read > 0 => {
                    let next = at + read.min(length) as u64;
                    match self.parts.last_mut() {
                        Some(last) if last.range.end == at => last.range.end = next,
                        _ => self.parts.push(Part { range: at..next, at: used }),
                    }
                    used += read.min(length);
                    at = next;
                }
                result => {
                    let why = match result {
                        Err(ReadError::Missing { why, .. }) => why,
                        Ok(_) | Err(_) => Absence::Gone,
                    };
                    let next = (at / PAGE_SIZE + 1).saturating_mul(PAGE_SIZE).min(range.end);
                    // Of a process that is gone nothing more can be read.
                    let next = if why == Absence::Gone { range.end } else { next };
                    self.gaps.push((at..next, why));
                    at = next;
                }
            }
        }
        Ok(used)
    }

    /// Reads what the copy has from this address on, as far as it goes in one piece.
    fn read_piece(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let after = self.parts.partition_point(|part| part.range.start <= address);
        let part = after.checked_sub(1).and_then(|index| self.parts.get(index));
        if let Some(part) = part.filter(|part| part.range.contains(&address)) {
            let inside = usize::try_from(address - part.range.start).unwrap_or(usize::MAX);
            let length = usize::try_from(part.range.end - address).unwrap_or(0).min(buffer.len());
            let place = buffer.get_mut(..length).unwrap_or_default();
            let read = self.store.read(part.at.saturating_add(inside), place);
            return read.map(|()| length).map_err(|source| ReadError::Io { address, source });
        }
        let page = address / PAGE_SIZE * PAGE_SIZE;
        let inside = usize::try_from(address - page).unwrap_or(usize::MAX);
        let known = self.notes.pages.get(&page).and_then(|bytes| bytes.get(inside..)).unwrap_or_default();
        let length = known.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..length), known.get(..length)) {
            to.copy_from_slice(from);
        }
        Ok(length)
    }

    fn why_missing(&self, address: u64) -> Absence {
        let after = self.gaps.partition_point(|(range, _)| range.start <= address);
        let gap = after.checked_sub(1).and_then(|index| self.gaps.get(index));
        match gap.filter(|(range, _)| range.contains(&address)) {
            Some((_, why)) => *why,
            None if mapping::find(&self.mappings, address).is_some() => Absence::LeftOut,
            None => Absence::Unmapped,
        }
    }
}

/// The memory that goes into a core of this kind.
fn ranges(image: &dyn Image, kind: CoreKind, around: u64) -> Result<Vec<Range<u64>>, CoreError> {
    let contents = Contents::select(image, kind)?;
    let mut ranges = Vec::new();
    let mut runs = Vec::new();
    for piece in &contents.pieces {
        let State::Present(_, source) = piece.state else { continue };
        runs.clear();
        ask(image, piece.range.clone(), source, &mut runs).map_err(CoreError::Image)?;
        let own = mapping::find(image.mappings(), piece.range.start);
        let is_file = |own: &&Mapping| own.path().is_some_and(|path| !is_memory_file(path));
        let file = own.filter(|own| around > 0 && is_file(own));
        match file {
            Some(file) => ranges.extend(runs.iter().map(|run| {
                let start = run.start.saturating_sub(around).max(file.start);
                start..run.end.saturating_add(around).min(file.end)
            })),
            None => ranges.append(&mut runs),
        }
    }
    Ok(joined(ranges))
}

impl Image for CopiedImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let Some(at) = address.checked_add(done as u64) else { break };
            match self.read_piece(at, rest) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        if done == 0 && !buffer.is_empty() {
            return Err(ReadError::Missing { address, why: self.why_missing(address) });
        }
        Ok(done)
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &self.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts
    }

    fn crash(&self) -> Option<&Crash> {
        self.crash.as_ref()
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        cut_to(&self.notes.written, &range, runs);
        Ok(())
    }

    fn populated(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        cut_to(&self.notes.populated, &range, runs);
        Ok(())
    }
}

/// Appends the parts of `known` that are in `range`.
fn cut_to(known: &[Range<u64>], range: &Range<u64>, runs: &mut Vec<Range<u64>>) {
    let first = known.partition_point(|run| run.end <= range.start);
    let inside = known.iter().skip(first).take_while(|run| run.start < range.end);
    runs.extend(inside.map(|run| run.start.max(range.start)..run.end.min(range.end)));
}

impl std::fmt::Debug for CopiedImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopiedImage")
            .field("size", &self.size())
            .field("in_memory", &self.taken.is_some())
            .finish_non_exhaustive()
    }
}
