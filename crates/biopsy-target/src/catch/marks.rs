//! Which file systems hold the programs that may be executed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use biopsy_files::{Refused, Root};
use biopsy_model::Pid;
use rustix::fs::{CWD, Mode, OFlags};

use super::pending::PendingRequests;
use crate::list;
use crate::process::proc_root::ProcRoot;

/// Most bytes read of a list of mounts; hosts of many containers have thousands.
const LIMIT: usize = 8 << 20;
/// Most mount namespaces that are visited.
const NAMESPACES: usize = 4096;

/// File systems of the kernel's own, from which nothing is executed.
const WITHOUT_PROGRAMS: [&[u8]; 21] = [
    b"proc",
    b"sysfs",
    b"cgroup",
    b"cgroup2",
    b"devpts",
    b"mqueue",
    b"debugfs",
    b"tracefs",
    b"securityfs",
    b"pstore",
    b"bpf",
    b"configfs",
    b"fusectl",
    b"hugetlbfs",
    b"autofs",
    b"binfmt_misc",
    b"efivarfs",
    b"nsfs",
    b"rpc_pipefs",
    b"nfsd",
    b"selinuxfs",
];

/// File systems whose files are given out by a server or a program: opening one waits for it, and the kernel opens each file that
/// is executed for whoever listens at the gate. They are not marked.
const SERVED: [&[u8]; 24] = [
    b"fuse",
    b"fuseblk",
    b"virtiofs",
    b"nfs",
    b"nfs4",
    b"cifs",
    b"smb3",
    b"smbfs",
    b"ncpfs",
    b"afs",
    b"coda",
    b"ceph",
    b"9p",
    b"lustre",
    b"gpfs",
    b"beegfs",
    b"panfs",
    b"orangefs",
    b"pvfs2",
    b"gfs2",
    b"ocfs2",
    b"glusterfs",
    b"vboxsf",
    b"vmhgfs",
];
/// The same by the numbers of statfs(2) (`linux/magic.h`), for a root that is no mount point: FUSE, NFS, CIFS, SMB 2, Ceph, 9P,
/// AFS twice, Coda, GFS2, OCFS2, Lustre, VirtualBox.
const SERVED_MAGIC: [u64; 13] = [
    0x6573_5546,
    0x6969,
    0xff53_4d42,
    0xfe53_4d42,
    0x00c3_6400,
    0x0102_1997,
    0x5346_414f,
    0x6b41_4653,
    0x7375_7245,
    0x0116_1970,
    0x7461_636f,
    0x0bd0_0bd0,
    0x786f_4256,
];

/// How often to look for new mount namespaces.
const MARK_EVERY: Duration = Duration::from_secs(2);
/// So often is a new process looked at: a container's first one makes its namespace and its root soon after it was made itself.
const YOUNG: u32 = 3;
/// An older one, which may enter another namespace or root as well, is looked at in each of so many rounds.
const TURNS: u32 = 30;

/// Marks file systems, each once, as they come in sight.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Device numbers that are marked or cannot be.
    seen: BTreeSet<(u32, u32)>,
    namespaces: BTreeSet<u64>,
    /// Mount namespace and device of roots that were seen.
    roots: BTreeSet<(u64, u64)>,
    /// How many are marked.
    pub(super) marked: usize,
    /// Where it was refused, in words.
    pub(super) refused: Vec<String>,
}

/// All whose programs are to be seen start.
fn processes(below: Option<Pid>) -> std::io::Result<Vec<Pid>> {
    let root = ProcRoot::live();
    match below {
        Some(parent) => list::tree_pids(&root, parent),
        None => root.pids(),
    }
}

/// Who is looked at in which round: a machine has thousands of processes that stay where they are.
#[derive(Debug, Default)]
struct Rounds {
    /// How often each was looked at since it was new.
    looks: BTreeMap<Pid, u32>,
    round: u32,
}

impl Rounds {
    /// After a round in which all of them were looked at, and are not new.
    fn after(there: &[Pid]) -> Self {
        Self { looks: there.iter().map(|&pid| (pid, YOUNG)).collect(), round: 0 }
    }

