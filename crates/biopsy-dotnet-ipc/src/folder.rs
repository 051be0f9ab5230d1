//! Folders as the process sees them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::target::TargetFacts;

/// Entries of a folder of temporary files that are looked through.
const MOST_ENTRIES: usize = 100_000;

/// Opens a folder that the process sees, without leaving its root: a link in a container must not lead to our files.
pub(crate) fn open_folder(facts: &TargetFacts, folder: &Path) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let (start, below) = match folder.strip_prefix("/") {
        Ok(below) => ("root", below),
        Err(_) => ("cwd", folder),
    };
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    match rustix::fs::open(facts.path(start), flags, Mode::empty()) {
        Ok(root) => match rustix::fs::openat2(&root, below, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
            // Before Linux 5.6.
            Err(rustix::io::Errno::NOSYS) => rustix::fs::openat(&root, below, flags, Mode::empty()).ok(),
            opened => opened.ok(),
        },
        // Not allowed to see its root: where that is ours too, the plain path is right; the start time in the name and the
        // owner of the socket are checked anyway.
        Err(_) => rustix::fs::open(folder, flags, Mode::empty()).ok(),
    }
}

/// Sockets of other starts of the same pid, in this folder.
pub(crate) fn stale(facts: &TargetFacts, folder: &Path, name: &str) -> Option<String> {
    let opened = open_folder(facts, folder)?;
    let listing = std::fs::read_dir(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
    let start = format!("dotnet-diagnostic-{}-", facts.ns_pid);
    listing.take(MOST_ENTRIES).flatten().find_map(|entry| {
        let found = entry.file_name().into_string().ok()?;
        (found.starts_with(&start) && found.ends_with("-socket") && found != name).then_some(found)
    })
}
