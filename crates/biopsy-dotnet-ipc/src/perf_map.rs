//! The file of method names for `perf`, without leaving it in the target's folder.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use crate::client::Client;
use crate::error::IpcError;
use crate::port::open_folder;
use crate::target::TargetFacts;

/// `PerfMapType`: the map alone, without the code of methods.
const MAP: u32 = 3;

/// A perf map that is being written. It has no name any more: when the runtime and this are done with it, it is gone.
/// Dropping this switches it off.
#[derive(Debug)]
pub struct PerfMap {
    client: Client,
    file: File,
}

impl PerfMap {
    /// What the runtime has written and writes: `START SIZE NAME` a line, numbers in hexadecimal.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for PerfMap {
    fn drop(&mut self) {
        // It has ended, or will write on into a file without a name until it ends: no more can be done.
        let _ = self.client.disable_perf_map();
    }
}

pub(crate) fn enable(
    client: &Client,
    command: impl FnOnce(u32) -> Result<(), IpcError>,
) -> Result<PerfMap, IpcError> {
    let pid = client.port().pid();
    let failed = |source: io::Error| IpcError::Io { pid, command: "EnablePerfMap", source };
    let facts = TargetFacts::read(Path::new("/proc"), pid).ok_or(IpcError::Ended { pid })?;
    let folder = facts
        .environment()
        .ok()
        .and_then(|environment| Some(environment.setting("PerfMapJitDumpPath")?.1.to_vec()))
        .filter(|folder| !folder.is_empty())
        .map_or_else(
            || PathBuf::from("/tmp"),
            |folder| PathBuf::from(String::from_utf8_lossy(&folder).into_owned()),
        );
    let folder = open_folder(&facts, &folder).ok_or_else(|| {
        failed(io::Error::new(io::ErrorKind::NotFound, "its folder for perf maps cannot be opened"))
    })?;
    let name = format!("perf-{}.map", facts.ns_pid);
    if rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        let message = format!("`{name}` is there already: another tool reads it, or left it behind");
        return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, message)));
    }
    command(MAP)?;
    let in_folder = format!("/proc/self/fd/{}/{name}", folder.as_raw_fd());
    let opened =
        rustix::fs::open(in_folder, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    // What older runtimes write beside it; absent elsewhere.
    for left in [name, format!("perfinfo-{}.map", facts.ns_pid)] {
        let _ = rustix::fs::unlinkat(&folder, left, AtFlags::empty());
    }
    match opened {
        Ok(file) => Ok(PerfMap { client: client.clone(), file: file.into() }),
        Err(error) => {
            let _ = client.disable_perf_map();
            Err(failed(error.into()))
        }
    }
}
