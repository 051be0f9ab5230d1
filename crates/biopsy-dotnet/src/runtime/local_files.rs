//! Files of this machine in place of what a dump left out.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use biopsy_files::{Links, Root};
use biopsy_image::{Backing, Image, ImageModule, MemoryExt, mapping};
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
    /// What the image says of each file that it maps from its beginning on.
    known: FxHashMap<Vec<u8>, Known>,
    files: Mutex<FxHashMap<Vec<u8>, Option<Arc<File>>>>,
    unverified: Mutex<Vec<Vec<u8>>>,
}

/// One entry for each time that the file is mapped, where the image has it. The file has to be all of them: reads are by path.
#[derive(Default)]
struct Known {
    build_ids: Vec<Vec<u8>>,
    headers: Vec<Vec<u8>>,
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
        let mut known: FxHashMap<Vec<u8>, Known> = FxHashMap::default();
        for module in image.modules().iter().filter(|module| begins_file(image, module)) {
            let known = known.entry(module.path.clone()).or_default();
            known.build_ids.extend(module.build_id.clone());
            let mut headers = vec![0; HEADERS];
            if image.read_exact(module.start, &mut headers).is_ok() {
                known.headers.push(headers);
            }
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
        if !known.build_ids.is_empty() {
            let label = Path::new(OsStr::from_bytes(path));
            let found = file.try_clone().ok().and_then(|file| elf::build_id(label, file).ok()).flatten();
            return Some(known.build_ids.iter().all(|wanted| found.as_ref() == Some(wanted)));
        }
        if known.headers.is_empty() {
            return None;
        }
        let mut ours = vec![0; HEADERS];
        Some(file.read_exact_at(&mut ours, 0).is_ok() && known.headers.iter().all(|one| *one == ours))
    }
}

/// Whether the file begins where the module does. Of a program that is one file, the runtime also maps the assemblies, which are
/// somewhere in its middle: modules of the same path, below or above the program as chance places them.
pub(super) fn begins_file(image: &dyn Image, module: &ImageModule) -> bool {
    match mapping::find(image.mappings(), module.start).map(|found| &found.backing) {
        Some(Backing::File { offset, .. }) => *offset == 0,
        // Not reported: what a minidump calls a module does.
        Some(Backing::Anonymous { .. } | Backing::Kernel { .. } | Backing::Unknown) | None => true,
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

#[cfg(test)]
mod tests {
    use biopsy_image::{Absence, Mapping, ProcessFacts, Protection, ReadError, Thread};

    use super::*;

    /// A page of the file: address, offset, build id, and the first bytes where they are in the image.
    type Page<'a> = (u64, u64, Option<&'a [u8]>, Option<&'a [u8]>);

    /// Pages of one file.
    struct Mapped {
        mappings: Vec<Mapping>,
        modules: Vec<ImageModule>,
        heads: Vec<(u64, Vec<u8>)>,
        facts: ProcessFacts,
    }

    fn mapped(path: &Path, pieces: &[Page<'_>]) -> Mapped {
        let path = path.as_os_str().as_bytes();
        let protection = Protection { read: true, ..Protection::default() };
        let of = |&(start, offset, _, _): &Page<'_>| Mapping {
            start,
            end: start + 0x1000,
            protection,
            shared: false,
            backing: Backing::File { path: path.to_vec(), offset, deleted: false, identity: (0, 0) },
            not_frozen: false,
        };
        let module = |&(start, _, build_id, _): &Page<'_>| ImageModule {
            start,
            end: start + 0x1000,
            path: path.to_vec(),
            build_id: build_id.map(<[u8]>::to_vec),
            bias: 0,
            is_elf: false,
            deleted: false,
        };
        Mapped {
            mappings: pieces.iter().map(of).collect(),
            modules: pieces.iter().map(module).collect(),
            heads: pieces.iter().filter_map(|one| Some((one.0, one.3?.to_vec()))).collect(),
            facts: ProcessFacts::default(),
        }
    }

    impl Image for Mapped {
        fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
            let found = self.heads.iter().find(|(start, _)| *start == address);
            let (_, head) = found.ok_or(ReadError::Missing { address, why: Absence::LeftOut })?;
            let length = head.len().min(buffer.len());
            buffer[..length].copy_from_slice(&head[..length]);
            Ok(length)
        }

        fn mappings(&self) -> &[Mapping] {
            &self.mappings
        }

        fn threads(&self) -> &[Thread] {
            &[]
        }

        fn modules(&self) -> &[ImageModule] {
            &self.modules
        }

        fn process(&self) -> &ProcessFacts {
            &self.facts
        }
    }

    /// How many bytes are read, and how many files could not be compared.
    fn read(image: &Mapped, path: &Path) -> (usize, usize) {
        let files = LocalFiles::new(image, &["/".into()]);
        let read = files.read(path.as_os_str().as_bytes(), 0, &mut [0; 16]);
        (read, files.unverified().len())
    }

    fn file(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        // What the kernel tells of a mapping has no links in it.
        let path = folder.path().canonicalize().unwrap().join("program");
        std::fs::write(&path, bytes).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_is_compared_with_where_it_begins_wherever_its_pieces_are() {
        let (ours, other) = ([7; HEADERS], [8; HEADERS]);
        let (_folder, path) = file(&[ours, other].concat());
        let middle = (0x1000, HEADERS as u64, None, Some(&other[..]));
        let begin = (0x5000, 0, None, Some(&ours[..]));
        let above = (0x9000, HEADERS as u64, None, Some(&other[..]));
        assert_eq!(read(&mapped(&path, &[middle, begin, above]), &path), (16, 0));
        // Another file; twice mapped, and another one since the first time; nothing known of it.
        let wrong = (0x5000, 0, None, Some(&other[..]));
        let twice = (0x7000, 0, None, Some(&other[..]));
        for pieces in [&[middle, wrong][..], &[begin, twice], &[middle], &[]] {
            assert_eq!(read(&mapped(&path, pieces), &path), (0, 0), "{pieces:?}");
        }
    }

    #[test]
    fn what_has_a_build_id_in_the_dump_is_no_file_without_one() {
        let mut assembly = [7; HEADERS];
        assembly[..2].copy_from_slice(b"MZ");
        let (_folder, path) = file(&assembly);
        let nothing_there = (0x5000, 0, None, None);
        assert_eq!(read(&mapped(&path, &[nothing_there]), &path), (16, 1));
        let with_id = (0x5000, 0, Some(&[1; 20][..]), Some(&assembly[..]));
        assert_eq!(read(&mapped(&path, &[with_id]), &path), (0, 0));
    }
}
