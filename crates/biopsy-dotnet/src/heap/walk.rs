//! The walk over all segments, on all cores.
//!
//! Objects lie one behind the other; each one's type says how long it is. Where a thread has room for its next objects
//! (allocation context) there is a gap without a header, which is jumped over. Memory is read in pieces; the contents of large
//! arrays without references are not read at all.

use std::hash::Hasher as _;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_image::Image;
use biopsy_model::Avma;
use rustc_hash::FxHashMap;

use super::noted::{self, Fingerprints};
use super::places::{Hint, Places};
use super::shape::{Offsets, ReferencePlaces, SMALLEST, Shape};
use super::source::Source;
use super::to_note::Noted;
use super::{HeapError, Problem, Problems, Segment};
use crate::graph::{EMPTY, Generation, Graph, HeapType, NO_OBJECT, Span, SpanBuilder, Spill, TypeIndex};
use crate::runtime::TypeHandle;

/// Bytes that are read at once. Larger pieces fall out of the cache of a core before they are walked.
const PIECE: usize = 256 << 10;
/// Longest object in bytes that a thread makes in its own room; longer ones are large objects, by default from 85,000 bytes on.
const MOST_IN_ROOM: u64 = 128 << 10;
/// Where the length of a text is, behind the method table; its characters follow.
const TEXT: u64 = 8;
/// Longest span in bytes of the heap: what one thread makes before it can be trimmed and, if need be, spilled.
const SPAN_BYTES: u64 = 32 << 20;

/// What a walk is to do.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) segments: &'a [Segment],
    /// Where threads put their next objects, and where their room ends; by address.
    pub(super) contexts: &'a [(Avma, Avma)],
    /// References too, and where they are kept.
    pub(super) edges: Option<&'a Spill>,
    pub(super) threads: usize,
}

/// Walks all segments. With references, those of the graph are object numbers at the end.
pub(super) fn walk<S: Source + ?Sized>(source: &S, plan: &Plan<'_>) -> Result<(Graph, Problems), HeapError> {
    let places = Places::new(plan.segments)?;
    let shapes = Shapes {
        source,
        offsets: Offsets::of(source.layout())?,
        notes: plan.edges.is_some(),
        fingerprints: Fingerprints::default(),
        table: Mutex::default(),
    };
    // The longest first, so that no core is left with one at the end.
    let mut order: Vec<&Segment> = plan.segments.iter().collect();
    order.sort_by_key(|segment| std::cmp::Reverse(segment.bytes()));
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let work = || -> io::Result<(Vec<Span>, Problems)> {
        let mut walker = Walker::new(&shapes, &places, plan);
        while let Some(segment) = order.get(next.fetch_add(1, Relaxed)).filter(|_| !failed.load(Relaxed)) {
            if let Err(error) = walker.segment(segment) {
                failed.store(true, Relaxed);
                return Err(error);
            }
        }
        Ok((walker.spans, walker.problems))
    };
    let threads = plan.threads.clamp(1, order.len().max(1));
    let (mut spans, mut problems) = (Vec::new(), Problems::default());
    for (more, of_thread) in on_threads(threads, "walking the heap", work)? {
        spans.extend(more);
        problems.merge(of_thread);
    }
    let method_tables = shapes.table.into_inner().unwrap_or_else(PoisonError::into_inner).method_tables;
    let describe = |met: Met| {
        let of = source.describe(met.method_table);
        let of = match met.places {
            Some(places) => source.describe_fields(of, &places),
            None => of,
        };
        let Noted { names, family, .. } = met.noted;
        HeapType { element_bytes: met.component_size.into(), family, noted: names, ..of }
    };
    let types = method_tables.into_iter().map(describe).collect();
    let (mut graph, overlapping) = Graph::from_spans(types, spans);
    if overlapping > 0 {
        problems.add(0, Problem::BadSegment, 0);
    }
    if plan.edges.is_some() {
        problems.dangling += resolve(&mut graph, &places, threads)?;
        noted::number_texts(&mut graph);
    }
    Ok((graph, problems))
}

