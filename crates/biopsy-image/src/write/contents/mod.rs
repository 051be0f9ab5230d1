//! What goes into a core: every mapping cut into pieces that are present, each with its importance, or absent, each
//! with the reason.

mod debugger;
mod elf;
mod pe;
mod place;
mod stacks;
mod wanted;

use std::ops::Range;

pub use self::stacks::AROUND_THREAD_POINTER;

use self::place::Place;
use self::wanted::Wanted;
use super::{Class, CoreError, CoreKind, Reason};
use crate::{Absence, Image, Mapping, PAGE_SIZE, Protection, ReadError};

/// A run of absent pages at least this long becomes a segment without contents; a shorter one is written as zeros (a hole, or
/// some bytes of zstd), which costs little. Readers of others take a segment without contents for memory that is missing:
/// an array whose last pages were never written cannot be read by .NET's debugger then (seen on .NET 8: one object that
/// `verifyheap` could not read).
const SPLIT_AT: u64 = 1024 * 1024;
/// The same for pages of a file that the process did not change, which would have to be read.
const SPLIT_FILES_AT: u64 = 16 * 1024;
/// Pages are asked for in steps of this many bytes, so that the answers of a large mapping need little memory.
const ASK_AT_ONCE: u64 = 256 * 1024 * 1024;

/// How the bytes of a piece are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Source {
    /// Only pages that were written are read ([`Image::written`]); the others are zeros. Reading those would make pages in a
    /// live process.
    Written,
    /// The same with [`Image::populated`].
    Populated,
    /// All pages are read.
    Whole,
}

/// What is known of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Present(Class, Source),
    Absent(Reason),
}

/// A part of a mapping: one program header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub(super) range: Range<u64>,
    pub(super) protection: Protection,
    pub(super) state: State,
}

impl Piece {
    pub(super) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// What a core has of modules whatever its kind, by address: what names and unwinds them, and the dynamic linker's list. For whoever
/// copies memory for a dump before there is an image of it.
#[must_use]
pub fn module_ranges(image: &dyn Image) -> Vec<Range<u64>> {
    let mut wanted = Wanted::default();
    find_modules(image, CoreKind::Stacks, &mut wanted);
    wanted.finish().into_iter().map(|(range, _)| range).collect()
}

fn find_modules(image: &dyn Image, kind: CoreKind, wanted: &mut Wanted) {
    debugger::find(image, wanted);
    elf::find(image, wanted);
    pe::find(image, kind, wanted);
}

/// The contents of a core: pieces by address.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) pieces: Vec<Piece>,
}

impl Contents {
    /// Chooses what a core of this kind has.
    ///
    /// # Errors
    /// The image cannot say which pages were written.
    pub(super) fn select(image: &dyn Image, kind: CoreKind) -> Result<Self, CoreError> {
        let mut wanted = Wanted::default();
        stacks::find(image, kind, &mut wanted);
        find_modules(image, kind, &mut wanted);
        let wanted = wanted.finish();
        let mut pieces = Vec::with_capacity(image.mappings().len());
        let mut rest = wanted.as_slice();
        let mut end_of_last = 0;
        for mapping in image.mappings() {
            // Images promise order; a core whose segments overlap would be wrong silently.
            if mapping.start < end_of_last || mapping.start >= mapping.end {
                continue;
            }
            end_of_last = mapping.end;
            let behind = rest.partition_point(|(range, _)| range.end <= mapping.start);
            rest = &rest[behind..];
            let mut cutter = Cutter { image, kind, mapping, place: Place::of(mapping), pieces: &mut pieces };
            cutter.cut(rest).map_err(CoreError::Image)?;
        }
        Ok(Self { pieces })
    }

    /// Drops the least important contents until at most `ceiling` bytes are left, `headers` included. Of the class that does
    /// not fit whole, pieces are kept by address while they fit.
    pub(super) fn cut_to(&mut self, ceiling: Option<u64>, headers: u64) {
        let Some(ceiling) = ceiling else { return };
        let mut left = ceiling.saturating_sub(headers);
        for class in Class::ALL {
            for piece in &mut self.pieces {
                if !matches!(piece.state, State::Present(of, _) if of == class) {
                    continue;
                }
                match left.checked_sub(piece.size()) {
                    Some(remaining) => left = remaining,
                    None => piece.state = State::Absent(Reason::Ceiling),
                }
            }
        }
    }
}

