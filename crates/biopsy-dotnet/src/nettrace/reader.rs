//! The reader: blocks to events.

use super::container::{Block, BlockKind, Container, End, Next};
use super::error::NettraceError;
use super::event::Event;
use super::header::{Header, parse_trace_block, parse_trace_object};
use super::input::Input;
use super::limits::Limits;
use super::metadata::{self, EventMetadata};
use super::order::Order;
use super::row::Row;
use super::sequence::Sequences;
use super::tables::{Labels, Stacks, Thread, read_labels, read_threads};
use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};
use biopsy_model::Tid;
use rustc_hash::FxHashMap;
use std::io::Read;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"Nettrace";
const SERIALIZER: &[u8; 20] = b"!FastSerialization.1";

/// Pulls events out of a stream.
#[derive(Debug)]
pub struct Reader<R> {
    container: Container<R>,
    header: Header,
    limits: Limits,
    metadata: FxHashMap<u32, EventMetadata>,
    stacks: Stacks,
    threads: FxHashMap<u64, Thread>,
    labels: FxHashMap<u32, Labels>,
    sequences: Sequences,
    open: Option<OpenBlock>,
    order: Option<Order>,
    /// Which events do not wait for their turn where order is asked for.
    at_once: fn(&EventMetadata) -> bool,
    /// Events that were read and bytes of their payloads, by number of their description; only where order is asked for.
    arrived: FxHashMap<u32, (u64, u64)>,
    /// A sequence point that waits until the events before it have gone.
    point: Option<Block>,
    unknown: u64,
    end: Option<End>,
    nothing: EventMetadata,
}

/// A block of events, and how far it was read.
#[derive(Debug)]
struct OpenBlock {
    block: Block,
    position: usize,
    compressed: bool,
    row: Row,
}

/// Where the payload of an event is.
enum Found {
    InBlock(Row, Range<usize>),
    Held(Row, Range<usize>),
}

enum Step {
    Row(Row, Range<usize>),
    Point(Block),
    End,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a stream. On a live socket this waits for it: the runtime sends it at once.
    ///
    /// # Errors
    /// When it is no nettrace stream, of an unknown version, or the source fails.
    pub fn new(source: R, limits: &Limits) -> Result<Self, NettraceError> {
        let mut input = Input::new(source);
        let too_short = |input: &Input<R>| NettraceError::TooShort { length: input.bytes().len() as u64 };
        if !input.need(12)? {
            let found = input.bytes();
            if !found.starts_with(MAGIC) && !MAGIC.starts_with(found) {
                return Err(NettraceError::NotNettrace { found: found.get(..8).unwrap_or(found).to_vec() });
            }
            return Err(too_short(&input));
        }
        let mut cursor = Cursor::new(input.bytes());
        let magic = cursor.array::<8>("Nettrace")?;
        if magic != *MAGIC {
            return Err(NettraceError::NotNettrace { found: magic.to_vec() });
        }
        // The length of a name up to version 5; a reserved 0 since.
        let plain = cursor.u32("Reserved")? == 0;
        let mut version = 0;
        if plain {
            if !input.need(20)? {
                return Err(too_short(&input));
            }
            let mut cursor = Cursor::new(input.bytes());
            cursor.skip("Reserved", 12)?;
            version = cursor.u32("MajorVersion")?;
            if version != 6 {
                return Err(NettraceError::Version { version });
            }
            input.consume(20);
        } else {
            if !input.need(32)? {
                return Err(too_short(&input));
            }
            let mut cursor = Cursor::new(input.bytes());
            cursor.skip("Nettrace", 12)?;
            let name = cursor.array::<20>("FastSerialization")?;
            if name != *SERIALIZER {
                return Err(NettraceError::NotNettrace { found: name.to_vec() });
            }
            input.consume(32);
        }
        let mut container = Container::new(input, plain);
        let header = match container.next(limits)? {
            Next::Block(block) if block.kind == BlockKind::Trace => {
                if plain {
                    parse_trace_block(version, container.cursor(&block), limits)?
                } else if matches!(block.version, 4 | 5) {
                    version = block.version;
                    parse_trace_object(version, container.cursor(&block))?
                } else {
                    return Err(NettraceError::Version { version: block.version });
                }
            }
            Next::Block(block) => {
                let kind = ReadErrorKind::Unexpected { expected: 1, found: 0 };
                return Err(ReadError { field: "Trace", offset: block.offset, kind }.into());
            }
            Next::End(End::Damaged(error)) => return Err(error.into()),
            Next::End(_) => return Err(NettraceError::TooShort { length: container.offset() }),
        };
        Ok(Self {
            container,
            header,
            limits: *limits,
            metadata: FxHashMap::default(),
            stacks: Stacks::default(),
            threads: FxHashMap::default(),
            labels: FxHashMap::default(),
            sequences: Sequences::new(version, limits.rows),
            open: None,
            order: None,
            at_once: |_| false,
            arrived: FxHashMap::default(),
            point: None,
            unknown: 0,
            end: None,
            nothing: EventMetadata::default(),
        })
    }

