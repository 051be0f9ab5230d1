//! What can be read around a place: text, cut where memory stops being text, in any of three encodings.
//!
//! All of this is a function of the bytes within [`FORWARD`] behind and [`BACKWARD`] in front of the place (for the end
//! of a private key the other way round): that is what makes results independent of how memory is cut into pieces.

use std::ops::Range;

/// How far behind the start of an anchor its secret may reach, in bytes of any encoding.
pub(super) const FORWARD: usize = 15 << 10;
/// How far in front of an anchor is looked, in bytes of any encoding.
pub(super) const BACKWARD: usize = 1 << 10;

/// How text is written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Encoding {
    /// ASCII or UTF-8.
    Bytes,
    /// UTF-16, low byte first: .NET, Java's wide strings, Windows.
    Little,
    /// UTF-16, high byte first.
    Big,
}

/// A stretch of text, folded to one byte for each byte of UTF-8 or unit of UTF-16.
pub(super) struct Window<'t> {
    /// The text.
    pub(super) text: &'t [u8],
    /// Where the anchor is in `text`.
    pub(super) at: usize,
    /// Where `text[0]` is in memory.
    origin: usize,
    encoding: Encoding,
}

impl Window<'_> {
    /// The bytes of memory that hold a stretch of the text.
    pub(super) fn place(&self, range: Range<usize>) -> Range<usize> {
        match self.encoding {
            Encoding::Bytes => self.origin + range.start..self.origin + range.end,
            Encoding::Little | Encoding::Big => self.origin + 2 * range.start..self.origin + 2 * range.end,
        }
    }
}

/// Finds windows in one piece of memory.
pub(super) struct Windows<'t> {
    bytes: &'t [u8],
    /// What is known to be text that begins with a whole character.
    known: Range<usize>,
    /// `known.end` is where text ends, and not only where the look at it did.
    ended: bool,
    folded: Vec<u8>,
}

impl<'t> Windows<'t> {
    /// For this memory. `folded` is a buffer.
    pub(super) fn new(bytes: &'t [u8], folded: Vec<u8>) -> Self {
        Self { bytes, known: 0..0, ended: false, folded }
    }

