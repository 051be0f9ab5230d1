//! Files that JIT compilers append to while we read, kept open by path.

use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::problem::SymbolProblem;

/// An index of such a file.
pub(super) trait JitIndex: Sized {
    /// Opens and reads it; `owner`: who it must belong to, unless to root.
    fn open(path: &Path, owner: Option<u32>) -> io::Result<Self>;
    /// Another file lies at the path now, or this one was cut.
    fn is_stale(&self, path: &Path) -> bool;
    /// Reads what was appended.
    fn refresh(&mut self) -> io::Result<()>;
}

/// All files of one kind. `None`: it cannot be used, and that was told.
#[derive(Debug)]
pub(super) struct JitFiles<T>(FxHashMap<PathBuf, Option<T>>);

impl<T> Default for JitFiles<T> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<T: JitIndex> JitFiles<T> {
    /// The file at `path`, up to date. One that is missing is no problem (most processes have no JIT compiler, and some
    /// begin to write late) and is looked for again at the next call; so is one that ends in its header: compilers map the
    /// file, which is how its path becomes known, and have a buffer of megabytes before it (V8, `libperf-jvmti.so`). One that
    /// is gone stays readable: the target may have ended.
    pub(super) fn get(
        &mut self,
        path: &Path,
        owner: Option<u32>,
        problems: &mut Vec<SymbolProblem>,
    ) -> Option<&T> {
        let mut problem = |source| problems.push(SymbolProblem::Jit { path: path.to_owned(), source });
        let reopen = match self.0.get_mut(path) {
            None => true,
            Some(None) => false,
            Some(Some(file)) if file.is_stale(path) => true,
            Some(Some(file)) => {
                if let Err(error) = file.refresh() {
                    problem(error);
                }
                false
            }
        };
        if reopen {
            match T::open(path, owner) {
                Ok(file) => drop(self.0.insert(path.to_owned(), Some(file))),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {}
                Err(error) => {
                    problem(error);
                    self.0.insert(path.to_owned(), None);
                }
            }
        }
        self.0.get(path)?.as_ref()
    }
}

/// Whether the file at `path` is another one than `identity` (device, inode), or shorter than what was read of it.
/// `false` where there is none any more.
pub(super) fn is_replaced(path: &Path, identity: (u64, u64), read: u64) -> bool {
    use std::os::unix::fs::MetadataExt;
    let now = biopsy_files::open(path, biopsy_files::Links::Follow).map(|opened| opened.file.metadata());
    now.is_ok_and(|now| now.is_ok_and(|now| (now.dev(), now.ino()) != identity || now.len() < read))
}