/// Does the same on several threads, this one among them. One that panicked has not done its part, so the whole is an error:
/// a graph that lacks a part and does not say so is worse than none.
fn on_threads<T: Send>(
    threads: usize,
    what: &str,
    work: impl Fn() -> io::Result<T> + Copy + Send,
) -> io::Result<Vec<T>> {
    std::thread::scope(|scope| {
        // Where no more threads can be started, fewer do it.
        let another = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).map_while(another).collect();
        let panicked = |_| Err(io::Error::other(format!("a thread panicked while {what}: this is a bug")));
        let own = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(panicked);
        // All are waited for before the first error ends it: a scope panics for those that nobody waited for.
        let joined = others.into_iter().map(|one| one.join().unwrap_or_else(panicked));
        joined.chain([own]).collect::<Vec<io::Result<T>>>()
    })
    .into_iter()
    .collect()
}

/// Turns numbers of places into numbers of objects; returns how many lead to none.
fn resolve(graph: &mut Graph, places: &Places, threads: usize) -> io::Result<u64> {
    let mut spans = std::mem::take(&mut graph.spans);
    // The edges are taken out, so that the objects can be looked up while they change.
    let mut edges: Vec<_> = spans.iter_mut().map(|span| std::mem::take(&mut span.edges)).collect();
    graph.spans = spans;
    let find = |number: u32| {
        if number == EMPTY {
            return EMPTY;
        }
        let Some((address, bytes)) = places.address(number) else { return NO_OBJECT };
        let found = graph
            .find(Avma(address))
            .or_else(|| (bytes > 8).then(|| graph.find(Avma(address + 8))).flatten());
        found.map_or(NO_OBJECT, |index| index.0)
    };
    let dangling = AtomicUsize::new(0);
    let list = Mutex::new(edges.iter_mut());
    let work = || -> io::Result<()> {
        loop {
            let one = list.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(of_span) = one else { return Ok(()) };
            of_span.change(|number| {
                let target = find(number);
                if target == NO_OBJECT {
                    dangling.fetch_add(1, Relaxed);
                }
                target
            })?;
        }
    };
    on_threads(threads, "resolving references", work)?;
    for (span, of_span) in graph.spans.iter_mut().zip(edges) {
        span.edges = of_span;
    }
    Ok(dangling.into_inner() as u64)
}

/// Whether an object is being made from `at` to a thread's next room: the thread has taken the space, and has not written the type
/// yet (or the length, which is written after the type of an array). Nobody has a reference to it, and all of it is zeros: the
/// collector hands out nothing else. A moment can fall between the two writes, as they are two instructions.
fn is_being_made(image: &dyn Image, at: u64, room: u64) -> bool {
    let Some(length) = room.checked_sub(at).filter(|length| *length <= MOST_IN_ROOM) else { return false };
    let mut bytes = vec![0; length as usize];
    fill(image, at, &mut bytes) == bytes.len() && bytes.iter().all(|byte| *byte == 0)
}

/// Shapes of all types that were met, shared by the threads.
struct Shapes<'a, S: ?Sized> {
    source: &'a S,
    offsets: Offsets,
    /// Numbers are noted of objects, too.
    notes: bool,
    fingerprints: Fingerprints,
    table: Mutex<ShapeTable>,
}

#[derive(Default)]
struct ShapeTable {
    by_method_table: FxHashMap<TypeHandle, Result<(TypeIndex, Arc<Known>), Problem>>,
    method_tables: Vec<Met>,
}

/// A type that was met.
struct Met {
    method_table: TypeHandle,
    /// Places of references that all of its objects have.
    places: Option<ReferencePlaces>,
    noted: Noted,
    component_size: u16,
}

/// What is known of a type.
struct Known {
    shape: Shape,
    /// Empty places count as references: by how many to an element of an array, 0: of an object.
    keeps_empty: Option<usize>,
    /// The object that its objects keep alive without a field.
    loader_allocator: Option<Avma>,
    /// Where the numbers are that are noted of its objects.
    noted: Box<[u64]>,
    /// Objects are texts: which are equal is noted.
    is_text: bool,
}

