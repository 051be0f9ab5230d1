//! Which method, why, and at what cost: a pure function of what is known.

use std::time::Duration;

use super::predict::{self, Costs};
use super::subject::{Machine, Subject};
use crate::freeze::{FreezeOptions, Method, ProcessPlan};
use crate::preflight::Check;
use crate::preflight::access::Allowed;
use crate::preflight::storage::bytes_text;

/// Bytes of page tables for each entry that fork copies.
const ENTRY: u64 = 8;
/// The kernel's own for each thread and mapping that fork copies, roughly.
const STRUCTURES: u64 = 1 << 20;
/// What a stack of a thread takes of a copy, on the generous side; glibc's have some 10 to 100 KiB in use.
const STACK: u64 = 64 << 10;

/// Name of the check that says that one out-of-memory kill takes others with it.
pub(super) const ONE_FOR_ALL: &str = "out-of-memory";

/// Why a method cannot be used.
struct Obstacle {
    check: Check,
}

impl Obstacle {
    fn new(name: &'static str, why: impl Into<String>, hint: Option<String>) -> Self {
        Self { check: Check::missing(name, why, hint) }
    }
}

/// Decides.
pub(super) fn decide(subject: &Subject, machine: &Machine, options: &FreezeOptions) -> ProcessPlan {
    let counts = subject.counts.unwrap_or_default();
    let threads = subject.threads.count;
    let fork = predict::predict_fork(&counts, threads);
    let mut plan = ProcessPlan {
        key: subject.key.clone(),
        method: Method::CopyOnWrite,
        why: "it can fork, and its memory is shared with the copy page by page until it writes".to_owned(),
        predicted_pause: fork,
        threads: u32::try_from(threads).unwrap_or(u32::MAX),
        small_pages: counts.pages_4k,
        huge_pages: counts.huge_pages,
        present_bytes: counts.own_bytes().saturating_add(subject.shared_bytes),
        memory_needed: page_tables(subject).saturating_add(counts.own_bytes()),
        memory_available: subject.headroom.as_ref().map(|headroom| headroom.bytes),
        memory_at_least: page_tables(subject),
        memory_limit: subject.headroom.as_ref().map(|headroom| headroom.by.clone()),
        // While it is made, there are two more processes.
        orphan: subject.orphans_are_taken && subject.tasks.as_ref().is_none_or(|limit| limit.left > 2),
        copy_limit: 0,
        checks: remarks(subject),
    };
    let never = never(subject);
    if let Some(obstacle) = never.into_iter().next() {
        return refuse(plan, obstacle);
    }
    let Some(obstacle) = no_fork(subject, machine).into_iter().next() else {
        if options.stacks_only {
            let copy = copy(plan.clone(), subject, machine, options);
            if copy.method == Method::StopAndCopy && copy.predicted_pause < fork {
                return ProcessPlan {
                    why: "only stacks are wanted: copying them is shorter than a fork".to_owned(),
                    ..copy
                };
            }
        }
        plan.checks.push(memory_of_fork(subject, &plan));
        return within_pause(plan, subject, machine, options);
    };
    instead_of_fork(plan, obstacle, subject, machine, options)
}

/// Decides anew after a fork turned out to be impossible in the window, for this reason.
pub(super) fn decide_without_fork(
    subject: &Subject,
    machine: &Machine,
    options: &FreezeOptions,
    why: &str,
) -> ProcessPlan {
    let plan = decide(subject, machine, options);
    if plan.method != Method::CopyOnWrite {
        return plan;
    }
    let checks = plan.checks.into_iter().filter(|check| !["memory", "pause"].contains(&check.name)).collect();
    let plan = ProcessPlan { checks, ..plan };
    instead_of_fork(plan, Obstacle::new("fork", why, None), subject, machine, options)
}

fn instead_of_fork(
    mut plan: ProcessPlan,
    obstacle: Obstacle,
    subject: &Subject,
    machine: &Machine,
    options: &FreezeOptions,
) -> ProcessPlan {
    if !options.allow_stop_and_copy {
        return refuse(plan, obstacle);
    }
    plan.why =
        format!("it cannot fork ({}), so memory is copied while it stands still", obstacle.check.detail);
    put(&mut plan.checks, Check { status: crate::preflight::Status::Limited, ..obstacle.check });
    copy(plan, subject, machine, options)
}

