//! Blocks, one after the other: tagged objects up to version 5, a word of kind and size from version 6 on.

use super::header::TRACE_LENGTH;
use super::input::Input;
use super::limits::Limits;
use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};
use std::io::{self, Read};

/// How a stream ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// As its writer meant it to.
    Complete,
    /// In the middle: the writer was stopped, or the file was cut. What was whole has been read.
    Cut,
    /// What follows cannot be told from noise.
    Damaged(ReadError),
}

/// Longest name of an object that is read: the longest in use has 13 bytes.
const NAME: usize = 64;
const BEGIN: u8 = 5;
const END_OF_OBJECT: u8 = 6;
const NULL: u8 = 1;

/// What is in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockKind {
    Trace,
    Events,
    Metadata,
    Stacks,
    SequencePoint,
    Threads,
    RemovedThreads,
    Labels,
    /// Not known, or of a version that says we cannot read it.
    Unknown,
}

/// A block whose body is at the front of the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub(super) kind: BlockKind,
    /// Absolute offset of the body.
    pub(super) offset: u64,
    /// Bytes of the body that are there.
    pub(super) length: usize,
    /// Version of the object, where it has one.
    pub(super) version: u32,
}

/// What comes next.
#[derive(Clone, Copy, Debug)]
pub(super) enum Next {
    Block(Block),
    End(End),
}

/// A stream as blocks.
#[derive(Debug)]
pub(super) struct Container<R> {
    input: Input<R>,
    /// Version 6 and later: no tags.
    plain: bool,
    /// The block that was given out last: bytes to give up, and whether a tag follows.
    open: Option<(u64, bool)>,
    /// A tag that ends an object is due.
    footer: bool,
}

impl<R: Read> Container<R> {
    pub(super) fn new(input: Input<R>, plain: bool) -> Self {
        Self { input, plain, open: None, footer: false }
    }

    #[cfg(test)]
    pub(super) fn source(&mut self) -> &mut R {
        self.input.source()
    }

    /// The body of the block that was given out last.
    #[inline]
    pub(super) fn body(&self, block: &Block) -> &[u8] {
        self.input.bytes().get(..block.length).unwrap_or_default()
    }

    /// A cursor over the body.
    pub(super) fn cursor(&self, block: &Block) -> Cursor<'_> {
        Cursor::at(self.body(block), block.offset)
    }

    /// Bytes that were given up so far.
    pub(super) fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The next block; the last one is given up. An error leaves everything as it was.
    pub(super) fn next(&mut self, limits: &Limits) -> io::Result<Next> {
        if let Some((bytes, footer)) = self.open.take() {
            self.input.consume(bytes);
            self.footer = footer;
        }
        if self.footer {
            if !self.input.need(1)? {
                return Ok(Next::End(End::Cut));
            }
            let found = self.input.bytes().first().copied().unwrap_or_default();
            if found != END_OF_OBJECT {
                return Ok(self.damaged("EndObject", END_OF_OBJECT, found));
            }
            self.input.consume(1);
            self.footer = false;
        }
        if self.plain { self.next_plain(limits) } else { self.next_object(limits) }
    }

    fn next_plain(&mut self, limits: &Limits) -> io::Result<Next> {
        if !self.input.need(4)? {
            return Ok(Next::End(End::Cut));
        }
        let Ok(word) = Cursor::new(self.input.bytes()).u32("BlockHeader") else {
            return Ok(Next::End(End::Cut));
        };
        let kind = match word >> 24 {
            0 => return Ok(Next::End(End::Complete)),
            1 => BlockKind::Trace,
            2 => BlockKind::Events,
            3 => BlockKind::Metadata,
            4 => BlockKind::SequencePoint,
            5 => BlockKind::Stacks,
            6 => BlockKind::Threads,
            7 => BlockKind::RemovedThreads,
            8 => BlockKind::Labels,
            _ => BlockKind::Unknown,
        };
        self.give(kind, 0, 4, u64::from(word & 0x00ff_ffff), limits)
    }

    fn next_object(&mut self, limits: &Limits) -> io::Result<Next> {
        if !self.input.need(1)? {
            return Ok(Next::End(End::Cut));
        }
        match self.input.bytes().first().copied().unwrap_or_default() {
            NULL => return Ok(Next::End(End::Complete)),
            BEGIN => (),
            found => return Ok(self.damaged("BeginPrivateObject", BEGIN, found)),
        }
        // Three tags, version, oldest reader, length of the name; the name, a tag, the size, up to three bytes to align.
        let mut wanted = 15;
        loop {
            if !self.input.need(wanted)? {
                return Ok(Next::End(End::Cut));
            }
            match object_header(Cursor::at(self.input.bytes(), self.input.offset())) {
                Ok(header) => {
                    return self.give(header.kind, header.version, header.length, header.body, limits);
                }
                Err(error) => match error.kind {
                    ReadErrorKind::UnexpectedEnd { needed, found } if !self.input.ended() => {
                        let more = needed.saturating_sub(found).clamp(1, 2 * NAME as u64);
                        wanted = self
                            .input
                            .bytes()
                            .len()
                            .max(wanted)
                            .saturating_add(usize::try_from(more).unwrap_or(1));
                    }
                    ReadErrorKind::UnexpectedEnd { .. } => return Ok(Next::End(End::Cut)),
                    _ => return Ok(Next::End(End::Damaged(error))),
                },
            }
        }
    }

    /// Makes the body available, or passes over it where it is too large.
    fn give(
        &mut self,
        kind: BlockKind,
        version: u32,
        header: usize,
        length: u64,
        limits: &Limits,
    ) -> io::Result<Next> {
        let offset = self.input.offset().saturating_add(header as u64);
        let footer = !self.plain;
        let fits = usize::try_from(length).ok().filter(|length| *length <= limits.block);
        let (Some(body), true) = (fits, kind != BlockKind::Unknown) else {
            self.input.consume((header as u64).saturating_add(length));
            self.open = Some((0, footer));
            return Ok(Next::Block(Block { kind: BlockKind::Unknown, offset, length: 0, version }));
        };
        self.input.need(header.saturating_add(body))?;
        self.input.consume(header as u64);
        self.open = Some((length, footer));
        let length = body.min(self.input.bytes().len());
        Ok(Next::Block(Block { kind, offset, length, version }))
    }

    fn damaged(&self, field: &'static str, expected: u8, found: u8) -> Next {
        let kind = ReadErrorKind::Unexpected { expected: expected.into(), found: found.into() };
        Next::End(End::Damaged(ReadError { field, offset: self.input.offset(), kind }))
    }
}

