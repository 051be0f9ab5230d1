//! Checks of the machine and of our account.

use super::capabilities::{self, BPF, DAC_READ_SEARCH, IPC_LOCK, PERFMON, SYS_PTRACE, SYSLOG, WANTED};
use super::check::{Check, Wanted};
use super::container::Container;
use super::facts::{Facts, Trial};
use super::hints;
use super::storage::bytes_text;

/// Oldest supported kernel.
const SUPPORTED: (u32, u32) = (5, 10);
/// First kernel with the BPF ring buffer, CAP_PERFMON and CAP_BPF.
const RING_BUFFER: (u32, u32) = (5, 8);
/// First kernel that does not count BPF maps as locked memory.
const MEMORY_CONTROL: (u32, u32) = (5, 11);
/// Fewer open files than this are not enough for the fall-back with an event per thread and CPU.
const OPEN_FILES: u64 = 4096;
/// Less memory than this left in our control group may end the recorder ("at most 100 MB", and some room).
const HEADROOM: u64 = 192 << 20;

/// All checks, in the order they are shown.
pub(super) fn all(facts: &Facts) -> Vec<Check> {
    vec![
        account(facts),
        place(facts),
        kernel(facts),
        cpu_sampling(facts),
        thread_states(facts),
        hardware_counters(facts),
        kernel_symbols(facts),
        other_processes(facts),
        kernel_types(facts),
        pressure(facts),
        tracefs(facts),
        event_buffers(facts),
        open_files(facts),
        locked_memory(facts),
        memory(facts),
    ]
}

/// The checks that matter for what is wanted.
pub(super) fn wanted(facts: &Facts, wanted: &Wanted) -> Vec<Check> {
    let mut checks = vec![kernel(facts), memory(facts)];
    if wanted.trace {
        checks.extend([
            cpu_sampling(facts),
            thread_states(facts),
            kernel_symbols(facts),
            event_buffers(facts),
            open_files(facts),
            locked_memory(facts),
        ]);
    }
    if wanted.metrics {
        checks.push(pressure(facts));
    }
    checks
}

fn account(facts: &Facts) -> Check {
    let who = if facts.uid == 0 { "root".to_owned() } else { format!("uid {}", facts.uid) };
    let (held, lacking): (Vec<_>, Vec<_>) = WANTED.iter().partition(|&&capability| facts.may(capability));
    if lacking.is_empty() {
        return Check::ok("account", format!("{who}, with all capabilities that recording needs"));
    }
    let held = match held.as_slice() {
        [] => "no capabilities for recording".to_owned(),
        held => capabilities::names(held),
    };
    let detail = format!("{who}, with {held}; without {}", capabilities::names(&lacking));
    Check::limited("account", detail, hints::get_capabilities(facts, WANTED))
}

fn place(facts: &Facts) -> Check {
    const NAME: &str = "view";
    let container = facts.container.map_or("a pid namespace of its own", Container::name);
    if facts.own_pid_namespace == Some(true) {
        let hint = match facts.container {
            Some(Container::Docker) => {
                "run biopsy on the host, or start this container with `docker run --pid=host ...`"
            }
            Some(Container::Podman) => {
                "run biopsy on the host, or start this container with `podman run --pid=host ...`"
            }
            Some(Container::Kubernetes) => "run biopsy on the node, or give the pod `hostPID: true`",
            Some(Container::Other) | None => "run biopsy on the host",
        };
        let detail = format!("runs in {container}: sees the processes of that one only");
        return Check::limited(NAME, detail, Some(hint.to_owned()));
    }
    if !facts.sees_process_1 {
        let detail = "`/proc` hides processes of other users (`hidepid`)";
        return Check::limited(NAME, detail, Some("run biopsy as root".to_owned()));
    }
    match facts.container {
        Some(container) => {
            Check::ok(NAME, format!("runs in {}, and sees all processes of the machine", container.name()))
        }
        None => Check::ok(NAME, "sees all processes of the machine"),
    }
}

