//! What is known of a process and of the machine before a freeze.

use biopsy_image::mapping::is_memory_file;
use biopsy_image::{Backing, Mapping, PAGE_SIZE};
use biopsy_model::{Pid, ProcessKey};

use super::reaper;
use super::tasks::{self, TaskLimit};
use super::threads::Threads;
use crate::address_space::{PresentCounts, ProcessMemory, read_mappings_in};
use crate::freeze::copy;
use crate::freeze::headroom::{self, Headroom, MemoryGauge};
use crate::oom_policy;
use crate::preflight::Facts;
use crate::preflight::access::{Access, Allowed};
use crate::preflight::capabilities::SYS_ADMIN;
use crate::process::cgroup;
use crate::process::identity;
use crate::process::proc_root::{ProcRoot, SMALL};
use crate::process::seen::Seen;

/// Most levels of control groups above a process that are looked at.
const LEVELS: usize = 64;

/// One process.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) key: ProcessKey,
    pub(super) memory_access: Allowed,
    pub(super) threads: Threads,
    /// A control group above it is frozen.
    pub(super) frozen_group: Option<String>,
    /// It handles page faults of its own memory (userfaultfd(2)).
    pub(super) userfaultfd: bool,
    /// Pages; `None`: could not be counted.
    pub(super) counts: Option<PresentCounts>,
    /// Bytes of shared memory that exist (not of files on disk).
    pub(super) shared_bytes: u64,
    /// Bytes of private mappings that can be written: what a fork promises anew.
    pub(super) promised_bytes: u64,
    pub(super) headroom: Option<Headroom>,
    /// Why an out-of-memory kill of the copy would take others with it, in words.
    pub(super) one_for_all: Option<String>,
    pub(super) tasks: Option<TaskLimit>,
    /// Orphans of it are removed by somebody who is known to.
    pub(super) orphans_are_taken: bool,
}

impl Subject {
    /// Reads it; `None` when it is gone, or another one.
    pub(super) fn read(root: &ProcRoot, facts: &Facts, key: &ProcessKey) -> Option<Self> {
        let seen = Seen::read(root, key.pid)?;
        if identity::check_same_in(root, key).is_err() {
            return None;
        }
        let memory_access = Access::of(facts, &seen).memory;
        let mappings = match memory_access {
            Allowed::No { .. } => Vec::new(),
            Allowed::Full | Allowed::Limited { .. } => read_mappings_in(root, key.pid).unwrap_or_default(),
        };
        let (counts, shared_bytes) = count(key.pid, &mappings).unzip();
        Some(Self {
            key: key.clone(),
            memory_access,
            threads: Threads::read(&seen.dir, &mappings),
            frozen_group: frozen_group(root, &seen),
            userfaultfd: copy::has_userfaultfd(root, key.pid),
            counts,
            shared_bytes: shared_bytes.unwrap_or(0),
            promised_bytes: promised(&mappings),
            headroom: MemoryGauge::open(root, &seen.cgroup).read(),
            one_for_all: oom_policy::one_for_all(root, &seen.cgroup),
            tasks: tasks::narrowest(root, &seen),
            orphans_are_taken: reaper::takes_orphans(root, &seen),
        })
    }
}

fn count(pid: Pid, mappings: &[Mapping]) -> Option<(PresentCounts, u64)> {
    let memory = ProcessMemory::open(pid).ok()?;
    let counts = memory.present_counts(mappings).ok()?;
    let mut runs = Vec::new();
    for mapping in mappings.iter().filter(|one| one.shared && one.path().is_some_and(is_memory_file)) {
        // Should it end meanwhile, there is nothing to count.
        let _ = memory.written(mapping, mapping.range(), &mut runs);
    }
    let shared = runs.iter().map(|run| run.end - run.start).sum();
    Some((counts, shared))
}

fn promised(mappings: &[Mapping]) -> u64 {
    let counted = |one: &&Mapping| {
        let memory = matches!(one.backing, Backing::Anonymous { .. } | Backing::File { .. });
        memory && one.protection.write && !one.shared
    };
    mappings.iter().filter(counted).map(Mapping::size).fold(0, u64::saturating_add) / PAGE_SIZE * PAGE_SIZE
}

/// The control group that keeps it from running, of either version.
fn frozen_group(root: &ProcRoot, seen: &Seen) -> Option<String> {
    if let (Some(path), Some(mount)) = (seen.cgroup.v2.as_deref(), cgroup::v2_mount(root))
        && let Some(level) = cgroup::levels(path).next()
    {
        let folder = format!("{mount}{level}");
        let events = root.text(&format!("{folder}/cgroup.events")).unwrap_or_default();
        if events.lines().any(|line| line == "frozen 1") {
            return Some(format!("/{folder}"));
        }
    }
    let text = seen.dir.read("cgroup", SMALL).ok()?;
    let path = cgroup::path_of_controller(&text, "freezer")?;
    cgroup::levels(&path).take(LEVELS).map(|level| format!("sys/fs/cgroup/freezer{level}")).find_map(
        |folder| {
            let state = root.text(&format!("{folder}/freezer.state")).ok()?;
            (state != "THAWED").then(|| format!("/{folder}"))
        },
    )
}

/// The machine, and us on it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// Seccomp filters of others can be read: CAP_SYS_ADMIN, and no filter on ourselves.
    pub(super) may_read_filters: bool,
    /// Bytes that the kernel may still promise, where it counts them (`vm.overcommit_memory` 2).
    pub(super) commit_left: Option<u64>,
    /// Memory for a buffer of ours.
    pub(super) own_headroom: Option<Headroom>,
    /// Bytes per second that memory of a stopped process is copied at.
    pub(super) copy_rate: u64,
}

impl Machine {
    pub(super) fn read(root: &ProcRoot, facts: &Facts) -> Self {
        Self {
            may_read_filters: facts.may(SYS_ADMIN) && !facts.seccomp_filter,
            commit_left: headroom::commit_left(root),
            own_headroom: headroom::own_headroom_in(root),
            copy_rate: copy::rate(),
        }
    }
}
