//! How much memory a process can still get: by its control groups and by the machine.

use std::fs::File;
use std::path::PathBuf;

use rustix::io::{pread, retry_on_intr};

use crate::process::cgroup::{self, Cgroup};
use crate::process::proc_root::ProcRoot;

/// Most levels of control groups above a process that are looked at.
const LEVELS: usize = 64;
/// Bytes read of `memory.stat` and `meminfo`: some 5 KiB with all their lines.
const STATISTICS: usize = 16 << 10;
/// Limits above this are none (version 1 writes the largest number of whole pages).
const NO_LIMIT: u64 = 0x7fff_ffff_ffff_0000;

/// Memory that biopsy itself can still get, by its own control groups and the machine; `None`: nothing can be read.
#[must_use]
pub fn own_headroom() -> Option<Headroom> {
    own_headroom_in(&ProcRoot::live())
}

pub(super) fn own_headroom_in(root: &ProcRoot) -> Option<Headroom> {
    let own = root.myself().map(|process| Cgroup::read(&process)).unwrap_or_default();
    MemoryGauge::open(root, &own).read()
}

/// What limits the memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LimitedBy {
    /// The machine: `MemAvailable` of `/proc/meminfo`.
    Machine,
    /// This control group.
    Group(PathBuf),
}

/// Memory that is to be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Headroom {
    /// Bytes. Page cache that the kernel can give up counts as free.
    pub bytes: u64,
    /// Of all limits, the narrowest.
    pub by: LimitedBy,
}

impl Headroom {
    /// Below so many bytes a frozen copy of a process with `own` bytes of memory has to be ended.
    ///
    /// While the copy is ended, which takes some 12 ms for each GiB, the process goes on copying pages, on each CPU at up to
    /// 1 GiB/s, and nothing but the process itself is left for the kernel to take: seen, a process was killed because 16 MiB
    /// were not enough for that.
    #[must_use]
    pub fn line(&self, own: u64) -> u64 {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64).min(8);
        self.least().saturating_add((own / 64).saturating_mul(cpus))
    }

    /// A control group is small and watched closely; on a machine others take memory too.
    fn least(&self) -> u64 {
        match self.by {
            LimitedBy::Machine => 128 << 20,
            LimitedBy::Group(_) => 32 << 20,
        }
    }

    /// What must be left when a frozen copy of a process with `own` bytes begins its life.
    #[must_use]
    pub fn reserve(&self, own: u64) -> u64 {
        self.line(own).saturating_add(self.least())
    }

    /// Bytes beyond the reserve.
    #[must_use]
    pub fn to_spare(&self, own: u64) -> u64 {
        self.bytes.saturating_sub(self.reserve(own))
    }
}

/// Reads again and again how much memory is left; its files stay open, so that one reading takes microseconds.
#[derive(Debug)]
pub struct MemoryGauge {
    groups: Vec<Group>,
    machine: Option<File>,
}

/// A control group with a limit.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
    limits: Vec<File>,
    usage: File,
    statistics: Option<File>,
    /// Names of the lines of `statistics` with page cache: long unused, and used.
    cache: [&'static str; 2],
}

impl MemoryGauge {
    /// Opens what limits the memory of processes in these control groups.
    #[must_use]
    pub fn open(root: &ProcRoot, cgroup: &Cgroup) -> Self {
        let mut groups = Vec::new();
        if let (Some(path), Some(mount)) = (cgroup.v2.as_deref(), cgroup::v2_mount(root)) {
            for level in cgroup::levels(path).take(LEVELS) {
                // At `memory.high` the kernel throttles the processes until they stand nearly still.
                let names = ["memory.max", "memory.high"];
                groups.extend(Group::open(
                    root,
                    format!("{mount}{level}"),
                    &names,
                    "memory.current",
                    ["inactive_file", "active_file"],
                ));
            }
        }
        if let Some(path) = cgroup.memory_v1.as_deref() {
            for level in cgroup::levels(path).take(LEVELS) {
                groups.extend(Group::open(
                    root,
                    format!("sys/fs/cgroup/memory{level}"),
                    &["memory.limit_in_bytes"],
                    "memory.usage_in_bytes",
                    ["total_inactive_file", "total_active_file"],
                ));
            }
        }
        Self { groups, machine: biopsy_files::open_kernels(root.path("proc/meminfo")).ok() }
    }

    /// What is left now; `None` where nothing can be read.
    #[must_use]
    pub fn read(&self) -> Option<Headroom> {
        self.read_below(u64::MAX)
    }

    /// As [`Self::read`]; page cache of a group is only looked at when less than `enough` is left without it, because
    /// its sum is the dearest number to ask the kernel for.
    #[must_use]
    pub fn read_below(&self, enough: u64) -> Option<Headroom> {
        let machine = self.machine.as_ref().and_then(|file| {
            let kib = line_number(&read(file)?, "MemAvailable:")?;
            Some(Headroom { bytes: kib.saturating_mul(1024), by: LimitedBy::Machine })
        });
        // A group that cannot be read any more is counted as used up: what it has left is not known.
        let groups = self.groups.iter().map(|group| Headroom {
            bytes: group.left(enough).unwrap_or(0),
            by: LimitedBy::Group(group.folder.clone()),
        });
        groups.chain(machine).min_by_key(|one| (one.to_spare(0), one.bytes))
    }
}

