//! How much memory copies may take together.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Memory that copies share. Whoever wants more than is free waits until another copy is dropped.
#[derive(Debug)]
pub struct CopyRoom {
    total: u64,
    used: Mutex<u64>,
    given_back: Condvar,
}

impl CopyRoom {
    /// Room for so many bytes.
    #[must_use]
    pub fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { total, used: Mutex::new(0), given_back: Condvar::new() })
    }

    /// Bytes that copies have now.
    #[must_use]
    pub fn used(&self) -> u64 {
        *self.lock()
    }

    /// Bytes that all copies together may have.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Waits until so much is free, and takes it. `None`: it is more than there is at all.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<Taken> {
        if bytes > self.total {
            return None;
        }
        let mut used = self.lock();
        while used.saturating_add(bytes) > self.total {
            used = self.given_back.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used = used.saturating_add(bytes);
        drop(used);
        Some(Taken { room: Arc::clone(self), bytes })
    }

    /// Takes so much if it is free now.
    pub(super) fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Taken> {
        let mut used = self.lock();
        let after = used.checked_add(bytes).filter(|&after| after <= self.total)?;
        *used = after;
        drop(used);
        Some(Taken { room: Arc::clone(self), bytes })
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of the room, until it is dropped.
#[derive(Debug)]
pub(super) struct Taken {
    room: Arc<CopyRoom>,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut used = self.room.lock();
        *used = used.saturating_sub(self.bytes);
        self.room.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_waits_for_what_is_given_back() {
        let room = CopyRoom::new(100);
        assert!(room.take(101).is_none(), "it would never fit");
        let first = room.take(60).unwrap();
        let second = room.take(40).unwrap();
        assert_eq!(room.used(), 100);
        let other = Arc::clone(&room);
        let waiting = std::thread::spawn(move || {
            let third = other.take(50).unwrap();
            (other.used(), third.bytes)
        });
        drop(second);
        drop(first);
        let (used, bytes) = waiting.join().unwrap();
        assert_eq!(bytes, 50);
        assert!(used <= 100, "{used}");
        assert_eq!(room.used(), 0);
    }
}