    /// Gives the buffer back.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.folded
    }

    /// All bytes as they are.
    pub(super) fn all(&self) -> &'t [u8] {
        self.bytes
    }

    /// The bytes as they are, from `at` on.
    pub(super) fn raw(&self, at: usize, length: usize) -> &'t [u8] {
        let at = at.min(self.bytes.len());
        &self.bytes[at..self.bytes.len().min(at + length)]
    }

    /// Whether the character number `index` from `at` on is `byte`, in any case.
    pub(super) fn is(&self, at: usize, byte: u8, index: usize, encoding: Encoding) -> bool {
        let stride = if encoding == Encoding::Bytes { 1 } else { 2 };
        self.bytes.get(at + index * stride).is_some_and(|found| found.eq_ignore_ascii_case(&byte))
    }

    /// The text around an anchor at `at`: at most `before` characters in front of it and `after` from its start on.
    pub(super) fn around(
        &mut self,
        at: usize,
        encoding: Encoding,
        before: usize,
        after: usize,
    ) -> Window<'_> {
        match encoding {
            Encoding::Bytes => self.bytes_around(at, before.min(FORWARD), after.min(FORWARD)),
            Encoding::Little => self.fold(at, encoding, before.min(FORWARD / 2), after.min(FORWARD / 2)),
            // The high byte of the first character stands in front of it.
            Encoding::Big => {
                let first = at.saturating_sub(1);
                self.fold(first, encoding, before.min(FORWARD / 2 - 1), after.min(FORWARD / 2))
            }
        }
    }

    fn bytes_around(&mut self, at: usize, before: usize, after: usize) -> Window<'_> {
        let end = self.text_end(at, self.bytes.len().min(at + after));
        let floor = at.saturating_sub(before);
        let mut start = at;
        while start - floor >= PIECE && is_all_text(&self.bytes[start - PIECE..start]) {
            start -= PIECE;
        }
        while start > floor && is_text(self.bytes[start - 1]) {
            start -= 1;
        }
        // Bytes beyond ASCII in front are taken as they are: they are looked at, and never masked.
        Window { text: &self.bytes[start..end], at: at - start, origin: start, encoding: Encoding::Bytes }
    }

    /// Where text that begins with a whole character at `at` ends, looked for up to `limit`. Remembers what it has
    /// seen: anchors come in order, and many may stand in one long text.
    fn text_end(&mut self, at: usize, limit: usize) -> usize {
        if !(self.known.start <= at && at < self.known.end) {
            self.known = at..at;
            self.ended = false;
        }
        while !self.ended && self.known.end < limit {
            let from = self.known.end;
            // Some bytes more than asked for, so that no character is cut.
            let piece = &self.bytes[from..self.bytes.len().min(limit.max(from + 256) + 4)];
            let length = text_length(piece);
            self.known.end += length;
            self.ended = length == 0 || piece.len() - length > 3;
        }
        self.known.end.min(limit)
    }

    fn fold(&mut self, first: usize, encoding: Encoding, before: usize, after: usize) -> Window<'_> {
        let unit = |place: usize| -> Option<u16> {
            let pair = [*self.bytes.get(place)?, *self.bytes.get(place + 1)?];
            Some(if encoding == Encoding::Big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) })
        };
        let mut units = 0;
        while units < before
            && let Some(place) = first.checked_sub(2 * (units + 1))
            && unit(place).and_then(fold_unit).is_some()
        {
            units += 1;
        }
        let origin = first - 2 * units;
        self.folded.clear();
        while self.folded.len() < units + after {
            let place = origin + 2 * self.folded.len();
            match unit(place) {
                // A character of two units (emoji).
                Some(0xd83c..=0xd83e)
                    if unit(place + 2).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) =>
                {
                    self.folded.extend([BEYOND_ASCII; 2]);
                }
                Some(one) => match fold_unit(one) {
                    Some(byte) => self.folded.push(byte),
                    None => break,
                },
                None => break,
            }
        }
        Window { text: &self.folded, at: units, origin, encoding }
    }
}

/// Whether a byte may stand in text: no control byte but those of lines, tabs and terminal colours.
fn is_text(byte: u8) -> bool {
    (byte >= b' ') & (byte != 0x7f) | (byte == b'\t') | (byte == b'\n') | (byte == b'\r') | (byte == 0x1b)
}

/// Bytes tested at once.
const PIECE: usize = 64;

/// Whether all of them may stand in text: without an exit in the middle they are tested many at a time.
fn is_all_text(bytes: &[u8]) -> bool {
    !bytes.iter().fold(false, |bad, byte| bad | !is_text(*byte))
}

/// Length of the text at the start of `bytes`: UTF-8 without control bytes.
fn text_length(bytes: &[u8]) -> usize {
    // Whole pieces first.
    let checked: usize = bytes.chunks(PIECE).take_while(|piece| is_all_text(piece)).map(<[u8]>::len).sum();
    let plain = checked + bytes[checked..].iter().take_while(|byte| is_text(**byte)).count();
    match std::str::from_utf8(&bytes[..plain]) {
        Ok(_) => plain,
        Err(error) => error.valid_up_to(),
    }
}

/// What stands for a unit of UTF-16 that is not ASCII.
const BEYOND_ASCII: u8 = 0xff;

/// A unit of UTF-16 as a byte: ASCII as it is, letters and symbols of scripts with few characters as a byte beyond
/// ASCII. `None`: no text. Chinese, Japanese and Korean end it too: half of all pairs of bytes are some character of
/// theirs, and what follows a text without a zero at its end (a pointer, say) must not be taken for more of it.
fn fold_unit(unit: u16) -> Option<u8> {
    match unit {
        0..=0x7f => {
            let byte = unit as u8;
            is_text(byte).then_some(byte)
        }
        // Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic; quotes, dashes and bullets; the euro.
        0xa0..=0x24f | 0x370..=0x6ff | 0x1e00..=0x1fff | 0x2010..=0x203e | 0x20ac => Some(BEYOND_ASCII),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