fn refuse(mut plan: ProcessPlan, obstacle: Obstacle) -> ProcessPlan {
    plan.method = Method::Refused;
    plan.why.clone_from(&obstacle.check.detail);
    plan.predicted_pause = Duration::ZERO;
    put(&mut plan.checks, obstacle.check);
    plan
}

/// One check for each name: what was found last says most.
fn put(checks: &mut Vec<Check>, check: Check) {
    checks.retain(|one| one.name != check.name);
    checks.push(check);
}

/// What forbids any freeze.
fn never(subject: &Subject) -> Option<Obstacle> {
    if let Allowed::No { why, hint } = &subject.memory_access {
        return Some(Obstacle::new("memory-access", why.clone(), hint.clone()));
    }
    if subject.threads.tracer != 0 {
        let why = format!("it is traced by process {} (a debugger?)", subject.threads.tracer);
        let hint =
            format!("end process {} first: a process can have one tracer only", subject.threads.tracer);
        return Some(Obstacle::new("debugger", why, Some(hint)));
    }
    if let Some(folder) = &subject.frozen_group {
        let why = format!("its control group `{folder}` is frozen: it does not run");
        let hint = "thaw the group (unpause the container), or wait until it is thawed".to_owned();
        return Some(Obstacle::new("frozen-group", why, Some(hint)));
    }
    let threads = &subject.threads;
    if let Some(why) = &threads.not_listed {
        return Some(Obstacle::new("threads", format!("its threads cannot be listed ({why})"), None));
    }
    if threads.count == 0 {
        return Some(Obstacle::new("process", "none of its threads is left", None));
    }
    if threads.uninterruptible == threads.count {
        let why =
            "all of its threads are in uninterruptible waits (a disk or a file server that does not answer?)";
        return Some(Obstacle::new("uninterruptible", why, Some("try again when it goes on".to_owned())));
    }
    if subject.counts.is_none() {
        return Some(Obstacle::new("pages", "its pages cannot be counted (`/proc/PID/pagemap`)", None));
    }
    None
}

/// What forbids the fork.
fn no_fork(subject: &Subject, machine: &Machine) -> Option<Obstacle> {
    let threads = &subject.threads;
    if threads.shadow_stack == threads.count {
        let why = "its threads have shadow stacks, which an injected call would violate";
        return Some(Obstacle::new("shadow-stack", why, None));
    }
    if threads.strict == threads.count {
        let why = "seccomp lets it make no calls but read, write and exit";
        return Some(Obstacle::new("seccomp", why, None));
    }
    let free = threads.count.saturating_sub(threads.strict).saturating_sub(threads.filtered);
    if free == 0 && !machine.may_read_filters {
        let why = "its seccomp filters cannot be read, and might kill it for a fork";
        let hint = "run biopsy with CAP_SYS_ADMIN, outside of a container with a seccomp profile".to_owned();
        return Some(Obstacle::new("seccomp", why, Some(hint)));
    }
    if subject.userfaultfd {
        let why = "it handles page faults of its own memory (userfaultfd), or that cannot be read, and a fork might wait for it";
        return Some(Obstacle::new("userfaultfd", why, None));
    }
    if let Some(limit) = subject.tasks.as_ref().filter(|limit| limit.left < 2) {
        let why = format!("it may start no more processes: {} leaves {}", limit.by, limit.left);
        return Some(Obstacle::new("tasks", why, Some(format!("raise {}", limit.by))));
    }
    if let Some(left) = machine.commit_left.filter(|&left| left < subject.promised_bytes) {
        let why = format!(
            "a fork promises {} anew, and the kernel has {} left to promise (vm.overcommit_memory is 2)",
            bytes_text(subject.promised_bytes),
            bytes_text(left)
        );
        return Some(Obstacle::new("commit", why, None));
    }
    let Some(headroom) = &subject.headroom else {
        let why = "how much memory is left is not known, so the copy could not be ended in time";
        return Some(Obstacle::new("memory", why, None));
    };
    let tables = page_tables(subject);
    let spare = headroom.to_spare(own_bytes(subject));
    if spare < tables {
        let least = tables.saturating_add(headroom.reserve(own_bytes(subject)));
        let why = format!(
            "a fork needs {} to begin with, and {} are left {}",
            bytes_text(least),
            bytes_text(headroom.bytes),
            where_text(headroom)
        );
        return Some(Obstacle::new("memory", why, None));
    }
    let most = tables.saturating_add(own_bytes(subject));
    if let Some(policy) = subject.one_for_all.as_ref().filter(|_| spare < most) {
        let why = format!(
            "a copy may need up to {} while it lives, {} can be spared {}, and should the kernel have to end it, {policy}",
            bytes_text(most),
            bytes_text(spare),
            where_text(headroom)
        );
        let hint = "give it more memory, or set `memory.oom.group` to 0 and `OOMPolicy=continue`".to_owned();
        return Some(Obstacle::new("memory", why, Some(hint)));
    }
    None
}

