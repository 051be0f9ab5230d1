//! One writer for each upload. Who comes later goes first: a connection that was cut may hang for minutes, and its sender is back
//! long before.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedMutexGuard};

/// How long a writer may take to notice that he is not wanted any more.
const PATIENCE: Duration = Duration::from_secs(20);

/// The writers of all uploads.
#[derive(Clone, Default, Debug)]
pub(super) struct Locks(Arc<Mutex<HashMap<String, Arc<Slot>>>>);

#[derive(Default, Debug)]
struct Slot {
    comers: AtomicU64,
    comes: Notify,
    lock: Arc<tokio::sync::Mutex<()>>,
}

/// The right to write, until somebody else comes.
#[derive(Debug)]
pub(super) struct Writer {
    id: String,
    locks: Locks,
    slot: Arc<Slot>,
    number: u64,
    held: Option<OwnedMutexGuard<()>>,
}

impl Locks {
    /// Asks whoever writes to stop, and waits until he has.
    pub(super) async fn take(&self, id: &str) -> Option<Writer> {
        let slot = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(id.to_owned()).or_default())
        };
        let number = slot.comers.fetch_add(1, Ordering::SeqCst) + 1;
        slot.comes.notify_waiters();
        let held = tokio::time::timeout(PATIENCE, Arc::clone(&slot.lock).lock_owned()).await.ok()?;
        Some(Writer { id: id.to_owned(), locks: self.clone(), slot, number, held: Some(held) })
    }
}

impl Writer {
    /// Ends when somebody else wants to write.
    pub(super) async fn is_unwanted(&self) {
        loop {
            let comes = self.slot.comes.notified();
            if self.slot.comers.load(Ordering::SeqCst) != self.number {
                return;
            }
            // Who came before this began to wait is seen above; who comes after wakes it. Between the two it is looked at again.
            let _ = tokio::time::timeout(Duration::from_secs(1), comes).await;
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let mut all = self.locks.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.held = None;
        // Ours, and the map's: nobody else waits.
        if Arc::strong_count(&self.slot) <= 2 {
            all.remove(&self.id);
        }
    }
}
