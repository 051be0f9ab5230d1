//! Ends a frozen copy before memory runs out.
//!
//! While a frozen copy lives, every page that the process writes to is there twice, and the copy counts to the process's
//! own control group. The kernel would take the copy first (its badness is raised to the most), but a group at its limit
//! makes everybody in it wait before that. So the copy is ended early: reads of it then answer that it is gone, and the
//! dump is cut short and says so.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use biopsy_sys::pidfd::PidFd;
use rustix::io::Errno;

use super::headroom::{Headroom, LimitedBy, MemoryGauge};

/// Bytes that one CPU can make the process take in a second by writing: 4 µs for each page of 4 KiB, measured.
const PER_CPU: u64 = 1 << 30;
/// Between two looks, at least and at most.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(100);

/// Watches memory on a thread of its own until dropped.
#[derive(Debug)]
pub(crate) struct Watchdog {
    fired: Arc<Mutex<Option<Headroom>>>,
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches for a copy of a process with `own` bytes of memory; calls `end` once when too little is left. With real-time
    /// priority, where that is allowed: it sleeps nearly always, but must not wait when it matters.
    ///
    /// # Errors
    /// No thread can be made.
    pub(crate) fn start(
        gauge: MemoryGauge,
        own: u64,
        end: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64);
        let fired = Arc::new(Mutex::new(None));
        let (stop, stopped) = channel();
        let told = Arc::clone(&fired);
        let thread = std::thread::Builder::new().name("memory-watch".to_owned()).spawn(move || {
            let _real_time = biopsy_sys::schedule::RealTime::begin();
            watch(&gauge, own, &stopped, cpus, &told, end);
        })?;
        Ok(Self { fired, stop: Some(stop), thread: Some(thread) })
    }

    /// What was left when it ended the copy; `None`: it did not.
    pub(crate) fn fired(&self) -> Option<Headroom> {
        self.fired.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panics never; and if it did, there is nothing to put back.
            let _ = thread.join();
        }
    }
}

/// Ends a frozen copy: it is killed, and its memory is taken at once, by us. Would it have to wait for a CPU, the process
/// would go on copying pages meanwhile, and the kernel, for which a process that ends has no memory any more, would take the
/// process itself (seen).
pub(super) fn end_at_once(copy: &PidFd) {
    /// How often it is tried to take the memory; the copy may be in the middle of giving it back itself.
    const TRIES: usize = 50;
    // ESRCH: the kernel was faster.
    let _ = copy.kill();
    for _ in 0..TRIES {
        match copy.release_memory() {
            Ok(()) => return,
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {}
            Err(_) => return,
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

fn watch(
    gauge: &MemoryGauge,
    own: u64,
    stopped: &Receiver<()>,
    cpus: u64,
    fired: &Mutex<Option<Headroom>>,
    end: impl FnOnce(),
) {
    loop {
        // What cannot be watched any more cannot stay.
        let none = Headroom { bytes: 0, by: LimitedBy::Machine };
        let headroom = gauge.read_below(ENOUGH.saturating_add(own / 4)).unwrap_or(none);
        if headroom.bytes < headroom.line(own) {
            *fired.lock().unwrap_or_else(PoisonError::into_inner) = Some(headroom);
            end();
            return;
        }
        match stopped.recv_timeout(nap(&headroom, own, cpus)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// With so much left of a group, its page cache need not be asked for.
const ENOUGH: u64 = 256 << 20;

/// Half of the time in which all CPUs together could use up what is above the line.
fn nap(headroom: &Headroom, own: u64, cpus: u64) -> Duration {
    let above = headroom.bytes.saturating_sub(headroom.line(own));
    let micros = above / 2 / (cpus.saturating_mul(PER_CPU) / 1_000_000).max(1);
    Duration::from_micros(micros).clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::process::cgroup::Cgroup;
    use crate::process::proc_root::ProcRoot;

    fn group(folder: &Path, used: u64) {
        let base = folder.join("sys/fs/cgroup");
        std::fs::create_dir_all(base.join("a")).unwrap();
        std::fs::write(base.join("cgroup.controllers"), "memory").unwrap();
        std::fs::write(base.join("a/memory.max"), (1u64 << 30).to_string()).unwrap();
        // The gauge keeps the file open: write in place, in one step.
        let mut options = std::fs::OpenOptions::new();
        let file =
            options.write(true).create(true).truncate(false).open(base.join("a/memory.current")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, format!("{used:<24}").as_bytes(), 0).unwrap();
    }

    #[test]
    fn it_ends_the_copy_when_little_is_left_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        group(folder.path(), 100 << 20);
        let gauge = MemoryGauge::open(&ProcRoot::at(folder.path()), &Cgroup::parse(b"0::/a\n"));
        let ended = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&ended);
        let watchdog = Watchdog::start(gauge, 0, move || tell.store(true, Ordering::SeqCst)).unwrap();
        assert!(watchdog.fired().is_none() && !ended.load(Ordering::SeqCst));
        group(folder.path(), (1 << 30) - (8 << 20));
        while !ended.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        assert_eq!(watchdog.fired().unwrap().bytes, 8 << 20);
    }

    #[test]
    fn it_ends_the_copy_when_it_can_read_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let gauge = MemoryGauge::open(&ProcRoot::at(folder.path()), &Cgroup::default());
        let (tell, told) = channel();
        let watchdog = Watchdog::start(gauge, 0, move || tell.send(()).unwrap()).unwrap();
        assert!(told.recv().is_ok());
        assert!(watchdog.fired().is_some());
    }

    #[test]
    fn dropping_it_ends_the_watch() {
        let folder = tempfile::tempdir().unwrap();
        group(folder.path(), 0);
        let gauge = MemoryGauge::open(&ProcRoot::at(folder.path()), &Cgroup::parse(b"0::/a\n"));
        let watchdog = Watchdog::start(gauge, 0, || panic!("nothing is short")).unwrap();
        drop(watchdog);
    }

    #[test]
    fn the_less_is_left_the_closer_it_looks() {
        let left = |bytes| Headroom { bytes, by: LimitedBy::Group(PathBuf::from("/x")) };
        assert_eq!(nap(&left(16 << 30), 0, 2), LONGEST);
        assert_eq!(nap(&left(33 << 20), 0, 2), SHORTEST);
        let some = nap(&left(96 << 20), 0, 2);
        assert!(some > SHORTEST && some < LONGEST, "{some:?}");
    }
}
