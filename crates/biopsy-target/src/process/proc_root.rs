//! Where `/proc` and `/sys` are, and bounded reads from them.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use biopsy_files::{Links, Mounts, Root};
use biopsy_model::{BootId, Pid, Tid};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};

/// Most bytes read of a small `/proc` file. The kernel makes them of at most a few KiB.
pub(crate) const SMALL: usize = 64 * 1024;
/// The pid namespace of the machine itself, by its inode (`PROC_PID_INIT_INO` of include/linux/proc_ns.h).
pub(crate) const PIDS_OF_MACHINE: u64 = 0xEFFF_FFFC;

/// Whether `ns/pid` of a process, which is a link to this, says that it sees the pids of the machine.
pub(crate) fn is_of_machine(namespace: &[u8]) -> bool {
    let number = namespace.strip_prefix(b"pid:[").and_then(|rest| rest.strip_suffix(b"]"));
    number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok()) == Some(PIDS_OF_MACHINE)
}

/// Most files of a process are smaller.
const USUAL: usize = 2048;

/// Where `/proc` and `/sys` are: the live ones, or a folder that a test built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcRoot {
    root: PathBuf,
}

impl ProcRoot {
    /// The running system.
    #[must_use]
    pub fn live() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A folder that holds `proc/`, `sys/` and `etc/` like the root folder does.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { root: folder.into() }
    }

    /// A path below the root, given without leading slash: `proc/stat`.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Reads a small text file below the root, for example `proc/sys/kernel/perf_event_paranoid`, without the
    /// white space at its ends.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn text(&self, below: &str) -> io::Result<String> {
        let bytes = self.bytes(below, SMALL)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Reads a file that holds one number.
    #[must_use]
    pub fn number(&self, below: &str) -> Option<i64> {
        self.text(below).ok()?.parse().ok()
    }

    /// Reads at most `limit` bytes of a file below the root.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn bytes(&self, below: &str, limit: usize) -> io::Result<Vec<u8>> {
        read_up_to(&biopsy_files::open_kernels(self.path(below))?, limit)
    }

    /// This boot's id; empty where the kernel does not tell (then processes are told apart by pid and start alone).
    #[must_use]
    pub fn boot_id(&self) -> BootId {
        BootId(self.text("proc/sys/kernel/random/boot_id").unwrap_or_default())
    }

    /// Pids that are there now, ascending.
    ///
    /// # Errors
    /// When `/proc` itself cannot be read, to its end: a list that lacks some looks like one of a smaller machine.
    pub fn pids(&self) -> io::Result<Vec<Pid>> {
        let mut pids = Vec::new();
        for entry in std::fs::read_dir(self.path("proc"))? {
            if let Some(pid) = entry?.file_name().to_str().and_then(parse_pid) {
                pids.push(pid);
            }
        }
        pids.sort_unstable();
        Ok(pids)
    }

    /// Opens the folder of a process. From then on every read is of that very process: when it ends and the pid is
    /// given to another one, reads fail with ESRCH instead of telling of the other.
    ///
    /// # Errors
    /// `NotFound` when there is no such process (or `hidepid` hides it).
    pub fn process(&self, pid: Pid) -> io::Result<ProcessDir> {
        ProcessDir::open(&self.path("proc").join(pid.to_string()))
    }

    /// Our own process.
    ///
    /// # Errors
    /// When `/proc` is not mounted.
    pub fn myself(&self) -> io::Result<ProcessDir> {
        ProcessDir::open(&self.path("proc/self"))
    }
}

/// It has ended meanwhile, or never had that.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOENT, Errno::SRCH].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// This process or the machine has none left of what a look needs: that says nothing of what was looked at.
pub(crate) fn is_for_want(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// What was found, if anything.
///
/// # Errors
/// Looking was not possible at all, [`is_for_want`].
pub(crate) fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if is_for_want(&error) => Err(error),
        other => Ok(other.ok()),
    }
}

/// A pid in its only spelling: decimal, no sign, no leading zero.
pub(crate) fn parse_pid(text: &str) -> Option<Pid> {
    let canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if !canonical {
        return None;
    }
    text.parse().ok().map(Pid)
}

/// The open folder of one process (or thread) in `/proc`.
#[derive(Debug)]
pub struct ProcessDir {
    dir: OwnedFd,
}

