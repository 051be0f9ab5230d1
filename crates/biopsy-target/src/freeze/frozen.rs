//! The image of a frozen process.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use biopsy_image::{Absence, Image, ImageModule, Mapping, ProcessFacts, ReadError, Thread, mapping};
use biopsy_model::{Pid, ProcessKey, Tid};
use biopsy_sys::pidfd::PidFd;

use super::areas;
use super::facts::facts_and_gaps;
use super::holder::{Frozen, Holder};
use super::stop::{Halt, StoppedThread};
use super::thawed::Thawed;
use super::under_way::is_ending;
use super::watchdog::{Watchdog, end_at_once};
use super::{FreezeError, FreezeWarning, Headroom, KeptMemory, MemoryGauge, Method, Pause, ReleaseReport};
use crate::address_space::ProcessMemory;
use crate::process::cgroup::Cgroup;
use crate::process::proc_root::{ProcRoot, is_gone};

/// Most files that are looked into for their build id.
const MOST_MODULES: usize = 16_384;

/// A process as it was at one moment, while the process itself runs on. Ends with its value; [`FrozenProcess::release`]
/// also tells how that went.
pub struct FrozenProcess {
    key: ProcessKey,
    method: Method,
    pause: Pause,
    warnings: Vec<FreezeWarning>,
    mappings: Vec<Mapping>,
    threads: Vec<Thread>,
    modules: Vec<ImageModule>,
    facts: ProcessFacts,
    kept: Box<dyn KeptMemory>,
    live: Arc<ProcessMemory>,
    child: Option<Pid>,
    /// Set when the child was ended because the process has ended.
    ended: Arc<AtomicBool>,
    hold: Mutex<Hold>,
    /// Set when the child was ended before the image.
    thawed: OnceLock<Thawed>,
}

/// What keeps the copy, until it is let go.
#[derive(Default)]
struct Hold {
    /// Ends the child when memory runs short. Gone before the child is removed: its pid is this child's until then.
    watchdog: Option<Watchdog>,
    /// Which one of the holder's it is.
    index: usize,
    holder: Option<Arc<Holder>>,
    /// What the watchdog saw, when it is gone.
    short: Option<Headroom>,
    /// How letting go went, when that was before the image's end.
    report: Option<ReleaseReport>,
}

impl Hold {
    fn let_go(&mut self) -> ReleaseReport {
        self.short = self.short.take().or_else(|| self.watchdog.as_ref()?.fired());
        self.watchdog = None;
        let released = self.holder.take().map(|holder| holder.release(self.index));
        released.or_else(|| self.report.take()).unwrap_or_default()
    }
}

impl FrozenProcess {
    pub(super) fn new(frozen: Frozen, index: usize, holder: &Arc<Holder>) -> Result<Self, FreezeError> {
        let pid = frozen.plan.key.pid;
        let watchdog = match frozen.child {
            Some(child) => {
                let failed = FreezeError::step(pid, "watching memory for the time of the copy");
                Some(watch(pid, child, frozen.plan.memory_needed).map_err(failed)?)
            }
            None => None,
        };
        let mut mappings = frozen.mappings;
        let mut kept = frozen.kept;
        if let Some(child) = frozen.child {
            let failed = FreezeError::step(pid, "reading the mappings of the frozen child");
            let memory = ProcessMemory::open(child).map_err(&failed)?.of_copy();
            mappings = areas::of_child(pid, &frozen.memory, child, &memory, &mappings).map_err(&failed)?;
            kept = Some(Box::new(ChildMemory(memory)));
        }
        let kept = kept.ok_or(FreezeError::Ended { pid })?;
        if let Some(of_window) = kept.mappings() {
            mappings = of_window.to_vec();
        }
        let mut warnings = frozen.warnings;
        let (facts, not_known) = facts_and_gaps(pid);
        warnings.extend(not_known);
        let (threads, not_named) = threads(pid, frozen.threads);
        warnings.extend(not_named);
        let mut this = Self {
            key: frozen.plan.key,
            method: frozen.plan.method,
            pause: frozen.pause,
            warnings,
            mappings,
            threads,
            modules: Vec::new(),
            facts,
            kept,
            live: frozen.memory,
            child: frozen.child,
            ended: frozen.ended,
            hold: Mutex::new(Hold { watchdog, index, holder: Some(Arc::clone(holder)), ..Hold::default() }),
            thawed: OnceLock::new(),
        };
        this.modules = biopsy_image::find_modules(&this, &this.mappings, &this.facts, MOST_MODULES);
        Ok(this)
    }

