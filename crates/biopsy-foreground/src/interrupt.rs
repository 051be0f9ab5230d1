//! SIGINT, SIGTERM and SIGHUP, from the first moment of a command to its end: one way for all commands.
//!
//! The first signal asks the [`Job`]: the command ends what it does and keeps what there is. A command that takes longer than
//! its [`Patience`], or is asked again, is ended from here: frozen copies are released in order, what is left on the disk is
//! removed or named, and the program exits. So a signal ends it whatever it hangs in: a pipe that nobody reads, a disk that
//! does not answer, work that a hostile target has made endless.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use biopsy_capture::{Failure, FailureKind, Job, Patience};
use biopsy_sys::job_control::JobControl;
use biopsy_target::freeze;
use rustix::termios::{OptionalActions, Termios, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::arrivals::Arrivals;
use crate::exit_codes::Code;
use crate::out;
use biopsy_terminal::terminal::ColorChoice;

/// For a command that only has to notice.
pub const SHORT: Duration = Duration::from_secs(3);
/// After the second signal.
const AFTER_THE_SECOND: Duration = Duration::from_secs(3);
/// For copies to be released; what is held then is let go by the kernel.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// The end of the process that started this one is SIGTERM, which the kernel sends for each thread of that process that ends: those that come
/// within this time are one. Two would be one that hurries, and leave a recording without a report.
const ONE_END: Duration = Duration::from_secs(2);

/// Whether the end of the process that started this one is to end it.
static ENDS_WITH_PARENT: AtomicBool = AtomicBool::new(false);
/// The terminal as it was before it was set up for keys.
static TERMINAL: Mutex<Option<Termios>> = Mutex::new(None);
/// Held by whoever ends the program.
static END: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens from now on, until the program ends.
///
/// # Errors
/// The kernel gives no socket or no thread.
pub fn listen(job: &Job, patience: Patience, color: ColorChoice) -> Result<(), Failure> {
    job.be_patient(patience);
    let mut numbers = vec![SIGINT, SIGTERM, SIGQUIT];
    if !is_ignored(SIGHUP) {
        // nohup(1) asks for going on.
        numbers.push(SIGHUP);
    }
    let failed = |error: std::io::Error| {
        Failure::new(FailureKind::Memory, format!("cannot listen to signals: {error}"))
    };
    if ENDS_WITH_PARENT.load(Ordering::SeqCst) {
        job.finish_when_asked();
    }
    let job = job.clone();
    let arrivals = Arrivals::of(numbers).map_err(failed)?;
    let mut last_end: Option<Instant> = None;
    let came = move |signal| {
        let is_end = signal == SIGTERM && ENDS_WITH_PARENT.load(Ordering::SeqCst);
        let is_same_end =
            is_end && last_end.replace(Instant::now()).is_some_and(|last| last.elapsed() < ONE_END);
        if !is_same_end {
            came(signal, &job, color);
        }
    };
    arrivals.start("biopsy-signals", came).map(drop).map_err(failed)
}

/// The end of the process that started this one is a signal to end; `false`: it has ended already.
pub fn end_with(parent: u32) -> bool {
    // Without, it would not end by itself: then it does not begin.
    let asked = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).is_ok();
    let there = rustix::process::getppid().is_some_and(|pid| u32::try_from(pid.as_raw_pid()) == Ok(parent));
    ENDS_WITH_PARENT.store(true, Ordering::SeqCst);
    asked && there
}

/// Should the program be ended from here, the terminal is set up like this, until that is [over](forget_terminal).
pub(crate) fn restoring(terminal: Termios) {
    *lock(&TERMINAL) = Some(terminal);
}

/// The terminal is as it was.
pub(crate) fn forget_terminal() {
    *lock(&TERMINAL) = None;
}

/// To be called before the command says how it ended. If it is being ended from here, this does not return.
pub fn settle() {
    drop(lock(&END));
}

fn came(signal: i32, job: &Job, color: ColorChoice) {
    // Who wants to end does not want to be suspended before.
    JobControl::forget();
    let (count, patience) = job.ask();
    let job = job.clone();
    match (count, patience) {
        _ if signal == SIGQUIT => end(&job, color),
        (1, Patience::Unlimited) => {}
        (1, Patience::WithoutCopies) => later(SHORT, || {
            freeze::end_all(RELEASE_WITHIN);
        }),
        (1, Patience::Limited(time)) => later(time, move || end(&job, color)),
        (2, _) => later(AFTER_THE_SECOND, move || end(&job, color)),
        _ => end(&job, color),
    }
}

fn later(time: Duration, what: impl FnOnce() + Send + 'static) {
    if time.is_zero() {
        return what();
    }
    let wait = move || {
        std::thread::sleep(time);
        what();
    };
    // Without a thread the next signal ends it: there is nobody to wait.
    let _ = std::thread::Builder::new().name("biopsy-end".to_owned()).spawn(wait);
}

/// Ends the program.
#[expect(clippy::disallowed_methods, clippy::exit, reason = "the main thread may hang: nothing else ends it")]
fn end(job: &Job, color: ColorChoice) {
    let _only_one = lock(&END);
    freeze::end_all(RELEASE_WITHIN);
    if let Some(terminal) = lock(&TERMINAL).take() {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &terminal);
    }
    let (made, kept): (Vec<_>, Vec<_>) = job.leave().into_iter().partition(|left| left.finished);
    let names = |files: &[biopsy_capture::LeftBehind]| {
        files.iter().map(|left| format!("`{}`", left.path.display())).collect::<Vec<_>>().join(" and ")
    };
    let what = match (kept.as_slice(), made.as_slice()) {
        ([], []) => "nothing is left of what was begun".to_owned(),
        ([], made) => format!("{} was finished by then", names(made)),
        (kept, _) => format!("what there was by then is in {}, and is not finished", names(kept)),
    };
    out::say_failure(&Job::stopped(&what), color);
    std::process::exit(Code::Partial as i32);
}

/// Whether whoever started us had this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}
