//! Positioned, bounded reads of a file or of memory: a file that shrinks while it is read gives an error, where a
//! mapping of it would give SIGBUS.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_files::{Links, Refused};

use super::ElfError;

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
    source: Source,
}

#[derive(Debug)]
enum Source {
    File {
        file: File,
        identity: FileIdentity,
    },
    Memory(Arc<[u8]>),
    /// Parts of a file that are known, as they were mapped: offset and bytes, by offset.
    Pieces(Vec<(u64, Vec<u8>)>),
}

impl Bytes {
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
        Ok(Self { label: label.to_owned(), source: Source::File { file, identity } })
    }

    pub(crate) fn from_memory(label: &str, bytes: Arc<[u8]>) -> Self {
        Self { label: PathBuf::from(label), source: Source::Memory(bytes) }
    }

    /// A file of which only some parts are known. They may overlap.
    pub(crate) fn from_pieces(label: &str, mut pieces: Vec<(u64, Vec<u8>)>) -> Self {
        pieces.sort_by_key(|(offset, _)| *offset);
        Self { label: PathBuf::from(label), source: Source::Pieces(pieces) }
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
        match &self.source {
            Source::File { identity, .. } => Some(*identity),
            Source::Memory(_) | Source::Pieces(_) => None,
        }
    }

    pub(crate) fn label(&self) -> &Path {
        &self.label
    }

    /// Bytes in memory.
    pub(crate) fn held(&self) -> u64 {
        match &self.source {
            Source::File { .. } => 0,
            Source::Memory(bytes) => bytes.len() as u64,
            Source::Pieces(pieces) => pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        match &self.source {
            Source::File { identity, .. } => identity.size,
            Source::Memory(bytes) => bytes.len() as u64,
            Source::Pieces(pieces) => pieces
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
        let (Some(end), Ok(length)) = (end, usize::try_from(size)) else {
            return Err(ElfError::CutShort {
                path: self.label.clone(),
                what,
                offset,
                size,
                available: self.len(),
            });
        };
        match &self.source {
            Source::File { file, .. } => {
                let mut buffer = vec![0; length];
                file.read_exact_at(&mut buffer, offset)
                    .map_err(|source| ElfError::Io { path: self.label.clone(), source })?;
                Ok(buffer)
            }
            Source::Memory(bytes) => {
                let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
                let slice = range.and_then(|(start, end)| bytes.get(start..end)).unwrap_or(&[]);
                Ok(slice.to_vec())
            }
            Source::Pieces(pieces) => {
                let known = Self::piece(pieces, offset);
                known.get(..length).map(<[u8]>::to_vec).ok_or_else(|| ElfError::CutShort {
                    path: self.label.clone(),
                    what,
                    offset,
                    size,
                    available: offset.saturating_add(known.len() as u64),
                })
            }
        }
    }

    /// Reads up to `size` bytes at `offset`: fewer at the end of the file.
    pub(crate) fn read_up_to(&self, what: &'static str, offset: u64, size: u64) -> Result<Vec<u8>, ElfError> {
        let known = match &self.source {
            Source::Pieces(pieces) => Self::piece(pieces, offset).len() as u64,
            _ => self.len().saturating_sub(offset),
        };
        let size = size.min(known);
        self.read(what, offset, size, size)
    }
}