    #[cfg(test)]
    pub(super) fn container_source(&mut self) -> &mut R {
        self.container.source()
    }

    /// Gives events in order of time instead of that of the stream, as far as the writer's own marks make it certain.
    /// They come later then: at the latest with the next sequence point.
    pub fn sort_by_time(&mut self, sorted: bool) {
        self.order = sorted.then(|| Order::new(self.limits.held_back));
    }

    /// [`Reader::sort_by_time`], but for events of some kinds, which come as soon as they are read.
    pub fn sort_by_time_but(&mut self, at_once: fn(&EventMetadata) -> bool) {
        self.sort_by_time(true);
        self.at_once = at_once;
    }

    /// Gives out what was held back to be put in order, although older events may still come: for who cannot wait.
    pub fn release(&mut self) {
        if let Some(order) = &mut self.order {
            order.release_now();
        }
    }

    /// What has been read of each kind, also what is still held back to be put in order: events, and bytes of their payloads.
    /// Nothing where no order was asked for.
    pub fn arrived(&self) -> impl Iterator<Item = (&EventMetadata, u64, u64)> {
        self.arrived
            .iter()
            .filter_map(|(number, (events, bytes))| Some((self.metadata.get(number)?, *events, *bytes)))
    }

    /// What the stream says about itself.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Events that the process wrote and that are missing here, as far as the numbers tell: what was dropped because
    /// nobody fetched it in time.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sequences.lost()
    }

    /// Blocks, descriptions and events that were passed over: unknown, damaged, or above the limits.
    #[must_use]
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Events that came out of order although order was asked for.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.order.as_ref().map_or(0, Order::late)
    }

    /// How the stream ended; `None` before that.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes read so far.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.container.offset()
    }

    /// The next event; `None` at the end, and [`Reader::end`] says which.
    ///
    /// # Errors
    /// When the source fails. Where it was only not ready, ask again.
    #[inline]
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, NettraceError> {
        let found = if self.order.is_some() { self.next_sorted()? } else { self.next_in_stream()? };
        Ok(found.map(|found| self.event(found)))
    }

    fn next_in_stream(&mut self) -> Result<Option<Found>, NettraceError> {
        loop {
            match self.step()? {
                Step::Row(row, payload) => return Ok(Some(Found::InBlock(row, payload))),
                Step::Point(block) => self.sequence_point(&block),
                Step::End => return Ok(None),
            }
        }
    }

    fn next_sorted(&mut self) -> Result<Option<Found>, NettraceError> {
        loop {
            if let Some(held) = self.order.as_mut().and_then(Order::next) {
                return Ok(Some(Found::Held(held.row, held.payload)));
            }
            if let Some(block) = self.point.take() {
                self.sequence_point(&block);
            }
            let ended = self.end.is_some();
            let step = self.step()?;
            let Some(order) = &mut self.order else { return Ok(None) };
            match step {
                Step::Row(row, payload) => {
                    let (events, bytes) = self.arrived.entry(row.metadata).or_default();
                    (*events, *bytes) = (*events + 1, *bytes + payload.len() as u64);
                    if self.metadata.get(&row.metadata).is_some_and(self.at_once) {
                        return Ok(Some(Found::InBlock(row, payload)));
                    }
                    if let Some(open) = &self.open {
                        let body = self.container.body(&open.block);
                        order.push(row, body.get(payload).unwrap_or_default());
                    }
                }
                Step::Point(block) => {
                    order.release();
                    self.point = Some(block);
                }
                Step::End if ended => return Ok(None),
                Step::End => order.release(),
            }
        }
    }

    fn event(&self, found: Found) -> Event<'_> {
        let (row, payload) = match found {
            Found::InBlock(row, range) => {
                let body = self.open.as_ref().map(|open| self.container.body(&open.block));
                (row, body.and_then(|body| body.get(range)))
            }
            Found::Held(row, range) => (row, self.order.as_ref().and_then(|order| order.bytes().get(range))),
        };
        let mut event = Event {
            metadata: self.metadata.get(&row.metadata).unwrap_or(&self.nothing),
            pid: self.header.pid,
            tid: Tid(0),
            processor: row.processor,
            ticks: row.ticks,
            time: self.header.time(row.ticks),
            activity: row.activity,
            related_activity: row.related_activity,
            trace: None,
            span: None,
            stack: self.stacks.get(row.stack),
            payload: payload.unwrap_or_default(),
        };
        if self.header.version < 6 {
            event.tid = Tid(u32::try_from(row.thread).unwrap_or(0));
            return event;
        }
        if let Some(thread) = self.threads.get(&row.thread) {
            event.pid = thread.pid.or(event.pid);
            event.tid = thread.tid.unwrap_or_default();
        }
        if let Some(labels) = self.labels.get(&row.labels) {
            event.activity = labels.activity;
            event.related_activity = labels.related_activity;
            (event.trace, event.span) = (labels.trace, labels.span);
        }
        event
    }

    /// Reads up to the next event, sequence point or the end.
    fn step(&mut self) -> Result<Step, NettraceError> {
        loop {
            if let Some(open) = &mut self.open {
                match open.next(self.container.body(&open.block), self.header.version) {
                    Some(Ok((row, payload))) => {
                        self.sequences.event(row.capture_thread, row.sequence);
                        if self.metadata.contains_key(&row.metadata) {
                            return Ok(Step::Row(row, payload));
                        }
                        self.unknown += 1;
                        continue;
                    }
                    Some(Err(_)) => self.unknown += 1,
                    None => (),
                }
                self.open = None;
            }
            if self.end.is_some() {
                return Ok(Step::End);
            }
            match self.container.next(&self.limits)? {
                Next::End(end) => {
                    self.end = Some(end);
                    return Ok(Step::End);
                }
                Next::Block(block) => {
                    if block.kind == BlockKind::SequencePoint {
                        return Ok(Step::Point(block));
                    }
                    if self.block(&block).is_err() {
                        self.unknown += 1;
                    }
                }
            }
        }
    }

    fn block(&mut self, block: &Block) -> Result<(), ReadError> {
        let version = self.header.version;
        let body = self.container.cursor(block);
        match block.kind {
            BlockKind::Events => self.open = Some(OpenBlock::new(*block, body)?),
            BlockKind::Metadata if version >= 6 => self.metadata_rows(block)?,
            BlockKind::Metadata => self.metadata_events(block)?,
            BlockKind::Stacks => {
                if !self.stacks.read(body, self.header.pointer_size, &self.limits)? {
                    self.unknown += 1;
                }
            }
            BlockKind::Threads => read_threads(body, &self.limits, &mut self.threads)?,
            BlockKind::RemovedThreads => {
                let mut body = body;
                while !body.is_empty() {
                    let index = body.varint("Index")?;
                    self.sequences.remove(index, body.varint_u32("SequenceNumber")?);
                    self.threads.remove(&index);
                }
            }
            BlockKind::Labels => read_labels(body, &self.limits, &mut self.labels)?,
            BlockKind::Trace | BlockKind::Unknown | BlockKind::SequencePoint => self.unknown += 1,
        }
        Ok(())
    }

    fn metadata_events(&mut self, block: &Block) -> Result<(), ReadError> {
        let mut open = OpenBlock::new(*block, self.container.cursor(block))?;
        loop {
            let body = self.container.body(block);
            let Some(next) = open.next(body, self.header.version) else { return Ok(()) };
            let (_, range) = next?;
            let offset = block.offset.saturating_add(range.start as u64);
            let cursor = Cursor::at(body.get(range).unwrap_or_default(), offset);
            let parsed = metadata::parse_first(cursor, &self.limits);
            self.define(parsed);
        }
    }

    fn metadata_rows(&mut self, block: &Block) -> Result<(), ReadError> {
        let mut body = self.container.cursor(block);
        let header = body.u16("HeaderSize")?;
        body.skip("header", header.into())?;
        let mut made = Vec::new();
        while !body.is_empty() {
            let size = body.u16("Size")?;
            let Ok(row) = body.sub("metadata", size.into()) else { break };
            made.push(metadata::parse_sixth(row, &self.limits));
        }
        made.into_iter().for_each(|parsed| self.define(parsed));
        Ok(())
    }

    fn define(&mut self, parsed: Result<(u32, EventMetadata), ReadError>) {
        match parsed {
            Ok((number, metadata)) if self.metadata.len() < self.limits.metadata => {
                self.metadata.insert(number, metadata);
            }
            Ok(_) | Err(_) => self.unknown += 1,
        }
    }

    fn sequence_point(&mut self, block: &Block) {
        if self.read_sequence_point(block).is_err() {
            self.unknown += 1;
        }
        self.stacks.clear();
        self.labels.clear();
    }

    fn read_sequence_point(&mut self, block: &Block) -> Result<(), ReadError> {
        let mut body = self.container.cursor(block);
        body.u64("TimeStamp")?;
        if self.header.version < 6 {
            for _ in 0..body.u32("ThreadCount")? {
                let thread = body.u64("ThreadId")?;
                self.sequences.checkpoint(thread, body.u32("SequenceNumber")?);
            }
            return Ok(());
        }
        let flags = body.u32("Flags")?;
        for _ in 0..body.u32("ThreadCount")? {
            let thread = body.varint("ThreadIndex")?;
            self.sequences.checkpoint(thread, body.varint_u32("SequenceNumber")?);
        }
        if flags & 1 != 0 {
            self.threads.clear();
            self.sequences.forget();
        }
        if flags & 2 != 0 {
            self.metadata.clear();
        }
        Ok(())
    }
}

