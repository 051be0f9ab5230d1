//! Writes an event stream with its secrets masked, byte for byte as long as it came.

use std::io::{self, Write};
use std::sync::Arc;

use biopsy_redact::memory::OVERLAP;

use super::scanner::LazyScanner;

/// Bytes that are masked at a time.
const STEP: usize = 256 << 10;
/// Most bytes that wait for the scanner to be made.
const WAITING: usize = 32 << 20;

/// Masks what is written through it. What is masked at a byte depends on bytes up to [`OVERLAP`] away, so that the last
/// ones wait until more comes, or the end.
pub(crate) struct MaskedWriter<W> {
    inner: W,
    scanner: Arc<LazyScanner>,
    /// Bytes as they came: up to [`OVERLAP`] that are written already, then those that wait.
    window: Vec<u8>,
    /// How many of the window are written already.
    before: usize,
    scratch: Vec<u8>,
    written: u64,
    limit: u64,
}

impl<W: Write> MaskedWriter<W> {
    /// Writes at most `limit` bytes; more are dropped.
    pub(crate) fn new(inner: W, scanner: Arc<LazyScanner>, limit: u64) -> Self {
        Self { inner, scanner, window: Vec::new(), before: 0, scratch: Vec::new(), written: 0, limit }
    }

    /// Whether more came than may be written.
    pub(crate) fn is_full(&self) -> bool {
        self.written >= self.limit
    }

    /// Takes bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_full() {
            return Ok(());
        }
        self.window.extend_from_slice(bytes);
        let waiting = self.window.len() - self.before;
        if waiting < STEP + OVERLAP || (waiting < WAITING && self.scanner.if_made().is_none()) {
            return Ok(());
        }
        self.write_up_to(self.window.len() - OVERLAP)
    }

    /// Writes what waits: the stream has ended, or what was taken so far is wanted.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.write_up_to(self.window.len())?;
        self.inner.flush()
    }

    fn write_up_to(&mut self, end: usize) -> io::Result<()> {
        if end <= self.before {
            return Ok(());
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.window);
        self.scanner.wait().mask(&mut self.scratch, self.before..end, |_, _| ());
        let room = usize::try_from(self.limit - self.written).unwrap_or(usize::MAX);
        let piece = self.scratch.get(self.before..end).unwrap_or_default();
        let piece = piece.get(..room).unwrap_or(piece);
        self.inner.write_all(piece)?;
        self.written += piece.len() as u64;
        // What depends on the bytes before keeps them.
        let drop = end.saturating_sub(OVERLAP);
        self.window.drain(..drop);
        self.before = end - drop;
        Ok(())
    }
}

impl<W> std::fmt::Debug for MaskedWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskedWriter").field("written", &self.written).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use biopsy_redact::memory::{Literals, MemoryScanner};

    use super::*;

    fn wide(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    fn through(bytes: &[u8], piece: usize, limit: u64) -> Vec<u8> {
        let scanner = LazyScanner::made(MemoryScanner::new(&Literals::new()).unwrap());
        let mut writer = MaskedWriter::new(Vec::new(), scanner, limit);
        for piece in bytes.chunks(piece) {
            writer.push(piece).unwrap();
        }
        writer.finish().unwrap();
        writer.inner
    }

    #[test]
    fn secrets_go_and_lengths_stay_wherever_the_stream_is_cut() {
        let mut bytes = vec![7; STEP + OVERLAP - 20];
        bytes.extend(wide("Server=db1;User Id=app;Password=hunter2;\0"));
        bytes.extend(vec![9; 3 * STEP]);
        let whole = through(&bytes, usize::MAX, u64::MAX);
        assert_eq!(whole.len(), bytes.len());
        let find = |text: &str| whole.windows(text.len() * 2).any(|window| window == wide(text));
        assert!(!find("hunter2") && find("Password=*******;"));
        for piece in [1000, STEP - 1, STEP + 5] {
            assert!(through(&bytes, piece, u64::MAX) == whole, "in pieces of {piece}");
        }
    }

    #[test]
    fn no_more_than_the_limit_is_kept() {
        assert_eq!(through(&vec![1; 4 * STEP], 777, 1000).len(), 1000);
    }
}
