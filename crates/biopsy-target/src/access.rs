//! What may be captured of one process by this account: tried where trying is harmless, not guessed.

use biopsy_model::Pid;

use crate::list::Seen;
use crate::preflight::Facts;
use crate::preflight::capabilities::{BPF, DAC_READ_SEARCH, PERFMON, SYS_PTRACE};
use crate::preflight::hints;
use crate::proc_root::ProcRoot;

/// How much of one kind of recording is possible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// All of it.
    Full,
    /// Some of it.
    Limited {
        /// What is missing, and why.
        why: String,
        /// What would allow more.
        hint: Option<String>,
    },
    /// Nothing.
    No {
        /// Why.
        why: String,
        /// What would allow it.
        hint: Option<String>,
    },
}

impl Allowed {
    fn limited(why: impl Into<String>, hint: Option<String>) -> Self {
        Self::Limited { why: why.into(), hint }
    }

    fn no(why: impl Into<String>, hint: Option<String>) -> Self {
        Self::No { why: why.into(), hint }
    }

    /// Why it is not `Full`.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Full => None,
            Self::Limited { why, .. } | Self::No { why, .. } => Some(why),
        }
    }

    /// A word for people and for JSON: `full`, `limited`, `no`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Limited { .. } => "limited",
            Self::No { .. } => "no",
        }
    }
}

/// What may be captured of one process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// A timeline trace.
    pub trace: Allowed,
    /// Metrics.
    pub metrics: Allowed,
    /// Its memory: snapshots and dumps.
    pub memory: Allowed,
}

/// What may be captured of a process; `None`: it has ended.
#[must_use]
pub fn access(root: &ProcRoot, facts: &Facts, pid: Pid) -> Option<Access> {
    Seen::read(root, pid).map(|seen| Access::of(facts, &seen))
}

impl Access {
    pub(crate) fn of(facts: &Facts, seen: &Seen) -> Self {
        let beyond = if seen.stat.is_kernel_thread {
            Some("it is a kernel thread")
        } else if seen.stat.is_zombie() {
            Some("it has ended (zombie)")
        } else if seen.pid.0 == std::process::id() {
            Some("it is this biopsy itself")
        } else if is_32_bit(seen) {
            Some("it is a 32-bit program")
        } else {
            None
        };
        if let Some(why) = beyond {
            let no = Allowed::no(why, None);
            return Self { trace: no.clone(), metrics: no.clone(), memory: no };
        }
        // Opening `maps` asks the kernel whether we may look into the process (PTRACE_MODE_READ), opening `mem`
        // whether we may attach (PTRACE_MODE_ATTACH, Yama included). Neither does anything to it.
        let may_look = seen.dir.try_open("maps").is_ok();
        Self {
            trace: trace(facts, seen, may_look),
            metrics: metrics(facts, seen, may_look),
            memory: memory(facts, seen, may_look),
        }
    }
}

fn is_32_bit(seen: &Seen) -> bool {
    seen.dir.file("exe").is_ok_and(|exe| crate::elf::is_32_bit(&exe))
}

/// Why we may not look into it.
fn stranger(facts: &Facts, seen: &Seen) -> String {
    match seen.status.uids {
        Some((real, _)) if real != facts.uid && !facts.may(SYS_PTRACE) => {
            "it belongs to another user".to_owned()
        }
        _ if facts.may(SYS_PTRACE) => {
            "the kernel refuses, although CAP_SYS_PTRACE is there (a security module?)".to_owned()
        }
        _ => "it is protected (it changed its user, or has more capabilities)".to_owned(),
    }
}

fn trace(facts: &Facts, seen: &Seen, may_look: bool) -> Allowed {
    let wanted = [PERFMON, BPF, SYS_PTRACE, DAC_READ_SEARCH];
    let hint = || hints::get_capabilities(facts, &wanted);
    if facts.perf_cpu_wide.works() {
        if !may_look {
            return Allowed::limited(format!("addresses without names: {}", stranger(facts, seen)), hint());
        }
        return match facts.bpf.works() && facts.btf {
            true => Allowed::Full,
            false => Allowed::limited("no wake-ups: BPF does not work", hint()),
        };
    }
    if !may_look {
        return Allowed::no(stranger(facts, seen), hint());
    }
    let paranoid =
        facts.perf_event_paranoid.map_or_else(String::new, |value| format!(" (perf_event_paranoid {value})"));
    if facts.perf_own_kernel.works() {
        Allowed::limited(format!("no wake-ups{paranoid}"), hint())
    } else if facts.perf_own_user.works() {
        Allowed::limited(format!("no kernel frames, no wake-ups{paranoid}"), hint())
    } else {
        Allowed::no(format!("perf_event_open {}{paranoid}", facts.perf_own_user), hint())
    }
}

fn metrics(facts: &Facts, seen: &Seen, may_look: bool) -> Allowed {
    if may_look {
        return Allowed::Full;
    }
    let why = format!("no I/O, PSS and open files: {}", stranger(facts, seen));
    Allowed::limited(why, hints::get_capabilities(facts, &[SYS_PTRACE, DAC_READ_SEARCH]))
}

fn memory(facts: &Facts, seen: &Seen, may_look: bool) -> Allowed {
    if seen.dir.try_open("mem").is_ok() {
        return Allowed::Full;
    }
    let hint = hints::get_capabilities(facts, &[SYS_PTRACE, DAC_READ_SEARCH]);
    match facts.ptrace_scope {
        _ if !may_look => Allowed::no(stranger(facts, seen), hint),
        Some(3) => Allowed::no("kernel.yama.ptrace_scope is 3, which holds until the next boot", None),
        Some(scope @ 1..) => Allowed::no(format!("kernel.yama.ptrace_scope is {scope}"), hint),
        _ => Allowed::no("the kernel refuses to open its memory", hint),
    }
}
