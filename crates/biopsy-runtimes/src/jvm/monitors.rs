//! Monitors of objects: who has one that somebody wants to enter.

use super::threads::JavaThread;
use super::vm::Vm;

/// Owners of a monitor that are no address.
const NOBODY: u64 = 0;
const ANONYMOUS: u64 = 1;
/// Slots of a thread's stack of locks.
const SLOTS: u64 = 8;

/// A monitor that a thread waits at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Monitor {
    /// Of the runtime's structure.
    address: u64,
    /// The object it belongs to.
    pub(super) object: u64,
}

impl Vm<'_> {
    /// The monitor that the thread is about to enter.
    pub(super) fn entering(&self, thread: &JavaThread) -> Option<Monitor> {
        self.monitor(thread.address.checked_add(self.layout.monitors.entering)?)
    }

    /// The monitor whose `wait()` the thread is in.
    pub(super) fn waiting(&self, thread: &JavaThread) -> Option<Monitor> {
        self.monitor(thread.address.checked_add(self.layout.monitors.waiting)?)
    }

    fn monitor(&self, slot: u64) -> Option<Monitor> {
        let address = self.memory.pointer(slot)?;
        let object = self.handle(address.checked_add(self.layout.monitors.object)?)?;
        Some(Monitor { address, object })
    }

    /// Index of the thread that has the monitor.
    pub(super) fn owner(&self, monitor: &Monitor, threads: &[JavaThread]) -> Option<usize> {
        let layout = &self.layout.monitors;
        let owner = self.memory.u64(monitor.address.checked_add(layout.owner)?)?;
        if owner == NOBODY {
            return None;
        }
        if owner == ANONYMOUS {
            // Somebody took it before it was a monitor; who, is on the owner's stack of locks.
            return threads.iter().position(|thread| self.has_locked(thread, monitor.object));
        }
        if let Some(number) = layout.owner_number {
            let number_of = |thread: &JavaThread| self.memory.u64(thread.address.checked_add(number)?);
            return threads.iter().position(|thread| number_of(thread) == Some(owner));
        }
        let is_it = |thread: &JavaThread| thread.address == owner || thread.stack.contains(&owner);
        threads.iter().position(is_it)
    }

    /// Whether the object is among those that the thread has locked without a monitor.
    fn has_locked(&self, thread: &JavaThread, object: u64) -> bool {
        let Some(layout) = self.layout.monitors.lock_stack else { return false };
        let slot = |number: u64| self.memory.u64(thread.address.checked_add(layout.base + 8 * number)?);
        let top = thread.address.checked_add(layout.top).and_then(|top| self.memory.u32(top));
        // The top is an offset from the beginning of the thread.
        let used = u64::from(top.unwrap_or(0)).saturating_sub(layout.base) / 8;
        (0..used.min(SLOTS)).any(|number| slot(number) == Some(object))
    }
}
