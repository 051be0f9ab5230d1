//! How many more processes a process may have made.

use std::path::PathBuf;

use crate::preflight::capabilities::{CapabilitySet, SYS_ADMIN, SYS_RESOURCE};
use crate::process::cgroup;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::seen::Seen;
use crate::process::stat::Stat;
use crate::process::status::Status;

/// Most levels of control groups above a process that are looked at.
const LEVELS: usize = 64;

/// A limit on the number of processes and threads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct TaskLimit {
    /// How many more there may be.
    pub(super) left: u64,
    /// What sets it: a file, a setting, a limit.
    pub(super) by: String,
}

/// The narrowest limit on new processes of this one; `None`: none could be read.
pub(super) fn narrowest(root: &ProcRoot, seen: &Seen) -> Option<TaskLimit> {
    let mut limits = of_groups(root, seen);
    limits.extend(of_kernel(root));
    limits.extend(of_user(root, seen));
    limits.into_iter().min_by_key(|limit| limit.left)
}

fn of_groups(root: &ProcRoot, seen: &Seen) -> Vec<TaskLimit> {
    let mut folders = Vec::new();
    if let (Some(path), Some(mount)) = (seen.cgroup.v2.as_deref(), cgroup::v2_mount(root)) {
        folders.extend(cgroup::levels(path).take(LEVELS).map(|level| format!("{mount}{level}")));
    }
    let text = seen.dir.read("cgroup", SMALL).unwrap_or_default();
    if let Some(path) = cgroup::path_of_controller(&text, "pids") {
        folders.extend(cgroup::levels(&path).take(LEVELS).map(|level| format!("sys/fs/cgroup/pids{level}")));
    }
    let limit = |folder: String| {
        let limit = root.number(&format!("{folder}/pids.max"))?;
        let used = root.number(&format!("{folder}/pids.current"))?;
        let by = format!("`{}`", PathBuf::from("/").join(folder).join("pids.max").display());
        Some(TaskLimit { left: u64::try_from(limit.saturating_sub(used)).unwrap_or(0), by })
    };
    folders.into_iter().filter_map(limit).collect()
}

/// `kernel.threads-max` and `kernel.pid_max` hold for all tasks, whose number is in `/proc/loadavg`.
fn of_kernel(root: &ProcRoot) -> Vec<TaskLimit> {
    let text = root.text("proc/loadavg").unwrap_or_default();
    let total = text.split_ascii_whitespace().nth(3).and_then(|tasks| tasks.split_once('/'));
    let Some(total) = total.and_then(|(_, total)| total.parse::<u64>().ok()) else { return Vec::new() };
    ["threads-max", "pid_max"]
        .into_iter()
        .filter_map(|name| {
            let limit = u64::try_from(root.number(&format!("proc/sys/kernel/{name}"))?).ok()?;
            Some(TaskLimit { left: limit.saturating_sub(total), by: format!("kernel.{name}") })
        })
        .collect()
}

/// RLIMIT_NPROC counts the threads of the user; it does not hold for root and for who may exceed it (getrlimit(2)).
fn of_user(root: &ProcRoot, seen: &Seen) -> Option<TaskLimit> {
    let capabilities = CapabilitySet(seen.status.capabilities);
    let exempt = seen.uid() == 0 || capabilities.contains(SYS_RESOURCE) || capabilities.contains(SYS_ADMIN);
    if exempt {
        return None;
    }
    let limits = seen.dir.read("limits", SMALL).ok()?;
    let limit = soft_limit(&limits, "Max processes")?;
    let of_same_user = |pid| {
        let dir = root.process(pid).ok()?;
        let status = Status::parse(&dir.read("status", SMALL).ok()?);
        let same = status.uids.is_some_and(|(real, _)| real == seen.uid());
        if same { Some(Stat::parse(&dir.read("stat", SMALL).ok()?)?.threads) } else { None }
    };
    let used: u64 = root.pids().ok()?.into_iter().filter_map(of_same_user).sum();
    Some(TaskLimit {
        left: limit.saturating_sub(used),
        by: "its limit `Max processes` (`ulimit -u`)".to_owned(),
    })
}

/// The soft limit in a line of `/proc/PID/limits`; `None`: unlimited.
fn soft_limit(text: &[u8], name: &str) -> Option<u64> {
    let text = String::from_utf8_lossy(text);
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?.to_owned();
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_proc::FakeProc;

    fn write(proc: &FakeProc, path: &str, text: &str) {
        let path = proc.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_narrowest_of_all_ancestors() {
        let proc = FakeProc::new();
        proc.process(7, "a").cgroup("/outer/inner").write();
        write(&proc, "sys/fs/cgroup/cgroup.controllers", "pids");
        write(&proc, "sys/fs/cgroup/outer/pids.max", "20");
        write(&proc, "sys/fs/cgroup/outer/pids.current", "19");
        write(&proc, "sys/fs/cgroup/outer/inner/pids.max", "max");
        write(&proc, "sys/fs/cgroup/outer/inner/pids.current", "3");
        write(&proc, "proc/sys/kernel/threads-max", "1000");
        write(&proc, "proc/loadavg", "0.1 0.2 0.3 1/400 99");
        let limit = narrowest(&proc.root(), &proc.seen(7)).unwrap();
        assert_eq!(limit, TaskLimit { left: 1, by: "`/sys/fs/cgroup/outer/pids.max`".to_owned() });
    }

    #[test]
    fn version_1_and_the_kernels_own() {
        let proc = FakeProc::new();
        proc.process(7, "a").write();
        write(&proc, "proc/7/cgroup", "8:pids:/x\n");
        write(&proc, "sys/fs/cgroup/pids/x/pids.max", "20");
        write(&proc, "sys/fs/cgroup/pids/x/pids.current", "20");
        assert_eq!(narrowest(&proc.root(), &proc.seen(7)).unwrap().left, 0);
        write(&proc, "sys/fs/cgroup/pids/x/pids.max", "max");
        write(&proc, "proc/sys/kernel/pid_max", "401");
        write(&proc, "proc/loadavg", "0.1 0.2 0.3 1/400 99");
        let limit = narrowest(&proc.root(), &proc.seen(7)).unwrap();
        assert_eq!(limit, TaskLimit { left: 1, by: "kernel.pid_max".to_owned() });
    }

    #[test]
    fn the_limit_of_a_user() {
        let text =
            b"Limit   Soft Limit  Hard Limit  Units\nMax processes             96365    96365   processes\n";
        assert_eq!(soft_limit(text, "Max processes"), Some(96_365));
        assert_eq!(soft_limit(b"Max processes   unlimited unlimited processes\n", "Max processes"), None);
    }
}
