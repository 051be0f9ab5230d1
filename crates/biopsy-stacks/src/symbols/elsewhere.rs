//! Files that are not on this machine: this crate has no network, and asks whoever has.

use std::path::PathBuf;
use std::sync::Arc;

/// Which file of those that have one build id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Wanted {
    /// That with the debug information.
    DebugFile,
    /// The program or library itself, whose unwind information a dump has left out.
    Program,
}

/// Gets files by build id from elsewhere, where whoever runs the program allowed it.
pub trait FilesElsewhere: std::fmt::Debug + Send + Sync {
    /// Where the file with this build id is now, on this machine. It is opened like any other, and believed by its own build id.
    /// `label`: the module that it is for, as messages call it. `None`: nobody has it, or it could not be got; the implementor keeps
    /// which, and tells whoever made it.
    fn get(&self, build_id: &[u8], wanted: Wanted, label: &str) -> Option<PathBuf>;
}

/// Where files of a process may be looked for beside what is being read. By default nowhere.
#[derive(Clone, Default, Debug)]
pub struct FileSources {
    /// Folders below which files are looked for at the paths that the process knew; `/`: this machine.
    pub roots: Vec<PathBuf>,
    /// Who has files that are not here.
    pub elsewhere: Option<Arc<dyn FilesElsewhere>>,
}

impl From<Vec<PathBuf>> for FileSources {
    fn from(roots: Vec<PathBuf>) -> Self {
        Self { roots, elsewhere: None }
    }
}