    /// Which process it is.
    #[must_use]
    pub fn key(&self) -> &ProcessKey {
        &self.key
    }

    /// How long the process stood still.
    #[must_use]
    pub fn pause(&self) -> Pause {
        self.pause
    }

    /// By which means its memory is kept.
    #[must_use]
    pub fn method(&self) -> Method {
        self.method
    }

    /// What the reader of the image should know.
    #[must_use]
    pub fn warnings(&self) -> &[FreezeWarning] {
        &self.warnings
    }

    pub(super) fn add_warning(&mut self, warning: FreezeWarning) {
        self.warnings.push(warning);
    }

    /// Pid of the frozen child, where there is one: for a watchdog that ends it when memory runs short. It stays this child's
    /// until the freeze is released, or the process ends; then there is none.
    #[must_use]
    pub fn child(&self) -> Option<Pid> {
        self.child.filter(|_| !self.ended.load(Ordering::SeqCst))
    }

    /// Whether the kept memory is still there: the out-of-memory killer or a watchdog may have ended the frozen child.
    #[must_use]
    pub fn is_there(&self) -> bool {
        if self.thawed.get().is_some() {
            return false;
        }
        self.mappings.iter().find(|one| one.protection.read && !one.not_frozen).is_none_or(|one| {
            !matches!(self.kept.read(one.start, &mut [0]), Err(ReadError::Missing { why: Absence::Gone, .. }))
        })
    }

    /// Gives the kept memory back and removes the frozen child from the process. Dropping does the same, and says nothing.
    pub fn release(self) -> ReleaseReport {
        self.lock().let_go()
    }

    /// Ends the frozen child now, when all that only it has was read: what is in files, shared memory included, is read from
    /// them from here on, also after the end of the process. Private memory is gone then. `false`: not all of those files can
    /// be opened, so that the child stays.
    pub fn thaw(&self) -> bool {
        if self.child.is_none() {
            return false;
        }
        let mut hold = self.lock();
        if hold.holder.is_none() {
            return true;
        }
        let Some(thawed) = Thawed::open(&self.live, &*self.kept, &self.mappings) else { return false };
        // Nobody reads from the child after this; whoever does now is told that it is gone.
        let _ = self.thawed.set(thawed);
        let report = hold.let_go();
        hold.report = Some(report);
        true
    }

    /// What memory was left when the frozen child was ended because it ran short; reads answer since then that the memory is
    /// gone. `None`: that did not happen.
    #[must_use]
    pub fn ended_early(&self) -> Option<Headroom> {
        let hold = self.lock();
        hold.short.clone().or_else(|| hold.watchdog.as_ref()?.fired())
    }

    /// Whether the frozen child was ended because the process itself has ended: a copy must not hold up who starts it anew.
    /// Reads answer since then that the memory is gone. `false` also where all of it was given back before.
    #[must_use]
    pub fn ended_with_process(&self) -> bool {
        self.thawed.get().is_none() && self.ended.load(Ordering::SeqCst)
    }

