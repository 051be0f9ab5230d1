//! Nobody waits at the gate for long, whatever happens to the thread that decides.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use biopsy_sys::fanotify::ExecRequest;

/// Longest time that one request may wait for its decision. Deciding takes some ten microseconds.
const LONGEST: Duration = Duration::from_millis(100);

/// Holds the request that is being decided on.
///
/// Seizing takes a lock (`cred_guard_mutex`) that the kernel holds itself in later parts of execve(2): a thread that seizes
/// a process there waits for an execution that waits for us. That is avoided by never seizing there, and if it should
/// happen all the same, the request is allowed from here, and both go on.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    desk: Arc<Desk>,
}

#[derive(Debug, Default)]
struct Desk {
    waiting: Mutex<Option<(Instant, ExecRequest)>>,
    changed: Condvar,
}

impl Gatekeeper {
    /// Starts the thread.
    pub(super) fn start() -> std::io::Result<Self> {
        let desk = Arc::new(Desk::default());
        let weak = Arc::downgrade(&desk);
        std::thread::Builder::new()
            .name("gatekeeper".to_owned())
            .stack_size(64 << 10)
            .spawn(move || watch(&weak))?;
        Ok(Self { desk })
    }

    /// Puts a request down for the time of a decision.
    pub(super) fn hold(&self, request: ExecRequest) {
        *self.desk.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), request));
        self.desk.changed.notify_all();
    }

    /// The decision is made: the request goes on. False: it went on before, because the decision took too long.
    pub(super) fn allow(&self) -> bool {
        self.desk.waiting.lock().unwrap_or_else(PoisonError::into_inner).take().is_some()
    }
}

fn watch(desk: &Weak<Desk>) {
    while let Some(desk) = desk.upgrade() {
        let waiting = desk.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let nap = if waiting.is_some() { LONGEST / 4 } else { Duration::from_secs(1) };
        let (mut waiting, _) =
            desk.changed.wait_timeout(waiting, nap).unwrap_or_else(PoisonError::into_inner);
        if waiting.as_ref().is_some_and(|(since, _)| since.elapsed() >= LONGEST) {
            *waiting = None;
        }
    }
}
