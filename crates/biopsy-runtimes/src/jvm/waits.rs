//! What a thread of Java waits for: monitors, locks of `java.util.concurrent`, times, and who has them.

use std::cell::RefCell;

use rustc_hash::FxHashMap;

use super::monitors::Monitor;
use super::threads::{JavaThread, status};
use super::vm::Vm;
use crate::{Confidence, Holder, Owner, StrandFrame, StrandId, StrandWait, WaitKind};
use biopsy_model::Avma;

/// Bits of the state of a `ReentrantReadWriteLock`: below are holds of the writer, above those of readers.
const READERS_SHIFT: u32 = 16;
/// Innermost frames that say in which of its ways a lock is waited for.
const INNERMOST: usize = 16;

/// Threads and their numbers, to name owners.
pub(super) struct Waits<'v> {
    pub(super) vm: &'v Vm<'v>,
    pub(super) threads: &'v [JavaThread],
    /// In the order of threads.
    pub(super) ids: &'v [StrandId],
    /// Classes that were asked whether they call `notify`.
    pub(super) notify: RefCell<FxHashMap<u64, bool>>,
}

impl Waits<'_> {
    /// What the thread waits for; `None` for one that does not.
    pub(super) fn of(&self, thread: &JavaThread, frames: &[StrandFrame]) -> Option<StrandWait> {
        if let Some(monitor) = self.vm.entering(thread) {
            return Some(self.of_monitor(&monitor));
        }
        let now = thread.status.unwrap_or(0);
        let timed = now & status::WITH_TIMEOUT != 0;
        let mut wait = if let Some(monitor) = self.vm.waiting(thread) {
            self.of_object_wait(&monitor, frames)
        } else if now & status::SLEEPING != 0 {
            StrandWait::of(WaitKind::Timer, "sleeping")
        } else if now & status::PARKED != 0 {
            self.of_park(thread, frames)
        } else if now & status::IN_OBJECT_WAIT != 0 {
            StrandWait::of(WaitKind::Condition, "in Object.wait()")
        } else if now & status::BLOCKED != 0 {
            StrandWait::of(WaitKind::Monitor, "waiting to lock")
        } else {
            return None;
        };
        wait.ends_by_itself |= timed;
        Some(wait)
    }

    fn owner(&self, index: usize, confidence: Confidence, proof: &str) -> Option<Owner> {
        let holder = Holder::Strand(*self.ids.get(index)?);
        Some(Owner { holder, confidence, frame: None, proof: proof.to_owned() })
    }

    /// The thread whose `java.lang.Thread` is at `object`, which may be a virtual one that is mounted.
    fn thread_of(&self, object: u64) -> Option<usize> {
        let is_it =
            |thread: &JavaThread| thread.object == Some(object) || thread.virtual_object == Some(object);
        self.threads.iter().position(is_it)
    }

    fn named(&self, kind: WaitKind, reason: &str, object: u64) -> StrandWait {
        let class = self.vm.class_of(object).and_then(|class| self.vm.class_name(class));
        StrandWait { address: Some(Avma(object)), object: class, ..StrandWait::of(kind, reason) }
    }

    fn of_monitor(&self, monitor: &Monitor) -> StrandWait {
        let mut wait = self.named(WaitKind::Monitor, "waiting to lock", monitor.object);
        let owner = self.vm.owner(monitor, self.threads);
        wait.owners
            .extend(owner.and_then(|owner| self.owner(owner, Confidence::Certain, "owner of the monitor")));
        wait
    }

    fn of_object_wait(&self, monitor: &Monitor, frames: &[StrandFrame]) -> StrandWait {
        let mut wait = self.named(WaitKind::Condition, "in Object.wait()", monitor.object);
        // Every object has both; only a class of the program says by its names which of them it calls.
        let class =
            self.vm.class_of(monitor.object).filter(|_| wait.object.as_deref() != Some("java.lang.Object"));
        wait.wakes_one = class.is_some_and(|class| {
            *self.notify.borrow_mut().entry(class).or_insert_with(|| self.vm.mentions(class, "notify"))
        });
        // `Thread.join` waits on the thread that is to end.
        if called(frames, &["java.lang.Thread.join"]) {
            wait.kind = WaitKind::Join;
            let thread = self.thread_of(monitor.object);
            wait.owners
                .extend(thread.and_then(|one| self.owner(one, Confidence::Certain, "thread that is joined")));
        }
        wait
    }

    fn of_park(&self, thread: &JavaThread, frames: &[StrandFrame]) -> StrandWait {
        // A virtual thread that holds its carrier parks in its own name.
        let current = thread.virtual_object.or(thread.object);
        let blocker = current.and_then(|thread| self.vm.reference(thread, "parkBlocker"));
        let Some(blocker) = blocker else {
            let idle = called(frames, &IDLE);
            return StrandWait::of(if idle { WaitKind::Idle } else { WaitKind::Other }, "parking");
        };
        let mut wait = self.named(WaitKind::Other, "parking to wait for", blocker);
        let class = wait.object.clone().unwrap_or_default();
        wait.kind = kind_of(&class, frames);
        if let Some(owner) = self.vm.reference(blocker, "exclusiveOwnerThread") {
            let owner = self.thread_of(owner);
            let proof = "exclusiveOwnerThread of the lock";
            wait.owners.extend(owner.and_then(|owner| self.owner(owner, Confidence::Certain, proof)));
        } else if wait.kind == WaitKind::WriteLock {
            wait.owners.extend(self.reader_of(blocker));
        }
        wait
    }

    /// The reader that a writer waits for, where there is one that the lock remembers: the first that came.
    fn reader_of(&self, sync: u64) -> Option<Owner> {
        let readers = self.vm.int(sync, "state")?.cast_unsigned() >> READERS_SHIFT;
        let first = self.thread_of(self.vm.reference(sync, "firstReader")?)?;
        let all = self.vm.int(sync, "firstReaderHoldCount")?.cast_unsigned() == readers;
        let confidence = if all { Confidence::Certain } else { Confidence::AlmostCertain };
        self.owner(first, confidence, "firstReader of the lock")
    }
}

