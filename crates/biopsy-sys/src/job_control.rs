//! Keeps the terminal from stopping us while others wait for us.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// While it lives, Ctrl-Z does not stop this process. Whoever holds other processes (in an exec gate, in a ptrace stop) and is
/// stopped itself holds them for as long as a person takes to think of `fg`.
///
/// The signal is taken by a function instead of being blocked: a signal to the process goes to any thread that does not block
/// it. SIGTTIN and SIGTTOU are ignored, as those who block or ignore them may write to the terminal from the background. When
/// the last of these values is dropped, all is as before, and a Ctrl-Z that came meanwhile is carried out, unless a SIGCONT came
/// behind it: the kernel forgets a stop that waits as well (signal(7)).
#[derive(Debug)]
pub struct JobControl(());

struct Held {
    by: usize,
    /// What was set before: of SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT.
    before: [libc::sighandler_t; 4],
}

const SIGNALS: [i32; 4] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGCONT];

static HELD: Mutex<Held> = Mutex::new(Held { by: 0, before: [libc::SIG_DFL; 4] });
/// Ctrl-Z came.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Runs in a signal handler: a store to an atomic is all that it may do.
extern "C" fn note(_signal: i32) {
    ASKED.store(true, Ordering::Relaxed);
}

/// The same for SIGCONT.
extern "C" fn note_continued(_signal: i32) {
    ASKED.store(false, Ordering::Relaxed);
}

impl JobControl {
    /// Holds back what the terminal stops processes with. Programs started meanwhile inherit what is ignored.
    #[must_use]
    pub fn hold() -> Self {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if held.by == 0 {
            ASKED.store(false, Ordering::Relaxed);
            let (handler, continued): (extern "C" fn(i32), extern "C" fn(i32)) = (note, note_continued);
            #[expect(clippy::fn_to_numeric_cast_any, reason = "signal(2) takes functions as numbers")]
            let ours = [
                handler as libc::sighandler_t,
                libc::SIG_IGN,
                libc::SIG_IGN,
                continued as libc::sighandler_t,
            ];
            held.before = std::array::from_fn(|index| set(SIGNALS[index], ours[index]));
            // Whoever started us does not want us to be stopped at all.
            if held.before[0] == libc::SIG_IGN {
                set(SIGNALS[0], libc::SIG_IGN);
            }
        }
        held.by += 1;
        Self(())
    }

    /// Whether a Ctrl-Z waits for the last of these values to be dropped.
    #[must_use]
    pub fn is_asked() -> bool {
        ASKED.load(Ordering::Relaxed)
    }

    /// Forgets a Ctrl-Z that waits: for those who are about to end.
    pub fn forget() {
        ASKED.store(false, Ordering::Relaxed);
    }
}

impl Drop for JobControl {
    fn drop(&mut self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        held.by -= 1;
        if held.by > 0 {
            return;
        }
        for (signal, before) in SIGNALS.into_iter().zip(held.before) {
            if before != libc::SIG_ERR {
                set(signal, before);
            }
        }
        drop(held);
        if ASKED.swap(false, Ordering::Relaxed) {
            stop_ourselves();
        }
    }
}

/// To the process, as the terminal sends it.
fn stop_ourselves() {
    let own = i32::try_from(std::process::id()).expect("pids are ints");
    // SAFETY: kill takes two integers.
    unsafe { libc::kill(own, libc::SIGTSTP) };
}

fn set(signal: i32, to: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: signal(2) takes a signal number and a disposition: one of the two constants, `note` or `note_continued`, which are
    // functions of the right type that only store to an atomic, or what signal(2) itself gave back before.
    unsafe { libc::signal(signal, to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_in(field: &str, signal: i32) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() & (1 << (signal - 1)) != 0
    }

    #[test]
    fn a_stop_from_the_terminal_waits_for_the_last_holder() {
        let first = JobControl::hold();
        let second = JobControl::hold();
        assert!(is_in("SigIgn:", libc::SIGTTOU) && is_in("SigIgn:", libc::SIGTTIN));
        assert!(is_in("SigCgt:", libc::SIGTSTP), "it is not ignored, because it is carried out later");
        drop(first);
        stop_ourselves();
        while !JobControl::is_asked() {
            std::thread::yield_now();
        }
        // Who goes on is not stopped later. Carried out, it would stop all tests; the program that is stopped is among the live tests of
        // `biopsy`.
        let own = i32::try_from(std::process::id()).unwrap();
        // SAFETY: kill takes two integers.
        unsafe { libc::kill(own, libc::SIGCONT) };
        while JobControl::is_asked() {
            std::thread::yield_now();
        }
        drop(second);
        assert!(!is_in("SigCgt:", libc::SIGTSTP) && !is_in("SigCgt:", libc::SIGCONT));
        assert!(!is_in("SigIgn:", libc::SIGTTOU));
    }
}
