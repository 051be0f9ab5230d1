//! Small facts of one process that have no file of their own.

use std::fmt::Write as _;

use biopsy_recording::WriteError;

use super::members::{Members, one_line};
use crate::metrics::LARGEST_FOR_PSS;
use crate::metrics::parse::name_values;

const NAMESPACES: [&str; 8] = ["cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts"];

const FILES: [&str; 12] = [
    "oom_score",
    "oom_score_adj",
    "loginuid",
    "personality",
    "timerslack_ns",
    "coredump_filter",
    "attr/current",
    "uid_map",
    "gid_map",
    "wchan",
    "autogroup",
    "sched",
];

/// Lines of `sched` that are kept: counters and settings, without the load-tracking internals behind them.
const SCHED_LINES: usize = 40;

/// Writes the sums over all mappings, unless the process is so large that reading them would hold it up.
pub(super) fn write_memory(members: &mut Members<'_>) -> Result<(), WriteError> {
    let status = members.read("status").unwrap_or_default();
    let mut resident = 0_u64;
    name_values(&status, |name, kibibytes| {
        if name == b"VmRSS" {
            resident = kibibytes.saturating_mul(1024);
        }
    });
    if resident > LARGEST_FOR_PSS {
        let message = format!(
            "`smaps_rollup` of process {} is not read: with {} MiB it would hold the process up",
            members.pid,
            resident >> 20
        );
        members.warn("context.large-process", message);
        return Ok(());
    }
    members.copy("smaps_rollup", "smaps_rollup.txt")
}

pub(super) fn write(members: &mut Members<'_>) -> Result<(), WriteError> {
    let mut text = String::new();
    for name in NAMESPACES {
        let link = format!("ns/{name}");
        let target = members.dir.link(&link);
        if let Some(target) = members.note("ns", target) {
            let _ = writeln!(text, "namespace {name}: {}", one_line(&target));
        }
    }
    for name in FILES {
        let Some(bytes) = members.read(name) else { continue };
        let value = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = value.trim_end().lines().take(SCHED_LINES).collect();
        match lines.as_slice() {
            [] => {}
            [line] => {
                let _ = writeln!(text, "{name}: {}", line.trim_end_matches('\0'));
            }
            lines => {
                let _ = writeln!(text, "{name}:");
                for line in lines {
                    let _ = writeln!(text, "    {line}");
                }
            }
        }
    }
    members.write("facts.txt", &text)
}
