//! Files of any size, also with lines of any length, in bounded memory.
//!
//! Text comes in chunks and is gone over in overlapping windows:
//!
//! ```text
//!   ... written ...│◄ context ►│◄──────── decided now ────────►│◄─ look-ahead ─►│
//!                  already written, kept                        decided next time
//! ```
//!
//! The look-ahead is longer than any rule reaches forward and the context longer than any rule reaches back, so a
//! window edge hides nothing. A value that is still going on where the window ends is masked at once; its head stays as
//! context, so that the next window finds the same value again and swallows the rest of it. A single line of 100 MB
//! thus needs no more memory than a short one.

use std::io::{self, Read, Write};
use std::ops::Range;

use crate::counts::merge_hits;
use crate::extent::Extent;
use crate::scan::Span;
use crate::wide::{self, Order};
use crate::{Hit, Redactor};

/// Bytes that are decided together.
const BLOCK: usize = 512 << 10;
/// Bytes behind them that rules may look at; more than the `after` of any rule.
pub(crate) const LOOK_AHEAD: usize = 48 << 10;
/// Bytes in front of them that rules may look at; more than the `before` of any rule.
pub(crate) const CONTEXT: usize = 24 << 10;
/// Bytes kept of a value that is being swallowed.
const HEAD: usize = 4 << 10;

/// What went through a stream.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StreamSummary {
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Which rules fired.
    pub hits: Vec<Hit>,
}

/// Redacts text that comes in chunks. Made by [`Redactor::chunks`].
pub struct ChunkRedactor<'r> {
    redactor: &'r Redactor,
    /// Text, folded if the input is UTF-16.
    buffer: Vec<u8>,
    /// Start of what has not been written (or swallowed) yet.
    done: usize,
    /// Bytes whose encoding is not known, or half a character of UTF-16.
    raw: Vec<u8>,
    encoding: Option<Encoding>,
    summary: StreamSummary,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Encoding {
    Plain,
    Wide(Order),
}

impl Redactor {
    /// A redactor for text that comes in chunks.
    #[must_use]
    pub fn chunks(&self) -> ChunkRedactor<'_> {
        ChunkRedactor {
            redactor: self,
            buffer: Vec::new(),
            done: 0,
            raw: Vec::new(),
            encoding: None,
            summary: StreamSummary::default(),
        }
    }

    /// Redacts everything from `reader` to `writer`, in bounded memory and in the encoding it came in.
    ///
    /// # Errors
    /// Those of `reader` and `writer`.
    pub fn stream(&self, mut reader: impl Read, mut writer: impl Write) -> io::Result<StreamSummary> {
        let mut chunks = self.chunks();
        let mut input = vec![0u8; 64 << 10];
        let mut output = Vec::new();
        loop {
            let read = match reader.read(&mut input) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            chunks.push(&input[..read], &mut output);
            writer.write_all(&output)?;
            output.clear();
        }
        let summary = chunks.finish(&mut output);
        writer.write_all(&output)?;
        Ok(summary)
    }
}

