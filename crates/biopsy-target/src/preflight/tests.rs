//! Checks of made-up machines: what is said must follow from the facts, and hints must hold.

use super::capabilities::{CapabilitySet, WANTED};
use super::*;

/// Root on a machine where everything works.
fn root() -> Facts {
    Facts {
        uid: 0,
        capabilities: CapabilitySet(u64::MAX),
        bounding: CapabilitySet(u64::MAX),
        no_new_privileges: false,
        seccomp_filter: false,
        own_pid_namespace: Some(false),
        own_user_namespace: Some(false),
        container: None,
        kernel: "6.1.0-18-amd64".to_owned(),
        perf_event_paranoid: Some(2),
        perf_event_mlock_kb: Some(516),
        kptr_restrict: Some(0),
        ptrace_scope: None,
        perf_cpu_wide: Trial::Works,
        perf_own_kernel: Trial::Works,
        perf_own_user: Trial::Works,
        perf_cycles: Trial::Works,
        bpf: Trial::Works,
        bpf_memory: None,
        btf: true,
        pmu_listed: true,
        kernel_addresses: true,
        pressure: true,
        tracefs: true,
        sees_process_1: true,
        cpus: 8,
        open_files: Some(1 << 20),
        locked_memory: Some(8 << 20),
        memory: None,
        program: Some("/usr/local/bin/biopsy".into()),
        program_takes_capabilities: true,
        has_sudo: true,
        has_setcap: true,
    }
}

/// A user like any other, on Debian.
fn user() -> Facts {
    Facts {
        uid: 1000,
        capabilities: CapabilitySet(0),
        perf_event_paranoid: Some(3),
        ptrace_scope: Some(1),
        perf_cpu_wide: Trial::Refused(13),
        perf_own_kernel: Trial::Refused(13),
        perf_own_user: Trial::Refused(13),
        perf_cycles: Trial::Refused(13),
        bpf: Trial::Refused(1),
        kernel_addresses: false,
        ..root()
    }
}

/// Root in a container as docker makes them.
fn docker() -> Facts {
    Facts {
        uid: 0,
        // Docker's default set: chown, dac_override, kill, setuid, net_bind_service ...
        capabilities: CapabilitySet(0x0000_0000_a804_25fb),
        bounding: CapabilitySet(0x0000_0000_a804_25fb),
        seccomp_filter: true,
        own_pid_namespace: Some(true),
        container: Some(Container::Docker),
        perf_cpu_wide: Trial::Refused(1),
        perf_own_kernel: Trial::Refused(1),
        perf_own_user: Trial::Refused(1),
        ..user()
    }
}

fn check(facts: &Facts, name: &str) -> Check {
    let mut found: Vec<Check> = machine::all(facts).into_iter().filter(|check| check.name == name).collect();
    assert_eq!(found.len(), 1, "{name}");
    found.remove(0)
}

fn hints(facts: &Facts) -> String {
    machine::all(facts).into_iter().filter_map(|check| check.hint).collect::<Vec<_>>().join("\n")
}

#[test]
fn root_has_nothing_to_change() {
    for check in machine::all(&root()) {
        assert_eq!(
            (check.status, check.hint.as_deref()),
            (Status::Ok, None),
            "{}: {}",
            check.name,
            check.detail
        );
    }
}

#[test]
fn a_user_is_told_the_commands() {
    let sampling = check(&user(), "cpu-sampling");
    assert_eq!(sampling.status, Status::Missing);
    assert_eq!(
        sampling.detail,
        "perf_event_open refused (EACCES) (kernel.perf_event_paranoid is 3, no CAP_PERFMON)"
    );
    assert_eq!(
        sampling.hint.unwrap(),
        "`sudo /usr/local/bin/biopsy`, or once: `sudo setcap cap_perfmon,cap_sys_ptrace+ep /usr/local/bin/biopsy`; \
         `sudo sysctl kernel.perf_event_paranoid=1` allows own processes"
    );
    assert!(check(&user(), "other-processes").detail.contains("kernel.yama.ptrace_scope is 1"));
}