impl Known {
    /// There is more to keep of its objects than that they are there.
    fn has_more(&self) -> bool {
        self.shape.has_references() || self.shape.is_collectible || self.is_text || !self.noted.is_empty()
    }
}

impl<S: Source + ?Sized> Shapes<'_, S> {
    fn get(&self, method_table: TypeHandle) -> Result<(TypeIndex, Arc<Known>), Problem> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = table.by_method_table.get(&method_table) {
            return known.clone();
        }
        let known = Shape::read(self.source.image(), self.offsets, method_table.0.0).map(|shape| {
            let collectible = shape.is_collectible;
            let loader_allocator = collectible.then(|| self.source.loader_allocator(method_table)).flatten();
            let index = TypeIndex(u32::try_from(table.method_tables.len()).unwrap_or(u32::MAX));
            let places = shape.places();
            let keeps_empty =
                places.as_ref().map(|places| if places.repeats { places.offsets.len() } else { 0 });
            let noted = if self.notes { self.source.noted(method_table) } else { Noted::default() };
            let (offsets, is_text) = (noted.offsets.clone().into_boxed_slice(), noted.is_text);
            let component_size = shape.component_size;
            table.method_tables.push(Met { method_table, places, noted, component_size });
            (index, Arc::new(Known { shape, keeps_empty, loader_allocator, noted: offsets, is_text }))
        });
        table.by_method_table.insert(method_table, known.clone());
        known
    }
}

/// Entries of a thread's own table of types that it met last.
const RECENT: usize = 1024;

struct Walker<'a, S: ?Sized> {
    shapes: &'a Shapes<'a, S>,
    places: &'a Places,
    plan: &'a Plan<'a>,
    hint: Hint,
    recent: Vec<Option<(TypeHandle, TypeIndex, Arc<Known>)>>,
    piece: Vec<u8>,
    text: Vec<u8>,
    spans: Vec<Span>,
    problems: Problems,
}

impl<'a, S: Source + ?Sized> Walker<'a, S> {
    fn new(shapes: &'a Shapes<'a, S>, places: &'a Places, plan: &'a Plan<'a>) -> Self {
        Self {
            shapes,
            places,
            plan,
            hint: Hint::default(),
            recent: (0..RECENT).map(|_| None).collect(),
            piece: vec![0; PIECE],
            text: Vec::new(),
            spans: Vec::new(),
            problems: Problems::default(),
        }
    }

    fn finish(&mut self, span: SpanBuilder) -> io::Result<()> {
        if !span.is_empty() {
            let never = Spill::never();
            self.spans.push(span.finish(self.plan.edges.unwrap_or(&never))?);
        }
        Ok(())
    }