impl ProcessDir {
    fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { dir: rustix::fs::openat(CWD, path, flags, Mode::empty())? })
    }

    /// Reads at most `limit` bytes of a file of this process, for example `stat` or `task/12/comm`.
    ///
    /// # Errors
    /// `NotFound` or ESRCH when the process has ended, `PermissionDenied` when it belongs to somebody else.
    pub fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        read_up_to(&self.file(name)?, limit)
    }

    /// Opens a file of this process for reading. `exe` opens the very file that runs, also a deleted one.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(File::from(rustix::fs::openat(&self.dir, name, flags, Mode::empty())?))
    }

    /// Finds what a link of this process leads to, without opening it for reading (`O_PATH`): opening a device can have
    /// effects.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn locate(&self, name: &str) -> io::Result<OwnedFd> {
        Ok(rustix::fs::openat(&self.dir, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Where a link of this process points: `exe`, `cwd`, `ns/pid`.
    ///
    /// # Errors
    /// As [`Self::read`]; the links of kernel threads do not exist.
    pub fn link(&self, name: &str) -> io::Result<Vec<u8>> {
        Ok(rustix::fs::readlinkat(&self.dir, name, Vec::new())?.into_bytes())
    }

    /// Thread ids, ascending, at most `limit`.
    ///
    /// # Errors
    /// As [`Self::read`]; also when the list breaks off, because one that lacks some looks like a whole one.
    pub fn tids(&self, limit: usize) -> io::Result<Vec<Tid>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, "task", flags, Mode::empty())?;
        let mut tids = Vec::new();
        for entry in rustix::fs::Dir::read_from(&fd)? {
            if tids.len() >= limit {
                break;
            }
            tids.extend(entry?.file_name().to_str().ok().and_then(parse_pid).map(Tid::from));
        }
        tids.sort_unstable();
        Ok(tids)
    }

    /// Reads at most `limit` bytes of a regular file as the process sees it, through its `root`.
    ///
    /// Links are resolved inside the root of the process: a hostile process in a container cannot lead us to a file of the
    /// host. Anything but a regular file is refused before it is opened for reading: opening a device or a FIFO can have
    /// effects, or block.
    ///
    /// # Errors
    /// When the kernel or [`biopsy_files`] refuses.
    pub fn read_in_root(&self, path: &[u8], limit: usize) -> io::Result<Vec<u8>> {
        let opened = self.root()?.open(Path::new(OsStr::from_bytes(path)), Links::Follow)?;
        read_up_to(&opened.file, limit)
    }

    /// Finds what a path leads to for the process, without opening it for reading. Links are refused: this is for paths that
    /// the kernel tells, which have none.
    ///
    /// # Errors
    /// As [`Self::read_in_root`].
    pub(crate) fn locate_in_root(&self, path: &[u8]) -> io::Result<OwnedFd> {
        Ok(self.root()?.locate(Path::new(OsStr::from_bytes(path)), Links::Refuse)?)
    }

    fn root(&self) -> io::Result<Root> {
        let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&self.dir, "root", folder, Mode::empty())?;
        Ok(Root::of(root, self.mounts()))
    }

    /// The mounts that it sees.
    pub(crate) fn mounts(&self) -> Mounts {
        Mounts::of(Path::new(&format!("/proc/self/fd/{}", self.dir.as_raw_fd())))
    }

    /// Whether a file can be opened for reading; the error where not. Nothing is read.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn try_open(&self, name: &str) -> io::Result<()> {
        self.file(name).map(drop)
    }

    /// How many names the file behind a link has: 0, it is deleted.
    #[must_use]
    pub fn link_count(&self, name: &str) -> Option<u64> {
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::empty()).ok()?;
        #[expect(clippy::useless_conversion, reason = "the width of st_nlink differs between architectures")]
        Some(stat.st_nlink.into())
    }

    /// Inode number of a file or of what a magic link points to (a namespace, for example).
    #[must_use]
    pub fn inode(&self, name: &str) -> Option<u64> {
        rustix::fs::statat(&self.dir, name, AtFlags::empty()).ok().map(|stat| stat.st_ino)
    }
}

fn read_up_to(file: &File, limit: usize) -> io::Result<Vec<u8>> {
    // With room for all of it, it is read in one piece, and once more at its end.
    let mut bytes = Vec::with_capacity(limit.min(USUAL));
    file.take(limit as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_cannot_be_looked_at_is_not_what_is_gone() {
        let of = |errno: rustix::io::Errno| found::<()>(Err(errno.into()));
        for errno in [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE, rustix::io::Errno::NOMEM] {
            assert!(of(errno).is_err(), "{errno}");
        }
        for errno in [rustix::io::Errno::NOENT, rustix::io::Errno::SRCH, rustix::io::Errno::ACCESS] {
            assert!(matches!(of(errno), Ok(None)), "{errno}");
        }
        assert_eq!(found(Ok(1)).unwrap(), Some(1));
    }

    #[test]
    fn the_machine_is_told_from_other_namespaces() {
        assert!(is_of_machine(b"pid:[4026531836]"));
        for other in
            [&b"pid:[4026531837]"[..], b"pid:[4026531836", b"user:[4026531836]", b"pid:[]", b"", b"pid:[x]"]
        {
            assert!(!is_of_machine(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn pids_have_one_spelling() {
        assert_eq!(parse_pid("12"), Some(Pid(12)));
        for odd in ["", "0", "012", "+1", "-1", "1x", "99999999999"] {
            assert_eq!(parse_pid(odd), None, "{odd}");
        }
    }

    #[test]
    fn links_stay_inside_the_root_of_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("container");
        let proc = folder.path().join("proc/7");
        std::fs::create_dir_all(inside.join("opt")).unwrap();
        std::fs::create_dir_all(&proc).unwrap();
        symlink(&inside, proc.join("root")).unwrap();
        std::fs::write(folder.path().join("secret"), "of the host").unwrap();
        std::fs::write(inside.join("secret"), "of the container").unwrap();
        symlink("/secret", inside.join("opt/absolute")).unwrap();
        symlink("../../../../secret", inside.join("opt/relative")).unwrap();

        let process = ProcRoot::at(folder.path()).process(Pid(7)).unwrap();
        for name in ["opt/absolute", "/opt/absolute", "opt/relative"] {
            assert_eq!(process.read_in_root(name.as_bytes(), 100).unwrap(), b"of the container", "{name}");
        }
        assert_eq!(process.read_in_root(b"secret", 6).unwrap(), b"of the");
    }

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let proc = folder.path().join("proc/7");
        std::fs::create_dir_all(&proc).unwrap();
        symlink("/", proc.join("root")).unwrap();
        let process = ProcRoot::at(folder.path()).process(Pid(7)).unwrap();
        for name in ["/dev/zero", "/proc", "/dev/null"] {
            assert!(process.read_in_root(name.as_bytes(), 10).is_err(), "{name}");
        }
    }
}
