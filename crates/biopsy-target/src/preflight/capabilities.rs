//! Capabilities of this process (capabilities(7)), as far as they matter here.

/// A capability, by its bit number in `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Capability {
    bit: u32,
    /// Name as setcap(8) and the manual pages have it, in lower case.
    pub name: &'static str,
}

/// Read files and folders of everybody.
pub const DAC_READ_SEARCH: Capability = Capability { bit: 2, name: "cap_dac_read_search" };
/// Lock memory beyond the limit; perf buffers beyond `perf_event_mlock_kb`.
pub const IPC_LOCK: Capability = Capability { bit: 14, name: "cap_ipc_lock" };
/// Look into processes of everybody.
pub const SYS_PTRACE: Capability = Capability { bit: 19, name: "cap_sys_ptrace" };
/// Everything administrative; stands for PERFMON and BPF.
pub const SYS_ADMIN: Capability = Capability { bit: 21, name: "cap_sys_admin" };
/// Raise resource limits.
pub const SYS_RESOURCE: Capability = Capability { bit: 24, name: "cap_sys_resource" };
/// See kernel addresses.
pub const SYSLOG: Capability = Capability { bit: 34, name: "cap_syslog" };
/// Performance events of everybody (Linux 5.8).
pub const PERFMON: Capability = Capability { bit: 38, name: "cap_perfmon" };
/// Load BPF programs (Linux 5.8).
pub const BPF: Capability = Capability { bit: 39, name: "cap_bpf" };

/// All of the above, in the order they are shown.
pub const ALL: &[Capability] =
    &[PERFMON, BPF, SYS_PTRACE, DAC_READ_SEARCH, SYSLOG, IPC_LOCK, SYS_RESOURCE, SYS_ADMIN];

/// What gives a full recording of any process.
pub const WANTED: &[Capability] = &[PERFMON, BPF, SYS_PTRACE, DAC_READ_SEARCH, SYSLOG];

/// A set of capabilities, as `/proc/PID/status` writes it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Whether the set has this one itself.
    #[must_use]
    pub fn contains(self, capability: Capability) -> bool {
        self.0 & (1 << capability.bit) != 0
    }

    /// Whether the set allows what this one allows: CAP_SYS_ADMIN stands for PERFMON, BPF and SYSLOG too.
    #[must_use]
    pub fn allows(self, capability: Capability) -> bool {
        let stood_for = [PERFMON, BPF, SYSLOG].contains(&capability) && self.contains(SYS_ADMIN);
        self.contains(capability) || stood_for
    }

    /// The set of these.
    #[must_use]
    pub fn of(capabilities: &[Capability]) -> Self {
        Self(capabilities.iter().fold(0, |bits, capability| bits | 1 << capability.bit))
    }
}

/// Names for people: `CAP_PERFMON, CAP_BPF`.
pub(crate) fn names(capabilities: &[Capability]) -> String {
    let names: Vec<_> = capabilities.iter().map(|capability| capability.name.to_uppercase()).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        // What a process with nothing but CAP_PERFMON has in its status.
        let set = CapabilitySet(0x0000_0040_0000_0000);
        assert!(set.contains(PERFMON) && !set.contains(BPF));
        assert_eq!(CapabilitySet::of(&[PERFMON]), set);
        let admin = CapabilitySet::of(&[SYS_ADMIN]);
        assert!(
            admin.allows(PERFMON) && admin.allows(BPF) && !admin.allows(SYS_PTRACE) && !admin.contains(BPF)
        );
    }
}
