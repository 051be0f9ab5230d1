//! Where a recorder of the last minutes is found: a socket in a folder of its user.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use biopsy_model::ProcessKey;
use nix::sys::socket::sockopt::PeerCredentials;

/// What a recorder of the last minutes has in the folder of all of them.
#[derive(Clone, Debug)]
pub struct RecentPlace {
    folder: PathBuf,
    stem: String,
}

impl RecentPlace {
    /// Of the recorder of a process, in this folder, which is its user's alone.
    #[must_use]
    pub fn of(folder: &Path, target: &ProcessKey) -> Self {
        Self { folder: folder.to_owned(), stem: format!("{}-{}", target.pid.0, target.start_ticks) }
    }

    /// The folder of a recording while it may still become one.
    pub(super) fn draft(&self) -> PathBuf {
        self.folder.join(format!("{}.recording", self.stem))
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.folder.join(format!("{}.socket", self.stem))
    }

    /// Listens there. What an ended recorder has left is replaced.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        // Nothing is there, as a rule.
        let _ = std::fs::remove_file(self.socket());
        self.short(|path| UnixListener::bind(path))
    }

    pub(super) fn connect(&self) -> io::Result<UnixStream> {
        self.short(|path| UnixStream::connect(path))
    }

    /// A path of a socket has 107 bytes at most, a folder may have more: it is named by its descriptor.
    fn short<T>(&self, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.folder, flags, rustix::fs::Mode::empty())?;
        with(Path::new(&format!("/proc/self/fd/{}/{}.socket", folder.as_raw_fd(), self.stem)))
    }
}

/// Whether somebody at the other end may ask: the user himself, or root.
pub(super) fn may_ask(stream: &UnixStream) -> bool {
    let me = rustix::process::geteuid().as_raw();
    nix::sys::socket::getsockopt(stream, PeerCredentials).is_ok_and(|peer| [0, me].contains(&peer.uid()))
}
