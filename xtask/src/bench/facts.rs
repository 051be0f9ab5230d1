//! What of the machine matters for the numbers.

use std::process::Command;

use serde::Serialize;

/// Facts that are printed above the table and written beside it.
#[derive(Debug, Serialize)]
pub(crate) struct Facts {
    kernel: String,
    cpu: String,
    cpus: usize,
    /// Hardware cycles can be counted. Most virtual machines cannot.
    pmu: bool,
    load_before: String,
    commit: String,
}

impl std::fmt::Display for Facts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pmu = if self.pmu { "with a PMU" } else { "without a PMU" };
        let Self { kernel, cpu, cpus, load_before, commit, .. } = self;
        write!(f, "Linux {kernel}, {cpus} x {cpu}, {pmu}, load {load_before}, commit {commit}")
    }
}

/// Reads them.
pub(crate) fn of_this_machine() -> Facts {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, name)| name);
    Facts {
        kernel: read("/proc/sys/kernel/osrelease"),
        cpu: cpu.unwrap_or("unknown CPU").to_owned(),
        cpus: std::thread::available_parallelism().map_or(0, usize::from),
        pmu: has_pmu(),
        load_before: read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
        commit: commit(),
    }
}

/// The kernel registers a `cpu` event source (or several, on hybrid CPUs) where it has a driver for the PMU.
pub(crate) fn has_pmu() -> bool {
    std::fs::read_dir("/sys/bus/event_source/devices").is_ok_and(|devices| {
        devices.flatten().any(|one| one.file_name().to_string_lossy().starts_with("cpu"))
    })
}

fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "rev-parse", "--short", "HEAD"]).current_dir(crate::run::root());
    crate::run::output_of(&mut git).map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
