//! Checks of the process that is to be recorded.

use biopsy_model::Pid;

use super::access::{Access, Allowed};
use super::capabilities::{PERFMON, SYS_PTRACE};
use super::check::{Check, Wanted};
use super::facts::Facts;
use super::hints;
use super::storage::bytes_text;
use crate::process::proc_root::ProcRoot;
use crate::process::seen::Seen;

/// Less memory than this left in the target's control group: what is allocated in its name (page cache of files it
/// maps, kernel structures of events) could bring it to its limit.
const TARGET_HEADROOM: u64 = 32 << 20;

pub(super) fn checks(root: &ProcRoot, facts: &Facts, pid: Pid, wanted: &Wanted) -> Vec<Check> {
    let Some(seen) = Seen::read(root, pid) else {
        return vec![Check::missing("process", format!("process {pid} has ended"), None)];
    };
    let access = Access::of(facts, &seen);
    let mut checks = Vec::new();
    if wanted.trace {
        checks.push(of_allowed("trace", "the trace is whole", &access.trace));
    }
    if wanted.trace && !facts.perf_cpu_wide.works() && facts.perf_own_user.works() {
        checks.push(descriptors(facts, seen.stat.threads));
    }
    if wanted.metrics {
        checks.push(of_allowed("metrics", "all metrics can be read", &access.metrics));
    }
    if wanted.memory {
        checks.push(of_allowed("memory-access", "memory can be read", &access.memory));
    }
    if seen.status.tracer != 0 {
        let tracer = seen.status.tracer;
        let detail =
            format!("process {pid} is traced by process {tracer} (a debugger?): it may stop at any time");
        checks.push(Check::limited("debugger", detail, None));
    }
    if seen.exe_deleted {
        let detail =
            "its executable was replaced or deleted since it started; symbols are read from the running copy";
        checks.push(Check::ok("executable", detail));
    }
    if let Some(memory) = seen.cgroup.memory(root)
        && memory.left() < TARGET_HEADROOM
    {
        let (left, limit) = (bytes_text(memory.left()), bytes_text(memory.limit));
        let detail = format!(
            "{left} left of {limit} in its control group, page cache counted as used: it is near its limit"
        );
        checks.push(Check::limited("target-memory", detail, None));
    }
    checks
}

/// Without events for a whole CPU, each thread needs two on each CPU: samples, and names and switches.
fn descriptors(facts: &Facts, threads: u64) -> Check {
    /// For everything else: files read, the recording, the terminal.
    const OTHERS: u64 = 64;
    const NAME: &str = "descriptors";
    let needed = threads.saturating_mul(facts.cpus).saturating_mul(2).saturating_add(OTHERS);
    let counted = format!("{threads} threads on {} CPUs need {needed} descriptors", facts.cpus);
    match facts.open_files {
        Some(limit) if limit < needed => {
            let hint = hints::get_capabilities(facts, &[PERFMON, SYS_PTRACE]);
            Check::missing(NAME, format!("{counted}, and the hard limit of open files is {limit}"), hint)
        }
        _ => Check::ok(NAME, counted),
    }
}

fn of_allowed(name: &'static str, all: &str, allowed: &Allowed) -> Check {
    match allowed {
        Allowed::Full => Check::ok(name, all),
        Allowed::Limited { why, hint } => Check::limited(name, why.clone(), hint.clone()),
        Allowed::No { why, hint } => Check::missing(name, why.clone(), hint.clone()),
    }
}