/// Cuts one mapping.
struct Cutter<'a> {
    image: &'a dyn Image,
    kind: CoreKind,
    mapping: &'a Mapping,
    place: Place,
    pieces: &'a mut Vec<Piece>,
}

impl Cutter<'_> {
    /// Parts that are wanted for a special reason, and what is between them.
    fn cut(&mut self, wanted: &[(Range<u64>, Class)]) -> Result<(), ReadError> {
        match self.place {
            Place::Unreadable => {
                self.push(self.mapping.range(), State::Absent(Reason::Unreadable));
                return Ok(());
            }
            Place::Device => {
                self.push(self.mapping.range(), State::Absent(Reason::Device));
                return Ok(());
            }
            Place::Kernel => {
                self.push(self.mapping.range(), State::Present(Class::Modules, Source::Whole));
                return Ok(());
            }
            Place::Memory | Place::MemoryFile | Place::File => {}
        }
        let mut at = self.mapping.start;
        for (range, class) in wanted {
            if range.start >= self.mapping.end {
                break;
            }
            let range = range.start.max(at)..range.end.min(self.mapping.end);
            if range.start >= range.end {
                continue;
            }
            self.ordinary(at..range.start)?;
            at = range.end;
            self.special(range, *class)?;
        }
        self.ordinary(at..self.mapping.end)
    }

    /// A part that every kind has.
    fn special(&mut self, range: Range<u64>, class: Class) -> Result<(), ReadError> {
        match self.place {
            Place::Memory => self.by_pages(range, class, Source::Written, Reason::Zero),
            Place::MemoryFile if self.mapping.shared => {
                self.by_pages(range, class, Source::Populated, Reason::Zero)
            }
            Place::File | Place::MemoryFile => {
                self.push(range, State::Present(class, Source::Whole));
                Ok(())
            }
            Place::Unreadable | Place::Device | Place::Kernel => Ok(()),
        }
    }

    fn ordinary(&mut self, range: Range<u64>) -> Result<(), ReadError> {
        if range.start >= range.end {
            return Ok(());
        }
        if self.kind == CoreKind::Stacks {
            self.push(range, State::Absent(Reason::Kind));
            return Ok(());
        }
        let full = self.kind == CoreKind::Full;
        match self.place {
            Place::Memory => {
                let class = if self.mapping.shared { Class::Shared } else { Class::Private };
                self.by_pages(range, class, Source::Written, Reason::Zero)
            }
            Place::MemoryFile if self.mapping.shared => {
                self.by_pages(range, Class::Shared, Source::Populated, Reason::Zero)
            }
            // A program that was executed from a memfd, for example: nobody has the file.
            Place::MemoryFile => self.own_copies(range, State::Present(Class::Shared, Source::Whole)),
            Place::File if self.mapping.shared && full => {
                self.push(range, State::Present(Class::Files, Source::Whole));
                Ok(())
            }
            Place::File if self.mapping.shared => {
                self.push(range, State::Absent(Reason::InFile));
                Ok(())
            }
            Place::File if full => self.own_copies(range, State::Present(Class::Files, Source::Whole)),
            // It has no build id by which another one would be told from it, and classes of Java are nowhere else.
            Place::File if is_archive_of_java(self.mapping) => {
                self.own_copies(range, State::Present(Class::Files, Source::Whole))
            }
            Place::File => self.own_copies(range, State::Absent(Reason::InFile)),
            Place::Unreadable | Place::Device | Place::Kernel => Ok(()),
        }
    }

    /// Pages of a private file mapping that the process wrote to, and the others.
    fn own_copies(&mut self, range: Range<u64>, between: State) -> Result<(), ReadError> {
        let runs = present(self.image, &range, Source::Written, SPLIT_FILES_AT)?;
        self.alternate(range, &runs, State::Present(Class::Private, Source::Whole), between);
        Ok(())
    }

    fn by_pages(
        &mut self,
        range: Range<u64>,
        class: Class,
        source: Source,
        absent: Reason,
    ) -> Result<(), ReadError> {
        let mut runs = present(self.image, &range, source, SPLIT_AT)?;
        // What lies beside written memory, up to the ends of the range, is like what lies between.
        if let Some(first) = runs.first_mut().filter(|first| first.start - range.start < SPLIT_AT) {
            first.start = range.start;
        }
        if let Some(last) = runs.last_mut().filter(|last| range.end - last.end < SPLIT_AT) {
            last.end = range.end;
        }
        self.alternate(range, &runs, State::Present(class, source), State::Absent(absent));
        Ok(())
    }

    /// Pieces in the state `inside` for the runs and in the state `between` for the rest of `range`.
    fn alternate(&mut self, range: Range<u64>, runs: &[Range<u64>], inside: State, between: State) {
        let mut at = range.start;
        for run in runs {
            self.push(at..run.start, between);
            self.push(run.clone(), inside);
            at = run.end;
        }
        self.push(at..range.end, between);
    }

    fn push(&mut self, range: Range<u64>, state: State) {
        if range.start >= range.end {
            return;
        }
        let protection = self.mapping.protection;
        match self.pieces.last_mut() {
            // Only inside one mapping: debuggers like a segment to be in one.
            Some(last)
                if last.state == state
                    && last.range.end == range.start
                    && last.range.start >= self.mapping.start =>
            {
                last.range.end = range.end;
            }
            _ => self.pieces.push(Piece { range, protection, state }),
        }
    }
}

