//! Which block is next, and how far reading may be ahead of writing.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Hands out blocks in order, never more than a few ahead of what is written: that bounds memory.
#[derive(Debug)]
pub(super) struct Window {
    state: Mutex<State>,
    moved: Condvar,
    blocks: u64,
    ahead: u64,
}

#[derive(Debug)]
struct State {
    next: u64,
    written: u64,
    closed: bool,
}

impl Window {
    pub(super) fn new(blocks: u64, ahead: u64) -> Self {
        let state = State { next: 0, written: 0, closed: false };
        Self { state: Mutex::new(state), moved: Condvar::new(), blocks, ahead }
    }

    /// The next block to read; waits while too many are on their way. `None`: there are no more.
    pub(super) fn claim(&self) -> Option<u64> {
        let mut state = self.lock();
        loop {
            if state.closed || state.next >= self.blocks {
                return None;
            }
            if state.next < state.written.saturating_add(self.ahead) {
                let index = state.next;
                state.next += 1;
                return Some(index);
            }
            state = self.moved.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// All blocks before `index` are written.
    pub(super) fn written_up_to(&self, index: u64) {
        let mut state = self.lock();
        if index > state.written {
            state.written = index;
            self.moved.notify_all();
        }
    }

    /// No more blocks, whoever asks.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.moved.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