fn kernel(facts: &Facts) -> Check {
    const NAME: &str = "kernel";
    let release = &facts.kernel;
    match hints::kernel_version(release) {
        Some(version) if version >= SUPPORTED => Check::ok(NAME, format!("Linux {release}")),
        Some(version) if version >= RING_BUFFER => {
            Check::limited(NAME, format!("Linux {release}: older than 5.10, the oldest that is tested"), None)
        }
        Some(_) => Check::limited(
            NAME,
            format!(
                "Linux {release}: older than 5.10; before 5.8 there is no BPF ring buffer, so no wake-ups"
            ),
            None,
        ),
        None => Check::limited(NAME, format!("release `{release}` is not understood"), None),
    }
}

/// Why a call was refused that our capabilities should allow.
fn despite_capability(facts: &Facts, trial: Trial) -> String {
    if facts.seccomp_filter {
        format!("{trial} although the capability is there; a seccomp filter is on")
    } else {
        format!("{trial} although the capability is there")
    }
}

fn seccomp_hint(facts: &Facts) -> Option<String> {
    let container = facts.container.filter(|_| facts.seccomp_filter)?;
    let hint = match container {
        Container::Docker => "start the container with `docker run --security-opt seccomp=unconfined ...`",
        Container::Podman => "start the container with `podman run --security-opt seccomp=unconfined ...`",
        Container::Kubernetes => "give the container `securityContext: {seccompProfile: {type: Unconfined}}`",
        Container::Other => return None,
    };
    Some(hint.to_owned())
}

fn cpu_sampling(facts: &Facts) -> Check {
    const NAME: &str = "cpu-sampling";
    if facts.perf_cpu_wide.works() {
        return Check::ok(NAME, "all processes, with kernel frames");
    }
    let paranoid = paranoid_text(facts);
    if facts.may(PERFMON) {
        let detail = format!("perf_event_open {}", despite_capability(facts, facts.perf_cpu_wide));
        let works_less = facts.perf_own_user.works();
        let make = if works_less { Check::limited } else { Check::missing };
        return make(NAME, detail, seccomp_hint(facts));
    }
    let capability = hints::get_capabilities(facts, &[PERFMON, SYS_PTRACE]);
    if facts.perf_own_kernel.works() {
        Check::limited(
            NAME,
            format!("processes of this user only, with kernel frames ({paranoid}, no CAP_PERFMON)"),
            capability,
        )
    } else if facts.perf_own_user.works() {
        let hint = with_sysctl(
            facts,
            capability,
            "kernel.perf_event_paranoid=1",
            "kernel frames of own processes",
            1,
        );
        Check::limited(
            NAME,
            format!("processes of this user only, without kernel frames ({paranoid}, no CAP_PERFMON)"),
            hint,
        )
    } else {
        let hint = with_sysctl(facts, capability, "kernel.perf_event_paranoid=1", "own processes", 2);
        let detail = format!("perf_event_open {} ({paranoid}, no CAP_PERFMON)", facts.perf_own_user);
        Check::missing(NAME, detail, hint)
    }
}

fn paranoid_text(facts: &Facts) -> String {
    match facts.perf_event_paranoid {
        Some(value) => format!("kernel.perf_event_paranoid is {value}"),
        None => "the kernel has no perf events".to_owned(),
    }
}

/// Adds the setting to the ways of allowing more, where it is what is in the way (it is above `enough`).
fn with_sysctl(
    facts: &Facts,
    other: Option<String>,
    setting: &str,
    gives: &str,
    enough: i64,
) -> Option<String> {
    let in_the_way = facts.perf_event_paranoid.is_some_and(|value| value > enough);
    if !in_the_way || facts.seccomp_filter {
        return other;
    }
    let sysctl = format!("{} allows {gives}", hints::sysctl(facts, setting));
    Some(other.map_or(sysctl.clone(), |other| format!("{other}; {sysctl}")))
}

