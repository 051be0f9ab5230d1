//! How far a dump is, and whether it goes on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use biopsy_image::write::CoreProgress;

/// Shared between the writer and whoever shows it.
#[derive(Default)]
pub struct DumpProgress<'a> {
    /// Bytes of the core that are read.
    pub done: AtomicU64,
    /// Bytes of all.
    pub total: AtomicU64,
    /// Set to end it: the disk is nearly full, or the user says so.
    pub stop: AtomicBool,
    /// Called once when the frozen copy is not needed any more.
    pub thawed: Option<Box<dyn Fn() + Sync + 'a>>,
}

impl<'a> DumpProgress<'a> {
    /// Calls `thaw` once the frozen copy is not needed any more.
    #[must_use]
    pub fn thawing(thaw: impl Fn() + Sync + 'a) -> Self {
        Self { thawed: Some(Box::new(thaw)), ..Self::default() }
    }
}

impl CoreProgress for DumpProgress<'_> {
    fn read(&self, done: u64, total: u64) {
        self.done.fetch_max(done, Relaxed);
        self.total.store(total, Relaxed);
    }

    fn anonymous_memory_done(&self) {
        if let Some(thawed) = &self.thawed {
            thawed();
        }
    }

    fn keep_going(&self) -> bool {
        !self.stop.load(Relaxed)
    }
}

impl std::fmt::Debug for DumpProgress<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DumpProgress").field("done", &self.done).finish_non_exhaustive()
    }
}
