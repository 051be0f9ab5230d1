//! Files that the kernel makes up: below `/proc` and `/sys`. Nobody else can put anything there.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Most bytes of one: the mappings of a process with a million of them have 100 MB.
const MOST: u64 = 256 << 20;

/// Opens such a file for reading. Links of a process that lead out of there (`/proc/PID/root`, `exe`, `fd/3`) are not followed.
///
/// # Errors
/// What the kernel says; ELOOP of such a link.
pub fn open_kernels(path: impl AsRef<Path>) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = rustix::fs::openat2(CWD, path.as_ref(), flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS);
    Ok(File::from(opened?))
}

/// Reads such a file.
///
/// # Errors
/// What the kernel says.
pub fn read_kernels(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_kernels(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_processes_lead_nowhere() {
        assert!(!read_kernels("/proc/self/stat").unwrap().is_empty());
        for outside in ["/proc/self/root/etc/passwd", "/proc/self/exe", "/proc/self/fd/0"] {
            let error = open_kernels(outside).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()), "{outside}");
        }
    }
}
