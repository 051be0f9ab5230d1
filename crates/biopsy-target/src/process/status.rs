//! `/proc/PID/status`: lines of `Name:\tvalue`.
//!
//! The kernel escapes the name of the process here, so a name cannot forge a line.

/// The lines of `/proc/PID/status` that are used (proc_pid_status(5)).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Status {
    /// Process the thread belongs to.
    pub(crate) tgid: Option<u32>,
    /// Who traces it; 0: nobody.
    pub(crate) tracer: u32,
    /// Real and effective uid.
    pub(crate) uids: Option<(u32, u32)>,
    /// Its pid in each pid namespace, ours first, its own last.
    pub(crate) namespace_pids: Vec<u32>,
    /// Effective capabilities, bit by number.
    pub(crate) capabilities: u64,
    /// Bounding set of capabilities.
    pub(crate) bounding: u64,
    /// seccomp mode: 0 off, 1 strict, 2 filter.
    pub(crate) seccomp: Option<u32>,
    /// How many seccomp filters (Linux 5.9).
    pub(crate) seccomp_filters: Option<u32>,
    /// `no_new_privs`.
    pub(crate) no_new_privileges: bool,
    /// The thread has a shadow stack (`x86_Thread_features`, Linux 6.6).
    pub(crate) shadow_stack: bool,
}

impl Status {
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let mut status = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once(':') else { continue };
            let mut numbers = value.split_ascii_whitespace();
            let mut number = || numbers.next().and_then(|text| text.parse::<u32>().ok());
            let hex = || u64::from_str_radix(value.trim(), 16).unwrap_or(0);
            match name {
                "Tgid" => status.tgid = number(),
                "TracerPid" => status.tracer = number().unwrap_or(0),
                "Uid" => status.uids = number().zip(number()),
                "NSpid" => status.namespace_pids = std::iter::from_fn(number).collect(),
                "CapEff" => status.capabilities = hex(),
                "CapBnd" => status.bounding = hex(),
                "Seccomp" => status.seccomp = number(),
                "Seccomp_filters" => status.seccomp_filters = number(),
                "x86_Thread_features" => {
                    status.shadow_stack = value.split_ascii_whitespace().any(|feature| feature == "shstk");
                }
                "NoNewPrivs" => status.no_new_privileges = number() == Some(1),
                _ => {}
            }
        }
        status
    }

    /// Its pid in its own pid namespace, where that is not ours.
    pub(crate) fn inner_pid(&self) -> Option<u32> {
        if self.namespace_pids.len() > 1 { self.namespace_pids.last().copied() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let status = Status::parse(
            b"Name:\todd\\nUid:\t0\nTgid:\t12\nTracerPid:\t3\nUid:\t1000\t1001\t1000\t1000\nNSpid:\t12\t4\t1\n\
              CapEff:\t0000004000000000\nSeccomp:\t2\nSeccomp_filters:\t3\nNoNewPrivs:\t1\n\
              x86_Thread_features:\tshstk wrss \nx86_Thread_features_locked:\t\n",
        );
        assert_eq!(status.tgid, Some(12));
        assert_eq!(status.tracer, 3);
        assert_eq!(status.uids, Some((1000, 1001)));
        assert_eq!(status.inner_pid(), Some(1));
        assert_eq!(status.capabilities, 1 << 38);
        assert_eq!(status.seccomp, Some(2));
        assert_eq!(status.seccomp_filters, Some(3));
        assert!(status.no_new_privileges);
        assert!(status.shadow_stack);
        assert!(!Status::parse(b"x86_Thread_features:\t\nx86_Thread_features_locked:\tshstk\n").shadow_stack);
    }

    #[test]
    fn same_namespace_has_no_inner_pid() {
        assert_eq!(Status::parse(b"NSpid:\t12\n").inner_pid(), None);
        assert_eq!(Status::parse(b"").inner_pid(), None);
    }
}
