//! What is known of the machine and of our account, gathered once; the checks are pure functions of it.

use std::io;
use std::path::{Path, PathBuf};

use biopsy_model::Tid;
use biopsy_sys::bpf;
use biopsy_sys::bpf::asm::{Assembler, Reg};
use biopsy_sys::limits::LockedMemoryRoom;
use biopsy_sys::perf::{Event, EventConfig, Scope, Source};
use rustix::process::{Resource, getrlimit};

use super::capabilities::CapabilitySet;
use super::container::Container;
use super::namespace;
use crate::process::cgroup::{Cgroup, MemoryLimit};
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::status::Status;

/// How a harmless trial of a system call went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// The kernel did it.
    Works,
    /// The kernel refused with this errno.
    Refused(i32),
}

impl Trial {
    /// It works.
    #[must_use]
    pub fn works(self) -> bool {
        self == Self::Works
    }

    fn of<T>(result: io::Result<T>) -> Self {
        match result {
            Ok(_) => Self::Works,
            Err(error) => Self::Refused(error.raw_os_error().unwrap_or(0)),
        }
    }
}

impl std::fmt::Display for Trial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Works => f.write_str("works"),
            Self::Refused(errno) => write!(f, "refused ({})", errno_name(*errno)),
        }
    }
}

/// The name of an errno that the calls tried here can give.
pub(crate) fn errno_name(errno: i32) -> String {
    // An error that is none of the system's has no number, and `from_raw_os_error` panics on 0.
    if !(1..4096).contains(&errno) {
        return "no error of the system".to_owned();
    }
    let name = match rustix::io::Errno::from_raw_os_error(errno) {
        rustix::io::Errno::PERM => "EPERM",
        rustix::io::Errno::ACCESS => "EACCES",
        rustix::io::Errno::NOENT => "ENOENT",
        rustix::io::Errno::NOSYS => "ENOSYS",
        rustix::io::Errno::OPNOTSUPP => "EOPNOTSUPP",
        rustix::io::Errno::INVAL => "EINVAL",
        rustix::io::Errno::MFILE => "EMFILE",
        rustix::io::Errno::NOMEM => "ENOMEM",
        rustix::io::Errno::NODEV => "ENODEV",
        _ => return format!("errno {errno}"),
    };
    name.to_owned()
}

