//! Source lines of managed code, from the debug information beside its assemblies.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_dotnet::metadata::pdb::{Pdb, SourceLine, find_pdb};
use biopsy_files::Links;
use rustc_hash::FxHashMap;

/// Larger assemblies are not read for it: nobody writes 64 MB of code.
const LARGEST: u64 = 64 << 20;
/// Assemblies whose debug information is held.
const ASSEMBLIES: usize = 512;

/// Debug information by assembly, of one process.
pub(super) struct Lines {
    root: PathBuf,
    known: FxHashMap<Arc<str>, Option<Pdb>>,
}

impl Lines {
    pub(super) fn new(pid: u32) -> Self {
        Self { root: PathBuf::from(format!("/proc/{pid}/root")), known: FxHashMap::default() }
    }

    /// Whether there is debug information of an assembly.
    pub(super) fn has(&mut self, assembly: &str) -> bool {
        self.find(assembly).is_some()
    }

    /// The line of a place in a method. Without an IL offset: the method's first.
    pub(super) fn line(&mut self, assembly: &str, token: u32, il: Option<u32>) -> Option<SourceLine> {
        self.find(assembly)?.line(token, il)
    }

    fn find(&mut self, assembly: &str) -> Option<&Pdb> {
        if !self.known.contains_key(assembly) {
            let read = if self.known.len() < ASSEMBLIES { self.read(Path::new(assembly)) } else { None };
            self.known.insert(Arc::from(assembly), read);
        }
        self.known.get(assembly)?.as_ref()
    }

    fn read(&self, assembly: &Path) -> Option<Pdb> {
        let path = self.root.join(assembly.strip_prefix("/").ok()?);
        let file = biopsy_files::open(&path, Links::Follow).ok()?.file;
        if file.metadata().ok()?.len() > LARGEST {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(LARGEST).read_to_end(&mut bytes).ok()?;
        match find_pdb(&bytes, assembly, &self.root) {
            Ok(found) => found.map(|(pdb, _)| pdb),
            Err(error) => {
                tracing::debug!(assembly = %assembly.display(), %error, "debug information");
                None
            }
        }
    }
}
