//! Lends real-time priority to a thread of another process, in a way that ends with us.
//!
//! On a busy machine a thread that is to do something for us waits for a CPU, with everybody who waits for it. Raising its
//! priority with sched_setscheduler(2) would outlive us, should we be killed. Priority inheritance does not: a thread of
//! ours, with real-time priority, waits for a futex whose word says that the other thread owns it (FUTEX_LOCK_PI,
//! futex(2)). The kernel raises whom it takes for the owner for as long as somebody waits, and not a moment longer: also
//! when the one who waits is killed. The other thread knows nothing of it, and nothing of it is changed.
//!
//! The lender has the priority that it lends, so it must find a CPU that no borrower occupies, or it could not end. Hence
//! no more are lent at a time than there are CPUs, less one ([`Boost::most`]).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use biopsy_model::Tid;

use crate::check;
use crate::schedule::{RealTime, set_policy};

/// How long the lender waits at a time before it looks to whom it is to lend. It is another one three times in each freeze.
const TURN: Duration = Duration::from_micros(100);

/// A lender, ready to lend. Dropping it ends the loan.
#[derive(Debug)]
pub struct Boost {
    tid: libc::pid_t,
    orders: Option<Sender<()>>,
    /// To whom; 0: to nobody.
    borrower: Arc<AtomicU32>,
    thread: Option<JoinHandle<()>>,
}

impl Boost {
    /// How many may be lent at a time: one CPU fewer than this thread may run on.
    #[must_use]
    pub fn most() -> usize {
        // SAFETY: all bits zero is an empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: sched_getaffinity writes at most the given size to the pointer; `set` has that size; 0 is this thread.
        let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
        if got != 0 {
            return 0;
        }
        // SAFETY: CPU_COUNT reads the set, which was written above.
        let count = unsafe { libc::CPU_COUNT(&set) };
        usize::try_from(count).unwrap_or(0).saturating_sub(1)
    }

    /// Starts the thread that will lend. Nothing is lent yet.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_NICE (or RLIMIT_RTPRIO).
    pub fn prepare() -> io::Result<Self> {
        let (orders, inbox) = channel();
        let (ready, is_ready) = channel();
        let borrower = Arc::new(AtomicU32::new(0));
        let told = Arc::clone(&borrower);
        let thread = std::thread::Builder::new().name("biopsy-lender".to_owned()).spawn(move || {
            let priority = RealTime::begin();
            // SAFETY: gettid takes nothing.
            let tid = unsafe { libc::gettid() };
            let works = priority.is_ok();
            let _ =
                ready.send(priority.as_ref().map(|_| tid).map_err(|error| error.raw_os_error().unwrap_or(0)));
            if works {
                lend(&inbox, &told);
            }
        })?;
        let failed = |errno| io::Error::from_raw_os_error(errno);
        let tid = is_ready.recv().map_err(|_| io::Error::other("the lender ended"))?.map_err(failed)?;
        Ok(Self { tid, orders: Some(orders), borrower, thread: Some(thread) })
    }

    /// Lends to this thread, and no longer to another one. Takes effect within microseconds; after a turn of the lender, when
    /// it was lent to another one just before.
    pub fn raise(&self, tid: Tid) {
        if self.borrower.swap(tid.0, Ordering::AcqRel) == tid.0 {
            return;
        }
        let _ = set_policy(self.tid, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1);
        if let Some(orders) = &self.orders {
            // The lender ends only when told to.
            let _ = orders.send(());
        }
    }

    /// Ends the loan at once.
    pub fn lower(&self) {
        self.borrower.store(0, Ordering::Release);
        // When the priority of who waits changes, the kernel changes that of the owner with it. The thread is ours and has not been
        // joined, so the id is still its own.
        let _ = set_policy(self.tid, libc::SCHED_OTHER, 0);
    }
}

impl Drop for Boost {
    fn drop(&mut self) {
        self.lower();
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Each order says that there is somebody to lend to; with the last end of the orders, it is over.
fn lend(inbox: &Receiver<()>, borrower: &AtomicU32) {
    while inbox.recv().is_ok() {
        let mut word = AtomicU32::new(0);
        loop {
            let tid = borrower.load(Ordering::Acquire);
            if tid == 0 {
                break;
            }
            if word.load(Ordering::Relaxed) & TID != tid {
                word = AtomicU32::new(tid);
            }
            match wait_for(&word) {
                Err(error) if error.raw_os_error() == Some(libc::ETIMEDOUT) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It is gone, and the futex is ours or nobody's.
                Ok(()) | Err(_) => break,
            }
        }
    }
}

/// The part of the word that says who owns the futex (`FUTEX_TID_MASK` of `linux/futex.h`).
const TID: u32 = 0x3fff_ffff;

/// Waits for the futex, at most for one turn.
fn wait_for(word: &AtomicU32) -> io::Result<()> {
    let until = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + TURN;
    let until = libc::timespec {
        tv_sec: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: libc::c_long::from(until.subsec_nanos()),
    };
    // Not FUTEX_PRIVATE_FLAG: the kernel would want the owner to be of this process.
    // SAFETY: FUTEX_LOCK_PI reads and writes the word and reads one timespec (CLOCK_REALTIME); both outlive the call, and the
    // word is an atomic, so that the kernel may write to it.
    check(unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_LOCK_PI, 0, &raw const until, 0, 0)
    })
    .map(drop)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// The priority that the kernel runs it at: 20 is ordinary, below 0 is real-time (field 18 of `stat`).
    fn priority(child: &Child) -> i64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let after = stat.rsplit_once(')').unwrap().1;
        after.split_ascii_whitespace().nth(15).unwrap().parse().unwrap()
    }

    fn wait_for_priority(child: &Child, is: impl Fn(i64) -> bool) {
        while !is(priority(child)) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn priority_is_lent_and_given_back() {
        let Ok(boost) = Boost::prepare() else { return };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let before = priority(&child);
        assert!(before >= 0);
        boost.raise(Tid(child.id()));
        wait_for_priority(&child, |priority| priority < 0);
        boost.lower();
        assert_eq!(priority(&child), before);
        boost.raise(Tid(child.id()));
        wait_for_priority(&child, |priority| priority < 0);
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        boost.raise(Tid(other.id()));
        wait_for_priority(&other, |priority| priority < 0);
        wait_for_priority(&child, |priority| priority == before);
        drop(boost);
        assert_eq!(priority(&other), before);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(priority(&child), before);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_end_of_the_borrower_ends_the_loan() {
        let Ok(boost) = Boost::prepare() else { return };
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        boost.raise(Tid(child.id()));
        wait_for_priority(&child, |priority| priority < 0);
        child.kill().unwrap();
        child.wait().unwrap();
        drop(boost);
        // And one for which nothing was ever lent.
        drop(Boost::prepare());
    }
}