struct ObjectHeader {
    kind: BlockKind,
    version: u32,
    /// Bytes before the body.
    length: usize,
    /// Bytes of the body.
    body: u64,
}

fn object_header(mut cursor: Cursor<'_>) -> Result<ObjectHeader, ReadError> {
    let start = cursor;
    for (field, expected) in
        [("BeginPrivateObject", BEGIN), ("BeginPrivateObject", BEGIN), ("NullReference", NULL)]
    {
        tag(&mut cursor, field, expected)?;
    }
    let version = cursor.u32("version")?;
    let oldest_reader = cursor.u32("minimum reader version")?;
    let before = cursor;
    let name_length = cursor.u32("type name")?;
    let Some(name_length) = usize::try_from(name_length).ok().filter(|length| *length <= NAME) else {
        let kind = ReadErrorKind::OverLimit { claimed: name_length.into(), limit: NAME as u64 };
        return Err(before.error("type name", kind));
    };
    let name = cursor.take("type name", name_length)?;
    tag(&mut cursor, "EndObject", END_OF_OBJECT)?;
    let (kind, newest) = match name {
        b"Trace" => (BlockKind::Trace, 5),
        b"EventBlock" => (BlockKind::Events, 2),
        b"MetadataBlock" => (BlockKind::Metadata, 2),
        b"StackBlock" => (BlockKind::Stacks, 2),
        b"SPBlock" => (BlockKind::SequencePoint, 2),
        _ => (BlockKind::Unknown, u32::MAX),
    };
    if kind == BlockKind::Trace {
        let length = start.remaining() - cursor.remaining();
        return Ok(ObjectHeader { kind, version, length, body: TRACE_LENGTH as u64 });
    }
    let body = cursor.u32("BlockSize")?.into();
    let padding = cursor.offset().wrapping_neg() & 3;
    cursor.skip("padding", usize::try_from(padding).unwrap_or_default())?;
    let kind = if oldest_reader > newest { BlockKind::Unknown } else { kind };
    Ok(ObjectHeader { kind, version, length: start.remaining() - cursor.remaining(), body })
}

fn tag(cursor: &mut Cursor<'_>, field: &'static str, expected: u8) -> Result<(), ReadError> {
    let before = *cursor;
    let found = cursor.u8(field)?;
    if found == expected {
        return Ok(());
    }
    let kind = ReadErrorKind::Unexpected { expected: expected.into(), found: found.into() };
    Err(before.error(field, kind))
}