/// `classes.jsa`: what virtual machines of Java share of their own classes.
fn is_archive_of_java(mapping: &Mapping) -> bool {
    mapping.path().is_some_and(|path| path.ends_with(b".jsa"))
}

/// The runs of pages of `range` that are there, joined across gaps shorter than `gap`.
fn present(
    image: &dyn Image,
    range: &Range<u64>,
    source: Source,
    gap: u64,
) -> Result<Vec<Range<u64>>, ReadError> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    let mut answers = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let until = at.saturating_add(ASK_AT_ONCE).min(range.end);
        answers.clear();
        ask(image, at..until, source, &mut answers)?;
        for run in &answers {
            match joined.last_mut() {
                Some(last) if run.start.saturating_sub(last.end) < gap => last.end = last.end.max(run.end),
                _ => joined.push(run.clone()),
            }
        }
        at = until;
    }
    Ok(joined)
}

/// The pages of `range` that are there; whole pages, inside `range`, by address, whatever the image says.
pub(super) fn ask(
    image: &dyn Image,
    range: Range<u64>,
    source: Source,
    runs: &mut Vec<Range<u64>>,
) -> Result<(), ReadError> {
    match source {
        Source::Written => image.written(range.clone(), runs)?,
        Source::Populated => image.populated(range.clone(), runs)?,
        Source::Whole => runs.push(range.clone()),
    }
    let mut end = range.start;
    for run in runs.iter_mut() {
        let start = (run.start / PAGE_SIZE * PAGE_SIZE).max(end);
        end = run.end.checked_next_multiple_of(PAGE_SIZE).unwrap_or(range.end).min(range.end).max(start);
        *run = start..end;
    }
    runs.retain(|run| run.start < run.end);
    Ok(())
}

/// Why a page that was to be read, and was read with this result, is not in the dump.
pub(super) fn reason(result: &Result<usize, ReadError>, source: Source) -> Reason {
    let Err(ReadError::Missing { why, .. }) = result else { return Reason::Gone };
    match why {
        Absence::Unreadable => Reason::Unreadable,
        // Behind the end of a mapped file there is nothing to read (SIGBUS); the page was never there.
        Absence::Unmapped if source == Source::Whole => Reason::Unreadable,
        Absence::LeftOut | Absence::NotOfKind => Reason::Kind,
        Absence::OverLimit => Reason::Ceiling,
        Absence::NoTime => Reason::NoTime,
        Absence::Unmapped | Absence::Truncated | Absence::Gone => Reason::Gone,
    }
}