impl ChunkRedactor<'_> {
    /// Takes the next chunk, of any length, and appends to `out` what is decided.
    pub fn push(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        let before = out.len();
        self.summary.bytes_in += chunk.len() as u64;
        match self.encoding {
            Some(Encoding::Plain) => self.push_plain(chunk, out),
            Some(Encoding::Wide(order)) => {
                self.raw.extend_from_slice(chunk);
                self.push_wide(order, false, out);
            }
            None => {
                self.raw.extend_from_slice(chunk);
                if self.raw.len() >= wide::DETECT_REACH {
                    self.decide(out);
                }
            }
        }
        self.summary.bytes_out += (out.len() - before) as u64;
    }

    /// Appends the rest.
    #[must_use]
    pub fn finish(mut self, out: &mut Vec<u8>) -> StreamSummary {
        let before = out.len();
        if self.encoding.is_none() {
            self.decide(out);
        }
        if let Some(Encoding::Wide(order)) = self.encoding {
            self.push_wide(order, true, out);
        }
        self.process(true, out);
        if matches!(self.encoding, Some(Encoding::Wide(_))) {
            out.append(&mut self.raw);
        }
        self.summary.bytes_out += (out.len() - before) as u64;
        self.summary
    }

    /// The encoding, from the first bytes; they then take their way.
    fn decide(&mut self, out: &mut Vec<u8>) {
        let encoding = wide::detect(&self.raw);
        // The first line begins behind a byte order mark.
        let mark = wide::mark(encoding);
        if self.raw.starts_with(&mark) {
            out.extend(self.raw.drain(..mark.len()));
        }
        match encoding {
            Some(order) => {
                self.encoding = Some(Encoding::Wide(order));
                self.push_wide(order, false, out);
            }
            None => {
                self.encoding = Some(Encoding::Plain);
                let raw = std::mem::take(&mut self.raw);
                self.push_plain(&raw, out);
            }
        }
    }

    /// In slices, so that a huge chunk does not make a huge buffer.
    fn push_plain(&mut self, chunk: &[u8], out: &mut Vec<u8>) {
        for slice in chunk.chunks(BLOCK) {
            self.buffer.extend_from_slice(slice);
            self.process(false, out);
        }
    }

    fn push_wide(&mut self, order: Order, last: bool, out: &mut Vec<u8>) {
        let raw = std::mem::take(&mut self.raw);
        let mut whole = raw.len() & !1;
        // A surrogate pair must not be folded in halves.
        if !last && whole >= 2 {
            let high = raw[match order {
                Order::Little => whole - 1,
                Order::Big => whole - 2,
            }];
            if (0xd8..0xdc).contains(&high) {
                whole -= 2;
            }
        }
        for slice in raw[..whole].chunks(BLOCK) {
            // Slices are even, and a pair that one cuts is rejoined by keeping its half for the next.
            let folded = wide::fold(slice, order);
            self.buffer.extend_from_slice(&folded.text);
            self.process(false, out);
        }
        self.raw.extend_from_slice(&raw[whole..]);
    }

    /// Goes over the buffer and writes what is decided.
    fn process(&mut self, last: bool, out: &mut Vec<u8>) {
        if !last && self.buffer.len() < self.done + BLOCK + LOOK_AHEAD {
            return;
        }
        let extent = if last { Extent::Whole } else { Extent::Part };
        let spans = self.redactor.spans(&self.buffer, self.done, extent);
        let length = self.buffer.len();
        let limit = if last { length } else { length - LOOK_AHEAD };
        let mut piece = Vec::new();
        let mut at = self.done;
        let mut masks: Vec<Range<usize>> = Vec::new();
        let mut swallow: Option<usize> = None;
        for span in &spans {
            if span.range.end <= at {
                continue;
            }
            let goes_on = !last && (span.open || span.range.end == length);
            if span.range.start < at {
                // Its mask is written; this is the rest of it.
                at = span.range.end;
                swallow = goes_on.then_some(span.range.start);
            } else if last || span.range.start < limit {
                piece.extend_from_slice(&self.buffer[at..span.range.start]);
                let start = piece.len();
                self.mask(span, &mut piece);
                masks.push(start..piece.len());
                at = span.range.end;
                swallow = goes_on.then_some(span.range.start);
            } else {
                break;
            }
        }
        let cut = if swallow.is_some() { length } else { self.whole_character(at.max(limit), at) };
        if swallow.is_none() {
            piece.extend_from_slice(&self.buffer[at..cut]);
        }
        self.write(piece, &masks, out);
        match swallow {
            Some(start) => {
                self.buffer.truncate(length.min(start + HEAD));
                let drop = start.saturating_sub(CONTEXT);
                self.buffer.drain(..drop);
                self.done = self.buffer.len();
            }
            None => {
                let drop = cut.saturating_sub(CONTEXT);
                self.buffer.drain(..drop);
                self.done = cut - drop;
            }
        }
    }

    fn mask(&mut self, span: &Span, piece: &mut Vec<u8>) {
        self.redactor.push_mask(&self.buffer, span, piece, &mut self.summary.hits);
    }

    /// What was masked may show something that was hidden before: the lines around masks are gone over until nothing
    /// changes.
    fn write(&mut self, piece: Vec<u8>, masks: &[Range<usize>], out: &mut Vec<u8>) {
        let mut settled = Vec::with_capacity(piece.len());
        let mut at = 0;
        for lines in around(&piece, masks) {
            settled.extend_from_slice(&piece[at..lines.start]);
            let (again, hits) = self.redactor.plain(&piece[lines.clone()], Extent::Part);
            merge_hits(&mut self.summary.hits, &hits);
            settled.extend_from_slice(&again);
            at = lines.end;
        }
        let piece = if at == 0 {
            piece
        } else {
            settled.extend_from_slice(&piece[at..]);
            settled
        };
        match self.encoding {
            Some(Encoding::Wide(order)) => out.extend_from_slice(&wide::unfold(&piece, order, None)),
            _ => out.extend_from_slice(&piece),
        }
    }

    /// Not in the middle of a character, and not before `floor`.
    fn whole_character(&self, at: usize, floor: usize) -> usize {
        let mut start = at;
        while start > floor && at - start < 3 && self.buffer.get(start).is_some_and(|b| b & 0xc0 == 0x80) {
            start -= 1;
        }
        start
    }
}

/// The lines that masks stand on, with the line in front and the line behind. Whole lines, since half a name may look
/// like another.
fn around(text: &[u8], masks: &[Range<usize>]) -> Vec<Range<usize>> {
    let line_start = |at: usize| memchr::memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    let line_end =
        |at: usize| memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline + 1);
    let mut found: Vec<Range<usize>> = Vec::new();
    for mask in masks {
        if let Some(last) = found.last_mut()
            && mask.end < last.end
        {
            // On the last line looked at: that one's neighbour is due too.
            if last.end < text.len() {
                last.end = line_end(line_end(mask.end));
            }
            continue;
        }
        let start = line_start(line_start(mask.start).saturating_sub(1));
        let end = line_end(line_end(mask.end));
        match found.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => found.push(start..end),
        }
    }
    found
}

impl std::fmt::Debug for ChunkRedactor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The buffer holds text that is not redacted yet.
        f.debug_struct("ChunkRedactor").field("summary", &self.summary).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