    fn segment(&mut self, segment: &Segment) -> io::Result<()> {
        let image = self.shapes.source.image();
        let contexts = self.plan.contexts;
        let mut contexts = contexts
            .get(contexts.partition_point(|(at, _)| *at < segment.start)..)
            .unwrap_or_default()
            .iter();
        let (Avma(start), Avma(end)) = (segment.start, segment.end);
        let mut gap = contexts.next();
        let mut span = SpanBuilder::new(start, segment.generation);
        let mut piece = std::mem::take(&mut self.piece);
        // `filled` bytes of the piece are those from `base` on.
        let (mut base, mut filled) = (start, 0usize);
        let mut at = start;
        let problem = loop {
            if at >= end {
                break None;
            }
            while gap.is_some_and(|(room, _)| room.0 < at) {
                gap = contexts.next();
            }
            if let Some((_, limit)) = gap.filter(|(room, limit)| room.0 == at && at <= limit.0) {
                // The room ends with space for one smallest object that is never handed out.
                at = limit.0.saturating_add(SMALLEST);
                continue;
            }
            let mut offset = usize::try_from(at - base).unwrap_or(usize::MAX);
            if offset.saturating_add(16) > filled {
                let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(PIECE);
                filled = fill(image, at, piece.get_mut(..wanted).unwrap_or_default());
                (base, offset) = (at, 0);
                if filled < 16 {
                    break Some(Problem::Unreadable);
                }
            }
            let method_table = TypeHandle::from(word(&piece, offset) & !7);
            let slot = (method_table.0.0 >> 4) as usize % RECENT;
            let recent =
                self.recent.get(slot).and_then(Option::as_ref).filter(|(of, ..)| *of == method_table);
            let (of, known) = match recent {
                Some((_, of, known)) => (*of, known),
                None => match self.shapes.get(method_table) {
                    Err(problem) => {
                        // Room at the end of the youngest objects may be taken and not yet be any thread's.
                        let youngest = (segment.generation == Generation::Gen0).then_some(end);
                        let room = gap.map(|(room, _)| room.0).filter(|room| *room <= end).or(youngest);
                        let has_type = method_table != TypeHandle::default();
                        match room.filter(|room| !has_type && is_being_made(image, at, *room)) {
                            Some(room) => {
                                at = room;
                                continue;
                            }
                            None => break Some(problem),
                        }
                    }
                    Ok((of, known)) => {
                        let Some(entry) = self.recent.get_mut(slot) else { break None };
                        let (_, _, known) = entry.insert((method_table, of, known));
                        (of, &*known)
                    }
                },
            };
            let elements = if known.shape.component_size == 0 { 0 } else { word(&piece, offset + 8) as u32 };
            let size = known.shape.size(elements);
            let padded = size.next_multiple_of(8);
            if padded > end - at {
                break Some(Problem::TooLong);
            }
            if !span.has_room(at, SPAN_BYTES) {
                let full = std::mem::replace(&mut span, SpanBuilder::new(at, segment.generation));
                let known = Arc::clone(known);
                self.finish(full)?;
                self.add(image, &mut span, (at, of, size), &known, &mut piece, (&mut base, &mut filled));
            } else if self.plan.edges.is_none() || !known.has_more() {
                span.push(at, of, size);
            } else {
                let known = Arc::clone(known);
                self.add(image, &mut span, (at, of, size), &known, &mut piece, (&mut base, &mut filled));
            }
            at += padded;
        };
        self.piece = piece;
        if let Some(problem) = problem {
            self.problems.add(at, problem, end - at);
        }
        self.finish(span)
    }

    /// Notes numbers of an object, as many as its type has. `false`: some of it cannot be read.
    fn note(
        &mut self,
        image: &dyn Image,
        span: &mut SpanBuilder,
        (at, size): (u64, u64),
        known: &Known,
        here: (u64, &[u8]),
    ) -> bool {
        let mut whole = true;
        for offset in &known.noted {
            let mut buffer = [0; 4];
            let four = bytes_at(image, here, at.saturating_add(*offset), &mut buffer);
            let number = four.try_into().map_or(0, u32::from_le_bytes);
            whole &= four.len() == 4;
            span.noted.push(number);
        }
        if known.is_text {
            let mut hasher = self.shapes.fingerprints.start();
            let buffer = &mut self.text;
            // The length is in it, so that no text is the beginning of another. The terminating zero is no part of it.
            let (mut from, end) = (at + TEXT, at + size.saturating_sub(8));
            while from < end && whole {
                let wanted = usize::try_from(end - from).unwrap_or(usize::MAX).min(PIECE);
                buffer.resize(buffer.len().max(wanted), 0);
                let bytes = bytes_at(image, here, from, buffer.get_mut(..wanted).unwrap_or_default());
                hasher.write(bytes);
                whole = bytes.len() == wanted;
                from += wanted as u64;
            }
            span.texts.push(hasher.finish());
            span.noted.push(0);
        }
        whole
    }

