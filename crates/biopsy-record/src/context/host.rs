//! The machine.

use std::fmt::Write as _;
use std::path::Path;

use biopsy_model::capture::HostInfo;
use biopsy_recording::{RecordingFolder, WriteError, layout};

use super::config::Config;
use super::members::{Summary, write_member};
use crate::masking::Masking;

/// Small texts of the machine that explain how it behaves, below its root. The kernel's command line is not among
/// them: it holds secrets of disks and networks, and what matters of it shows in the settings.
const FILES: [&str; 31] = [
    "proc/version",
    "proc/uptime",
    "proc/loadavg",
    "proc/meminfo",
    "proc/pressure/cpu",
    "proc/pressure/memory",
    "proc/pressure/io",
    "proc/swaps",
    "proc/sys/fs/file-nr",
    "proc/sys/kernel/pid_max",
    "proc/sys/kernel/threads-max",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/kernel/perf_event_max_sample_rate",
    "proc/sys/kernel/kptr_restrict",
    "proc/sys/kernel/yama/ptrace_scope",
    "proc/sys/kernel/sched_autogroup_enabled",
    "proc/sys/kernel/task_delayacct",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/core_pattern",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/max_map_count",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/vm/dirty_background_ratio",
    "proc/sys/net/core/somaxconn",
    "proc/sys/net/ipv4/ip_local_port_range",
    "proc/sys/net/ipv4/tcp_max_syn_backlog",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/devices/system/clocksource/clocksource0/current_clocksource",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "sys/devices/system/cpu/smt/active",
];

/// Name of the member.
const MEMBER: &str = "host.txt";

/// Writes the texts of the machine.
pub(super) fn write(
    config: &Config,
    folder: &RecordingFolder,
    masking: &Masking,
    summary: &mut Summary,
) -> Result<(), WriteError> {
    let mut text = String::new();
    for name in FILES {
        let Ok(value) = config.root.text(name) else { continue };
        match value.contains('\n') {
            true => {
                let _ = writeln!(text, "/{name}:");
                for line in value.lines() {
                    let _ = writeln!(text, "    {line}");
                }
            }
            false => {
                let _ = writeln!(text, "/{name}: {value}");
            }
        }
    }
    for (name, value) in cpu_models(&config.root.text("proc/cpuinfo").unwrap_or_default()) {
        let _ = writeln!(text, "CPUs: {value} of {name}");
    }
    let member = format!("{}{MEMBER}", layout::TARGET_FOLDER);
    write_member(folder, &member, &masking.text(&member, &text))?;
    summary.members.push(member);
    Ok(())
}

/// How many CPUs there are of each model.
fn cpu_models(cpuinfo: &str) -> std::collections::BTreeMap<String, u64> {
    let mut models = std::collections::BTreeMap::new();
    for line in cpuinfo.lines().filter_map(|line| line.strip_prefix("model name")) {
        let name = line.trim_start_matches([':', '\t', ' ']).to_owned();
        *models.entry(name).or_default() += 1;
    }
    models
}

/// Facts about the machine, from `/proc` and `/etc/os-release`. The host name is masked as a pseudonym: it
/// says where a customer's server stands, and nothing about what is wrong with it.
#[must_use]
pub fn host_info(proc_root: &Path, masking: &Masking) -> HostInfo {
    let read = |name: &str| {
        let bytes = biopsy_files::read_kernels(proc_root.join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let cpu_info = read("cpuinfo");
    let memory = read("meminfo");
    let hostname = read("sys/kernel/hostname");
    HostInfo {
        hostname: masking.redactor().pseudonym("host", hostname.trim()),
        kernel: read("sys/kernel/osrelease").trim().to_owned(),
        os: os_name(&os_release()).unwrap_or_default(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpus: biopsy_sys::limits::online_cpus().map_or(0, |cpus| u32::try_from(cpus.len()).unwrap_or(0)),
        memory: memory_total(&memory).unwrap_or(0),
        cpu_model: cpu_model(&cpu_info).unwrap_or_default(),
    }
}

#[expect(clippy::disallowed_methods, reason = "root's own file, also where the root lies on a network")]
fn os_release() -> String {
    ["/etc/os-release", "/usr/lib/os-release"]
        .into_iter()
        .find_map(|path| std::fs::read_to_string(path).ok())
        .unwrap_or_default()
}

fn os_name(text: &str) -> Option<String> {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    value("PRETTY_NAME").or_else(|| value("NAME"))
}

fn memory_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// `model name` of x86; ARM has only numbers: implementer and part.
fn cpu_model(text: &str) -> Option<String> {
    let value = |key: &str| {
        let line = text.lines().find(|line| line.split(':').next().is_some_and(|own| own.trim() == key))?;
        line.split_once(':').map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    value("model name").or_else(|| {
        let (implementer, part) = (value("CPU implementer")?, value("CPU part")?);
        Some(format!("implementer {implementer} part {part}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_where_they_are() {
        assert_eq!(
            os_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13\"\n").as_deref(),
            Some("Debian GNU/Linux 13")
        );
        assert_eq!(os_name(""), None);
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Some CPU @ 2\n").as_deref(),
            Some("Some CPU @ 2")
        );
        assert_eq!(
            cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n").as_deref(),
            Some("implementer 0x41 part 0xd0c")
        );
        assert_eq!(memory_total("MemTotal:  16 kB\n"), Some(16384));
        assert_eq!(memory_total("MemTotal: 99999999999999999999 kB\n"), None);
    }
}