/// Memory that the fork itself takes, in the target's control group.
pub(super) fn page_tables(subject: &Subject) -> u64 {
    let counts = subject.counts.unwrap_or_default();
    let lowest = counts.small_entries().saturating_add(counts.huge_pages).saturating_mul(ENTRY);
    lowest.saturating_add(STRUCTURES)
}

fn own_bytes(subject: &Subject) -> u64 {
    subject.counts.unwrap_or_default().own_bytes()
}

fn where_text(headroom: &crate::freeze::headroom::Headroom) -> String {
    match &headroom.by {
        crate::freeze::headroom::LimitedBy::Machine => "on this machine".to_owned(),
        crate::freeze::headroom::LimitedBy::Group(folder) => {
            format!("in its control group `{}`", folder.display())
        }
    }
}

/// Memory while the frozen copy lives.
fn memory_of_fork(subject: &Subject, plan: &ProcessPlan) -> Check {
    const NAME: &str = "memory";
    let own = bytes_text(plan.memory_needed);
    match &subject.headroom {
        None => Check::limited(NAME, format!("at most {own} more; what is left is not known"), None),
        Some(headroom) if headroom.to_spare(own_bytes(subject)) < plan.memory_needed => {
            let detail = format!(
                "{} are left {}; should it write to more than that while it is dumped, the frozen copy is ended and the \
                 dump is cut short",
                bytes_text(headroom.to_spare(own_bytes(subject))),
                where_text(headroom)
            );
            Check::limited(NAME, detail, None)
        }
        Some(headroom) => Check::ok(
            NAME,
            format!(
                "at most {own} more while the frozen copy lives, {} are left {}",
                bytes_text(headroom.bytes),
                where_text(headroom)
            ),
        ),
    }
}

/// Refuses a fork that takes too long, and names what would be shorter.
fn within_pause(
    mut plan: ProcessPlan,
    subject: &Subject,
    machine: &Machine,
    options: &FreezeOptions,
) -> ProcessPlan {
    const NAME: &str = "pause";
    let predicted = plan.predicted_pause;
    let pages = format!(
        "about {} for {} pages of 4 KiB, {} huge pages and {} threads",
        predict::text(predicted),
        plan.small_pages,
        plan.huge_pages,
        plan.threads
    );
    let collapsed = predict::predict_collapse(&subject.counts.unwrap_or_default(), subject.threads.count);
    if predicted <= options.max_pause {
        plan.checks.push(Check::ok(NAME, pages));
        return plan;
    }
    if options.collapse && collapsed <= options.max_pause {
        plan.checks.push(Check::limited(
            NAME,
            format!("{pages}, about {} once its memory is in huge pages", predict::text(collapsed)),
            None,
        ));
        plan.predicted_pause = collapsed;
        return plan;
    }
    let mut ways = Vec::new();
    if !options.collapse && collapsed <= options.max_pause {
        ways.push(format!(
            "turn its memory into huge pages first with `--collapse` (about {} then, seconds of CPU before)",
            predict::text(collapsed)
        ));
    }
    let stacks = FreezeOptions { stacks_only: true, ..options.clone() };
    let copied = copy(plan.clone(), subject, machine, &stacks);
    if options.allow_stop_and_copy && copied.method == Method::StopAndCopy {
        ways.push(format!(
            "take stacks only with `--kind stacks` (about {})",
            predict::text(copied.predicted_pause)
        ));
    }
    ways.push(format!("allow more with `--max-pause {}`", predict::more(predicted)));
    let why = format!("{pages}: more than the {} that are allowed", predict::text(options.max_pause));
    refuse_keeping_pause(plan, Obstacle::new(NAME, why, Some(ways.join("; or "))), predicted)
}