impl Group {
    fn open(
        root: &ProcRoot,
        folder: String,
        limits: &[&str],
        usage: &str,
        cache: [&'static str; 2],
    ) -> Option<Self> {
        let open = |name: &str| biopsy_files::open_kernels(root.path(&format!("{folder}/{name}"))).ok();
        let limits: Vec<File> = limits.iter().filter_map(|name| open(name)).collect();
        // Limits that are set later do not count; a group without any at the beginning costs nothing.
        let limited = limits.iter().filter_map(number).any(|limit| limit < NO_LIMIT);
        let usage = open(usage).filter(|_| limited)?;
        let statistics = open("memory.stat");
        Some(Self { folder: PathBuf::from("/").join(folder), limits, usage, statistics, cache })
    }

    fn left(&self, enough: u64) -> Option<u64> {
        let used = number(&self.usage)?;
        let limits = self.limits.iter().filter_map(number).filter(|&limit| limit < NO_LIMIT);
        let Some(limit) = limits.min() else { return Some(u64::MAX) };
        let left = limit.saturating_sub(used);
        if left >= enough {
            return Some(left);
        }
        let text = self.statistics.as_ref().and_then(read).unwrap_or_default();
        let [idle, used] = self.cache.map(|name| line_number(&text, name).unwrap_or(0));
        // The kernel takes back what was not used for long without hesitation, the rest with some.
        Some(left.saturating_add(idle).saturating_add(used / 2).min(limit))
    }
}

fn read(file: &File) -> Option<Vec<u8>> {
    let mut bytes = vec![0; STATISTICS];
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match retry_on_intr(|| pread(file, &mut *rest, length as u64)).ok()? {
            0 => break,
            more => length += more,
        }
    }
    bytes.truncate(length);
    Some(bytes)
}

/// The number that a file holds; `max` is none.
fn number(file: &File) -> Option<u64> {
    let mut bytes = [0; 32];
    let length = retry_on_intr(|| pread(file, &mut bytes, 0)).ok()?;
    std::str::from_utf8(bytes.get(..length)?).ok()?.trim().parse().ok()
}

/// The number behind a name at the beginning of a line.
pub(super) fn line_number(text: &[u8], name: &str) -> Option<u64> {
    std::str::from_utf8(text).ok()?.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        if words.next()? == name { words.next()?.parse().ok() } else { None }
    })
}

/// What may still be promised where the kernel promises no more than it has (`vm.overcommit_memory` is 2): bytes below
/// `CommitLimit`. `None`: it promises more, or does not tell.
pub(super) fn commit_left(root: &ProcRoot) -> Option<u64> {
    if root.number("proc/sys/vm/overcommit_memory") != Some(2) {
        return None;
    }
    let text = root.bytes("proc/meminfo", STATISTICS).ok()?;
    let limit = line_number(&text, "CommitLimit:")?;
    Some(limit.saturating_sub(line_number(&text, "Committed_AS:")?).saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_narrowest_limit_counts_and_page_cache_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::at(folder.path());
        let write = |path: &str, text: &str| write(folder.path(), path, text);
        write("proc/meminfo", "MemTotal:    9000000 kB\nMemAvailable:    8000000 kB\n");
        let machine = MemoryGauge::open(&root, &Cgroup::default()).read().unwrap();
        assert_eq!(machine, Headroom { bytes: 8_000_000 * 1024, by: LimitedBy::Machine });

        write("sys/fs/cgroup/cgroup.controllers", "memory");
        write("sys/fs/cgroup/a/memory.max", "1000000\n");
        write("sys/fs/cgroup/a/memory.high", "max\n");
        write("sys/fs/cgroup/a/memory.current", "900000\n");
        write("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\nactive_file 20000\n");
        write("sys/fs/cgroup/a/b/memory.max", "max\n");
        write("sys/fs/cgroup/a/b/memory.current", "5000\n");
        let gauge = MemoryGauge::open(&root, &Cgroup::parse(b"0::/a/b\n"));
        let group = LimitedBy::Group(PathBuf::from("/sys/fs/cgroup/a"));
        assert_eq!(gauge.read().unwrap(), Headroom { bytes: 160_000, by: group.clone() });
        assert_eq!(gauge.read_below(100_000).unwrap().bytes, 100_000, "enough without the cache");
        write("sys/fs/cgroup/a/memory.high", "910000\n");
        assert_eq!(gauge.read().unwrap(), Headroom { bytes: 70_000, by: group });
    }

    #[test]
    fn version_1() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::at(folder.path());
        let write = |path: &str, text: &str| write(folder.path(), path, text);
        write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("sys/fs/cgroup/memory/memory.usage_in_bytes", "77\n");
        write("sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4096000\n");
        write("sys/fs/cgroup/memory/m/memory.usage_in_bytes", "4000000\n");
        let cgroup = Cgroup::parse(b"4:memory:/m\n");
        let headroom = MemoryGauge::open(&root, &cgroup).read().unwrap();
        let by = LimitedBy::Group(PathBuf::from("/sys/fs/cgroup/memory/m"));
        assert_eq!(headroom, Headroom { bytes: 96_000, by });
    }

    #[test]
    fn promises_are_counted_only_where_the_kernel_counts_them() {
        let folder = tempfile::tempdir().unwrap();
        let root = ProcRoot::at(folder.path());
        write(folder.path(), "proc/meminfo", "CommitLimit:    100 kB\nCommitted_AS:    40 kB\n");
        write(folder.path(), "proc/sys/vm/overcommit_memory", "0\n");
        assert_eq!(commit_left(&root), None);
        write(folder.path(), "proc/sys/vm/overcommit_memory", "2\n");
        assert_eq!(commit_left(&root), Some(60 * 1024));
    }
}