fn thread_states(facts: &Facts) -> Check {
    const NAME: &str = "thread-states";
    let less =
        "running and waiting come from switch records where sampling allows, wake-ups are not recorded";
    if facts.bpf.works() {
        if !facts.btf {
            let detail = format!(
                "BPF works, but the kernel has no type information (no `/sys/kernel/btf/vmlinux`): {less}"
            );
            return Check::limited(NAME, detail, None);
        }
        return Check::ok(NAME, "BPF programs can be loaded: running, ready, waiting and wake-ups");
    }
    if let Some(limit) = facts.bpf_memory {
        let detail = format!(
            "bpf {}: this kernel counts BPF maps as locked memory, of which at most {} are allowed here: {less}",
            facts.bpf,
            bytes_text(limit)
        );
        return Check::limited(NAME, detail, hints::get_capabilities(facts, &[capabilities::SYS_RESOURCE]));
    }
    if facts.may(BPF) && facts.may(PERFMON) {
        let detail = format!("bpf {}: {less}", despite_capability(facts, facts.bpf));
        return Check::limited(NAME, detail, seccomp_hint(facts));
    }
    let hint = hints::get_capabilities(facts, &[BPF, PERFMON, SYS_PTRACE]);
    Check::limited(NAME, format!("bpf {}: {less}", facts.bpf), hint)
}

fn hardware_counters(facts: &Facts) -> Check {
    const NAME: &str = "hardware-counters";
    if facts.perf_cycles.works() {
        Check::ok(NAME, "cycle counter works")
    } else if !facts.perf_own_user.works() {
        Check::limited(NAME, "not known: sampling is refused altogether", None)
    } else if facts.pmu_listed {
        Check::limited(NAME, format!("cycle counter {}: sampling uses the timer", facts.perf_cycles), None)
    } else {
        Check::limited(NAME, "none (usual in virtual machines): sampling uses the timer", None)
    }
}

fn kernel_symbols(facts: &Facts) -> Check {
    const NAME: &str = "kernel-symbols";
    if facts.kernel_addresses {
        return Check::ok(NAME, "kernel functions are shown by name");
    }
    let restrict = facts.kptr_restrict;
    let no_capability = if facts.may(SYSLOG) { "" } else { ", no CAP_SYSLOG" };
    let reason = restrict
        .map_or_else(String::new, |value| format!(" (kernel.kptr_restrict is {value}{no_capability})"));
    let detail = format!("`/proc/kallsyms` shows no addresses{reason}: kernel frames have no names");
    let hint = match restrict {
        Some(2..) if facts.may(SYSLOG) => Some(hints::sysctl(facts, "kernel.kptr_restrict=1")),
        // At 2 nobody sees them: the setting and the capability are both needed.
        Some(2..) => hints::get_capabilities(facts, &[SYSLOG])
            .map(|other| format!("{}, and {other}", hints::sysctl(facts, "kernel.kptr_restrict=1"))),
        _ => hints::get_capabilities(facts, &[SYSLOG]),
    };
    Check::limited(NAME, detail, hint)
}

fn other_processes(facts: &Facts) -> Check {
    const NAME: &str = "other-processes";
    let scope = facts.ptrace_scope;
    if scope == Some(3) {
        let detail = "kernel.yama.ptrace_scope is 3: memory of processes cannot be read until the next boot";
        return Check::limited(NAME, detail, None);
    }
    if facts.may(SYS_PTRACE) && facts.may(DAC_READ_SEARCH) {
        return Check::ok(NAME, "processes of all users can be inspected");
    }
    let own = match scope {
        Some(1..) if !facts.may(SYS_PTRACE) => format!(
            "; memory of own processes cannot be read either (kernel.yama.ptrace_scope is {})",
            scope.unwrap_or_default()
        ),
        _ => String::new(),
    };
    let detail = format!("only processes of this user can be inspected{own}");
    let hint = hints::get_capabilities(facts, &[SYS_PTRACE, DAC_READ_SEARCH]);
    Check::limited(NAME, detail, hint)
}