    /// Whose turn it is, of those that are there.
    fn next(&mut self, there: &[Pid]) -> Vec<Pid> {
        self.round = self.round.wrapping_add(1) % TURNS;
        let before = std::mem::take(&mut self.looks);
        let mut due = Vec::new();
        for &pid in there {
            let looks = before.get(&pid).copied().unwrap_or(0);
            if looks < YOUNG || pid.0 % TURNS == self.round {
                due.push(pid);
            }
            self.looks.insert(pid, (looks + 1).min(YOUNG));
        }
        due
    }
}

impl Marks {
    /// The first ones: from when this returns, whoever executes something there waits. A text says why there are none.
    pub(super) fn first(pending: &PendingRequests, below: Option<Pid>) -> Result<Self, String> {
        let mut marks = Self::default();
        let listed = processes(below);
        marks.extend(pending, listed.as_deref().unwrap_or_default());
        if marks.marked > 0 {
            return Ok(marks);
        }
        let why = marks.refused.first().cloned();
        let why = why.or_else(|| Some(format!("the processes cannot be listed: {}", listed.err()?)));
        Err(why.unwrap_or_else(|| "no file system can be marked".to_owned()))
    }

    /// Marks what comes to be mounted, as long as the gate is open. On a thread of its own: looking up a path waits for whoever serves
    /// the folders on it.
    pub(super) fn watch(mut self, pending: &Arc<PendingRequests>, below: Option<Pid>) -> std::io::Result<()> {
        let pending = Arc::clone(pending);
        let work = move || {
            let mut rounds = Rounds::after(&processes(below).unwrap_or_default());
            while !pending.is_closed() {
                pending.rest(MARK_EVERY);
                // Nobody is lost by a list that fails once: the next one has them all.
                let due = rounds.next(&processes(below).unwrap_or_default());
                self.extend(&pending, &due);
            }
        };
        std::thread::Builder::new().name("gate-marks".to_owned()).stack_size(256 << 10).spawn(work).map(drop)
    }

    /// Marks what the processes see: all file systems of each mount namespace that was not seen before.
    pub(super) fn extend(&mut self, pending: &PendingRequests, processes: &[Pid]) {
        let root = ProcRoot::live();
        for &pid in processes {
            let Ok(process) = root.process(pid) else { continue };
            let Some(namespace) = process.inode("ns/mnt") else { continue };
            self.mark_root(pending, pid, namespace);
            if self.namespaces.len() >= NAMESPACES || self.namespaces.contains(&namespace) {
                continue;
            }
            // Otherwise another process in it, or the next look, may tell.
            let Ok(text) = process.read("mountinfo", LIMIT) else { continue };
            self.namespaces.insert(namespace);
            for mount in text.split(|&byte| byte == b'\n').filter_map(Mount::parse) {
                self.mark(pending, pid, &mount);
            }
        }
    }

    /// The file system that the root of a process lies on. Where the root is no mount point (chroot(2)), the list of mounts
    /// does not have it.
    fn mark_root(&mut self, pending: &PendingRequests, pid: Pid, namespace: u64) {
        let path = PathBuf::from(format!("/proc/{pid}/root"));
        let Ok(meta) = std::fs::metadata(&path) else { return };
        if self.roots.len() >= NAMESPACES || !self.roots.insert((namespace, meta.dev())) {
            return;
        }
        let kind = rustix::fs::statfs(&path).map(|stat| stat.f_type.cast_unsigned());
        if kind.is_ok_and(|kind| SERVED_MAGIC.contains(&kind)) {
            self.refused.push(format!(
                "programs on the root of process {pid} are not seen: a server gives its files out"
            ));
            return;
        }
        let device = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
        if !self.seen.contains(&device) {
            self.mark_path(pending, device, &path, b"/");
        }
    }

    fn mark(&mut self, pending: &PendingRequests, pid: Pid, mount: &Mount) {
        if !mount.may_execute || self.seen.contains(&mount.device) {
            return;
        }
        if mount.served || mount.is_overlay && is_over_served(pid, &mount.point) {
            let shown = crate::printable(&String::from_utf8_lossy(&mount.point));
            self.refused.push(format!(
                "programs on `{shown}` are not seen: a server or a program gives its files out"
            ));
            self.seen.insert(mount.device);
            return;
        }
        let mut path = OsString::from(format!("/proc/{pid}/root"));
        path.push(OsString::from_vec(mount.point.clone()));
        self.mark_path(pending, mount.device, &PathBuf::from(path), &mount.point);
    }

