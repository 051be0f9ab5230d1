//! Where paths lead: from our root, or from the root of a process in a container.
//!
//! Inside of another root every path is resolved by openat2(2) with `RESOLVE_IN_ROOT`: links of the container stay
//! in the container, where `/proc/PID/root/link` would lead to a file of the host.

use std::fs::{self, File, ReadDir};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use biopsy_model::Pid;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

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
    dir: OwnedFd,
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
    /// When it cannot be opened, or the kernel has no openat2(2) (before Linux 5.6).
    pub(crate) fn at(folder: PathBuf) -> io::Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, &folder, flags, Mode::empty())?;
        let root = Root { dir, shown: folder };
        root.resolve(Path::new("/"), true)?;
        Ok(root)
    }

    /// A handle on what a path means, without opening it for reading.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn resolve(&self, path: &Path, follow: bool) -> io::Result<File> {
        let mut flags = OFlags::PATH | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, !follow);
        let rules = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(File::from(rustix::fs::openat2(&self.dir, path, flags, Mode::empty(), rules)?))
    }
}

/// The path by which we reach an open file.
pub(crate) fn by_handle(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
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

    /// Whether there is something of that name, be it a link that leads nowhere.
    pub(crate) fn has(&self, path: &Path) -> bool {
        match self {
            Place::Here => fs::symlink_metadata(path).is_ok(),
            Place::Inside(root) => root.resolve(path, false).is_ok(),
        }
    }

    /// The entries of a folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn entries(&self, folder: &Path) -> io::Result<ReadDir> {
        match self {
            Place::Here if folder.as_os_str().is_empty() => fs::read_dir("."),
            Place::Here => fs::read_dir(folder),
            Place::Inside(root) => fs::read_dir(by_handle(&root.resolve(folder, true)?)),
        }
    }
}
