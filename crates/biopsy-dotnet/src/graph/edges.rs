//! References of the objects of a span, in memory or, where a budget says so, on disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Targets of references, one after the other.
#[derive(Clone, Debug)]
pub(crate) enum Edges {
    /// In memory.
    Memory(Vec<u32>),
    /// In a file that has no name any more, so that it is gone with the process.
    Spilled { file: Arc<File>, offset: u64, count: usize },
}

impl Default for Edges {
    fn default() -> Self {
        Self::Memory(Vec::new())
    }
}

impl Edges {
    /// How many.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(targets) => targets.len(),
            Self::Spilled { count, .. } => *count,
        }
    }

    /// The targets from `first` to before `end`; read into `buffer` if they are on disk.
    #[inline]
    pub(crate) fn get<'a>(
        &'a self,
        first: usize,
        end: usize,
        buffer: &'a mut Vec<u32>,
    ) -> io::Result<&'a [u32]> {
        match self {
            Self::Memory(targets) => Ok(targets.get(first..end).unwrap_or_default()),
            Self::Spilled { file, offset, count } => {
                let end = end.min(*count);
                let length = end.saturating_sub(first);
                let mut bytes = vec![0; length * 4];
                file.read_exact_at(&mut bytes, offset + first as u64 * 4)?;
                buffer.clear();
                buffer.extend(bytes.as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four)));
                Ok(buffer)
            }
        }
    }

    /// Replaces every target by what `change` makes of it.
    pub(crate) fn change(&mut self, change: impl Fn(u32) -> u32) -> io::Result<()> {
        match self {
            Self::Memory(targets) => targets.iter_mut().for_each(|target| *target = change(*target)),
            Self::Spilled { file, offset, count } => {
                // In pieces: what is on disk is there because memory is short.
                const PIECE: usize = 1 << 18;
                let mut bytes = vec![0; PIECE * 4];
                let mut done = 0;
                while done < *count {
                    let length = (*count - done).min(PIECE);
                    let part = bytes.get_mut(..length * 4).unwrap_or_default();
                    let at = *offset + done as u64 * 4;
                    file.read_exact_at(part, at)?;
                    for four in part.as_chunks_mut::<4>().0 {
                        *four = change(u32::from_le_bytes(*four)).to_le_bytes();
                    }
                    file.write_all_at(part, at)?;
                    done += length;
                }
            }
        }
        Ok(())
    }

    /// Bytes of memory that it takes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Memory(targets) => targets.capacity() * 4,
            Self::Spilled { .. } => 0,
        }
    }
}

/// Keeps references in memory up to a budget, and in a file beyond it.
#[derive(Debug)]
pub struct Spill {
    budget: u64,
    in_memory: AtomicU64,
    file: Option<Arc<File>>,
    end: AtomicU64,
}

impl Spill {
    /// Everything stays in memory.
    #[must_use]
    pub fn never() -> Self {
        Self { budget: u64::MAX, in_memory: AtomicU64::new(0), file: None, end: AtomicU64::new(0) }
    }

    /// References that take more than `budget` bytes go to `file`, which should have no name any more.
    #[must_use]
    pub fn beyond(budget: u64, file: File) -> Self {
        Self { budget, in_memory: AtomicU64::new(0), file: Some(Arc::new(file)), end: AtomicU64::new(0) }
    }

    /// Bytes that went to the file.
    #[must_use]
    pub fn spilled_bytes(&self) -> u64 {
        self.end.load(Relaxed)
    }

    /// Keeps the targets of one span. Several threads may.
    pub(crate) fn keep(&self, mut targets: Vec<u32>) -> io::Result<Edges> {
        let bytes = targets.len() as u64 * 4;
        let before = self.in_memory.fetch_add(bytes, Relaxed);
        match &self.file {
            Some(file) if before.saturating_add(bytes) > self.budget => {
                self.in_memory.fetch_sub(bytes, Relaxed);
                let offset = self.end.fetch_add(bytes, Relaxed);
                let mut packed = Vec::with_capacity(targets.len() * 4);
                packed.extend(targets.iter().flat_map(|target| target.to_le_bytes()));
                file.write_all_at(&packed, offset)?;
                Ok(Edges::Spilled { file: Arc::clone(file), offset, count: targets.len() })
            }
            _ => {
                targets.shrink_to_fit();
                Ok(Edges::Memory(targets))
            }
        }
    }
}