impl OpenBlock {
    fn new(block: Block, mut body: Cursor<'_>) -> Result<Self, ReadError> {
        let before = body;
        let position = usize::from(body.u16("HeaderSize")?);
        let flags = body.u16("Flags")?;
        if position < 4 {
            let kind = ReadErrorKind::Unexpected { expected: 20, found: position as u64 };
            return Err(before.error("HeaderSize", kind));
        }
        Ok(Self { block, position, compressed: flags & 1 != 0, row: Row::default() })
    }

    /// The next header, and where in the body its payload is.
    #[inline]
    fn next(&mut self, body: &[u8], version: u32) -> Option<Result<(Row, Range<usize>), ReadError>> {
        let rest = body.get(self.position..).filter(|rest| !rest.is_empty())?;
        let mut cursor = Cursor::at(rest, self.block.offset.saturating_add(self.position as u64));
        Some(self.read(&mut cursor, body.len(), version))
    }

    fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        length: usize,
        version: u32,
    ) -> Result<(Row, Range<usize>), ReadError> {
        let start = self.position;
        let mut claimed = 0;
        if self.compressed {
            self.row.read_compressed(cursor, version)?;
        } else {
            (self.row, claimed) = Row::read_whole(cursor, version)?;
        }
        let from = length - cursor.remaining();
        cursor.skip("payload", usize::try_from(self.row.payload).unwrap_or(usize::MAX))?;
        let to = length - cursor.remaining();
        self.position = to;
        if !self.compressed {
            let after =
                start.saturating_add(4).saturating_add(usize::try_from(claimed).unwrap_or(usize::MAX));
            // Bodies begin at a multiple of four.
            self.position = to.max(after);
            if version < 6 {
                self.position = self.position.saturating_add(3) & !3;
            }
        }
        Ok((self.row, from..to))
    }
}
