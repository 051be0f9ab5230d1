//! What a live test needs from the machine: it is skipped with a printed reason, or fails where CI demands it.

use std::path::Path;
use std::process::Command;

use crate::skip::{REQUIRE_DOTNET, REQUIRE_LIVE, skip};

/// Something a test cannot do without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Privilege {
    /// Effective uid 0.
    Root,
    /// `perf_event_open` for CPU-wide events: root or CAP_PERFMON.
    Perf,
    /// `bpf(2)`: root or CAP_BPF (CAP_SYS_ADMIN on older kernels), and a kernel that has it.
    Bpf,
    /// tracefs readable at one of its two usual places, so that tracepoint ids are known.
    Tracefs,
    /// `ptrace` and `/proc/PID/mem` of other users' processes.
    Ptrace,
    /// A C compiler, for the sick programs.
    Cc,
    /// `rustc`, for the sick program written in Rust.
    Rustc,
    /// New pid and mount namespaces.
    Namespaces,
    /// A cpu controller of cgroup v1 or v2 in which groups can be made.
    Cgroup,
    /// `setpriv`, and root, to run something as an unprivileged user.
    OtherUser,
    /// MariaDB's server program.
    MariaDb,
    /// `sysbench`.
    Sysbench,
    /// `zstd`.
    Zstd,
    /// `gdb`, with its `gcore`.
    Gdb,
    /// Debian's `perf`.
    PerfTool,
    /// The kernel puts cores into the working folder of the process (`kernel.core_pattern`, which no test changes).
    KernelCores,
    /// The prebuilt .NET targets that are beside the repository on the project's own machines.
    DotNetTargets,
    /// The program `Sick` on .NET Core 3.1, made by `./x test` from public packages.
    DotNet31,
}

/// True: the test can run. False: it cannot, the reason was printed, and the test returns early.
///
/// # Panics
///
/// With `BIOPSY_REQUIRE_LIVE=1` in the environment a missing privilege fails the test instead of skipping it. The one
/// exception is [`Privilege::DotNetTargets`], which exists on few machines: it fails only with `BIOPSY_REQUIRE_DOTNET=1`.
#[must_use]
pub fn require(needed: Privilege) -> bool {
    let demanded = match needed {
        Privilege::DotNetTargets => REQUIRE_DOTNET,
        _ => REQUIRE_LIVE,
    };
    match missing(needed) {
        None => true,
        Some(reason) => {
            skip(demanded, &format!("needs {needed:?}: {reason}"));
            false
        }
    }
}

/// True: the program can be run with these arguments. False: the test, or this part of it, is skipped with a printed reason.
///
/// # Panics
///
/// As [`require`], with `BIOPSY_REQUIRE_LIVE=1`.
#[must_use]
pub fn require_program(program: &str, arguments: &[&str]) -> bool {
    let reason = missing_program(program, arguments);
    if let Some(reason) = &reason {
        skip(REQUIRE_LIVE, reason);
    }
    reason.is_none()
}

/// True: the test can run. False: what it needs is not there, for this reason; the test, or this part of it, is skipped.
///
/// # Panics
///
/// As [`require`], with `BIOPSY_REQUIRE_LIVE=1`.
#[must_use]
pub fn require_that(there: bool, reason: &str) -> bool {
    if !there {
        skip(REQUIRE_LIVE, reason);
    }
    there
}

/// Like [`require`], for several.
///
/// # Panics
///
/// As [`require`].
#[must_use]
pub fn require_all(needed: &[Privilege]) -> bool {
    needed.iter().all(|one| require(*one))
}

/// Why it is missing; `None`: it is there.
fn missing(needed: Privilege) -> Option<String> {
    match needed {
        Privilege::Root => (!is_root()).then(|| "not root".to_owned()),
        Privilege::Perf => missing_perf(),
        Privilege::Bpf => missing_bpf(),
        Privilege::Tracefs => missing_tracefs(),
        Privilege::Ptrace => missing_capability(&[CAP_SYS_PTRACE]),
        Privilege::Cc => missing_program("cc", &["--version"]),
        Privilege::Rustc => missing_program("rustc", &["--version"]),
        Privilege::Namespaces => {
            missing_program("unshare", &["--pid", "--fork", "--mount", "--mount-proc", "true"])
        }
        Privilege::Cgroup => crate::cgroup::missing(),
        Privilege::OtherUser => missing_program("setpriv", &["--reuid=65534", "--clear-groups", "true"]),
        // Debian has it where unprivileged users have no path to.
        Privilege::MariaDb => missing_program("/usr/sbin/mariadbd", &["--no-defaults", "--version"]),
        Privilege::Sysbench => missing_program("sysbench", &["--version"]),
        Privilege::Zstd => missing_program("zstd", &["--version"]),
        Privilege::Gdb => missing_program("gdb", &["--version"]),
        Privilege::PerfTool => missing_program("perf", &["--version"]),
        Privilege::KernelCores => missing_cores(),
        Privilege::DotNetTargets => missing_dotnet_targets(),
        Privilege::DotNet31 => crate::dotnet::packaged_dotnet("3.1").is_none().then(|| {
            let folder = crate::dotnet::packaged_dotnet_folder();
            format!("`fixtures/dotnet/make-targets {}` was not run", folder.display())
        }),
    }
}

const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Missing unless one of `any_of` is among the effective capabilities of this process.
fn missing_capability(any_of: &[u32]) -> Option<String> {
    let effective = crate::proc_status::field(std::process::id(), "CapEff")
        .and_then(|text| u64::from_str_radix(&text, 16).ok())
        .unwrap_or(0);
    let held = any_of.iter().any(|bit| effective & (1 << bit) != 0);
    (!held).then(|| format!("no capability of numbers {any_of:?} among CapEff {effective:#x}"))
}

fn missing_perf() -> Option<String> {
    if !Path::new("/proc/sys/kernel/perf_event_paranoid").exists() {
        return Some("the kernel has no perf events".to_owned());
    }
    missing_capability(&[CAP_PERFMON, CAP_SYS_ADMIN])
}

fn missing_bpf() -> Option<String> {
    if !Path::new("/proc/sys/kernel/unprivileged_bpf_disabled").exists() {
        return Some("the kernel has no bpf(2)".to_owned());
    }
    missing_capability(&[CAP_BPF, CAP_SYS_ADMIN])
}

fn missing_tracefs() -> Option<String> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let found = places.iter().any(|place| Path::new(place).join("events/sched/sched_switch/id").exists());
    (!found).then(|| format!("no sched tracepoints under {places:?}"))
}

fn missing_program(program: &str, arguments: &[&str]) -> Option<String> {
    match Command::new(program).args(arguments).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "`{program} {}` ended with {}: {}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Some(format!("`{program}` cannot be run: {error}")),
    }
}

fn missing_cores() -> Option<String> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let here = !pattern.trim().is_empty() && !pattern.contains(['|', '/', '@']);
    (!here).then(|| format!("`kernel.core_pattern` is `{}`, so cores do not come here", pattern.trim()))
}

fn missing_dotnet_targets() -> Option<String> {
    match crate::program::dotnet_targets() {
        Some(folder) if folder.join("run").exists() => None,
        Some(folder) => Some(format!("`{}` has no `run`", folder.display())),
        None => Some(
            "BIOPSY_DOTNET_TARGETS is not set and there is no `targets` beside the repository".to_owned(),
        ),
    }
}
