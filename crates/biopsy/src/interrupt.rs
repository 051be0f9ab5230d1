//! SIGINT, SIGTERM and SIGHUP, from the first moment of a command to its end: one way for all commands.
//!
//! The first signal asks: who looks at [`is_asked`] ends what it does and keeps what there is. A command that takes longer than
//! its [`Patience`], or is asked again, is ended from here: frozen copies are released in order, what is left on the disk is
//! removed or named, and the program exits. So a signal ends it whatever it hangs in: a pipe that nobody reads, a disk that
//! does not answer, work that a hostile target has made endless.
//!
//! Signals belong to the process and not to a value in it, and so does what is remembered here.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use biopsy_model::printable::printable;
use biopsy_sys::job_control::JobControl;
use biopsy_target::freeze;
use rustix::termios::{OptionalActions, Termios, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::arrivals::Arrivals;
use crate::exit_codes::Code;
use crate::failure::Failure;
use crate::render::terminal::ColorChoice;

/// What a command does at the first signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// A signal is its usual end: it makes something of what there is, however long that takes.
    Unlimited,
    /// The same, but nothing is frozen any more, and frozen copies are released after some seconds.
    WithoutCopies,
    /// It has so much time to come to its end.
    Limited(Duration),
}

/// For a command that only has to notice.
pub(crate) const SHORT: Duration = Duration::from_secs(3);
/// After the second signal.
const AFTER_THE_SECOND: Duration = Duration::from_secs(3);
/// For copies to be released; what is held then is let go by the kernel.
const RELEASE_WITHIN: Duration = Duration::from_secs(5);

/// How many signals have come.
static COUNT: AtomicU32 = AtomicU32::new(0);
/// The same as a flag for those who wait for one.
static FLAG: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| Arc::new(AtomicBool::new(false)));
static STATE: Mutex<State> = Mutex::new(State { patience: Patience::Unlimited, listeners: Vec::new() });
static LEFT: Mutex<BTreeMap<u64, Left>> = Mutex::new(BTreeMap::new());
/// Held by whoever ends the program.
static END: Mutex<()> = Mutex::new(());

struct State {
    patience: Patience,
    listeners: Vec<Box<dyn Fn() + Send>>,
}

/// What there is when the program is ended from here.
enum Left {
    /// Worth keeping: it is named.
    Keep(PathBuf),
    /// Not finished, and of no use.
    Remove(PathBuf),
    /// The result, if it is there.
    Made(PathBuf),
    /// The terminal was set up for keys.
    Terminal(Box<Termios>),
}

/// Something that is to be dealt with when the program is ended from here, as long as this lives.
#[derive(Debug)]
pub(crate) struct Leaving(u64);

fn lock<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens from now on, until the program ends.
pub(crate) fn listen(patience: Patience, color: ColorChoice) -> Result<(), Failure> {
    be_patient(patience);
    let mut numbers = vec![SIGINT, SIGTERM, SIGQUIT];
    if !is_ignored(SIGHUP) {
        // nohup(1) asks for going on.
        numbers.push(SIGHUP);
    }
    let failed =
        |error: std::io::Error| Failure::new(Code::Memory, format!("cannot listen to signals: {error}"));
    let arrivals = Arrivals::of(numbers).map_err(failed)?;
    arrivals.start("biopsy-signals", move |signal| came(signal, color)).map(drop).map_err(failed)
}

/// What is done at the first signal from now on.
pub(crate) fn be_patient(patience: Patience) {
    lock(&STATE).patience = patience;
}

/// Whether the command was asked to end.
pub(crate) fn is_asked() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// Whether it was asked to end, again: at once.
pub(crate) fn is_hurried() -> bool {
    COUNT.load(Ordering::SeqCst) > 1
}

/// A flag that is set when the command is asked to end.
pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::clone(&FLAG)
}

/// Calls `listener` for each signal, for those that came already too.
pub(crate) fn tell(listener: impl Fn() + Send + 'static) {
    let mut state = lock(&STATE);
    (0..COUNT.load(Ordering::SeqCst)).for_each(|_| listener());
    state.listeners.push(Box::new(listener));
}

/// Should the program be ended from here, this is named, if it is there and not empty.
pub(crate) fn keeping(path: &Path) -> Leaving {
    leave(Left::Keep(path.to_owned()))
}

/// Should the program be ended from here, this is removed.
pub(crate) fn removing(path: &Path) -> Leaving {
    leave(Left::Remove(path.to_owned()))
}

