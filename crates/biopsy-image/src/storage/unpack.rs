//! Unpacking what can only be read from its start: once, with holes for zeros, to a file that has no name.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use biopsy_model::loss::Warning;
use flate2::bufread::MultiGzDecoder;
use lz4_flex::frame::FrameDecoder;
use xz4rust::{XzDecoder, XzReader};

use super::{Encoding, PlainFile, Storage, Unpacked};
use crate::Limits;
use crate::problem::OpenProblem;

/// Bytes unpacked at once.
const CHUNK: usize = 1 << 20;
/// Zeros of this size and alignment are not written.
const PAGE: usize = 4096;
/// Dictionary of xz, in bytes: what `xz -9` uses. It grows from the smaller one to what the file asks for.
const XZ_DICTIONARY: usize = 64 << 20;
const XZ_FIRST_DICTIONARY: usize = 1 << 20;
const XZ_BUFFER: NonZeroUsize = NonZeroUsize::new(64 << 10).unwrap();
/// Below this many written bytes nobody asks for the ratio.
const RATIO_MATTERS_FROM: u64 = 1 << 30;

/// Unpacks `source` to an unlinked file of mode 0600 in `$TMPDIR`, else in `folder` (beside the dump, where there is
/// room for such files), else in the system's temporary folder. A file that ends early or is damaged gives what comes
/// before, with a warning.
pub(super) fn unpack(
    source: Arc<dyn Storage>,
    encoding: Encoding,
    folder: Option<&Path>,
    limits: &Limits,
) -> Result<Unpacked, OpenProblem> {
    let consumed = Arc::new(AtomicU64::new(0));
    let reader = BufReader::with_capacity(256 << 10, SourceReader { source, at: Arc::clone(&consumed) });
    let mut reader =
        decoder(encoding, reader).map_err(|source| OpenProblem::Io { doing: "start unpacking", source })?;
    let (file, folder) = if limits.is_memory_only { in_memory()? } else { temporary_file(folder)? };
    let mut output = SparseOutput { file, folder, at: 0, written: 0 };
    let mut chunk = vec![0; CHUNK];
    let failure = loop {
        let (filled, failure) = fill(&mut reader, &mut chunk);
        output.write(&chunk[..filled])?;
        check(&output, consumed.load(Ordering::Relaxed), limits)?;
        match failure {
            Some(error) => break Some(error),
            None if filled < chunk.len() => break None,
            None => {}
        }
    };
    let mut warnings = Vec::new();
    if let Some(error) = &failure {
        if output.at == 0 {
            return Err(OpenProblem::Damaged {
                what: format!("it cannot be unpacked as {encoding}: {error}"),
            });
        }
        warnings.push(Warning::new(
            "dump.cut-off",
            format!(
                "unpacking stopped after {:#x} bytes ({error}); the {encoding} file is cut off or damaged, what is before \
                 is read",
                output.at
            ),
        ));
    }
    Ok(Unpacked { storage: Arc::new(output.finish()?), encoding, warnings, cut: failure.is_some() })
}

fn decoder(encoding: Encoding, reader: impl BufRead + 'static) -> io::Result<Box<dyn Read>> {
    Ok(match encoding {
        Encoding::Gzip => Box::new(MultiGzDecoder::new(reader)),
        Encoding::Lz4 => Box::new(FrameDecoder::new(reader)),
        Encoding::Xz => {
            let decoder = XzDecoder::in_heap_with_alloc_dict_size(XZ_FIRST_DICTIONARY, XZ_DICTIONARY);
            Box::new(XzReader::new_with_buffer_size_and_decoder(reader, XZ_BUFFER, decoder))
        }
        Encoding::Plain | Encoding::SeekableZstd | Encoding::FramedZstd | Encoding::Zstd => {
            Box::new(zstd::stream::read::Decoder::with_buffer(reader)?)
        }
    })
}

/// Reads until the buffer is full, the end or an error. What was read before an error counts.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (filled, Some(error)),
        }
    }
    (filled, None)
}

