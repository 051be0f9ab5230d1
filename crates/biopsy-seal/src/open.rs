//! Reading what was sealed, at any place.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use age::stream::StreamReader;

use crate::key::Identity;

/// How every age file begins.
const MAGIC: &[u8] = b"age-encryption.org/";
/// Bytes that may be read until the header ends: a key takes about 100, hybrid ones 1,600. The library looks at all of it again for each
/// line that comes: a header of 1 MiB took minutes.
const MOST_HEADER: u64 = 16 << 10;

/// Whether a file that begins so is sealed.
#[must_use]
pub fn is_sealed(head: &[u8]) -> bool {
    head.starts_with(MAGIC)
}

/// The same of a file by its name. What cannot be read is none; whoever reads it says why.
#[must_use]
pub fn is_sealed_file(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut head));
    read.is_ok() && is_sealed(&head)
}

/// Why a sealed file is not opened.
#[derive(Debug, thiserror::Error)]
pub enum UnsealError {
    /// It cannot be read.
    #[error("cannot read `{}`", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// It is sealed to somebody else.
    #[error("`{}` is not sealed to this key", path.display())]
    OtherKey {
        /// Which.
        path: PathBuf,
    },
    /// It is no sealed file, or its header was changed.
    #[error("`{}` is damaged, or no sealed file", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
    },
}

/// The bytes that were sealed: they can be read from any place.
pub struct SealedFile<R: Read + Seek = File> {
    reader: StreamReader<HeaderLimit<BufReader<R>>>,
    bytes: u64,
}

impl SealedFile<File> {
    /// Opens a file. Its end is read at once: one that was cut off is refused.
    ///
    /// # Errors
    /// [`UnsealError`].
    pub fn open(path: &Path, identity: &Identity) -> Result<Self, UnsealError> {
        let file = File::open(path).map_err(|source| UnsealError::Io { path: path.to_owned(), source })?;
        Self::of(file, path, identity)
    }
}

impl<R: Read + Seek> SealedFile<R> {
    /// Opens what `from` gives. `name` is for messages.
    ///
    /// # Errors
    /// [`UnsealError`].
    pub fn of(from: R, name: &Path, identity: &Identity) -> Result<Self, UnsealError> {
        let path = || name.to_owned();
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                UnsealError::Damaged { path: path() }
            }
            _ => UnsealError::Io { path: path(), source },
        };
        let limited = HeaderLimit { inner: BufReader::new(from), left: MOST_HEADER };
        let decryptor = age::Decryptor::new(limited).map_err(|error| match error {
            age::DecryptError::Io(source) => failed(source),
            _ => UnsealError::Damaged { path: path() },
        })?;
        let mut reader = decryptor.decrypt(std::iter::once(&identity.0 as &dyn age::Identity)).map_err(
            |error| match error {
                age::DecryptError::NoMatchingKeys => UnsealError::OtherKey { path: path() },
                age::DecryptError::Io(source) => failed(source),
                _ => UnsealError::Damaged { path: path() },
            },
        )?;
        let bytes = reader.seek(SeekFrom::End(0)).map_err(failed)?;
        reader.seek(SeekFrom::Start(0)).map_err(failed)?;
        Ok(Self { reader, bytes })
    }

    /// How many bytes were sealed.
    #[must_use]
    pub fn plain_bytes(&self) -> u64 {
        self.bytes
    }
}

impl<R: Read + Seek> Read for SealedFile<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}

impl<R: Read + Seek> Seek for SealedFile<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let beyond = || io::Error::new(io::ErrorKind::InvalidInput, "a place before the first byte");
        let to = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => self.bytes.checked_add_signed(by).ok_or_else(beyond)?,
            SeekFrom::Current(by) => {
                self.reader.stream_position()?.checked_add_signed(by).ok_or_else(beyond)?
            }
        };
        // Behind the end there is nothing to decrypt; reading there gives nothing, as in any file.
        self.reader.seek(SeekFrom::Start(to.min(self.bytes)))
    }
}

impl<R: Read + Seek> std::fmt::Debug for SealedFile<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealedFile").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// Ends a header that has no end. Once somebody seeks, it is over, and what follows is read in chunks.
struct HeaderLimit<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for HeaderLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 && !buffer.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the header has no end"));
        }
        let count = self.inner.read(&mut buffer[..most])?;
        if self.left != u64::MAX {
            self.left -= count as u64;
        }
        Ok(count)
    }
}

impl<R: Seek> Seek for HeaderLimit<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.left = u64::MAX;
        self.inner.seek(to)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        // It does not move, and is asked for before the first move.
        self.inner.stream_position()
    }
}

/// What the seeds of fuzzing are sealed to. It guards nothing.
const FUZZ_KEY: &str = "AGE-SECRET-KEY-1ACU89T0FRFMPYU30RMTALT3PW2FHADR5XLCHR57JD8HASJQY2RGQUF4LLC";

/// Entry point for fuzzing: any bytes as a sealed file.
pub fn fuzz_sealed(bytes: &[u8]) {
    let Ok(identity) = FUZZ_KEY.parse() else { return };
    if let Ok(mut file) = SealedFile::of(Cursor::new(bytes), Path::new("fuzz.age"), &identity) {
        let _ = std::hint::black_box(io::copy(&mut file, &mut io::sink()));
    }
}