    fn mark_path(&mut self, pending: &PendingRequests, device: (u32, u32), path: &Path, shown: &[u8]) {
        // Looked up here, where nobody waits for us.
        let place = rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        match place.map_err(Into::into).and_then(|place| pending.mark(place.as_fd())) {
            Ok(()) => self.marked += 1,
            Err(error) => {
                let shown = crate::printable(&String::from_utf8_lossy(shown));
                self.refused.push(format!("programs on `{shown}` are not seen: {error}"));
            }
        }
        self.seen.insert(device);
    }
}

/// Whether an overlay has folders of a server below it, as far as their paths are known here.
fn is_over_served(pid: Pid, point: &[u8]) -> bool {
    let point = PathBuf::from(OsString::from_vec(point.to_vec()));
    let root = Root::at(Path::new(&format!("/proc/{pid}/root")));
    root.is_ok_and(|root| matches!(root.open_folder(&point), Err(Refused::FileSystem { .. })))
}

/// One line of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: (u32, u32),
    point: Vec<u8>,
    may_execute: bool,
    /// By a server or a program, see [`SERVED`].
    served: bool,
    /// Its files are those of other file systems.
    is_overlay: bool,
}

impl Mount {
    /// `id parent major:minor root point options tags... - type source options`.
    fn parse(line: &[u8]) -> Option<Self> {
        let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let (major, minor) = std::str::from_utf8(words.get(2)?).ok()?.split_once(':')?;
        let dash = words.iter().skip(6).position(|word| *word == b"-")?.checked_add(6)?;
        let kind = words.get(dash.checked_add(1)?)?;
        let options = words.get(5)?;
        let no_exec = options.split(|&byte| byte == b',').any(|option| option == b"noexec");
        Some(Self {
            device: (major.parse().ok()?, minor.parse().ok()?),
            point: unescaped(words.get(4)?),
            may_execute: !no_exec && !WITHOUT_PROGRAMS.contains(kind),
            served: SERVED.contains(kind) || kind.starts_with(b"fuse."),
            is_overlay: *kind == b"overlay",
        })
    }
}

/// Blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        let value = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(value.unwrap_or(first));
        rest = if value.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line =
            b"36 35 98:0 /mnt1 /mnt\\0402/a rw,noatime master:1 shared:2 - ext4 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(
            mount,
            Mount {
                device: (98, 0),
                point: b"/mnt 2/a".to_vec(),
                may_execute: true,
                served: false,
                is_overlay: false
            }
        );
        for kind in ["nfs4", "cifs", "fuse.sshfs", "9p"] {
            let line = format!("36 35 0:50 / /mnt rw - {kind} host:/x rw");
            let mount = Mount::parse(line.as_bytes()).unwrap();
            assert!(mount.may_execute && mount.served, "{kind}");
        }
        assert!(Mount::parse(b"67 44 0:39 / /m rw - overlay overlay rw,lowerdir=/a").unwrap().is_overlay);
        let mount = Mount::parse(b"23 28 0:21 / /proc rw,relatime - proc proc rw").unwrap();
        assert!(!mount.may_execute);
        let mount = Mount::parse(b"25 28 0:23 / /run rw,nosuid,noexec - tmpfs tmpfs rw").unwrap();
        assert!(!mount.may_execute);
        for odd in [&b""[..], b"1 2 3", b"36 35 98:0 / /x rw master:1", b"36 35 98 / /x rw - ext4 a b"] {
            assert_eq!(Mount::parse(odd), None);
        }
    }

    #[test]
    fn who_is_new_is_looked_at_at_once_and_everybody_in_turns() {
        let old: Vec<Pid> = (1..=300).map(Pid).collect();
        let mut rounds = Rounds::after(&old);
        let all: Vec<Pid> = (1..=301).map(Pid).collect();
        let mut seen = BTreeSet::new();
        for round in 0..TURNS {
            let due = rounds.next(&all);
            assert_eq!(due.contains(&Pid(301)) && !seen.insert(Pid(301)), (1..YOUNG).contains(&round));
            assert!(due.len() <= 11, "{due:?}");
            seen.extend(due);
        }
        assert_eq!(seen.len(), 301);
        // Its pid is another one's by now, and nobody saw it gone.
        assert!(rounds.next(&old).len() <= 11);
        assert!(rounds.next(&all).contains(&Pid(301)));
    }

    #[test]
    fn escapes() {
        assert_eq!(unescaped(b"a\\134b\\011\\12"), b"a\\b\t\\12");
    }
}
