//! Which file systems answer without waiting for anybody else.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, MemfdFlags, Statx, StatxFlags};

use crate::{Refused, read_kernels};

/// Types without a block device that this kernel serves from its own memory or from block devices.
const NEAR: &[&str] = &[
    "aufs",
    "bcachefs",
    "btrfs",
    "devtmpfs",
    "ecryptfs",
    "erofs",
    "hugetlbfs",
    "overlay",
    "ramfs",
    "rootfs",
    "shiftfs",
    "tmpfs",
    "ubifs",
    "zfs",
];

/// What is known of a handle, without asking a server: the attributes that the kernel has cached.
pub(crate) fn look(handle: &OwnedFd) -> Result<Statx, Refused> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let mut found = rustix::fs::statx(handle, c"", flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
    if found.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
        // Before Linux 5.8.
        let facts = read_kernels(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
        let facts = String::from_utf8_lossy(&facts);
        let mount = facts.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
        found.stx_mnt_id = mount.unwrap_or_default();
    }
    Ok(found)
}

/// What is known of a file before it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Regular file, device, ...
    pub kind: FileType,
    /// Its size.
    pub bytes: u64,
    /// Type of its file system as in proc_pid_mountinfo(5); `tmpfs` for memory of the kernel's own that is mounted nowhere
    /// (memfd_create(2), shared anonymous memory, System V). `None` where it is mounted in none of the places that we see.
    pub file_system: Option<String>,
}

/// The mounts that files are looked up in: ours, and those of a process in another mount namespace. The tables are read when a
/// mount is met that is not known, and kept: make one for each process and use it for moments, since numbers are used again.
#[derive(Debug)]
pub struct Mounts {
    tables: Vec<PathBuf>,
    known: Mutex<BTreeMap<u64, Mount>>,
}

/// One line of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    kind: String,
    on_block_device: bool,
}

impl Mounts {
    /// Our own.
    #[must_use]
    pub fn own() -> Self {
        Self { tables: vec![PathBuf::from("/proc/self/mountinfo")], known: Mutex::default() }
    }

    /// Our own, and those of the process with this folder in `/proc`.
    #[must_use]
    pub fn of(process: &Path) -> Self {
        let mut mounts = Self::own();
        mounts.tables.push(process.join("mountinfo"));
        mounts
    }

    /// Whether files of the mount with this number (`mnt_id` of proc_pid_fdinfo(5)) answer without waiting for anybody else. Asks
    /// for nothing but the table: for files of others that may be on a server that does not answer, where even looking waits.
    #[must_use]
    pub fn is_near(&self, mount: u64) -> bool {
        self.mount(mount).is_some_and(|mount| mount.on_block_device || NEAR.contains(&mount.kind.as_str()))
    }

    /// What an `O_PATH` descriptor stands for, by what the kernel has at hand: nobody who serves a file system is asked.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn look_at(&self, handle: &OwnedFd) -> Result<Found, Refused> {
        let facts = look(handle)?;
        Ok(Found {
            kind: FileType::from_raw_mode(facts.stx_mode.into()),
            bytes: facts.stx_size,
            file_system: self
                .kind(facts.stx_mnt_id)
                .or_else(|| is_kernels_own(&facts).then(|| "tmpfs".to_owned())),
        })
    }

    /// Refuses what is on a file system that can make its readers wait. `path`: for the message.
    ///
    /// The type is found by the number of the mount. fstatfs(2) would ask the file system, and wait with it.
    pub(crate) fn check(&self, found: &Statx, path: &Path) -> Result<(), Refused> {
        // On a block device of this machine.
        if found.stx_dev_major != 0 {
            return Ok(());
        }
        let kind = self.kind(found.stx_mnt_id);
        if kind.as_deref().map_or_else(|| is_kernels_own(found), |kind| NEAR.contains(&kind)) {
            return Ok(());
        }
        let kind = kind.unwrap_or_else(|| "unknown".to_owned());
        Err(Refused::FileSystem { path: path.to_owned(), kind })
    }

    fn kind(&self, mount: u64) -> Option<String> {
        self.mount(mount).map(|mount| mount.kind)
    }

    fn mount(&self, mount: u64) -> Option<Mount> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(&mount) {
            known.clear();
            for table in &self.tables {
                let text = read_kernels(table).unwrap_or_default();
                known.extend(text.split(|byte| *byte == b'\n').filter_map(number_and_mount));
            }
        }
        known.get(&mount).cloned()
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc_pid_mountinfo(5)).
fn number_and_mount(line: &[u8]) -> Option<(u64, Mount)> {
    let line = String::from_utf8_lossy(line);
    let (of_mount, of_file_system) = line.split_once(" - ")?;
    let mut words = of_mount.split(' ');
    let number = words.next()?.parse().ok()?;
    let (major, _) = words.nth(1)?.split_once(':')?;
    let kind = of_file_system.split(' ').next()?.to_owned();
    Some((number, Mount { kind, on_block_device: major != "0" }))
}

/// Memory that is in no mount: memfd_create(2), shared anonymous memory, System V.
fn is_kernels_own(found: &Statx) -> bool {
    let own = rustix::fs::memfd_create(c"biopsy", MemfdFlags::CLOEXEC).ok();
    own.and_then(|own| look(&own).ok()).is_some_and(|own| {
        (own.stx_dev_major, own.stx_dev_minor) == (found.stx_dev_major, found.stx_dev_minor)
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn types_are_found_by_the_number_of_the_mount() {
        let line = b"36 35 0:50 /mnt1 /mnt\\0402 rw,noatime master:1 - nfs4 server:/x rw";
        let nfs = Mount { kind: "nfs4".to_owned(), on_block_device: false };
        assert_eq!(number_and_mount(line), Some((36, nfs)));
        let line = b"36 35 98:0 / / rw - ext4 /dev/root rw";
        assert!(number_and_mount(line).unwrap().1.on_block_device);
        assert_eq!(number_and_mount(b""), None);
        assert_eq!(number_and_mount(b"36 35 98:0 /"), None);
    }

    #[test]
    fn memory_and_temporary_folders_are_near_and_proc_is_not() {
        let mounts = Mounts::own();
        let check = |handle: OwnedFd| mounts.check(&look(&handle).unwrap(), Path::new("x"));
        assert!(check(rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap()).is_ok());
        assert!(check(tempfile::tempfile().unwrap().into()).is_ok());
        let refused = check(File::open("/proc/self/status").unwrap().into()).unwrap_err().to_string();
        assert_eq!(refused, "`x` is on a file system of type proc, which can keep its readers waiting");
        let memory = rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, 4711).unwrap();
        let tmpfs = Some("tmpfs".to_owned());
        let wanted = Found { kind: FileType::RegularFile, bytes: 4711, file_system: tmpfs };
        assert_eq!(mounts.look_at(&memory).unwrap(), wanted);
        let status = File::open("/proc/self/status").unwrap().into();
        assert_eq!(mounts.look_at(&status).unwrap().file_system.as_deref(), Some("proc"));
        let mount_of = |handle: OwnedFd| look(&handle).unwrap().stx_mnt_id;
        assert!(mounts.is_near(mount_of(tempfile::tempfile().unwrap().into())));
        assert!(!mounts.is_near(mount_of(File::open("/proc/self/status").unwrap().into())));
        assert!(!mounts.is_near(u64::MAX));
    }
}
