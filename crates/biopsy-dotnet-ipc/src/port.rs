//! Where a process listens, found through its own eyes.
//!
//! A runtime makes `$TMPDIR/dotnet-diagnostic-PID-START-socket`, where PID is the one it has in its own pid namespace and
//! START the 22nd field of its `/proc/self/stat`. The folder is the one that *it* sees: of its mount namespace, by its
//! environment.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use biopsy_model::Pid;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::fs::{AtFlags, FileType};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::error::{IpcError, NoSocket};
use crate::folder::open_folder;
use crate::missing;
use crate::target::{TargetFacts, read_some};

/// Where runtimes put sockets when nothing else is said.
const DEFAULT_FOLDER: &str = "/tmp";

/// The diagnostics socket of one process.
#[derive(Clone, Debug)]
pub struct DiagnosticPort {
    pid: Pid,
    uid: u32,
    folder: Arc<OwnedFd>,
    name: String,
    shown: PathBuf,
}

impl DiagnosticPort {
    /// Finds it. Nothing is sent: whether somebody listens is shown by the first command.
    ///
    /// # Errors
    /// [`IpcError::Ended`], or [`IpcError::NoSocket`] with the reason.
    pub fn find(pid: Pid) -> Result<Self, IpcError> {
        Self::find_in(Path::new("/proc"), pid)
    }

    /// As [`Self::find`], with another `/proc`.
    ///
    /// # Errors
    /// As [`Self::find`].
    pub fn find_in(proc_folder: &Path, pid: Pid) -> Result<Self, IpcError> {
        let facts = TargetFacts::read(proc_folder, pid).filter(|facts| !facts.has_ended());
        let facts = facts.ok_or(IpcError::Ended { pid })?;
        let name = socket_name(&facts);
        let folders = folders(&facts);
        for folder in &folders {
            if let Some(port) = Self::at(&facts, folder, &name) {
                return Ok(port);
            }
        }
        // A process that changed its environment before the runtime started has it elsewhere; the kernel knows where.
        for folder in bound_at(&facts, &name) {
            if let Some(port) = Self::at(&facts, &folder, &name) {
                return Ok(port);
            }
        }
        let wanted = folders.into_iter().next().unwrap_or_else(|| DEFAULT_FOLDER.into());
        Err(IpcError::NoSocket { pid, why: missing::reason(&facts, &wanted, &name) })
    }

    fn at(facts: &TargetFacts, folder: &Path, name: &str) -> Option<Self> {
        let opened = open_folder(facts, folder)?;
        let found = rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(found.st_mode) == FileType::Socket).then(|| Self {
            pid: facts.pid,
            uid: facts.uid,
            folder: Arc::new(opened),
            name: name.to_owned(),
            shown: folder.join(name),
        })
    }

    /// Whose it is.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// The socket, as the process sees it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shown
    }

    /// Connects, and checks that the process itself listens there.
    pub(crate) fn connect(&self, within: Duration) -> Result<UnixStream, IpcError> {
        let failed =
            |source: std::io::Error| IpcError::Connect { pid: self.pid, path: self.shown.clone(), source };
        let connect = || -> Result<OwnedFd, rustix::io::Errno> {
            let socket = rustix::net::socket_with(
                AddressFamily::UNIX,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )?;
            // Also limits connect(2), which waits while as many wait already as the server wants in its queue.
            set_socket_timeout(&socket, Timeout::Send, Some(within))?;
            set_socket_timeout(&socket, Timeout::Recv, Some(within))?;
            // Through the open folder: a path as the target sees it may be longer than the 107 bytes of an address, and
            // would lead elsewhere in our mount namespace.
            let path = format!("/proc/self/fd/{}/{}", self.folder.as_raw_fd(), self.name);
            rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
            Ok(socket)
        };
        let socket = match connect() {
            Ok(socket) => socket,
            Err(rustix::io::Errno::AGAIN) => {
                return Err(IpcError::Silent {
                    pid: self.pid,
                    command: "connect",
                    waited: within,
                    why: crate::Silence::of(self.pid),
                });
            }
            // Nobody listens: it closed its server, or has ended between two looks.
            Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT)
                if TargetFacts::read(Path::new("/proc"), self.pid).is_none_or(|facts| facts.has_ended()) =>
            {
                return Err(IpcError::Ended { pid: self.pid });
            }
            Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => {
                return Err(IpcError::NoSocket { pid: self.pid, why: NoSocket::Exiting });
            }
            Err(error) => return Err(failed(error.into())),
        };
        let owner = getsockopt(&socket, sockopt::PeerCredentials).map_err(|error| failed(error.into()))?;
        let found_pid = u32::try_from(owner.pid()).unwrap_or(0);
        // In another pid namespace the number may be hidden (0); the user is told in ours always.
        if (found_pid != self.pid.0 && found_pid != 0) || owner.uid() != self.uid {
            return Err(IpcError::WrongOwner { pid: self.pid, found_pid, found_uid: owner.uid() });
        }
        Ok(UnixStream::from(socket))
    }
}

/// Name of the socket of this very process.
fn socket_name(facts: &TargetFacts) -> String {
    format!("dotnet-diagnostic-{}-{}-socket", facts.ns_pid, facts.start_ticks)
}

/// Folders it may be in, as the process sees them.
fn folders(facts: &TargetFacts) -> Vec<PathBuf> {
    let environment = facts.environment();
    let of_environment = environment.as_ref().ok().and_then(|environment| environment.get("TMPDIR"));
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(folder) = of_environment.filter(|folder| !folder.is_empty()) {
        folders.push(std::ffi::OsStr::from_bytes(folder).into());
    }
    // Where its environment may not be read: the same user, protected; it likely has the same folder.
    if environment.is_err()
        && let Some(own) = std::env::var_os("TMPDIR").filter(|own| !own.is_empty())
    {
        folders.push(own.into());
    }
    folders.push(DEFAULT_FOLDER.into());
    folders
}

/// Folders in which the kernel knows a socket of this name to be bound.
fn bound_at(facts: &TargetFacts, name: &str) -> Vec<PathBuf> {
    let table = read_some(&facts.path("net/unix")).unwrap_or_default();
    let ending = format!("/{name}");
    let found = table.split(|byte| *byte == b'\n').filter(|line| line.ends_with(ending.as_bytes()));
    found
        .filter_map(|line| {
            // Num RefCount Protocol Flags Type St Inode Path; the path may hold spaces.
            let mut rest = line;
            for _ in 0..7 {
                let rest_of = rest.trim_ascii_start();
                rest = rest_of.get(rest_of.iter().position(u8::is_ascii_whitespace)?..)?;
            }
            let path = rest.get(1..rest.len().checked_sub(ending.len())?)?;
            Some(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
        })
        .collect()
}
