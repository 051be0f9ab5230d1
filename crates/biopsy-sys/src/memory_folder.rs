//! A folder that is in memory and in no tree of files: fsopen(2), fsconfig(2), fsmount(2). It is there as long as its descriptor, and gone with whoever
//! is killed; nobody finds it by a name, and where the kernel can (6.4), nothing of it is swapped out.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr;

/// From linux/mount.h; libc has the numbers of the calls alone.
const FSOPEN_CLOEXEC: libc::c_long = 1;
const FSCONFIG_SET_FLAG: libc::c_long = 0;
const FSCONFIG_SET_STRING: libc::c_long = 1;
const FSCONFIG_CMD_CREATE: libc::c_long = 6;
const FSMOUNT_CLOEXEC: libc::c_long = 1;
const MOUNT_ATTR_NOSUID: libc::c_long = 2;
const MOUNT_ATTR_NODEV: libc::c_long = 4;
const MOUNT_ATTR_NOEXEC: libc::c_long = 8;

/// Where descriptors of this process are by name.
const BY_DESCRIPTOR: &str = "/proc/self/fd";

/// The folder.
#[derive(Debug)]
pub struct MemoryFolder {
    /// Keeps it.
    _mount: OwnedFd,
    path: PathBuf,
    /// Nothing of it can be swapped out.
    pub stays_in_memory: bool,
}

impl MemoryFolder {
    /// One that takes so many bytes, of which memory is used as they are written. It needs CAP_SYS_ADMIN and Linux 5.2.
    ///
    /// # Errors
    /// What the kernel says: EPERM without the capability, ENOSYS on older ones.
    pub fn new(most_bytes: u64) -> io::Result<Self> {
        // SAFETY: the first argument is a string that ends, which the call reads; the other is a number.
        let context =
            crate::check(unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), FSOPEN_CLOEXEC) })?;
        let context = owned(context)?;
        // A kernel that knows no strings for sizes beyond its own is none that has these calls.
        let size = std::ffi::CString::new(most_bytes.to_string()).map_err(io::Error::other)?;
        configure(&context, FSCONFIG_SET_STRING, Some(c"size"), Some(&size))?;
        configure(&context, FSCONFIG_SET_STRING, Some(c"mode"), Some(c"0700"))?;
        let stays_in_memory = configure(&context, FSCONFIG_SET_FLAG, Some(c"noswap"), None).is_ok();
        configure(&context, FSCONFIG_CMD_CREATE, None, None)?;
        let attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
        // SAFETY: the descriptor is open; the others are numbers.
        let mount = crate::check(unsafe {
            libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, attributes)
        })?;
        let mount = owned(mount)?;
        let path = Path::new(BY_DESCRIPTOR).join(mount.as_raw_fd().to_string());
        // Without /proc nothing is reached by its descriptor.
        std::fs::metadata(&path)?;
        Ok(Self { _mount: mount, path, stays_in_memory })
    }

    /// A name by which this process reaches it, as long as this value lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether a name is one by which a process reaches what it has open: of no use to anybody else, and to nobody when it has ended.
#[must_use]
pub fn is_by_descriptor(path: &Path) -> bool {
    path.starts_with(BY_DESCRIPTOR)
}

fn configure(
    context: &OwnedFd,
    command: libc::c_long,
    key: Option<&CStr>,
    value: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
    let (key, value) = (pointer(key), pointer(value));
    // SAFETY: the descriptor is open; key and value are strings that end and outlive the call, or null where the command takes none.
    crate::check(unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, 0) })
        .map(drop)
}

fn owned(descriptor: libc::c_long) -> io::Result<OwnedFd> {
    let descriptor = i32::try_from(descriptor).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened it for us, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use biopsy_testkit::require_that;

    use super::*;

    #[test]
    fn what_is_written_there_is_bounded_found_by_nobody_and_gone_with_it() {
        let made = MemoryFolder::new(1 << 20);
        if !require_that(made.is_ok(), "needs CAP_SYS_ADMIN and fsmount(2)") {
            return;
        }
        let folder = made.unwrap();
        let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
        let before = mounts();
        let inside = folder.path().join("a");
        fs::create_dir(&inside).unwrap();
        fs::write(inside.join("one"), "text").unwrap();
        fs::rename(inside.join("one"), folder.path().join("two")).unwrap();
        assert_eq!(fs::read(folder.path().join("two")).unwrap(), b"text");
        assert_eq!(mounts(), before, "it is in no tree of files");
        assert!(is_by_descriptor(&inside) && !is_by_descriptor(Path::new("/tmp/a")));
        let error = fs::write(inside.join("large"), vec![1; 2 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.join("two").exists());
    }
}
