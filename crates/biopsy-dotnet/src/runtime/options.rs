//! How a runtime is opened.

use std::fmt;
use std::sync::Arc;

use crate::layout::LayoutFiles;

/// Bytes of mapped files that an image left out (cores seldom hold the text of files).
pub trait MissingFiles: Send + Sync {
    /// Up to `buffer.len()` bytes of the file at `path` (as the process saw it) from `offset` on, and how many there were; 0
    /// when there is no such file, or it is not the one that was mapped.
    fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> usize;
}

/// How a runtime is opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// Layouts for versions that export no descriptor, and what descriptors lack.
    pub layouts: Arc<LayoutFiles>,
    /// Where bytes of files come from that the image has left out.
    pub files: Option<Arc<dyn MissingFiles>>,
    /// Bytes of memory that are kept in the cache.
    pub cached_bytes: usize,
    /// Threads that are read at most.
    pub threads: usize,
    /// Assemblies that are read at most.
    pub modules: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layouts: LayoutFiles::built_in(),
            files: None,
            cached_bytes: 64 << 20,
            threads: 1 << 17,
            modules: 1 << 16,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("cached_bytes", &self.cached_bytes).finish_non_exhaustive()
    }
}