#[test]
fn settings_are_named_only_when_they_are_in_the_way() {
    let open = Facts {
        perf_event_paranoid: Some(1),
        perf_own_kernel: Trial::Works,
        perf_own_user: Trial::Works,
        ..user()
    };
    let sampling = check(&open, "cpu-sampling");
    assert_eq!(sampling.status, Status::Limited);
    assert!(!sampling.hint.unwrap().contains("sysctl"));
    // A filter refuses: the setting would change nothing.
    let filtered = Facts { seccomp_filter: true, ..user() };
    assert!(!check(&filtered, "cpu-sampling").hint.unwrap().contains("sysctl"));
}

#[test]
fn setcap_is_proposed_only_where_it_works() {
    assert!(hints(&user()).contains("setcap"));
    for facts in [
        Facts { program_takes_capabilities: false, ..user() },
        Facts { has_setcap: false, ..user() },
        Facts { no_new_privileges: true, ..user() },
        Facts { kernel: "5.4.0".to_owned(), ..user() },
        Facts { bounding: CapabilitySet(0), ..user() },
        Facts { own_user_namespace: Some(true), ..user() },
        Facts { uid: 0, ..user() },
        docker(),
    ] {
        assert!(!hints(&facts).contains("setcap"), "{}", hints(&facts));
    }
}

#[test]
fn sudo_is_proposed_only_where_it_works() {
    for facts in [
        Facts { has_sudo: false, ..user() },
        Facts { no_new_privileges: true, ..user() },
        Facts { own_user_namespace: Some(true), container: Some(Container::Podman), ..user() },
        docker(),
    ] {
        assert!(!hints(&facts).contains("`sudo "), "{}", hints(&facts));
    }
}

#[test]
fn containers_are_told_how_to_be_started() {
    let account = check(&docker(), "account").hint.unwrap();
    assert_eq!(
        account,
        "run biopsy on the host, or start this container with `docker run --cap-add PERFMON --cap-add BPF --cap-add \
         SYS_PTRACE --cap-add DAC_READ_SEARCH --cap-add SYSLOG --security-opt seccomp=unconfined ...`"
    );
    assert_eq!(check(&docker(), "view").status, Status::Limited);
    let pod = Facts { container: Some(Container::Kubernetes), ..docker() };
    assert!(check(&pod, "account").hint.unwrap().contains("add: [PERFMON, BPF,"));
    assert!(check(&pod, "view").hint.unwrap().contains("hostPID: true"));
}

#[test]
fn capabilities_in_a_user_namespace_do_not_count() {
    let rootless = Facts { own_user_namespace: Some(true), perf_cpu_wide: Trial::Refused(13), ..root() };
    let account = check(&rootless, "account");
    assert_eq!(account.status, Status::Limited);
    assert!(account.hint.unwrap().contains("user namespace"));
    assert!(WANTED.iter().all(|&capability| !rootless.may(capability)));
}

#[test]
fn a_seccomp_filter_is_blamed_when_the_capability_is_there() {
    let facts = Facts {
        capabilities: CapabilitySet::of(WANTED),
        bounding: CapabilitySet::of(WANTED),
        bpf: Trial::Refused(1),
        ..docker()
    };
    let sampling = check(&facts, "cpu-sampling");
    assert!(
        sampling.detail.contains("refused (EPERM) although the capability is there; a seccomp filter is on")
    );
    assert_eq!(
        sampling.hint.as_deref(),
        Some("start the container with `docker run --security-opt seccomp=unconfined ...`")
    );
    assert_eq!(check(&facts, "thread-states").status, Status::Limited);
}

#[test]
fn locked_memory_is_blamed_only_where_a_smaller_map_was_allowed() {
    let wanted = [capabilities::BPF, capabilities::PERFMON, capabilities::SYS_PTRACE];
    let lacking = CapabilitySet::of(&wanted);
    let facts = Facts {
        capabilities: lacking,
        kernel: "5.10.0-32".to_owned(),
        locked_memory: Some(64 << 10),
        bpf: Trial::Refused(1),
        bpf_memory: Some(64 << 10),
        ..root()
    };
    let states = check(&facts, "thread-states");
    assert!(
        states.detail.contains("counts BPF maps as locked memory, of which at most 64 KiB"),
        "{}",
        states.detail
    );
    assert!(
        states.hint.as_deref().is_some_and(|hint| hint.to_lowercase().contains("sys_resource")),
        "{:?}",
        states.hint
    );
    // For another reason: the limit is not mentioned.
    let other = check(&Facts { bpf_memory: None, ..facts }, "thread-states");
    assert!(!other.detail.contains("locked memory"), "{}", other.detail);
}

