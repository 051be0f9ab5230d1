//! Rings when a traced thread stopped, so that a tracer can wait for that and for other things at once.
//!
//! waitid(2) cannot wait for a descriptor, and poll(2) not for a stop: the kernel announces stops by SIGCHLD alone, which
//! a library cannot claim for itself. So one thread of the process waits for stops, leaves the answers in place, and
//! writes to the eventfd of every tracer. It rings too often rather than too rarely.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::check;

/// After a ring, the next one comes when a tracer has looked, or after this time: a stop that nobody takes away (a thread
/// held by another tracer of this process) must not make a busy loop.
const NEXT_RING: Duration = Duration::from_millis(1);
/// How often to look whether there is anything to wait for, when there was not and no tracer said so.
const IDLE: Duration = Duration::from_secs(1);

/// One tracer's bell. Poll its descriptor.
#[derive(Debug)]
pub struct StopBell {
    event: Arc<OwnedFd>,
}

#[derive(Debug)]
struct Ringer {
    /// Those who want to be told.
    bells: Vec<Weak<OwnedFd>>,
    /// The waiting thread has been started.
    running: bool,
    /// A tracer has looked since the last ring.
    looked: bool,
}

static RINGER: Mutex<Ringer> = Mutex::new(Ringer { bells: Vec::new(), running: false, looked: false });
static CHANGED: Condvar = Condvar::new();

fn ringer() -> MutexGuard<'static, Ringer> {
    RINGER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StopBell {
    /// A bell that rings for stops of all threads that this process traces.
    ///
    /// # Errors
    /// EMFILE, or when no thread can be started.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes two integers and touches no memory of ours.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }.into())?;
        let fd = i32::try_from(fd).expect("file descriptors are ints");
        // SAFETY: the call above returned this descriptor, and nobody else owns it.
        let event = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        let mut ringer = ringer();
        ringer.bells.retain(|bell| bell.strong_count() > 0);
        ringer.bells.push(Arc::downgrade(&event));
        if !ringer.running {
            std::thread::Builder::new().name("stop-bell".to_owned()).stack_size(64 << 10).spawn(watch)?;
            ringer.running = true;
        }
        Ok(Self { event })
    }

    /// To be called after the bell rang and before the tracer looks for stops.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: read writes at most eight bytes to `count`, which has eight.
        let _ = unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }

    /// To be called when the tracer has looked for stops, and when it has seized a thread.
    pub fn looked(&self) {
        ringer().looked = true;
        CHANGED.notify_all();
    }

    /// Rings this bell from elsewhere.
    #[must_use]
    pub fn handle(&self) -> BellHandle {
        BellHandle { event: Arc::clone(&self.event) }
    }
}

impl AsFd for StopBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

/// Rings one bell, from any thread.
#[derive(Clone, Debug)]
pub struct BellHandle {
    event: Arc<OwnedFd>,
}

impl BellHandle {
    /// Rings.
    pub fn ring(&self) {
        ring(&self.event);
    }
}

fn ring(event: &OwnedFd) {
    let one = 1_u64.to_ne_bytes();
    // SAFETY: write reads eight bytes from `one`, which has eight. A full counter (EAGAIN) has rung already.
    let _ = unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

/// The waiting thread. It ends when no bell is left.
fn watch() {
    loop {
        let stopped = wait_for_stop();
        let mut ringer = ringer();
        ringer.bells.retain(|bell| bell.strong_count() > 0);
        if ringer.bells.is_empty() {
            ringer.running = false;
            return;
        }
        if stopped {
            ringer.looked = false;
            for bell in ringer.bells.iter().filter_map(Weak::upgrade) {
                ring(&bell);
            }
        }
        let pause = if stopped { NEXT_RING } else { IDLE };
        let _unused = CHANGED
            .wait_timeout_while(ringer, pause, |ringer| !ringer.looked)
            .map(|(mut ringer, _)| ringer.looked = false);
    }
}

/// Waits until a thread that this process traces has stopped, and leaves the answer. False: there is none to wait for.
fn wait_for_stop() -> bool {
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // Not for ends: a child of ours that somebody will wait for later would ring all the time until then.
    let flags = libc::WSTOPPED | libc::WNOWAIT | libc::__WALL;
    // SAFETY: waitid writes one siginfo_t to the pointer, which is valid for that; the rest are integers.
    unsafe { libc::waitid(libc::P_ALL, 0, info.as_mut_ptr(), flags) == 0 }
}
