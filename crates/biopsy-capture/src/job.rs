//! One run of a verb: who watches it, whether it was asked to end, and which files it would leave behind.
//!
//! A verb looks at [`Job::is_asked`] and keeps what there is. Whoever ends a process on its own account, because the verb hangs in
//! a pipe that nobody reads or in a disk that does not answer, asks [`Job::leave`] what is left on the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use biopsy_model::Pid;
use biopsy_record::metrics::Latest;
use biopsy_record::trace::Progress;
use biopsy_sys::memory_folder::is_by_descriptor;
use biopsy_target::Check;

use crate::dump::Forecast;
use crate::failure::{Failure, FailureKind};

/// What a verb says while it works.
#[derive(Debug)]
pub enum Event<'a> {
    /// What goes on, in a sentence. Of no use to whoever wants no progress.
    Step(&'a str),
    /// Like a step, about something that is less than it should be.
    Remark(&'a str),
    /// What the result lacks and does not say itself, or that nothing comes: for everybody.
    Note(&'a str),
    /// The same of something that may do harm where the result goes.
    Warning(&'a str),
    /// Something on this machine or of this account makes the result less than it could be.
    Check(&'a Check),
    /// What a dump will cost.
    Forecast(&'a Forecast<'a>),
    /// The recorders run.
    Recording {
        /// What is recorded.
        name: &'a str,
        /// Its process.
        pid: Pid,
        /// How many processes are, that one included.
        processes: usize,
        /// How long; `None`: until it is stopped.
        length: Option<Duration>,
        /// The timeline alone.
        trace_only: bool,
    },
    /// How far the recorders are.
    Recorded {
        /// Of the trace.
        trace: Option<&'a Progress>,
        /// The last metrics.
        metrics: Option<&'a Latest>,
    },
    /// The recorders have ended.
    RecordingEnded,
    /// Something that was asked for on the way failed; the verb goes on.
    Failed(&'a Failure),
    /// How far the dump of a process is written, in bytes.
    Writing {
        /// Whose.
        pid: Pid,
        /// Written.
        done: u64,
        /// All; zero: not known yet.
        total: u64,
    },
    /// It is written, or given up.
    Written,
}

/// Who watches.
pub trait Observer: Send + Sync {
    /// Is told what goes on.
    fn event(&self, event: Event<'_>);

    /// Is told, each time it changes, which files would be there if the process ended now.
    fn left_behind(&self, _files: &[LeftBehind]) {}
}

impl<T: Observer + ?Sized> Observer for Arc<T> {
    fn event(&self, event: Event<'_>) {
        T::event(self, event);
    }

    fn left_behind(&self, files: &[LeftBehind]) {
        T::left_behind(self, files);
    }
}

/// A file or folder that stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeftBehind {
    /// Where, if it is there.
    pub path: PathBuf,
    /// It is a result, or else something that was begun.
    pub finished: bool,
}

/// What is to be done about a verb that was asked to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// That is its usual end: it makes something of what there is, however long that takes.
    Unlimited,
    /// The same, but nothing is frozen any more, and frozen copies are to be released after some seconds.
    WithoutCopies,
    /// It has so much time to come to its end.
    Limited(Duration),
}

/// What there is when the process is ended from outside of the verb.
enum Left {
    /// Worth keeping.
    Keep(PathBuf),
    /// Not finished, and of no use.
    Remove(PathBuf),
    /// The result, if it is there.
    Made(PathBuf),
}

/// A file that is dealt with if the process is ended from outside, as long as this lives.
#[derive(Debug)]
pub struct Leaving {
    job: Job,
    number: u64,
}

/// One run of a verb.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    observer: Box<dyn Observer>,
    asked: AtomicU32,
    finishes: AtomicBool,
    flag: Arc<AtomicBool>,
    state: Mutex<State>,
    left: Mutex<Remains>,
}

struct State {
    patience: Patience,
    listeners: Vec<Box<dyn Fn() + Send>>,
}

#[derive(Default)]
struct Remains {
    next: u64,
    all: BTreeMap<u64, Left>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job").field("asked", &self.0.asked).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// A run that nobody has asked to end.
    #[must_use]
    pub fn new(observer: Box<dyn Observer>) -> Self {
        let state = State { patience: Patience::Unlimited, listeners: Vec::new() };
        Self(Arc::new(Inner {
            observer,
            asked: AtomicU32::new(0),
            finishes: AtomicBool::new(false),
            flag: Arc::default(),
            state: Mutex::new(state),
            left: Mutex::default(),
        }))
    }

    /// Asks the verb to end: once, and it keeps what there is; twice, and it hurries. Returns how often it was asked by now, and
    /// how patient one should be.
    pub fn ask(&self) -> (u32, Patience) {
        let state = lock(&self.0.state);
        let count = self.0.asked.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.flag.store(true, Ordering::SeqCst);
        state.listeners.iter().for_each(|listener| listener());
        (count, state.patience)
    }

    /// What is to be done about it when it is asked from now on.
    pub fn be_patient(&self, patience: Patience) {
        lock(&self.0.state).patience = patience;
    }

    /// Whether it was asked to end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst) > 0
    }

    /// Whether it was asked to end, again: at once.
    #[must_use]
    pub fn is_hurried(&self) -> bool {
        self.0.asked.load(Ordering::SeqCst) > 1
    }

    /// Who asks it once wants the end of its recording, and what can be made of it: where that has ended by itself, it is no reason to hurry.
    pub fn finish_when_asked(&self) {
        self.0.finishes.store(true, Ordering::SeqCst);
    }

    /// Whether a wish to stop that comes when the recording has ended is one to hurry.
    pub(crate) fn hurries_behind_the_end(&self) -> bool {
        self.is_hurried() || !self.0.finishes.load(Ordering::SeqCst)
    }

    /// A flag that is set when it is asked to end.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.flag)
    }

    /// Calls `listener` each time it is asked, for the times before too.
    pub fn when_asked(&self, listener: impl Fn() + Send + 'static) {
        let mut state = lock(&self.0.state);
        (0..self.0.asked.load(Ordering::SeqCst)).for_each(|_| listener());
        state.listeners.push(Box::new(listener));
    }

    /// What is said by a verb that has nothing to show because it was asked to end.
    #[must_use]
    pub fn stopped(what: &str) -> Failure {
        Failure::new(FailureKind::Stopped, format!("stopped by a signal: {what}"))
    }

    /// Sleeps; `false`: it was asked to end meanwhile.
    pub(crate) fn sleep(&self, length: Duration) -> bool {
        const STEP: Duration = Duration::from_millis(50);
        let end = Instant::now() + length;
        while !self.is_asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(STEP));
        }
        false
    }

    pub(crate) fn tell(&self, event: Event<'_>) {
        self.0.observer.event(event);
    }

    pub(crate) fn step(&self, text: impl AsRef<str>) {
        self.tell(Event::Step(text.as_ref()));
    }

    pub(crate) fn remark(&self, text: impl AsRef<str>) {
        self.tell(Event::Remark(text.as_ref()));
    }

    pub(crate) fn note(&self, text: impl AsRef<str>) {
        self.tell(Event::Note(text.as_ref()));
    }

    /// Should the process be ended, this is kept and named, if it is there and not empty.
    pub(crate) fn keeping(&self, path: &Path) -> Leaving {
        Leaving { job: self.clone(), number: self.insert(Left::Keep(path.to_owned())) }
    }

    /// Should the process be ended, this is removed.
    pub(crate) fn removing(&self, path: &Path) -> Leaving {
        Leaving { job: self.clone(), number: self.insert(Left::Remove(path.to_owned())) }
    }

    /// The same for what usually is removed by its owner, until the end of the process.
    pub(crate) fn removing_at_the_end(&self, path: &Path) {
        self.insert(Left::Remove(path.to_owned()));
    }

    /// From now on, what is at this path is the result: it comes there in one step, or is there.
    pub(crate) fn made(&self, path: &Path) {
        self.insert(Left::Made(path.to_owned()));
    }

    /// Removes what is of no use, and returns what stays. The process is about to end.
    #[must_use]
    pub fn leave(&self) -> Vec<LeftBehind> {
        let mut stays = Vec::new();
        for left in std::mem::take(&mut lock(&self.0.left).all).into_values() {
            match left {
                // It ends with this process by itself.
                Left::Keep(path) | Left::Remove(path) | Left::Made(path) if is_by_descriptor(&path) => {}
                Left::Keep(path) if is_empty(&path) => remove(&path),
                Left::Remove(path) => remove(&path),
                Left::Keep(path) => stays.push(LeftBehind { path, finished: false }),
                Left::Made(path) if path.symlink_metadata().is_ok() => {
                    stays.push(LeftBehind { path, finished: true });
                }
                Left::Made(_) => {}
            }
        }
        stays
    }

    fn insert(&self, left: Left) -> u64 {
        self.change(|remains| {
            let number = remains.next;
            remains.next += 1;
            remains.all.insert(number, left);
            number
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Remains) -> T) -> T {
        let mut remains = lock(&self.0.left);
        let result = change(&mut remains);
        let files = remains.all.values().map(LeftBehind::of).filter(|left| !is_by_descriptor(&left.path));
        let files: Vec<LeftBehind> = files.collect();
        self.0.observer.left_behind(&files);
        result
    }
}

