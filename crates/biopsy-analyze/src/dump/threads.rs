//! One row a thread.

use biopsy_image::Image;
use biopsy_model::{Nanos, Tid};
use biopsy_stacks::image::ImageStacks;
use rustc_hash::FxHashMap;

use super::facts::DumpFacts;
use super::from_registers;
use super::interrupted;
use super::locks::{self, LockWait};
use super::managed::threads::{self as managed_threads, ManagedThreadFacts};
use super::movement::{Movement, stand};
use super::state::ThreadState;

/// A thread of the dump.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DumpThread {
    /// Which.
    pub tid: Tid,
    /// Its name; `thread TID` where none is known.
    pub name: String,
    /// The name is the thread's own.
    pub named: bool,
    /// What it was doing.
    pub state: ThreadState,
    /// The futex it waits at.
    pub lock: Option<LockWait>,
    /// CPU time since its start, where it was recorded beside the dump.
    pub cpu: Option<Nanos>,
    /// The kernel function it waits in, likewise.
    pub wait_channel: Option<String>,
    /// Where it stands, exactly: equal only where no frame differs.
    pub stand: Option<u64>,
    /// What it did between several looks; `None`: there was one.
    pub movement: Option<Movement>,
    /// What a managed runtime knows of it.
    pub managed: Option<ManagedThreadFacts>,
    /// Number of the signal it was stopped by or died of.
    pub signal: Option<i32>,
    /// It waits at a word of memory that has not changed, without a limit: nobody has woken it yet.
    pub asleep: bool,
    /// A signal handler runs on it: the innermost function that it interrupted.
    pub interrupted: Option<String>,
    /// It is in `exit_group(2)`: the status that it ends the process with.
    pub ends_with: Option<u8>,
    /// Index into [`DumpAnalysis::groups`](super::DumpAnalysis::groups).
    pub group: usize,
}

impl DumpThread {
    /// What it was doing, in words, with what is known of the lock.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.lock {
            Some(lock) => lock.words(),
            None => self.state.words().to_owned(),
        }
    }

    /// `worker (4711)`.
    #[must_use]
    pub fn label(&self) -> String {
        if self.named { format!("{} ({})", self.name, self.tid) } else { format!("thread {}", self.tid) }
    }
}

fn ends_process(state: &ThreadState) -> bool {
    matches!(state, ThreadState::InSystemCall { name, .. } if name == "exit_group")
}

/// `managed_waits`: what threads wait for in managed code; what is taken over is taken out.
pub(super) fn threads(
    image: &dyn Image,
    stacks: &ImageStacks,
    facts: &DumpFacts<'_>,
    managed_waits: &mut FxHashMap<Tid, LockWait>,
) -> Vec<DumpThread> {
    let process = image.process();
    let beside: FxHashMap<Tid, _> = facts.threads.iter().map(|thread| (thread.tid, thread)).collect();
    let by_tid: FxHashMap<Tid, _> = stacks.threads.iter().map(|stack| (stack.tid, stack)).collect();
    let known = locks::Tids::new(image);
    let mut managed = managed_threads::facts(facts);
    let rows = image.threads().iter().map(|thread| {
        let beside = beside.get(&thread.tid);
        let own = thread.name.as_deref().map(|name| String::from_utf8_lossy(name).into_owned());
        let main = (thread.tid.0 == process.pid.0 && !process.name.is_empty())
            .then(|| String::from_utf8_lossy(&process.name).into_owned());
        let managed = managed.remove(&thread.tid);
        // The kernel keeps 15 bytes of the name that the program gave.
        let given = managed.as_ref().and_then(|managed| managed.name.clone());
        let name = given.or(own).or_else(|| beside.and_then(|beside| beside.name.clone())).or(main);
        let name = name.filter(|name| !name.is_empty());
        let stack = by_tid.get(&thread.tid).copied();
        let state = from_registers::state(image, thread.registers.as_ref(), stack, facts);
        // What managed code waits for says more than the futex that it waits at.
        let lock = managed_waits
            .remove(&thread.tid)
            .or_else(|| locks::find(image, &known, thread, stack, stacks, &state))
            .or_else(|| (state == ThreadState::Running).then(|| locks::find_spin(image, thread, stacks))?);
        let ends_with = thread.registers.as_ref().filter(|_| ends_process(&state));
        let asleep =
            lock.as_ref().is_some_and(|lock| !lock.timed && locks::is_asleep(image, &known, thread, lock));
        DumpThread {
            tid: thread.tid,
            asleep,
            ends_with: ends_with.map(|registers| registers.rdi as u8),
            named: name.is_some(),
            name: name.unwrap_or_else(|| format!("thread {}", thread.tid)),
            state,
            lock,
            cpu: beside.and_then(|beside| beside.cpu),
            wait_channel: beside.and_then(|beside| beside.wait_channel.clone()),
            stand: stand(stack),
            movement: None,
            managed,
            interrupted: stack.and_then(|stack| interrupted::function(stacks, stack)),
            signal: thread.signal.as_ref().map(|signal| signal.number),
            group: 0,
        }
    });
    rows.collect()
}