    fn is_cut_short(&self) -> bool {
        let ending = self.child.is_some() && is_ending();
        ending || self.ended.load(Ordering::SeqCst) || self.ended_early().is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Hold> {
        self.hold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches the memory of the process's control groups, which the child counts to, and of the machine. Without that there is no
/// copy: the kernel would have to choose, and may take more than the child (`memory.oom.group`).
fn watch(pid: Pid, child: Pid, own: u64) -> std::io::Result<Watchdog> {
    let root = ProcRoot::live();
    let cgroup = Cgroup::read(&root.process(pid)?);
    let handle = PidFd::open(child)?;
    Watchdog::start(MemoryGauge::open(&root, &cgroup), own, move || end_at_once(&handle))
}

impl Drop for FrozenProcess {
    fn drop(&mut self) {
        self.lock().let_go();
    }
}

impl std::fmt::Debug for FrozenProcess {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("FrozenProcess")
            .field("key", &self.key)
            .field("method", &self.method)
            .field("pause", &self.pause)
            .field("child", &self.child)
            .finish_non_exhaustive()
    }
}

impl Image for FrozenProcess {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let missing = |why| ReadError::Missing { address, why };
        let one = mapping::find(&self.mappings, address).ok_or_else(|| missing(Absence::Unmapped))?;
        if !one.protection.read {
            return Err(missing(Absence::Unreadable));
        }
        let length = usize::try_from(one.end - address).map_or(buffer.len(), |rest| rest.min(buffer.len()));
        let buffer = buffer.get_mut(..length).unwrap_or_default();
        if let Some(thawed) = self.thawed.get().filter(|_| !one.not_frozen) {
            return thawed.read(one, address, buffer);
        }
        let result =
            if one.not_frozen { self.live.read(address, buffer) } else { self.kept.read(address, buffer) };
        match result {
            // The child was ended while it was read.
            Err(_) if !one.not_frozen && self.thawed.get().is_some() => self.read(address, buffer),
            // While it is ended, its tables are emptied page by page.
            _ if !one.not_frozen && self.is_cut_short() => Err(missing(Absence::Gone)),
            // It is mapped, so the kernel does not give it out: a device, or behind the end of a file.
            Err(ReadError::Missing { why: Absence::Unmapped, .. }) => Err(missing(Absence::Unreadable)),
            other => other,
        }
    }

    fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    fn threads(&self) -> &[Thread] {
        &self.threads
    }

    fn modules(&self) -> &[ImageModule] {
        &self.modules
    }

    fn process(&self) -> &ProcessFacts {
        &self.facts
    }

    fn written(&self, range: Range<u64>, runs: &mut Vec<Range<u64>>) -> Result<(), ReadError> {
        let first = self.mappings.partition_point(|one| one.end <= range.start);
        for one in self.mappings.iter().skip(first).take_while(|one| one.start < range.end) {
            if !one.protection.read {
                continue;
            }
            let part = range.start.max(one.start)..range.end.min(one.end);
            let from = runs.len();
            if one.not_frozen {
                self.live.written(one, part, runs)?;
            } else if let Some(thawed) = self.thawed.get() {
                if !one.shared {
                    return Err(ReadError::Missing { address: part.start, why: Absence::Gone });
                }
                thawed.written(&part, runs);
            } else {
                if let Err(error) = self.kept.written(one, part.clone(), runs) {
                    // The child was ended while it was asked.
                    let thawed = self.thawed.get().filter(|_| one.shared).ok_or(error)?;
                    runs.truncate(from);
                    thawed.written(&part, runs);
                }
                // While it is ended, its tables are emptied page by page: what they say now is not what it had.
                if self.is_cut_short() {
                    return Err(ReadError::Missing { address: range.start, why: Absence::Gone });
                }
            }
            join(runs, from);
        }
        Ok(())
    }
}

/// Joins the run at `from` with the one before it where they touch: mappings are looked at one by one.
fn join(runs: &mut Vec<Range<u64>>, from: usize) {
    if let Some(before) = from.checked_sub(1)
        && let (Some(left), Some(right)) = (runs.get(before).cloned(), runs.get(from).cloned())
        && left.end == right.start
    {
        runs.remove(from);
        if let Some(joined) = runs.get_mut(before) {
            joined.end = right.end;
        }
    }
}

/// The memory of a frozen child.
struct ChildMemory(ProcessMemory);

impl KeptMemory for ChildMemory {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        self.0.read(address, buffer)
    }

    fn written(
        &self,
        mapping: &Mapping,
        range: Range<u64>,
        runs: &mut Vec<Range<u64>>,
    ) -> Result<(), ReadError> {
        self.0.written(mapping, range, runs)
    }
}

/// Threads as an image has them: the first one first, then by id.
fn threads(pid: Pid, mut stopped: Vec<StoppedThread>) -> (Vec<Thread>, Option<FreezeWarning>) {
    stopped.retain(|one| one.registers.is_some() || one.halt == Halt::Waiting);
    stopped.sort_unstable_by_key(|one| (one.tid != pid.into(), one.tid));
    let mut warning = None;
    let mut note = |error: std::io::Error| {
        if !is_gone(&error) {
            let what = "the name of a thread";
            warning.get_or_insert(FreezeWarning::NotKnown { pid, what, why: error.to_string() });
        }
    };
    let process = ProcRoot::live().process(pid).map_err(&mut note).ok();
    let mut name = |tid: Tid| {
        let read = process.as_ref()?.read(&format!("task/{tid}/comm"), 256);
        let mut name = read.map_err(&mut note).ok()?;
        if name.last() == Some(&b'\n') {
            name.pop();
        }
        Some(name)
    };
    let threads = stopped
        .into_iter()
        .map(|one| Thread {
            tid: one.tid,
            name: name(one.tid),
            registers: one.registers,
            extended: one.extended,
            signal: None,
            blocked_signals: one.mask,
        })
        .collect();
    (threads, warning)
}
