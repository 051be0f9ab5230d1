//! Files opened once for all processes that map them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use biopsy_files::Links;
use rustc_hash::FxHashMap;

use super::bytes::FileIdentity;
use super::{ElfError, ElfFile, Limits, open_first};

/// Shared by the unwinders of all processes and by the symboliser. A file is kept as long as somebody holds it:
/// the cache itself keeps nothing alive.
#[derive(Debug, Default)]
pub struct ElfCache {
    limits: Limits,
    links: Links,
    files: Mutex<FxHashMap<FileIdentity, Weak<ElfFile>>>,
}

impl ElfCache {
    /// An empty cache whose files are read within `limits`.
    pub fn new(limits: Limits) -> Self {
        Self { limits, links: Links::Follow, files: Mutex::default() }
    }

    /// The same for files that a dump or recording names: no link is followed.
    pub fn without_links(limits: Limits) -> Self {
        Self { links: Links::Refuse, ..Self::new(limits) }
    }

    /// The first of `candidates` that opens as ELF: `/proc/PID/map_files/START-END` (also for deleted files),
    /// `/proc/PID/root/PATH`, `PATH`. `label` is for the error.
    pub fn open(&self, label: &str, candidates: &[PathBuf]) -> Result<Arc<ElfFile>, ElfError> {
        self.open_by(label, candidates, self.links)
    }

    /// The same at a place that its build id leads to and nobody names: distributions keep links there.
    pub(crate) fn open_by_id(&self, label: &str, path: &PathBuf) -> Result<Arc<ElfFile>, ElfError> {
        self.open_by(label, std::slice::from_ref(path), Links::Follow)
    }

    fn open_by(&self, label: &str, candidates: &[PathBuf], links: Links) -> Result<Arc<ElfFile>, ElfError> {
        let opened = open_first(label, candidates, links, &self.limits)?;
        let Some(identity) = opened.identity() else { return Ok(Arc::new(opened)) };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = files.get(&identity).and_then(Weak::upgrade) {
            return Ok(known);
        }
        files.retain(|_, file| file.strong_count() > 0);
        let opened = Arc::new(opened);
        files.insert(identity, Arc::downgrade(&opened));
        Ok(opened)
    }

    /// The limits files are read within.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
}