/// The same for what usually is removed by its owner, until the end of the program.
pub(crate) fn removing_at_the_end(path: &Path) {
    insert(Left::Remove(path.to_owned()));
}

/// From now on, what is at this path is the result: it comes there in one step, or is there.
pub(crate) fn made(path: &Path) {
    insert(Left::Made(path.to_owned()));
}

/// Should the program be ended from here, the terminal is set up like this.
pub(crate) fn restoring(terminal: Termios) -> Leaving {
    leave(Left::Terminal(Box::new(terminal)))
}

fn leave(left: Left) -> Leaving {
    Leaving(insert(left))
}

fn insert(left: Left) -> u64 {
    let number = next();
    change(|all| drop(all.insert(number, left)));
    number
}

fn change(change: impl FnOnce(&mut BTreeMap<u64, Left>)) {
    let mut all = lock(&LEFT);
    change(&mut all);
    // Where there is no memory any more, nothing can be put together: it is told beforehand.
    let told = |left: &Left| {
        let (what, path) = match left {
            Left::Keep(path) | Left::Remove(path) => ("not finished:", path),
            Left::Made(path) => ("finished:", path),
            Left::Terminal(_) => return None,
        };
        let place = CString::new(path.as_os_str().as_bytes()).ok()?;
        Some((place, format!("{what} `{}`\n", printable(&path.to_string_lossy()))))
    };
    crate::ALLOCATOR.leaves(all.values().filter_map(told).collect());
}

fn next() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Leaving {
    /// It is finished: from now on it is the result.
    pub(crate) fn made(&self) {
        change(|all| {
            if let Some(Left::Keep(path) | Left::Remove(path)) = all.remove(&self.0) {
                all.insert(next(), Left::Made(path));
            }
        });
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        change(|all| drop(all.remove(&self.0)));
    }
}

/// To be called before the command says how it ended. If it is being ended from here, this does not return.
pub(crate) fn settle() {
    drop(lock(&END));
}

/// What a command says that has nothing to show because it was told to stop.
pub(crate) fn failure(what: &str) -> Failure {
    Failure::new(Code::Partial, format!("stopped by a signal: {what}"))
}

fn came(signal: i32, color: ColorChoice) {
    let state = lock(&STATE);
    let count = COUNT.fetch_add(1, Ordering::SeqCst) + 1;
    FLAG.store(true, Ordering::SeqCst);
    // Who wants to end does not want to be suspended before.
    JobControl::forget();
    state.listeners.iter().for_each(|listener| listener());
    let patience = state.patience;
    drop(state);
    match (count, patience) {
        _ if signal == SIGQUIT => end(color),
        (1, Patience::Unlimited) => {}
        (1, Patience::WithoutCopies) => later(SHORT, || {
            freeze::end_all(RELEASE_WITHIN);
        }),
        (1, Patience::Limited(time)) => later(time, move || end(color)),
        (2, _) => later(AFTER_THE_SECOND, move || end(color)),
        _ => end(color),
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
fn end(color: ColorChoice) {
    let _only_one = lock(&END);
    freeze::end_all(RELEASE_WITHIN);
    let (mut kept, mut made) = (Vec::new(), Vec::new());
    let shown = |path: &Path| format!("`{}`", path.display());
    for left in std::mem::take(&mut *lock(&LEFT)).into_values() {
        match left {
            Left::Keep(path) if is_empty(&path) => remove(&path),
            Left::Keep(path) => kept.push(shown(&path)),
            Left::Remove(path) => remove(&path),
            Left::Made(path) if path.symlink_metadata().is_ok() => made.push(shown(&path)),
            Left::Made(_) => {}
            Left::Terminal(terminal) => {
                let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &terminal);
            }
        }
    }
    let what = match (kept.as_slice(), made.as_slice()) {
        ([], []) => "nothing is left of what was begun".to_owned(),
        ([], made) => format!("{} was finished by then", made.join(" and ")),
        (kept, _) => format!("what there was by then is in {}, and is not finished", kept.join(" and ")),
    };
    failure(&what).print(color);
    std::process::exit(Code::Partial as i32);
}

fn is_empty(path: &Path) -> bool {
    path.symlink_metadata().map_or(true, |meta| meta.is_file() && meta.len() == 0)
}

fn remove(path: &Path) {
    // Nothing more can be done about what cannot be removed.
    let _ = match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
}

/// Whether whoever started us had this signal ignored.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}