#[test]
fn old_kernels_and_small_limits() {
    assert_eq!(check(&Facts { kernel: "5.4.0-42".to_owned(), ..root() }, "kernel").status, Status::Limited);
    assert_eq!(check(&Facts { kernel: "5.10.0".to_owned(), ..root() }, "kernel").status, Status::Ok);
    assert_eq!(check(&Facts { kernel: String::new(), ..root() }, "kernel").status, Status::Limited);
    let small = Facts { locked_memory: Some(64 << 10), kernel: "5.10.0".to_owned(), ..user() };
    assert_eq!(check(&small, "locked-memory").status, Status::Limited);
    assert_eq!(check(&Facts { kernel: "5.15.0".to_owned(), ..small }, "locked-memory").status, Status::Ok);
    assert_eq!(check(&Facts { open_files: Some(1024), ..user() }, "open-files").status, Status::Limited);
    // CPU-wide sampling needs few.
    assert_eq!(check(&Facts { open_files: Some(1024), ..root() }, "open-files").status, Status::Ok);
    let tight = crate::process::cgroup::MemoryLimit {
        limit: 64 << 20,
        used: 60 << 20,
        folder: "/sys/fs/cgroup/x".into(),
    };
    assert_eq!(check(&Facts { memory: Some(tight), ..root() }, "memory").status, Status::Limited);
}

#[test]
fn what_is_hidden_is_said() {
    assert!(check(&Facts { sees_process_1: false, ..user() }, "view").detail.contains("hidepid"));
    let restricted = Facts { kernel_addresses: false, kptr_restrict: Some(2), ..root() };
    assert_eq!(check(&restricted, "kernel-symbols").hint.as_deref(), Some("`sysctl kernel.kptr_restrict=1`"));
}

#[test]
fn events_of_each_thread_need_descriptors() {
    let proc = crate::fake_proc::FakeProc::new();
    proc.process(20, "app").state('S', 100).write();
    let wanted = Wanted { trace: true, ..Wanted::default() };
    let found = |facts: &Facts| {
        let checks = preflight_in(&proc.root(), facts, Pid(20), &wanted);
        checks.into_iter().find(|check| check.name == "descriptors").map(|check| check.status)
    };
    let owner = Facts { perf_own_user: Trial::Works, open_files: Some(1664), ..user() };
    assert_eq!(found(&owner), Some(Status::Ok));
    assert_eq!(found(&Facts { open_files: Some(1663), ..owner.clone() }), Some(Status::Missing));
    assert_eq!(found(&Facts { open_files: None, ..owner }), Some(Status::Ok));
    // CPU-wide, their number does not depend on threads.
    assert_eq!(found(&Facts { open_files: Some(1024), ..root() }), None);
}

#[test]
fn every_check_has_its_own_name() {
    let mut names: Vec<_> = machine::all(&root()).iter().map(|check| check.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

#[test]
fn preflight_of_a_made_up_process() {
    let proc = crate::fake_proc::FakeProc::new();
    proc.process(20, "app").write();
    std::fs::write(proc.path().join("proc/20/mem"), "").unwrap();
    let wanted = Wanted { trace: true, metrics: true, memory: true, ..Wanted::default() };
    let checks = preflight_in(&proc.root(), &root(), Pid(20), &wanted);
    assert!(checks.iter().all(|check| check.status == Status::Ok), "{checks:?}");
    assert_eq!(checks.len(), 3);

    std::fs::remove_file(proc.path().join("proc/20/maps")).unwrap();
    let checks = preflight_in(&proc.root(), &user(), Pid(20), &wanted);
    let trace = checks.iter().find(|check| check.name == "trace").unwrap();
    assert_eq!((trace.status, trace.detail.as_str()), (Status::Missing, "it belongs to another user"));
    let checks = preflight_in(&proc.root(), &root(), Pid(21), &wanted);
    assert_eq!(checks[0].status, Status::Missing);
}
