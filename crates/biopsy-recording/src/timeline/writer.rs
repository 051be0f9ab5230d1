//! Writing a timeline.

use std::io::{self, Write};

use biopsy_model::timeline::TimelineEvent;

use super::chunk::{ChunkHeader, file_header};
use super::encode::Encoder;

/// A chunk is written when it has this many raw bytes: large enough for zstd, small enough to lose.
const CHUNK_RAW_BYTES: usize = 256 << 10;
/// zstd's default: 5 MB/s of events would cost 2 % of a core, and this tool writes a hundredth of that.
const ZSTD_LEVEL: i32 = 3;

/// Appends events to a timeline. Nothing reaches the file before its chunk is full or [`Writer::flush_chunk`] is
/// called, and then it goes there in one `write`; a kill at any moment costs the open chunk only.
///
/// The writer trusts its caller on handles; the reader does not.
pub struct Writer<W: Write> {
    out: W,
    encoder: Encoder,
    zstd: zstd::bulk::Compressor<'static>,
    /// Header and compressed payload of a chunk, reused.
    chunk: Vec<u8>,
    compressed: Vec<u8>,
    written: u64,
    /// A write failed: what is in the file ends with half a chunk, and nothing more must follow it.
    failed: Option<io::ErrorKind>,
}

impl<W: Write> Writer<W> {
    /// Begins a timeline: writes the file header.
    pub fn new(mut out: W) -> io::Result<Self> {
        let header = file_header();
        out.write_all(&header)?;
        Ok(Self {
            out,
            encoder: Encoder::default(),
            zstd: zstd::bulk::Compressor::new(ZSTD_LEVEL)?,
            chunk: Vec::new(),
            compressed: Vec::new(),
            written: header.len() as u64,
            failed: None,
        })
    }

    /// Appends one event. Definitions must come before what refers to them.
    pub fn push(&mut self, event: &TimelineEvent) -> io::Result<()> {
        if let Some(kind) = self.failed {
            return Err(kind.into());
        }
        self.encoder.push(event);
        if self.encoder.raw.len() >= CHUNK_RAW_BYTES { self.flush_chunk() } else { Ok(()) }
    }

    /// Writes what there is as a chunk: everything pushed so far survives a kill of this process. (Survives a power
    /// loss: `File::sync_data`, which is the caller's choice.) Without new events nothing is written.
    pub fn flush_chunk(&mut self) -> io::Result<()> {
        if let Some(kind) = self.failed {
            return Err(kind.into());
        }
        if self.encoder.raw.is_empty() {
            return Ok(());
        }
        self.compressed.clear();
        self.compressed.reserve(zstd::zstd_safe::compress_bound(self.encoder.raw.len()));
        self.zstd.compress_to_buffer(&self.encoder.raw, &mut self.compressed)?;
        let stored = std::mem::take(&mut self.compressed);
        let result = self.write_chunk(&stored);
        self.compressed = stored;
        self.encoder.clear();
        result
    }

    /// Bytes that went to the file so far.
    pub fn bytes_written(&self) -> u64 {
        self.written
    }

    /// Bytes that wait for the next chunk, before compression.
    pub fn bytes_pending(&self) -> usize {
        self.encoder.raw.len()
    }

    /// What is written to, for example to `sync_data` it.
    pub fn get_ref(&self) -> &W {
        &self.out
    }

    /// Writes the last chunk and the end mark; without the mark a reader says that the timeline is cut short.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_chunk()?;
        self.write_end()?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// The bytes that end a timeline here, for a copy of the file made while the recording goes on: append them to
    /// the first [`Writer::bytes_written`] bytes right after [`Writer::flush_chunk`].
    #[must_use]
    pub fn end_mark(&self) -> Vec<u8> {
        self.header(0, 0).to_bytes(&[]).to_vec()
    }

    fn write_end(&mut self) -> io::Result<()> {
        let mark = self.end_mark();
        self.out.write_all(&mark)?;
        self.written += mark.len() as u64;
        Ok(())
    }

    fn header(&self, stored: u32, raw: u32) -> ChunkHeader {
        ChunkHeader { crc: 0, stored, raw, events: self.encoder.events, before: self.encoder.defined_before }
    }

    fn write_chunk(&mut self, stored: &[u8]) -> io::Result<()> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let stored_length = u32::try_from(stored.len()).map_err(too_large)?;
        let raw_length = u32::try_from(self.encoder.raw.len()).map_err(too_large)?;
        self.chunk.clear();
        self.chunk.extend_from_slice(&self.header(stored_length, raw_length).to_bytes(stored));
        self.chunk.extend_from_slice(stored);
        match self.out.write_all(&self.chunk) {
            Ok(()) => {
                self.written += self.chunk.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.failed = Some(error.kind());
                Err(error)
            }
        }
    }
}

impl Writer<Vec<u8>> {
    /// A whole timeline of what was pushed so far, and an empty one goes on. What is pushed must not define anything.
    pub(super) fn split_off(&mut self) -> io::Result<Vec<u8>> {
        self.flush_chunk()?;
        self.write_end()?;
        let header = file_header();
        self.written += header.len() as u64;
        Ok(std::mem::replace(&mut self.out, header))
    }
}

impl<W: Write> std::fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer")
            .field("written", &self.written)
            .field("pending", &self.encoder.raw.len())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