/// Methods in which workers wait for work.
const IDLE: [&str; 5] = [
    "java.util.concurrent.ThreadPoolExecutor.getTask",
    "java.util.concurrent.ForkJoinPool.awaitWork",
    "java.util.concurrent.ForkJoinPool.runWorker",
    "java.lang.ref.ReferenceQueue.remove",
    "java.util.TimerThread.mainLoop",
];

fn called(frames: &[StrandFrame], names: &[&str]) -> bool {
    frames.iter().take(INNERMOST).any(|frame| names.contains(&&*frame.function))
}

/// What is waited for, by the class of the blocker, and where that is not enough by who called it.
fn kind_of(class: &str, frames: &[StrandFrame]) -> WaitKind {
    let Some(name) = class.strip_prefix("java.util.concurrent.") else { return WaitKind::Other };
    let begins = |start: &str| name.starts_with(start);
    if begins("locks.ReentrantLock$") {
        WaitKind::Mutex
    } else if begins("locks.ReentrantReadWriteLock$") {
        let writer = called(
            frames,
            &[
                "java.util.concurrent.locks.ReentrantReadWriteLock$WriteLock.lock",
                "java.util.concurrent.locks.ReentrantReadWriteLock$WriteLock.lockInterruptibly",
                "java.util.concurrent.locks.ReentrantReadWriteLock$WriteLock.tryLock",
            ],
        );
        if writer { WaitKind::WriteLock } else { WaitKind::ReadLock }
    } else if begins("locks.StampedLock") {
        let reader =
            frames.iter().take(INNERMOST).any(|frame| frame.function.contains("StampedLock.readLock"));
        if reader { WaitKind::ReadLock } else { WaitKind::WriteLock }
    } else if called(frames, &IDLE) {
        WaitKind::Idle
    } else if begins("locks.Abstract") {
        WaitKind::Condition
    } else if begins("CountDownLatch$") || begins("Phaser") || begins("CyclicBarrier") {
        WaitKind::WaitGroup
    } else if begins("Semaphore$") {
        WaitKind::Semaphore
    } else if begins("CompletableFuture") || begins("FutureTask") || begins("ForkJoinTask") {
        WaitKind::Future
    } else if begins("SynchronousQueue") || begins("LinkedTransferQueue") || begins("Exchanger") {
        WaitKind::ChannelReceive
    } else if begins("ForkJoinPool") {
        WaitKind::Idle
    } else {
        WaitKind::Other
    }
}