fn refuse_keeping_pause(plan: ProcessPlan, obstacle: Obstacle, predicted: Duration) -> ProcessPlan {
    ProcessPlan { predicted_pause: predicted, ..refuse(plan, obstacle) }
}

/// The plan of a copy that is made while the process stands still: what fits into the pause and into memory.
fn copy(mut plan: ProcessPlan, subject: &Subject, machine: &Machine, options: &FreezeOptions) -> ProcessPlan {
    const NAME: &str = "copy";
    let counts = subject.counts.unwrap_or_default();
    let threads = subject.threads.count;
    let stop = Costs::MEASURED.stop(threads);
    let stacks = threads.saturating_mul(STACK).min(counts.own_bytes());
    let in_pause = bytes_in(options.max_pause.saturating_sub(stop), machine.copy_rate);
    // A buffer of ours must not bring down whom it is to help: half of what is left is ours at most.
    let in_memory = machine.own_headroom.as_ref().map_or(u64::MAX, |headroom| headroom.bytes / 2);
    let fits = in_pause.min(in_memory);
    if fits < stacks {
        let why = format!(
            "not even its stacks ({} threads) can be copied within {} and {}",
            threads,
            predict::text(options.max_pause),
            bytes_text(in_memory)
        );
        let hint = format!(
            "allow more with `--max-pause {}`",
            predict::more(stop + time_of(stacks, machine.copy_rate))
        );
        return refuse(plan, Obstacle::new(NAME, why, Some(hint)));
    }
    let wanted = if options.stacks_only { stacks } else { counts.own_bytes() };
    let copied = wanted.min(fits);
    plan.method = Method::StopAndCopy;
    plan.copy_limit = copied;
    plan.memory_needed = copied;
    plan.memory_at_least = copied;
    plan.memory_limit = machine.own_headroom.as_ref().map(|headroom| headroom.by.clone());
    plan.memory_available = machine.own_headroom.as_ref().map(|headroom| headroom.bytes);
    plan.predicted_pause = stop.saturating_add(time_of(copied, machine.copy_rate));
    plan.checks.push(if copied < wanted {
        let needed = stop.saturating_add(time_of(wanted, machine.copy_rate));
        let hint = format!("`--max-pause {}` would do for all of it", predict::more(needed));
        let detail = format!(
            "{} of {} can be copied while it stands still for {}; the rest is left out",
            bytes_text(copied),
            bytes_text(wanted),
            predict::text(plan.predicted_pause)
        );
        Check::limited(NAME, detail, (in_pause < in_memory).then_some(hint))
    } else {
        let detail = format!(
            "{} are copied while it stands still for about {}",
            bytes_text(copied),
            predict::text(plan.predicted_pause)
        );
        Check::ok(NAME, detail)
    });
    plan
}

fn bytes_in(time: Duration, rate: u64) -> u64 {
    u64::try_from(time.as_micros().saturating_mul(u128::from(rate)) / 1_000_000).unwrap_or(u64::MAX)
}

fn time_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_micros(
        u64::try_from(u128::from(bytes) * 1_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX),
    )
}

/// What is worth knowing and stands in the way of nothing.
fn remarks(subject: &Subject) -> Vec<Check> {
    let threads = &subject.threads;
    let mut checks = Vec::new();
    if threads.uninterruptible > 0 {
        let detail = format!(
            "{} of {} threads are in uninterruptible waits now: if they still are, their registers are missing",
            threads.uninterruptible, threads.count
        );
        checks.push(Check::limited("uninterruptible", detail, None));
    }
    if threads.stopped > 0 {
        checks.push(Check::ok(
            "stopped",
            format!("{} threads are stopped by a signal, and stay so", threads.stopped),
        ));
    }
    if threads.filtered > 0 {
        let detail = format!(
            "{} of {} threads have seccomp filters: they are read and simulated while it stands still, and it forks only if \
             they allow it",
            threads.filtered, threads.count
        );
        checks.push(Check::ok("seccomp", detail));
    }
    if let Some(policy) = &subject.one_for_all {
        checks.push(Check::ok(ONE_FOR_ALL, format!("should the kernel have to end a copy, {policy}")));
    }
    if threads.looked_at > 0 && threads.on_safe_stack == 0 {
        let detail = format!(
            "none of the {} threads looked at is on a stack of the C library now; unless another is found when it stands \
             still, it cannot fork",
            threads.looked_at
        );
        checks.push(Check::limited("stacks", detail, None));
    }
    checks
}
