//! Where paths lead: from our root, or from the root of a process in a container.
//!
//! Inside of another root links stay in it, where `/proc/PID/root/link` would lead to a file of the host.

use std::fs::{self, ReadDir};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_model::Pid;

/// What paths are resolved from.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// Our own root.
    Here,
    /// Another one.
    Inside(Arc<Root>),
}

/// The open root folder of a process.
#[derive(Debug)]
pub(crate) struct Root {
    files: biopsy_files::Root,
    shown: PathBuf,
}

impl Root {
    /// The root of a process, when files look different from there than from here.
    ///
    /// # Errors
    /// When it cannot be opened: the process has ended, or may not be traced.
    pub(crate) fn of(pid: Pid) -> io::Result<Option<Root>> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let same = |name: &str| -> io::Result<bool> {
            Ok(fs::read_link(process.join(name))? == fs::read_link(Path::new("/proc/self").join(name))?)
        };
        if same("ns/mnt")? && same("root")? {
            return Ok(None);
        }
        Root::at(process.join("root")).map(Some)
    }

    /// A folder taken as a root.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn at(folder: PathBuf) -> io::Result<Root> {
        Ok(Root { files: biopsy_files::Root::at(&folder)?, shown: folder })
    }
}

/// A root that is held already, or one that was opened for this path.
pub(super) enum Files<'a> {
    Held(&'a biopsy_files::Root),
    Own(biopsy_files::Root),
}

impl std::ops::Deref for Files<'_> {
    type Target = biopsy_files::Root;
    fn deref(&self) -> &Self::Target {
        match self {
            Self::Held(root) => root,
            Self::Own(root) => root,
        }
    }
}

impl Place {
    /// The path for people.
    pub(crate) fn shown(&self, path: &Path) -> String {
        match self {
            Place::Here => path.display().to_string(),
            Place::Inside(root) => {
                root.shown.join(path.strip_prefix("/").unwrap_or(path)).display().to_string()
            }
        }
    }

    /// The root that a path is resolved in, and the path in it.
    pub(super) fn root(&self, path: &Path) -> io::Result<(Files<'_>, PathBuf)> {
        match self {
            Place::Here => {
                Ok((Files::Own(biopsy_files::Root::at(Path::new("/"))?), std::path::absolute(path)?))
            }
            Place::Inside(root) => Ok((Files::Held(&root.files), path.to_owned())),
        }
    }

    /// Whether there is something of that name, be it a link that leads nowhere.
    pub(crate) fn has(&self, path: &Path) -> bool {
        self.root(path).is_ok_and(|(root, path)| root.has(&path))
    }

    /// The entries of a folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn entries(&self, folder: &Path) -> io::Result<ReadDir> {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let (root, folder) = self.root(folder)?;
        let handle = root.open_folder(&folder)?;
        fs::read_dir(format!("/proc/self/fd/{}", handle.as_raw_fd()))
    }
}
