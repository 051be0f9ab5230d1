//! Events held back until none can come that is older.

use super::row::Row;
use std::ops::Range;

/// A header, and where its payload is.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) row: Row,
    pub(super) payload: Range<usize>,
}

/// Events in order of time, as far as that is certain.
///
/// Writers give the events of a thread in order, and mark the first of each thread's run: nothing that follows it in the
/// stream is older. A sequence point says the same of everything before it.
#[derive(Debug)]
pub(super) struct Order {
    held: Vec<Held>,
    /// Payloads of `held`.
    bytes: Vec<u8>,
    /// So many of `held` are sorted and may go, ...
    ready: usize,
    /// ... and so many of these went.
    gone: usize,
    /// Ticks of the youngest that went.
    newest: u64,
    oldest_held: u64,
    late: u64,
    limit: usize,
}

impl Order {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            held: Vec::new(),
            bytes: Vec::new(),
            ready: 0,
            gone: 0,
            newest: 0,
            oldest_held: u64::MAX,
            late: 0,
            limit,
        }
    }

    /// Events that came after younger ones had gone: the writer broke its word, or the limit of memory was reached.
    pub(super) fn late(&self) -> u64 {
        self.late
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Only while nothing is ready: [`Order::next`] returns `None` first.
    pub(super) fn push(&mut self, row: Row, payload: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(payload);
        self.oldest_held = self.oldest_held.min(row.ticks);
        let (sorted, ticks) = (row.sorted, row.ticks);
        self.held.push(Held { row, payload: from..self.bytes.len() });
        let size = self.bytes.len() + self.held.len() * std::mem::size_of::<Held>();
        if size > self.limit {
            self.release_until(u64::MAX);
        } else if sorted && self.oldest_held <= ticks {
            self.release_until(ticks);
        }
    }

    /// Everything may go.
    pub(super) fn release(&mut self) {
        self.release_until(u64::MAX);
    }

    /// Everything that is here may go, unless some of it is on its way.
    pub(super) fn release_now(&mut self) {
        if self.gone == 0 {
            self.release();
        }
    }

    pub(super) fn next(&mut self) -> Option<Held> {
        if self.gone < self.ready {
            let held = self.held.get(self.gone).cloned();
            self.gone += 1;
            if let Some(held) = &held {
                self.late += u64::from(held.row.ticks < self.newest);
                self.newest = self.newest.max(held.row.ticks);
            }
            return held;
        }
        self.forget_gone();
        None
    }

    fn release_until(&mut self, ticks: u64) {
        // Stable: events of one thread with equal times stay as they were written.
        self.held.sort_by_key(|held| held.row.ticks);
        self.ready = self.held.partition_point(|held| held.row.ticks <= ticks);
        self.oldest_held = self.held.get(self.ready).map_or(u64::MAX, |held| held.row.ticks);
    }

    fn forget_gone(&mut self) {
        if self.gone == 0 {
            return;
        }
        self.held.drain(..self.gone);
        (self.ready, self.gone) = (0, 0);
        if self.held.is_empty() {
            self.bytes.clear();
            return;
        }
        let kept: usize = self.held.iter().map(|held| held.payload.len()).sum();
        // Moving costs what stays; wait until half is empty.
        if kept * 2 > self.bytes.len() {
            return;
        }
        let mut bytes = Vec::with_capacity(kept);
        for held in &mut self.held {
            let from = bytes.len();
            bytes.extend_from_slice(self.bytes.get(held.payload.clone()).unwrap_or_default());
            held.payload = from..bytes.len();
        }
        self.bytes = bytes;
    }
}
