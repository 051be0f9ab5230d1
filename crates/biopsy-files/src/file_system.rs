//! Which file systems answer without waiting for anybody else.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
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
    /// Folder in `/proc` of the process whose mounts count too.
    process: Option<PathBuf>,
    known: Mutex<BTreeMap<u64, Mount>>,
    /// Mounts whose layers are near.
    layers_near: Mutex<BTreeSet<u64>>,
}

/// One line of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Mount {
    kind: String,
    on_block_device: bool,
    /// Folders that it is laid over, as whoever mounted it named them.
    layers: Vec<PathBuf>,
}

impl Mounts {
    /// Our own.
    #[must_use]
    pub fn own() -> Self {
        Self { process: None, known: Mutex::default(), layers_near: Mutex::default() }
    }

    /// Our own, and those of the process with this folder in `/proc`.
    #[must_use]
    pub fn of(process: &Path) -> Self {
        Self { process: Some(process.to_owned()), ..Self::own() }
    }

    /// Whether files of the mount with this number (`mnt_id` of proc_pid_fdinfo(5)) answer without waiting for anybody else. Asks
    /// for nothing but the table: for files of others that may be on a server that does not answer, where even looking waits.
    #[must_use]
    pub fn is_near(&self, mount: u64) -> bool {
        let near = self.layers_near.lock().unwrap_or_else(PoisonError::into_inner).contains(&mount);
        self.mount(mount).is_some_and(|mount| {
            // What an overlay lies over is not in the table: one whose layers nobody has looked at may wait.
            (near || mount.kind != "overlay")
                && (mount.on_block_device || NEAR.contains(&mount.kind.as_str()))
        })
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

    /// The folders that the file system is laid over, if nobody has yet said that they are near.
    pub(crate) fn layers(&self, found: &Statx) -> Vec<PathBuf> {
        let near = self.layers_near.lock().unwrap_or_else(PoisonError::into_inner);
        match found.stx_dev_major != 0 || near.contains(&found.stx_mnt_id) {
            true => Vec::new(),
            false => self.mount(found.stx_mnt_id).map_or_else(Vec::new, |mount| mount.layers),
        }
    }

    /// Where paths of layers may be meant: in our root, and in that of the process, each with its mounts.
    pub(crate) fn roots(&self) -> Vec<(PathBuf, Self)> {
        let process = self.process.as_deref().map(|process| (process.join("root"), Self::of(process)));
        [(PathBuf::from("/"), Self::own())].into_iter().chain(process).collect()
    }

    /// The layers of this one need not be looked at again.
    pub(crate) fn layers_are_near(&self, found: &Statx) {
        let mut near = self.layers_near.lock().unwrap_or_else(PoisonError::into_inner);
        near.insert(found.stx_mnt_id);
    }

    fn kind(&self, mount: u64) -> Option<String> {
        self.mount(mount).map(|mount| mount.kind)
    }

    fn mount(&self, mount: u64) -> Option<Mount> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains_key(&mount) {
            known.clear();
            for folder in [Some(Path::new("/proc/self")), self.process.as_deref()].into_iter().flatten() {
                let text = read_kernels(folder.join("mountinfo")).unwrap_or_default();
                known.extend(text.split(|byte| *byte == b'\n').filter_map(number_and_mount));
            }
        }
        known.get(&mount).cloned()
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc_pid_mountinfo(5)).
fn number_and_mount(line: &[u8]) -> Option<(u64, Mount)> {
    let at = line.windows(3).position(|part| part == b" - ")?;
    let of_mount = String::from_utf8_lossy(line.get(..at)?);
    let mut words = of_mount.split(' ');
    let number = words.next()?.parse().ok()?;
    let (major, _) = words.nth(1)?.split_once(':')?;
    let mut of_file_system = line.get(at + 3..)?.split(|byte| *byte == b' ');
    let kind = String::from_utf8_lossy(of_file_system.next()?).into_owned();
    let layers = match kind.as_str() {
        "overlay" => layers(of_file_system.nth(1).unwrap_or_default()),
        _ => Vec::new(),
    };
    Some((number, Mount { kind, on_block_device: major != "0", layers }))
}

/// `ro,lowerdir=/a:/b::/data,upperdir=/c,workdir=/d`, and since Linux 6.8 `lowerdir+=/a,datadir+=/b` (overlayfs.rst).
fn layers(options: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for option in options.split(|byte| *byte == b',') {
        let Some(equals) = option.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) =
            (option.get(..equals).unwrap_or_default(), option.get(equals + 1..).unwrap_or_default());
        let value = without_octal(value);
        match name {
            b"lowerdir" => found.extend(split_at_colons(&value)),
            b"upperdir" | b"lowerdir+" | b"datadir+" => found.push(value),
            _ => {}
        }
    }
    // One that is not absolute was named from a folder that nobody knows any more.
    let absolute = found.into_iter().filter(|path| path.first() == Some(&b'/'));
    absolute.map(|path| PathBuf::from(OsString::from_vec(path))).collect()
}

/// `\040` is a space.
fn without_octal(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|digit| matches!(digit, b'0'..=b'7')));
        match digits {
            Some(digits) => {
                plain.push(
                    digits.iter().fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')),
                );
                rest = behind.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(first);
                rest = behind;
            }
        }
    }
    plain
}

/// Layers are told apart by `:`; one in a name has a backslash before it.
fn split_at_colons(text: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut escaped = false;
    for &byte in text {
        match (escaped, byte) {
            (false, b'\\') => escaped = true,
            (false, b':') => parts.push(Vec::new()),
            _ => {
                parts.last_mut().expect("there is one").push(byte);
                escaped = false;
            }
        }
    }
    parts
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
        let made = |kind: &str, layers: &[&str]| Mount {
            kind: kind.to_owned(),
            on_block_device: false,
            layers: layers.iter().map(PathBuf::from).collect(),
        };
        assert_eq!(number_and_mount(line), Some((36, made("nfs4", &[]))));
        let line = b"36 35 98:0 / / rw - ext4 /dev/root rw";
        assert!(number_and_mount(line).unwrap().1.on_block_device);
        assert_eq!(number_and_mount(b""), None);
        assert_eq!(number_and_mount(b"36 35 98:0 /"), None);
        for (options, layers) in [
            ("ro,lowerdir=/a:/b::/data,redirect_dir=on", &["/a", "/b", "/data"][..]),
            ("rw,lowerdir=/a\\040x\\134:y:l/relative,upperdir=/c,workdir=/d", &["/a x:y", "/c"]),
            ("rw,lowerdir+=/a:b,datadir+=/c,x", &["/a:b", "/c"]),
            ("rw", &[]),
        ] {
            let line = format!("67 44 0:39 / /m rw - overlay overlay {options}");
            assert_eq!(number_and_mount(line.as_bytes()), Some((67, made("overlay", layers))), "{options}");
        }
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
