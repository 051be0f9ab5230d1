//! Which file systems hold the programs that may be executed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use biopsy_model::Pid;
use biopsy_sys::fanotify::{Coverage, ExecGate};

use crate::proc_root::ProcRoot;

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

/// Marks file systems, each once, as they come in sight.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Device numbers that are marked or cannot be.
    seen: BTreeSet<(u32, u32)>,
    namespaces: BTreeSet<u64>,
    /// How many are marked.
    pub(super) marked: usize,
    /// Where it was refused, in words.
    pub(super) refused: Vec<String>,
}

impl Marks {
    /// Marks what the processes see: all file systems of each mount namespace that was not seen before.
    pub(super) fn extend(&mut self, gate: &ExecGate, processes: &[Pid]) {
        let root = ProcRoot::live();
        for &pid in processes {
            let Ok(process) = root.process(pid) else { continue };
            let Some(namespace) = process.inode("ns/mnt") else { continue };
            if self.namespaces.len() >= NAMESPACES || !self.namespaces.insert(namespace) {
                continue;
            }
            let Ok(text) = process.read("mountinfo", LIMIT) else { continue };
            for mount in text.split(|&byte| byte == b'\n').filter_map(Mount::parse) {
                self.mark(gate, pid, &mount);
            }
        }
    }

    fn mark(&mut self, gate: &ExecGate, pid: Pid, mount: &Mount) {
        if !mount.may_execute || self.seen.contains(&mount.device) {
            return;
        }
        let mut path = OsString::from(format!("/proc/{pid}/root"));
        path.push(OsString::from_vec(mount.point.clone()));
        match gate.mark(Coverage::FileSystem, &PathBuf::from(path)) {
            Ok(()) => self.marked += 1,
            Err(error) => {
                let shown = crate::printable(&String::from_utf8_lossy(&mount.point));
                self.refused.push(format!("programs on `{shown}` are not seen: {error}"));
            }
        }
        self.seen.insert(mount.device);
    }
}

/// One line of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    device: (u32, u32),
    point: Vec<u8>,
    may_execute: bool,
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
        assert_eq!(mount, Mount { device: (98, 0), point: b"/mnt 2/a".to_vec(), may_execute: true });
        let mount = Mount::parse(b"23 28 0:21 / /proc rw,relatime - proc proc rw").unwrap();
        assert!(!mount.may_execute);
        let mount = Mount::parse(b"25 28 0:23 / /run rw,nosuid,noexec - tmpfs tmpfs rw").unwrap();
        assert!(!mount.may_execute);
        for odd in [&b""[..], b"1 2 3", b"36 35 98:0 / /x rw master:1", b"36 35 98 / /x rw - ext4 a b"] {
            assert_eq!(Mount::parse(odd), None);
        }
    }

    #[test]
    fn escapes() {
        assert_eq!(unescaped(b"a\\134b\\011\\12"), b"a\\b\t\\12");
    }
}