    /// Adds an object with its references.
    fn add(
        &mut self,
        image: &dyn Image,
        span: &mut SpanBuilder,
        (at, of, size): (u64, TypeIndex, u64),
        known: &Known,
        piece: &mut [u8],
        (base, filled): (&mut u64, &mut usize),
    ) {
        let is_in = span.push(at, of, size);
        if self.plan.edges.is_none() || !is_in {
            return;
        }
        let here = (*base, piece.get(..*filled).unwrap_or_default());
        let mut unreadable = !self.note(image, span, (at, size), known, here);
        let Self { places, hint, .. } = self;
        let first = span.targets.len();
        let mut reference = |target: u64| {
            if target != 0 {
                // What leads out of the heap is counted with what leads to no object of it, when all objects are known.
                span.targets.push(places.number(target, hint).unwrap_or(NO_OBJECT));
            } else if known.keeps_empty.is_some() {
                span.targets.push(EMPTY);
            }
            // Elements of an array that hold nothing are left out: most of a large one may be empty.
            if let Some(of_element) = known.keeps_empty.filter(|of_element| *of_element > 0)
                && (span.targets.len() - first).is_multiple_of(of_element)
            {
                let element = span.targets.len() - of_element;
                if span.targets.iter().skip(element).all(|target| *target == EMPTY) {
                    span.targets.truncate(element);
                }
            }
        };
        let good = known.shape.for_each_run(size, |start, words| {
            let (mut from, end) = (at + start, at + start + words * 8);
            while from < end && !unreadable {
                if from < *base || from + 8 > *base + *filled as u64 {
                    let wanted = usize::try_from(end - from).unwrap_or(usize::MAX).clamp(64, PIECE);
                    *filled = fill(image, from, piece.get_mut(..wanted).unwrap_or_default());
                    *base = from;
                    if *filled < 8 {
                        unreadable = true;
                        break;
                    }
                }
                let first = (from - *base) as usize;
                let length = ((end - from) as usize).min(*filled - first) / 8 * 8;
                let words = piece.get(first..first + length).unwrap_or_default();
                words.as_chunks::<8>().0.iter().for_each(|eight| reference(u64::from_le_bytes(*eight)));
                from += length as u64;
            }
        });
        // Behind the fields, which have numbers.
        if let Some(target) = known.loader_allocator.filter(|target| target.0 != 0) {
            span.targets.push(places.number(target.0, hint).unwrap_or(NO_OBJECT));
        }
        if unreadable {
            self.problems.add(at, Problem::Unreadable, 0);
        } else if !good {
            self.problems.add(at, Problem::BadReferences, 0);
        }
    }
}

/// Bytes at an address, from the piece at hand or from memory; fewer where memory is missing.
fn bytes_at<'b>(
    image: &dyn Image,
    (base, piece): (u64, &'b [u8]),
    address: u64,
    buffer: &'b mut [u8],
) -> &'b [u8] {
    let at_hand = address
        .checked_sub(base)
        .and_then(|offset| usize::try_from(offset).ok())
        .and_then(|offset| piece.get(offset..offset.checked_add(buffer.len())?));
    match at_hand {
        Some(bytes) => bytes,
        None => {
            let filled = fill(image, address, buffer);
            buffer.get(..filled).unwrap_or_default()
        }
    }
}

/// The word at an offset that was checked to be inside.
#[inline]
fn word(piece: &[u8], offset: usize) -> u64 {
    piece.get(offset..offset + 8).and_then(|eight| eight.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Reads as much as there is.
fn fill(image: &dyn Image, at: u64, buffer: &mut [u8]) -> usize {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match image.read(at.saturating_add(done as u64), rest) {
            Ok(read) if read > 0 => done += read,
            Ok(_) | Err(_) => break,
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_is_an_error_and_no_success() {
        let worker = std::thread::current().id();
        for own in [false, true] {
            let result = on_threads(4, "testing", || {
                assert!((std::thread::current().id() == worker) != own, "on purpose");
                Ok(())
            });
            let error = result.expect_err("a part is missing").to_string();
            assert_eq!(error, "a thread panicked while testing: this is a bug");
        }
        assert_eq!(on_threads(4, "testing", || Ok(1)).expect("all did it"), [1; 4]);
    }
}