fn check(output: &SparseOutput, consumed: u64, limits: &Limits) -> Result<(), OpenProblem> {
    let over = |what, found, limit| Err(OpenProblem::OverLimit { what, found, limit });
    if output.at > limits.unpacked_bytes {
        return over("bytes when unpacked", output.at, limits.unpacked_bytes);
    }
    if output.written > limits.written_bytes {
        return over("bytes other than zeros when unpacked", output.written, limits.written_bytes);
    }
    let ratio = output.written.checked_div(consumed).unwrap_or(0);
    if output.written > RATIO_MATTERS_FROM && ratio > limits.ratio {
        return over("bytes other than zeros from each compressed byte", ratio, limits.ratio);
    }
    Ok(())
}

/// A file that is on no disk, and is gone with this process.
fn in_memory() -> Result<(File, PathBuf), OpenProblem> {
    let folder = PathBuf::from("memory");
    match rustix::fs::memfd_create("unpacked", rustix::fs::MemfdFlags::CLOEXEC) {
        Ok(file) => Ok((file.into(), folder)),
        Err(error) => Err(OpenProblem::NoRoom { folder, source: error.into() }),
    }
}

fn temporary_file(beside: Option<&Path>) -> Result<(File, PathBuf), OpenProblem> {
    let wished = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let last = std::env::temp_dir();
    let mut refused = None;
    for folder in wished.iter().map(PathBuf::as_path).chain(beside).chain([last.as_path()]) {
        // O_TMPFILE with mode 0600; where the file system has none, created and unlinked at once.
        match tempfile::tempfile_in(folder) {
            Ok(file) => return Ok((file, folder.to_path_buf())),
            Err(source) => refused = Some(OpenProblem::NoRoom { folder: folder.to_path_buf(), source }),
        }
    }
    Err(refused.unwrap_or(OpenProblem::NoRoom { folder: last, source: io::ErrorKind::NotFound.into() }))
}

/// The compressed file from its start, and how far it was read.
struct SourceReader {
    source: Arc<dyn Storage>,
    at: Arc<AtomicU64>,
}

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.at.load(Ordering::Relaxed);
        let read = self.source.read_at(at, buffer)?;
        self.at.store(at.saturating_add(read as u64), Ordering::Relaxed);
        Ok(read)
    }
}

struct SparseOutput {
    file: File,
    folder: PathBuf,
    at: u64,
    written: u64,
}

impl SparseOutput {
    /// Writes a chunk, but not pages of zeros. All chunks but the last are a multiple of pages long.
    fn write(&mut self, chunk: &[u8]) -> Result<(), OpenProblem> {
        let mut pages = chunk.chunks(PAGE).map(|page| (page.len(), is_zero(page))).peekable();
        let mut from = 0;
        while let Some((length, hole)) = pages.next() {
            let mut to = from + length;
            while let Some((length, _)) = pages.next_if(|(_, next)| *next == hole) {
                to += length;
            }
            if !hole {
                let at = self.at.saturating_add(from as u64);
                self.file.write_all_at(&chunk[from..to], at).map_err(|source| self.no_room(source))?;
                self.written = self.written.saturating_add((to - from) as u64);
            }
            from = to;
        }
        self.at = self.at.saturating_add(chunk.len() as u64);
        Ok(())
    }

    fn finish(self) -> Result<PlainFile, OpenProblem> {
        self.file.set_len(self.at).map_err(|source| self.no_room(source))?;
        PlainFile::new(self.file)
            .map_err(|source| OpenProblem::Io { doing: "read the unpacked file", source })
    }

    fn no_room(&self, source: io::Error) -> OpenProblem {
        OpenProblem::NoRoom { folder: self.folder.clone(), source }
    }
}

fn is_zero(page: &[u8]) -> bool {
    let (words, rest) = page.as_chunks::<8>();
    words.iter().all(|word| *word == [0; 8]) && rest.iter().all(|byte| *byte == 0)
}