fn kernel_types(facts: &Facts) -> Check {
    const NAME: &str = "kernel-types";
    if facts.btf {
        Check::ok(NAME, "`/sys/kernel/btf/vmlinux` is there")
    } else {
        Check::limited(
            NAME,
            "no `/sys/kernel/btf/vmlinux`: the kernel was built without type information",
            None,
        )
    }
}

fn pressure(facts: &Facts) -> Check {
    const NAME: &str = "pressure";
    if facts.pressure {
        Check::ok(NAME, "`/proc/pressure` can be read")
    } else {
        Check::limited(
            NAME,
            "no `/proc/pressure`: pressure of CPU, memory and disk is not in the metrics",
            None,
        )
    }
}

fn tracefs(facts: &Facts) -> Check {
    const NAME: &str = "tracefs";
    if facts.tracefs {
        Check::ok(NAME, "mounted; nothing depends on it")
    } else {
        Check::ok(NAME, "not mounted or not readable; nothing depends on it")
    }
}

fn event_buffers(facts: &Facts) -> Check {
    /// The kernel's default (512 KiB and a page); the recorder's buffers fit into it per CPU.
    const ENOUGH_KB: i64 = 516;
    const NAME: &str = "event-buffers";
    match facts.perf_event_mlock_kb {
        _ if facts.may(IPC_LOCK) => Check::ok(NAME, "not limited (CAP_IPC_LOCK)"),
        Some(kb) if kb >= ENOUGH_KB => Check::ok(NAME, format!("{kb} KiB for each CPU")),
        Some(kb) => {
            let hint = hints::sysctl(facts, &format!("kernel.perf_event_mlock_kb={ENOUGH_KB}"));
            let detail = format!("kernel.perf_event_mlock_kb is {kb}: small buffers, so events may be lost");
            Check::limited(NAME, detail, Some(hint))
        }
        None => Check::missing(NAME, "the kernel has no perf events", None),
    }
}

fn open_files(facts: &Facts) -> Check {
    const NAME: &str = "open-files";
    match facts.open_files {
        Some(limit) if limit < OPEN_FILES && !facts.perf_cpu_wide.works() => {
            let detail = format!("at most {limit}: sampling per thread needs one for each thread and CPU");
            let hint = format!("raise the hard limit (`ulimit -Hn`, as root) to {OPEN_FILES} or more");
            Check::limited(NAME, detail, Some(hint))
        }
        Some(limit) => Check::ok(NAME, format!("at most {limit}")),
        None => Check::ok(NAME, "not limited"),
    }
}

fn locked_memory(facts: &Facts) -> Check {
    const NAME: &str = "locked-memory";
    /// The maps of the recorder's programs besides the ring buffer.
    const TABLES: u64 = 8 << 20;
    let needed = TABLES + u64::from(super::facts::ring_bytes(u32::try_from(facts.cpus).unwrap_or(u32::MAX)));
    let counted = hints::kernel_version(&facts.kernel).is_some_and(|version| version < MEMORY_CONTROL);
    match facts.locked_memory {
        Some(limit) if counted && limit < needed && !facts.may(capabilities::SYS_RESOURCE) => {
            let detail = format!("at most {}, and this kernel counts BPF maps to it", bytes_text(limit));
            Check::limited(NAME, detail, hints::get_capabilities(facts, &[capabilities::SYS_RESOURCE]))
        }
        Some(limit) => Check::ok(NAME, format!("at most {}; enough here", bytes_text(limit))),
        None => Check::ok(NAME, "not limited"),
    }
}

fn memory(facts: &Facts) -> Check {
    const NAME: &str = "memory";
    match &facts.memory {
        None => Check::ok(NAME, "no limit on our control group"),
        Some(memory) => {
            let (left, limit) = (bytes_text(memory.left()), bytes_text(memory.limit));
            let detail = format!("{left} left of {limit} in our control group `{}`", memory.folder.display());
            if memory.left() < HEADROOM {
                let detail = format!("{detail}, page cache counted as used: the recorder may be killed");
                Check::limited(NAME, detail, Some("run biopsy outside of this control group".to_owned()))
            } else {
                Check::ok(NAME, detail)
            }
        }
    }
}
