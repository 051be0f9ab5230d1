//! The files that were mapped, where this machine has the very same ones.

use super::options::Options;
use super::record::Mapping;
use biopsy_stacks::elf::{ElfCache, ElfFile};
use rustc_hash::FxHashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// What tells one version of a file from another.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Identity {
    path: String,
    build_id: Option<Vec<u8>>,
    inode: Option<u64>,
}

/// A file that is certain to be the one that was mapped.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) file: Arc<ElfFile>,
    pub(crate) path: PathBuf,
}

/// Opens files once.
#[derive(Debug)]
pub(crate) struct Files {
    options: Options,
    pub(crate) cache: Arc<ElfCache>,
    known: FxHashMap<Identity, Option<Found>>,
    /// Files that are not there, or are other ones, by path.
    pub(crate) missing: Vec<String>,
}

/// Missing files that are named in a warning.
const NAMED: usize = 20;

impl Files {
    pub(crate) fn new(options: &Options) -> Files {
        Files {
            options: options.clone(),
            cache: Arc::new(ElfCache::without_links(biopsy_stacks::elf::Limits::default())),
            known: FxHashMap::default(),
            missing: Vec::new(),
        }
    }

    /// The file of a mapping.
    pub(crate) fn find(&mut self, mapping: &Mapping) -> Option<Found> {
        if !is_file(&mapping.path) {
            return None;
        }
        let identity =
            Identity { path: mapping.path.clone(), build_id: mapping.build_id.clone(), inode: mapping.inode };
        if let Some(known) = self.known.get(&identity) {
            return known.clone();
        }
        let found = self.open(&identity);
        if found.is_none() && self.missing.len() < NAMED && !self.missing.contains(&mapping.path) {
            self.missing.push(mapping.path.clone());
        }
        self.known.insert(identity, found.clone());
        found
    }

    fn open(&self, identity: &Identity) -> Option<Found> {
        let path = Path::new(identity.path.strip_suffix(" (deleted)").unwrap_or(&identity.path));
        let inside: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
        let cached = self.in_cache(identity);
        for path in self.options.sources.roots.iter().map(|root| root.join(&inside)).chain(cached) {
            let Ok(file) = self.cache.open(&identity.path, std::slice::from_ref(&path)) else { continue };
            let same = match &identity.build_id {
                Some(build_id) => file.build_id() == Some(build_id),
                None => identity.inode.is_some() && file.inode() == identity.inode,
            };
            if same {
                return Some(Found { file, path });
            }
        }
        None
    }

    /// Where perf keeps a copy: `~/.debug/.build-id/ab/cdef.../elf`.
    fn in_cache(&self, identity: &Identity) -> Option<PathBuf> {
        let folder = self.options.build_id_cache.as_ref()?;
        let hex: String = identity.build_id.as_ref()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let (first, rest) = hex.split_at_checked(2)?;
        Some(folder.join(".build-id").join(first).join(rest).join("elf"))
    }
}

/// Names that begin with a slash and are no file of a file system: perf's `//anon`, shared memory, devices.
pub(crate) fn is_file(path: &str) -> bool {
    path.starts_with('/')
        && !["//anon", "/dev/", "/memfd:", "/SYSV", "/anon_hugepage"]
            .iter()
            .any(|other| path.starts_with(other))
}
