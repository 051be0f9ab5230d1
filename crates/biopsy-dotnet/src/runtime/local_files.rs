//! Files of this machine in place of what a dump left out.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_image::{Image, MemoryExt};
use biopsy_stacks::elf;
use rustc_hash::FxHashMap;

use super::MissingFiles;

/// `O_NONBLOCK` of Linux on x86-64 and aarch64: a FIFO in place of a file must not block.
const O_NONBLOCK: i32 = 0o4000;
/// Bytes of headers that are compared where there is no build id.
const HEADERS: usize = 512;
/// Files that are kept open.
const OPEN: usize = 4096;

/// Files of this machine at the paths that the process knew, where they are the same as far as that can be told: by build id, or
/// by the headers in the image. A file that the image has nothing of to compare with is used, and counted.
pub struct LocalFiles {
    roots: Vec<PathBuf>,
    /// Build id, and the first bytes where they are in the image, of each module.
    known: FxHashMap<Vec<u8>, Known>,
    files: Mutex<FxHashMap<Vec<u8>, Option<Arc<File>>>>,
    unverified: Mutex<Vec<Vec<u8>>>,
}

#[derive(Default)]
struct Known {
    build_id: Option<Vec<u8>>,
    headers: Option<Vec<u8>>,
}

impl fmt::Debug for LocalFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFiles").field("roots", &self.roots).finish_non_exhaustive()
    }
}

impl LocalFiles {
    /// For an image. `roots` are folders below which the process's paths are looked up before the root of this machine:
    /// `/proc/PID/root`, an unpacked container image.
    #[must_use]
    pub fn new(image: &dyn Image, roots: Vec<PathBuf>) -> Self {
        let mut known = FxHashMap::default();
        for module in image.modules() {
            let mut headers = vec![0; HEADERS];
            let there = image.read_exact(module.start, &mut headers).is_ok();
            let of = Known { build_id: module.build_id.clone(), headers: there.then_some(headers) };
            known.entry(module.path.clone()).or_insert(of);
        }
        Self { roots, known, files: Mutex::default(), unverified: Mutex::default() }
    }

    /// The files that were used and could not be compared with the image.
    #[must_use]
    pub fn unverified(&self) -> Vec<Vec<u8>> {
        self.unverified.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn find(&self, path: &[u8]) -> Option<Arc<File>> {
        // Names of memory (`/memfd:x`) lead nowhere; `/proc` and `/dev` are not where programs lie.
        if !path.starts_with(b"/") || path.starts_with(b"/proc/") || path.starts_with(b"/dev/") {
            return None;
        }
        let as_path = Path::new(OsStr::from_bytes(path));
        let below = |root: &PathBuf| {
            let mut joined = root.clone();
            joined.extend(as_path.components().filter(|part| matches!(part, Component::Normal(_))));
            joined
        };
        let candidates = self.roots.iter().map(below).chain([as_path.to_path_buf()]);
        for candidate in candidates {
            let open = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(&candidate);
            let Some(file) = open.ok().filter(|file| file.metadata().is_ok_and(|one| one.is_file())) else {
                continue;
            };
            match self.same(path, &candidate, &file) {
                Some(true) => return Some(Arc::new(file)),
                Some(false) => {}
                None => {
                    self.unverified.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_vec());
                    return Some(Arc::new(file));
                }
            }
        }
        None
    }

    /// Whether it is the file that was mapped; `None` when nothing tells.
    fn same(&self, path: &[u8], candidate: &Path, file: &File) -> Option<bool> {
        let known = self.known.get(path)?;
        if let Some(wanted) = &known.build_id {
            let found = elf::build_id(candidate).ok()?;
            return Some(found.as_ref() == Some(wanted));
        }
        let headers = known.headers.as_ref()?;
        let mut ours = vec![0; headers.len()];
        Some(file.read_exact_at(&mut ours, 0).is_ok() && ours == *headers)
    }
}

impl MissingFiles for LocalFiles {
    fn read(&self, path: &[u8], offset: u64, buffer: &mut [u8]) -> usize {
        let known = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        let file = match known {
            Some(file) => file,
            None => {
                let file = self.find(path);
                let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
                if files.len() >= OPEN {
                    files.clear();
                }
                files.insert(path.to_vec(), file.clone());
                file
            }
        };
        let Some(file) = file else { return 0 };
        let mut done = 0;
        while done < buffer.len() {
            match file.read_at(&mut buffer[done..], offset.saturating_add(done as u64)) {
                Ok(0) | Err(_) => break,
                Ok(more) => done += more,
            }
        }
        done
    }
}
