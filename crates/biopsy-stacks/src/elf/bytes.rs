//! Positioned, bounded reads of a file or of memory: a file that shrinks while it is read gives an error, where a
//! mapping of it would give SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_elf::{Problem, Source};
use biopsy_files::{Links, Refused};

use super::error::ElfError;

/// Identity of a file's contents, as far as the file system tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i128,
}

impl FileIdentity {
    pub(crate) fn inode(self) -> u64 {
        self.inode
    }
}

/// Bytes that can be read at any offset.
#[derive(Debug)]
pub(crate) struct Bytes {
    label: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    File {
        file: File,
        identity: FileIdentity,
    },
    Memory(Arc<[u8]>),
    /// Parts of a file that are known, as they were mapped: offset and bytes, by offset.
    Pieces(Vec<(u64, Vec<u8>)>),
}

impl Bytes {
    /// What is wrong with the headers of this file.
    pub(super) fn problem(&self, problem: Problem<io::Error>) -> ElfError {
        let path = self.label().to_owned();
        match problem {
            Problem::Source(source) => self.failed(source),
            Problem::NotElf | Problem::RowSize { .. } => ElfError::NotElf { path },
            Problem::Unsupported { class, encoding, machine } => {
                ElfError::Unsupported { path, class, encoding, machine }
            }
            Problem::CutShort { what, at: offset, size, .. } => {
                ElfError::CutShort { path, what, offset, size, available: self.len() }
            }
        }
    }

    /// Opens a regular file.
    pub(crate) fn open(path: &Path, links: Links) -> Result<Self, ElfError> {
        let io_error = |source: io::Error| ElfError::Io { path: path.to_owned(), source };
        let file = match biopsy_files::open(path, links) {
            Ok(opened) => opened.file,
            Err(Refused::NotRegular(_)) => return Err(ElfError::NotRegular { path: path.to_owned() }),
            Err(refused) => return Err(io_error(refused.into())),
        };
        Self::from_file(path, file)
    }

    /// A regular file that is open.
    pub(crate) fn from_file(label: &Path, file: File) -> Result<Self, ElfError> {
        let metadata = file.metadata().map_err(|source| ElfError::Io { path: label.to_owned(), source })?;
        let identity = FileIdentity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        };
        Ok(Self { label: label.to_owned(), kind: Kind::File { file, identity } })
    }

    pub(crate) fn from_memory(label: &str, bytes: Arc<[u8]>) -> Self {
        Self { label: PathBuf::from(label), kind: Kind::Memory(bytes) }
    }

    /// A file of which only some parts are known. They may overlap.
    pub(crate) fn from_pieces(label: &str, mut pieces: Vec<(u64, Vec<u8>)>) -> Self {
        pieces.sort_by_key(|(offset, _)| *offset);
        Self { label: PathBuf::from(label), kind: Kind::Pieces(pieces) }
    }

    /// The bytes that are known from `offset` on.
    fn piece(pieces: &[(u64, Vec<u8>)], offset: u64) -> &[u8] {
        let tails = pieces.iter().take_while(|(start, _)| *start <= offset);
        let tail = |(start, bytes): &'_ (u64, Vec<u8>)| {
            let skip = usize::try_from(offset - start).ok()?;
            Some(bytes.len().saturating_sub(skip)).filter(|left| *left > 0).map(|left| (skip, left))
        };
        let best = tails.filter_map(|piece| Some((tail(piece)?, piece)));
        best.max_by_key(|((_, left), _)| *left)
            .and_then(|((skip, _), (_, bytes))| bytes.get(skip..))
            .unwrap_or(&[])
    }

    /// `None` for memory.
    pub(crate) fn identity(&self) -> Option<FileIdentity> {
        match &self.kind {
            Kind::File { identity, .. } => Some(*identity),
            Kind::Memory(_) | Kind::Pieces(_) => None,
        }
    }

    pub(crate) fn label(&self) -> &Path {
        &self.label
    }

    /// Bytes in memory.
    pub(crate) fn held(&self) -> u64 {
        match &self.kind {
            Kind::File { .. } => 0,
            Kind::Memory(bytes) => bytes.len() as u64,
            Kind::Pieces(pieces) => pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.kind {
            Kind::File { identity, .. } => identity.size,
            Kind::Memory(bytes) => bytes.len() as u64,
            Kind::Pieces(pieces) => pieces
                .iter()
                .map(|(offset, bytes)| offset.saturating_add(bytes.len() as u64))
                .max()
                .unwrap_or(0),
        }
    }

    /// Reads exactly `size` bytes at `offset`. Memory is taken only after the size was compared with `limit` and
    /// with what the file holds.
    pub(crate) fn read(
        &self,
        what: &'static str,
        offset: u64,
        size: u64,
        limit: u64,
    ) -> Result<Vec<u8>, ElfError> {
        if size > limit {
            return Err(ElfError::TooLarge { path: self.label.clone(), what, size, limit });
        }
        let end = offset.checked_add(size).filter(|end| *end <= self.len());
        let (Some(_), Ok(length)) = (end, usize::try_from(size)) else {
            return Err(ElfError::CutShort {
                path: self.label.clone(),
                what,
                offset,
                size,
                available: self.len(),
            });
        };
        let mut buffer = vec![0; length];
        let found = Source::read(self, offset, &mut buffer).map_err(|source| self.failed(source))?;
        if found < length {
            let available = offset.saturating_add(found as u64);
            return Err(ElfError::CutShort { path: self.label.clone(), what, offset, size, available });
        }
        Ok(buffer)
    }

    /// Reads up to `size` bytes at `offset`: fewer at the end of the file.
    pub(crate) fn read_up_to(&self, what: &'static str, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        let known = match &self.kind {
            Kind::Pieces(pieces) => Self::piece(pieces, offset).len() as u64,
            _ => self.len().saturating_sub(offset),
        };
        let size = size.min(known);
        self.read(what, offset, size, size)
    }

    /// What the file system said, with the file's name.
    pub(super) fn failed(&self, source: io::Error) -> ElfError {
        ElfError::Io { path: self.label.clone(), source }
    }
}

impl Source for Bytes {
    type Error = io::Error;

    fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let (bytes, at) = match &self.kind {
            Kind::File { file, .. } => return file.read(at, buffer),
            Kind::Memory(bytes) => (&**bytes, at),
            Kind::Pieces(pieces) => (Self::piece(pieces, at), 0),
        };
        bytes.read(at, buffer).or(Ok(0))
    }
}

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_le_bytes(*chunk))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}