impl LeftBehind {
    fn of(left: &Left) -> Self {
        match left {
            Left::Keep(path) | Left::Remove(path) => Self { path: path.clone(), finished: false },
            Left::Made(path) => Self { path: path.clone(), finished: true },
        }
    }
}

impl Leaving {
    /// It is finished: from now on it is the result.
    pub(crate) fn made(&self) {
        self.job.change(|remains| {
            if let Some(Left::Keep(path) | Left::Remove(path)) = remains.all.remove(&self.number) {
                remains.all.insert(self.number, Left::Made(path));
                // From now on it belongs to the job.
            }
        });
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.job.change(|remains| {
            if !matches!(remains.all.get(&self.number), Some(Left::Made(_))) {
                remains.all.remove(&self.number);
            }
        });
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default, Clone)]
    struct Seen(Arc<Mutex<Vec<LeftBehind>>>);

    impl Observer for Seen {
        fn event(&self, _: Event<'_>) {}
        fn left_behind(&self, files: &[LeftBehind]) {
            *lock(&self.0) = files.to_vec();
        }
    }

    #[test]
    fn what_is_kept_removed_and_made() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        let seen = Seen::default();
        let job = Job::new(Box::new(seen.clone()));
        for name in ["kept", "removed", "finished", "dropped"] {
            std::fs::write(path(name), "x").unwrap();
        }
        std::fs::write(path("empty"), "").unwrap();
        let _kept = job.keeping(&path("kept"));
        let _empty = job.keeping(&path("empty"));
        let _removed = job.removing(&path("removed"));
        drop(job.removing(&path("dropped")));
        let made = job.removing(&path("finished"));
        assert_eq!(lock(&seen.0).iter().filter(|one| !one.finished).count(), 4);
        made.made();
        drop(made);
        job.made(&path("never came"));
        let left = job.leave();
        let of = |name: &str, finished| LeftBehind { path: path(name), finished };
        assert_eq!(left, [of("kept", false), of("finished", true)]);
        let there = |name: &str| path(name).exists();
        assert!(there("kept") && there("finished") && there("dropped"));
        assert!(!there("removed") && !there("empty"));
    }

    #[test]
    fn what_is_in_memory_alone_is_not_named_to_anybody() {
        let scratch = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(scratch.path()).unwrap();
        let folder = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        let at = |name: &str| Path::new(&folder).join(name);
        std::fs::write(at("kept"), "x").unwrap();
        let seen = Seen::default();
        let job = Job::new(Box::new(seen.clone()));
        let _kept = job.keeping(&at("kept"));
        job.made(&at("kept"));
        assert!(lock(&seen.0).is_empty() && job.leave().is_empty());
    }

    #[test]
    fn it_is_asked_once_and_hurried_then() {
        let job = Job::new(Box::new(Seen::default()));
        let count = Arc::new(AtomicU32::new(0));
        assert!(!job.is_asked());
        job.be_patient(Patience::WithoutCopies);
        assert_eq!(job.ask(), (1, Patience::WithoutCopies));
        assert!(job.is_asked() && !job.is_hurried() && job.flag().load(Ordering::SeqCst));
        let heard = Arc::clone(&count);
        job.when_asked(move || {
            heard.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(count.load(Ordering::SeqCst), 1, "the time before counts");
        // Seen: a command of the watcher left a folder without a report, because the watcher ended while the report was made.
        assert!(job.hurries_behind_the_end());
        job.finish_when_asked();
        assert!(!job.hurries_behind_the_end());
        assert_eq!(job.ask().0, 2);
        assert!(job.is_hurried() && job.hurries_behind_the_end());
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}
