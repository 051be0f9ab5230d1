//! Files of this machine in place of what a dump left out.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_files::{Links, Root};
use biopsy_image::{Image, MemoryExt};
use biopsy_stacks::elf;
use rustc_hash::FxHashMap;

use super::MissingFiles;

/// Bytes of headers that are compared where there is no build id.
const HEADERS: usize = 512;
/// Files that are kept open.
const OPEN: usize = 4096;

/// Files at the paths that the process knew, below folders that somebody said may be looked in, where they are the same: by build
/// id, or by the headers in the image (those of an assembly hold a hash of it). An assembly that the image has nothing of to
/// compare with is used, and counted: the kernel's cores leave out all that was only read.
pub struct LocalFiles {
    roots: Vec<Root>,
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
    /// For an image. `roots` are folders below which the process's paths are looked up: `/proc/PID/root`, an unpacked container
    /// image, `/`. Without any, nothing is opened.
    #[must_use]
    pub fn new(image: &dyn Image, roots: &[PathBuf]) -> Self {
        let roots = roots.iter().filter_map(|root| Root::at(root).ok()).collect();
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
        for root in &self.roots {
            // What the kernel told of a mapping has no links in it.
            let Ok(opened) = root.open(as_path, Links::Refuse) else { continue };
            match self.same(path, &opened.file) {
                Some(true) => return Some(Arc::new(opened.file)),
                None if is_assembly(&opened.file) => {
                    self.unverified.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_vec());
                    return Some(Arc::new(opened.file));
                }
                Some(false) | None => {}
            }
        }
        None
    }

    /// Whether it is the file that was mapped; `None` when nothing tells.
    fn same(&self, path: &[u8], file: &File) -> Option<bool> {
        let known = self.known.get(path)?;
        if let Some(wanted) = &known.build_id {
            let label = Path::new(OsStr::from_bytes(path));
            let found = file.try_clone().ok().and_then(|file| elf::build_id(label, file).ok())?;
            return Some(found.as_ref() == Some(wanted));
        }
        let headers = known.headers.as_ref()?;
        let mut ours = vec![0; headers.len()];
        Some(file.read_exact_at(&mut ours, 0).is_ok() && ours == *headers)
    }
}

/// A PE file. Programs of other kinds have their headers in every core.
fn is_assembly(file: &File) -> bool {
    let mut magic = [0; 2];
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"MZ"
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