/// What is known of the machine and of our account.
#[derive(Clone, PartialEq, Debug)]
pub struct Facts {
    /// Effective uid.
    pub uid: u32,
    /// Effective capabilities. In a user namespace of our own they do not count for the machine.
    pub capabilities: CapabilitySet,
    /// Capabilities that we, and programs we start, can ever have.
    pub bounding: CapabilitySet,
    /// `no_new_privs`: sudo and file capabilities do nothing.
    pub no_new_privileges: bool,
    /// A seccomp filter is on.
    pub seccomp_filter: bool,
    /// We run in a pid namespace of our own; `None`: not known.
    pub own_pid_namespace: Option<bool>,
    /// We run in a user namespace of our own; `None`: not known.
    pub own_user_namespace: Option<bool>,
    /// The container we run in.
    pub container: Option<Container>,
    /// Kernel release, as `uname -r`.
    pub kernel: String,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.perf_event_mlock_kb`.
    pub perf_event_mlock_kb: Option<i64>,
    /// `kernel.kptr_restrict`.
    pub kptr_restrict: Option<i64>,
    /// `kernel.yama.ptrace_scope`; `None`: the kernel has no Yama, which is fine.
    pub ptrace_scope: Option<i64>,
    /// CPU-wide sampling with kernel frames.
    pub perf_cpu_wide: Trial,
    /// Sampling of a process of our own with kernel frames.
    pub perf_own_kernel: Trial,
    /// Sampling of a process of our own without kernel frames.
    pub perf_own_user: Trial,
    /// Hardware cycle counter, of a process of our own without kernel frames.
    pub perf_cycles: Trial,
    /// A BPF program for a raw tracepoint, and the ring buffer it writes to.
    pub bpf: Trial,
    /// The limit of locked memory in bytes, where it is what BPF was refused for: a smaller map was allowed.
    pub bpf_memory: Option<u64>,
    /// The kernel tells its types (`/sys/kernel/btf/vmlinux`).
    pub btf: bool,
    /// A processor's counters are listed (`/sys/bus/event_source/devices/cpu*` or `armv8*`).
    pub pmu_listed: bool,
    /// `/proc/kallsyms` shows addresses to us.
    pub kernel_addresses: bool,
    /// `/proc/pressure` is there and can be read.
    pub pressure: bool,
    /// tracefs is mounted and can be read.
    pub tracefs: bool,
    /// Other users' processes are listed in `/proc`: process 1 is there.
    pub sees_process_1: bool,
    /// CPUs that are online.
    pub cpus: u64,
    /// Hard limit of open files; `None`: unlimited.
    pub open_files: Option<u64>,
    /// Hard limit of locked memory in bytes; `None`: unlimited.
    pub locked_memory: Option<u64>,
    /// Memory limit of our own control group.
    pub memory: Option<MemoryLimit>,
    /// Path of the running program, for commands that name it.
    pub program: Option<PathBuf>,
    /// The program's file can be given capabilities that count: its file system keeps them, and is not `nosuid`.
    pub program_takes_capabilities: bool,
    /// `sudo` is installed.
    pub has_sudo: bool,
    /// `setcap` is installed.
    pub has_setcap: bool,
}

impl Facts {
    /// Gathers the facts. The trials open events and programs that observe nobody but this very thread, or
    /// nobody at all, and close them at once.
    #[must_use]
    pub fn read(root: &ProcRoot) -> Self {
        let status = root.myself().and_then(|process| process.read("status", SMALL)).unwrap_or_default();
        let status = Status::parse(&status);
        let program = std::env::current_exe().ok();
        let program_takes_capabilities = program.as_deref().is_some_and(takes_capabilities);
        let cpus = biopsy_sys::limits::online_cpus().map_or(1, |cpus| cpus.len());
        let (bpf, bpf_memory) = try_bpf(u32::try_from(cpus).unwrap_or(u32::MAX));
        let number = |name: &str| root.number(&format!("proc/sys/kernel/{name}"));
        Self {
            uid: rustix::process::geteuid().as_raw(),
            capabilities: CapabilitySet(status.capabilities),
            bounding: CapabilitySet(status.bounding),
            no_new_privileges: status.no_new_privileges,
            seccomp_filter: status.seccomp == Some(2),
            own_pid_namespace: namespace::is_own_pid_namespace(root),
            own_user_namespace: namespace::is_own_user_namespace(root),
            container: Container::detect(root, std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()),
            kernel: root.text("proc/sys/kernel/osrelease").unwrap_or_default(),
            perf_event_paranoid: number("perf_event_paranoid"),
            perf_event_mlock_kb: number("perf_event_mlock_kb"),
            kptr_restrict: number("kptr_restrict"),
            ptrace_scope: number("yama/ptrace_scope"),
            perf_cpu_wide: try_perf(Source::CpuClock, false, true),
            perf_own_kernel: try_perf(Source::CpuClock, false, false),
            perf_own_user: try_perf(Source::CpuClock, true, false),
            perf_cycles: try_perf(Source::Cycles, true, false),
            bpf,
            bpf_memory,
            btf: root.path("sys/kernel/btf/vmlinux").exists(),
            pmu_listed: is_pmu_listed(root),
            kernel_addresses: shows_kernel_addresses(root),
            pressure: root.text("proc/pressure/cpu").is_ok(),
            tracefs: ["sys/kernel/tracing", "sys/kernel/debug/tracing"]
                .iter()
                .any(|folder| root.text(&format!("{folder}/events/sched/sched_switch/id")).is_ok()),
            sees_process_1: root.path("proc/1/stat").exists(),
            cpus: cpus as u64,
            open_files: getrlimit(Resource::Nofile).maximum,
            locked_memory: getrlimit(Resource::Memlock).maximum,
            memory: root.myself().ok().and_then(|process| Cgroup::read(&process).memory(root)),
            program,
            program_takes_capabilities,
            has_sudo: is_installed("sudo"),
            has_setcap: is_installed("setcap"),
        }
    }

    /// Whether we hold a capability, and it counts for the whole machine.
    #[must_use]
    pub fn may(&self, capability: super::capabilities::Capability) -> bool {
        self.own_user_namespace != Some(true) && self.capabilities.allows(capability)
    }
}

fn try_perf(source: Source, exclude_kernel: bool, cpu_wide: bool) -> Trial {
    let Some(cpu) = own_cpu() else { return Trial::Refused(0) };
    let config = EventConfig {
        source,
        frequency_hz: 99,
        sample_type: 0,
        user_registers: 0,
        user_stack_bytes: 0,
        exclude_kernel,
        side_band: false,
        switches: false,
        inherit: false,
        wakeup_watermark: 0,
    };
    // Thread 0 is the caller.
    let scope = if cpu_wide { Scope::Cpu(cpu) } else { Scope::ThreadOnCpu { tid: Tid(0), cpu } };
    Trial::of(Event::open(&config, scope))
}

/// A CPU that is online.
fn own_cpu() -> Option<u32> {
    biopsy_sys::limits::online_cpus().ok()?.first().copied()
}

/// Size of the ring buffer that the recorder's programs write to.
#[must_use]
pub fn ring_bytes(cpus: u32) -> u32 {
    cpus.checked_next_power_of_two().unwrap_or(u32::MAX).saturating_mul(2 << 20).clamp(8 << 20, 64 << 20)
}

/// The parts the recorder needs: a ring buffer, and a program for a raw tracepoint (loaded, not attached). As the recorder does,
/// with the limit of locked memory raised meanwhile; where that is refused, of the recorder's size. Besides, that limit, where
/// it is the reason of a refusal.
fn try_bpf(cpus: u32) -> (Trial, Option<u64>) {
    let room = LockedMemoryRoom::raise().ok();
    let limit = room.as_ref().and_then(LockedMemoryRoom::bytes);
    let bytes = if limit.is_some() { ring_bytes(cpus) } else { 16 * 4096 };
    if let Err(error) = bpf::Map::create(bpf::MapKind::RingBuf, "biopsy_try", 0, 0, bytes) {
        let trial = Trial::of::<()>(Err(error));
        let small = || bpf::Map::create(bpf::MapKind::Array, "biopsy_try", 4, 8, 1);
        let for_its_size = trial == Trial::Refused(1) && small().is_ok();
        return (trial, limit.filter(|_| for_its_size));
    }
    let mut program = Assembler::new();
    program.mov_imm(Reg::R0, 0);
    program.exit();
    let loaded = bpf::Program::load(bpf::ProgramKind::RawTracepoint, "biopsy_try", &program.finish());
    (Trial::of(loaded.map_err(|error| error.source)), None)
}

fn is_pmu_listed(root: &ProcRoot) -> bool {
    let Ok(entries) = std::fs::read_dir(root.path("sys/bus/event_source/devices")) else { return false };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name == "cpu" || name.starts_with("cpu_core") || name.starts_with("armv8")
    })
}

/// The kernel shows all addresses as zero to those who may not know them.
fn shows_kernel_addresses(root: &ProcRoot) -> bool {
    let text = root.bytes("proc/kallsyms", 4096).unwrap_or_default();
    text.split(|&byte| byte == b'\n')
        .filter_map(|line| line.split(|&byte| byte == b' ').next())
        // The first symbols are of per-CPU variables: small numbers on x86, for more than this before Linux 6.
        .any(|address| address.len() == 16 && address.iter().any(|&digit| digit != b'0'))
}

fn takes_capabilities(program: &Path) -> bool {
    let nosuid = rustix::fs::statvfs(program)
        .map_or(true, |filesystem| filesystem.f_flag.contains(rustix::fs::StatVfsMountFlags::NOSUID));
    let mut value = [0; 64];
    let kept = match rustix::fs::getxattr(program, "security.capability", &mut value) {
        Ok(_) | Err(rustix::io::Errno::NODATA | rustix::io::Errno::RANGE) => true,
        Err(_) => false,
    };
    kept && !nosuid
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // An unprivileged user's PATH often lacks the folders of the administrator's programs.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::{Trial, errno_name, shows_kernel_addresses};
    use crate::fake_proc::FakeProc;

    /// Seen when a thread could not be started for a trial: the error was none of the system's.
    #[test]
    fn a_refusal_without_a_number_has_a_name() {
        let error = std::io::Error::other("no thread");
        let shown = Trial::of(Err::<(), _>(error)).to_string();
        assert_eq!(shown, "refused (no error of the system)");
        assert_eq!(errno_name(rustix::io::Errno::ACCESS.raw_os_error()), "EACCES");
        assert_eq!(errno_name(-5), "no error of the system");
    }

    /// Linux 5.10 begins with 4 KB of per-CPU variables: it was said that kernel frames have no names, where they had.
    #[test]
    fn only_zeros_are_hidden_addresses() {
        let proc = FakeProc::new();
        for (line, shown) in [
            ("0000000000000000 A fixed_percpu_data\n0000000000001000 A cpu_debug_store\n", true),
            ("ffffffff81000000 T _stext\n", true),
            ("0000000000000000 A fixed_percpu_data\n0000000000000000 A cpu_debug_store\n", false),
            ("", false),
        ] {
            std::fs::write(proc.path().join("proc/kallsyms"), line).unwrap();
            assert_eq!(shows_kernel_addresses(&proc.root()), shown, "{line}");
        }
    }
}
