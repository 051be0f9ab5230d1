//! The scanner for secrets of one process, made beside the work that needs it.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use biopsy_model::Pid;
use biopsy_redact::memory::MemoryScanner;

use crate::dump::mask::Literals;

/// Compiling the patterns, and reading what is secret from the process's configuration, takes a tenth of a second and more:
/// sessions are opened meanwhile, and what comes waits until it can be masked.
#[derive(Debug)]
pub(crate) struct LazyScanner {
    made: OnceLock<Arc<MemoryScanner>>,
    maker: Mutex<Option<JoinHandle<Arc<MemoryScanner>>>>,
    pid: Pid,
}

impl LazyScanner {
    /// Begins to make it.
    pub(crate) fn start(pid: Pid) -> Arc<Self> {
        let maker = std::thread::Builder::new().name("biopsy-net-mask".to_owned());
        // Where no thread can be started it is made when it is needed.
        let maker = maker.spawn(move || Literals::of(&[pid]).shared()).ok();
        Arc::new(Self { made: OnceLock::new(), maker: Mutex::new(maker), pid })
    }

    #[cfg(test)]
    pub(crate) fn made(scanner: MemoryScanner) -> Arc<Self> {
        let made = OnceLock::new();
        let _ = made.set(Arc::new(scanner));
        Arc::new(Self { made, maker: Mutex::new(None), pid: Pid(0) })
    }

    /// The scanner, if it is made.
    pub(crate) fn if_made(&self) -> Option<&MemoryScanner> {
        let finished = || {
            let maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner);
            maker.as_ref().is_none_or(JoinHandle::is_finished)
        };
        if self.made.get().is_none() && !finished() {
            return None;
        }
        Some(self.wait())
    }

    /// The scanner, after waiting for it.
    pub(crate) fn wait(&self) -> &MemoryScanner {
        self.made.get_or_init(|| {
            let maker = self.maker.lock().unwrap_or_else(PoisonError::into_inner).take();
            match maker.map(JoinHandle::join) {
                Some(Ok(scanner)) => scanner,
                Some(Err(_)) | None => Literals::of(&[self.pid]).shared(),
            }
        })
    }
}
