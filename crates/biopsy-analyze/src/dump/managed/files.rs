//! Bytes of mapped files that a core has left out.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use biopsy_dotnet::runtime::MissingFiles;
use rustc_hash::FxHashMap;

/// Files that are held open.
const OPEN: usize = 512;

/// Files of this machine at the paths that the process knew.
#[derive(Debug)]
pub(super) struct LocalFiles {
    roots: Vec<PathBuf>,
    open: Mutex<FxHashMap<Vec<u8>, Option<File>>>,
}

impl LocalFiles {
    pub(super) fn new(roots: &[PathBuf]) -> Self {
        Self { roots: roots.to_vec(), open: Mutex::default() }
    }

    fn find(&self, path: &[u8]) -> Option<File> {
        let path = Path::new(std::str::from_utf8(path).ok()?);
        let foreign = !path.is_absolute() || path.starts_with("/proc") || path.starts_with("/dev");
        if foreign {
            return None;
        }
        let below = self.roots.iter().map(|root| {
            let mut joined = root.clone();
            joined.extend(path.components().filter(|part| matches!(part, Component::Normal(_))));
            joined
        });
        below.chain([path.to_owned()]).find_map(|candidate| {
            // A device or a pipe would block.
            let plain = std::fs::metadata(&candidate).is_ok_and(|meta| meta.is_file());
            plain.then(|| File::open(&candidate).ok()).flatten()
        })
    }
}

impl MissingFiles for LocalFiles {
    fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= OPEN && !open.contains_key(path) {
            open.clear();
        }
        let file = open.entry(path.to_vec()).or_insert_with(|| self.find(path));
        file.as_ref().and_then(|file| file.read_at(buffer, offset).ok()).unwrap_or(0)
    }
}
