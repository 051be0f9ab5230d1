//! Settings and counters of the control groups of a process and of their parents.

use std::fmt::Write as _;
use std::io::Read;
use std::path::Path;

use biopsy_recording::WriteError;

use super::members::Members;
use crate::metrics::cgroup_paths::{Groups, Mounts, find_groups};

/// Groups beyond this many are left out, and bytes of one file.
const MOST_GROUPS: usize = 32;
const MOST_BYTES: u64 = 2_048;

/// Files of each controller, of both versions; those that are not there are left out.
const FILES: [&str; 36] = [
    "cgroup.type",
    "cgroup.controllers",
    "cgroup.events",
    "cgroup.freeze",
    "cpu.max",
    "cpu.max.burst",
    "cpu.weight",
    "cpu.stat",
    "cpu.pressure",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpu.shares",
    "cpuset.cpus.effective",
    "cpuset.mems.effective",
    "cpuacct.usage",
    "memory.current",
    "memory.peak",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.max",
    "memory.swap.current",
    "memory.swap.max",
    "memory.events",
    "memory.pressure",
    "memory.oom.group",
    "memory.usage_in_bytes",
    "memory.max_usage_in_bytes",
    "memory.limit_in_bytes",
    "memory.failcnt",
    "memory.oom_control",
    "pids.current",
    "pids.max",
    "io.max",
    "io.weight",
    "io.pressure",
];

pub(super) fn write(members: &mut Members<'_>) -> Result<(), WriteError> {
    let proc_root = members.config.root.path("proc");
    let mountinfo = members.config.root.bytes("proc/self/mountinfo", members.config.member_bytes);
    let mounts = Mounts::parse(mountinfo.as_deref().unwrap_or_default());
    let Groups { found: groups, hidden, unreadable } =
        find_groups(&proc_root, &mounts, &[members.pid], MOST_GROUPS);
    let mut text = String::new();
    for (path, files) in &groups {
        let _ = writeln!(text, "{path}");
        let mut folders: Vec<&Path> =
            files.folders.iter().flatten().map(|folder| folder.path.as_path()).collect();
        folders.sort_unstable();
        folders.dedup();
        for name in FILES {
            for folder in &folders {
                if let Some(value) = read(&folder.join(name)) {
                    let _ = writeln!(text, "    {name}: {}", value.trim_end().replace('\n', ", "));
                }
            }
        }
    }
    if hidden > 0 {
        let _ = writeln!(text, "[{hidden} control groups lie outside of what is mounted here]");
    }
    if let Some(error) = mountinfo.err().or(unreadable) {
        let _ = writeln!(text, "[control groups are not known: {error}]");
    }
    if text.is_empty() { Ok(()) } else { members.write("cgroup-settings.txt", &text) }
}

fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    biopsy_files::open_kernels(path).ok()?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
