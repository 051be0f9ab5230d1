//! A port that runtimes connect to while they start, so that nothing of them is missed.
//!
//! A runtime that is started with `DOTNET_DiagnosticPorts=PATH,suspend` connects to PATH before it does anything else,
//! says who it is, and waits until it is told to go on. With `nosuspend` it says so and does not wait.

use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use biopsy_bytes::{Cursor, ReadError, ReadErrorKind};
use biopsy_model::Pid;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::Connection;
use crate::error::IpcError;
use crate::wire::{Payload, commands};

/// First bytes of what a runtime says when it connects.
const MAGIC: [u8; 8] = *b"ADVR_V1\0";
/// All it says.
const ADVERTISE_BYTES: usize = 34;
/// How long a connection may take to say it.
const ADVERTISE_WITHIN: Duration = Duration::from_secs(2);

/// Listens for runtimes that start. Its folder is removed when it is dropped.
#[derive(Debug)]
pub struct ReversePort {
    listener: UnixListener,
    folder: PathBuf,
    path: PathBuf,
    /// Somebody was given a value that makes runtimes wait.
    suspends: AtomicBool,
}

/// A runtime that has connected.
#[derive(Debug)]
pub struct Arrival {
    /// Its process, as seen from here.
    pub pid: Pid,
    /// Its pid as it sees it itself.
    pub own_pid: u64,
    /// Unique for each start of a runtime.
    pub cookie: [u8; 16],
    stream: UnixStream,
}

impl ReversePort {
    /// Listens in a fresh folder of mode 0700 below `parent`. `announce` is called with its path before it is made, for whoever
    /// removes it should the program end in between.
    ///
    /// # Errors
    /// [`IpcError::Listen`].
    pub fn listen(parent: &Path, announce: impl Fn(&Path)) -> Result<Self, IpcError> {
        let mut tries = 0;
        let (folder, path) = loop {
            let unique = Instant::now().elapsed().subsec_nanos() ^ u32::try_from(tries).unwrap_or(0);
            let folder = parent.join(format!("biopsy-port-{}-{tries}-{unique:x}", std::process::id()));
            announce(&folder);
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => {
                    let path = folder.join("runtimes");
                    break (folder, path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < 100 => tries += 1,
                Err(source) => return Err(IpcError::Listen { path: folder, source }),
            }
        };
        match UnixListener::bind(&path).and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        {
            Ok(listener) => Ok(Self { listener, folder, path, suspends: AtomicBool::new(false) }),
            Err(source) => {
                remove(&folder, &path);
                Err(IpcError::Listen { path, source })
            }
        }
    }

    /// Value of `DOTNET_DiagnosticPorts` for processes that should connect here.
    #[must_use]
    pub fn variable(&self, suspend: bool) -> String {
        self.suspends.fetch_or(suspend, Ordering::Relaxed);
        format!("{},{}", self.path.display(), if suspend { "suspend" } else { "nosuspend" })
    }

    /// Whether [`Self::variable`] was asked for one that makes runtimes wait: processes may hand it on to their children.
    #[must_use]
    pub fn suspends(&self) -> bool {
        self.suspends.load(Ordering::Relaxed)
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next runtime that connects; `None`: none did within this time. What connects and is no runtime is closed.
    pub fn next(&self, within: Duration) -> Option<Arrival> {
        let deadline = Instant::now() + within;
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(arrival) = Arrival::read(stream) {
                        return Some(arrival);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return None;
                    }
                    let wait = Timespec {
                        tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
                        tv_nsec: left.subsec_nanos().into(),
                    };
                    if poll(&mut [PollFd::new(&self.listener, PollFlags::IN)], Some(&wait)).is_err() {
                        std::thread::sleep(left.min(Duration::from_millis(10)));
                    }
                }
                Err(_) => {
                    // No descriptor is left, or it was aborted on the way: others may come.
                    if Instant::now() >= deadline {
                        return None;
                    }
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    }
}

impl Drop for ReversePort {
    fn drop(&mut self) {
        remove(&self.folder, &self.path);
    }
}

/// By name: looking into the folder first takes descriptors, which may be what is short.
fn remove(folder: &Path, path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_dir(folder);
}

impl Arrival {
    fn read(mut stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(ADVERTISE_WITHIN))?;
        let owner = getsockopt(&stream, sockopt::PeerCredentials)?;
        let mut bytes = [0; ADVERTISE_BYTES];
        stream.read_exact(&mut bytes)?;
        let (cookie, own_pid) = parse_advertise(&bytes).map_err(io::Error::other)?;
        let pid = u32::try_from(owner.pid()).ok().filter(|pid| *pid != 0);
        let pid = pid.or_else(|| u32::try_from(own_pid).ok()).unwrap_or(0);
        Ok(Self { pid: Pid(pid), own_pid, cookie, stream })
    }

    /// Lets a runtime that waits at its start go on; nothing happens where it does not wait.
    ///
    /// # Errors
    /// [`IpcError`].
    pub fn resume(self, within: Duration) -> Result<(), IpcError> {
        Connection::ask(self.pid, self.stream, commands::RESUME, &Payload::default(), within)?
            .answer()
            .map(|_| ())
    }
}

/// Cookie and pid of what a runtime says when it connects.
pub(crate) fn parse_advertise(bytes: &[u8]) -> Result<([u8; 16], u64), ReadError> {
    let mut cursor = Cursor::new(bytes);
    let before = cursor;
    if cursor.array::<8>("magic")? != MAGIC {
        let found = u64::from_le_bytes(before.rest().first_chunk().copied().unwrap_or_default());
        let expected = u64::from_le_bytes(MAGIC);
        return Err(before.error("magic", ReadErrorKind::Unexpected { expected, found }));
    }
    let cookie = cursor.array("runtime cookie")?;
    let pid = cursor.u64("process id")?;
    cursor.u16("reserved")?;
    Ok((cookie, pid))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_runtime_announces_itself_and_is_let_go() {
        let parent = std::env::temp_dir();
        let port = ReversePort::listen(&parent, |_| ()).unwrap();
        let path = port.path().to_owned();
        assert!(port.next(Duration::from_millis(1)).is_none());
        let runtime = std::thread::spawn(move || {
            // Something else connects first.
            UnixStream::connect(&path)
                .unwrap()
                .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n    ")
                .unwrap();
            let mut stream = UnixStream::connect(&path).unwrap();
            let mut bytes = MAGIC.to_vec();
            bytes.extend([7; 16]);
            bytes.extend(4711_u64.to_le_bytes());
            bytes.extend([0, 0]);
            stream.write_all(&bytes).unwrap();
            let mut command = [0; 20];
            stream.read_exact(&mut command).unwrap();
            assert_eq!(command[16..18], [4, 1]);
            stream.write_all(b"DOTNET_IPC_V1\0\x14\x00\xff\x00\x00\x00").unwrap();
        });
        let arrival = port.next(Duration::from_secs(30)).unwrap();
        assert_eq!((arrival.own_pid, arrival.cookie), (4711, [7; 16]));
        assert_eq!(arrival.pid.0, std::process::id(), "as the kernel says");
        arrival.resume(Duration::from_secs(30)).unwrap();
        runtime.join().unwrap();
        let folder = port.path().parent().unwrap().to_owned();
        drop(port);
        assert!(!folder.exists());
    }
}
