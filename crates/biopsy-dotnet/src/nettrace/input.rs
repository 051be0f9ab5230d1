//! Bytes of a source, as many at a time as a block has.

use std::io::{self, ErrorKind, Read};

/// What is read at a time where less is needed.
const STEP: usize = 64 << 10;

/// A window into a source. What was not consumed stays, so a source that was not ready can be asked again.
#[derive(Debug)]
pub(super) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Absolute offset of `buffer[start]`.
    offset: u64,
    /// Bytes to throw away before anything else is read.
    skip: u64,
    ended: bool,
}

impl<R: Read> Input<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), start: 0, end: 0, offset: 0, skip: 0, ended: false }
    }

    #[cfg(test)]
    pub(super) fn source(&mut self) -> &mut R {
        &mut self.source
    }

    /// Absolute offset of the first byte of [`Input::bytes`].
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// What is there and was not consumed.
    pub(super) fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Waits until `count` bytes are there, or the source has ended. Memory follows what comes, not what is asked for.
    pub(super) fn need(&mut self, count: usize) -> io::Result<bool> {
        self.drain_skip()?;
        while self.end - self.start < count && !self.ended {
            self.read_some(count)?;
        }
        Ok(self.end - self.start >= count)
    }

    /// Gives up `count` bytes, whether or not they have come yet.
    pub(super) fn consume(&mut self, count: u64) {
        let here = ((self.end - self.start) as u64).min(count);
        // Not more than the length of a buffer.
        self.start += usize::try_from(here).unwrap_or_default();
        self.offset = self.offset.saturating_add(here);
        self.skip = self.skip.saturating_add(count - here);
    }

    /// Whether the source has ended.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    fn drain_skip(&mut self) -> io::Result<()> {
        while self.skip > 0 && !self.ended {
            self.read_some(1)?;
            let skip = std::mem::take(&mut self.skip);
            self.consume(skip);
        }
        Ok(())
    }

    fn read_some(&mut self, count: usize) -> io::Result<()> {
        if self.buffer.len() - self.start < count.max(1) && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.end == self.buffer.len() {
            let grown = (self.buffer.len() * 2).clamp(STEP, count.max(STEP));
            self.buffer.resize(grown.max(self.buffer.len() + 1), 0);
        }
        loop {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => self.ended = true,
                Ok(read) => self.end += read.min(room.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(());
        }
    }
}
