//! The test users would ask for: after it was recorded, the target is as it was.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::proc_status;

/// Settings of a process that a recorder could change and must not: `/proc/PID/` files that are compared as text.
const SETTINGS: &[&str] =
    &["cgroup", "oom_score_adj", "limits", "coredump_filter", "environ", "cmdline", "timerslack_ns"];
/// Fields of `/proc/PID/status` that must stay as they were.
const STATUS_FIELDS: &[&str] =
    &["Uid", "Gid", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Seccomp", "Cpus_allowed_list"];

/// What a process was like before something was done to it.
#[derive(Debug)]
pub struct Survival {
    pid: u32,
    before: State,
    folders: Vec<(PathBuf, BTreeSet<PathBuf>)>,
    stable_threads: bool,
    stable_files: bool,
}

#[derive(Debug, PartialEq)]
struct State {
    start_ticks: u64,
    threads: usize,
    open_files: Vec<PathBuf>,
    mapped_files: Vec<String>,
    settings: Vec<(&'static str, Vec<u8>)>,
    status: Vec<(&'static str, Option<String>)>,
}

impl Survival {
    /// Looks at the process now, or as soon as its first thread does not start another.
    ///
    /// # Panics
    ///
    /// Where there is no such process.
    #[must_use]
    pub fn before(pid: u32) -> Self {
        let deadline = Instant::now() + Duration::from_secs(2);
        let look = || State::of(pid).unwrap_or_else(|| panic!("process {pid} is gone before the test began"));
        let mut before = look();
        while before.starts_a_thread() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
            before = look();
        }
        Self { pid, before, folders: Vec::new(), stable_threads: true, stable_files: true }
    }

    /// The same once its open files have been equal for half a second: a runtime that has just begun still closes what it needed for
    /// that, a pipe for example. Looks for five seconds at most.
    ///
    /// # Panics
    ///
    /// Where there is no such process.
    #[must_use]
    pub fn before_when_settled(pid: u32) -> Self {
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut settled = Self::before(pid);
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let now = Self::before(pid);
            if now.before.open_files == settled.before.open_files || Instant::now() > deadline {
                return now;
            }
            settled = now;
        }
    }

    /// Also demands that no file appears in `folder` (not below it).
    #[must_use]
    pub fn watching(mut self, folder: &Path) -> Self {
        self.folders.push((folder.to_path_buf(), files_in(folder)));
        self
    }

    /// For programs that start and end threads by themselves.
    #[must_use]
    pub fn threads_may_change(mut self) -> Self {
        self.stable_threads = false;
        self
    }

    /// For programs that open, close and map files by themselves.
    #[must_use]
    pub fn files_may_change(mut self) -> Self {
        self.stable_files = false;
        self
    }

    /// What is different now, in words; empty: unharmed.
    #[must_use]
    pub fn differences(&self) -> Vec<String> {
        let pid = self.pid;
        let Some(now) = State::of(pid) else { return vec![format!("process {pid} is gone")] };
        let mut found = Vec::new();
        if now.start_ticks != self.before.start_ticks {
            return vec![format!("pid {pid} is another process now")];
        }
        match proc_status::field(pid, "TracerPid").as_deref() {
            Some("0") => {}
            tracer => found.push(format!("it is traced: TracerPid {tracer:?}")),
        }
        found.extend(stopped_threads(pid));
        if self.stable_threads && now.threads != self.before.threads {
            found.push(format!("it had {} threads, now {}", self.before.threads, now.threads));
        }
        if self.stable_files {
            found.extend(changed_files("open", &self.before.open_files, || proc_status::open_files(pid)));
            found.extend(changed_files("mapped", &self.before.mapped_files, || {
                proc_status::mapped_files(pid)
            }));
        }
        for ((name, was), (_, is)) in self.before.settings.iter().zip(&now.settings) {
            if was != is {
                let (was, is) = (String::from_utf8_lossy(was), String::from_utf8_lossy(is));
                found.push(format!("`/proc/{pid}/{name}` was {was:?}, now {is:?}"));
            }
        }
        for ((name, was), (_, is)) in self.before.status.iter().zip(&now.status) {
            // The C library blocks all signals for the moment in which it starts a thread.
            let starts_threads = *name == "SigBlk" && !self.stable_threads;
            if was != is && !starts_threads {
                found.push(format!("its {name} was {was:?}, now {is:?}"));
            }
        }
        for (folder, before) in &self.folders {
            let new: Vec<PathBuf> = files_in(folder).difference(before).cloned().collect();
            if !new.is_empty() {
                found.push(format!("`{}` has new files {new:?}", folder.display()));
            }
        }
        found
    }

    /// Fails the test if the target was harmed.
    ///
    /// # Panics
    ///
    /// With every difference.
    #[track_caller]
    pub fn assert_unharmed(&self) {
        let found = self.differences();
        assert!(
            found.is_empty(),
            "the target {} did not survive unharmed:\n  {}",
            self.pid,
            found.join("\n  ")
        );
    }
}

/// What differs between the files of before and those of now, in words. A runtime has files of its own open for moments (the
/// collector of .NET reads the limits of its cgroup): what changed counts only if it is so at three readings.
fn changed_files<T: PartialEq + Clone + std::fmt::Debug>(
    how: &str,
    before: &[T],
    now: impl Fn() -> Vec<T>,
) -> Option<String> {
    let mut changed = None;
    for reading in 0..3 {
        if reading > 0 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let now = now();
        let (gone, new) = (without(before, &now), without(&now, before));
        if gone.is_empty() && new.is_empty() {
            return None;
        }
        changed = Some(format!("its {how} files changed: gone {gone:?}, new {new:?}"));
    }
    changed
}

/// Those of `all` that are not in `others`, each as often as it is there more.
fn without<T: PartialEq + Clone>(all: &[T], others: &[T]) -> Vec<T> {
    let mut left = others.to_vec();
    let mut more = Vec::new();
    for one in all {
        match left.iter().position(|other| other == one) {
            Some(at) => drop(left.swap_remove(at)),
            None => more.push(one.clone()),
        }
    }
    more
}

impl State {
    fn of(pid: u32) -> Option<Self> {
        let (state, start_ticks) = proc_status::state_and_start(pid)?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let settings = SETTINGS
            .iter()
            .map(|name| (*name, std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default()))
            .collect();
        let status = STATUS_FIELDS.iter().map(|name| (*name, proc_status::field(pid, name))).collect();
        Some(Self {
            start_ticks,
            threads: threads(pid).len(),
            open_files: proc_status::open_files(pid),
            mapped_files: proc_status::mapped_files(pid),
            settings,
            status,
        })
    }
}

impl State {
    /// Whether the first thread blocks even the signals that the C library keeps for itself (32 and 33), as it does for the moment in
    /// which it starts a thread.
    fn starts_a_thread(&self) -> bool {
        let blocked =
            self.status.iter().find(|(name, _)| *name == "SigBlk").and_then(|(_, mask)| mask.as_deref());
        let own = 0b11 << 31;
        blocked.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & own == own)
    }
}

fn threads(pid: u32) -> Vec<String> {
    std::fs::read_dir(format!("/proc/{pid}/task"))
        .map(|entries| entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        .unwrap_or_default()
}

/// Threads that are stopped (T) or stopped by a tracer (t).
fn stopped_threads(pid: u32) -> Vec<String> {
    let mut found = Vec::new();
    for tid in threads(pid) {
        let Ok(bytes) = std::fs::read(format!("/proc/{pid}/task/{tid}/stat")) else { continue };
        let state = bytes.iter().rposition(|byte| *byte == b')').and_then(|at| bytes.get(at + 2));
        if let Some(state @ (b'T' | b't')) = state {
            found.push(format!("thread {tid} is stopped ({})", char::from(*state)));
        }
    }
    found
}

fn files_in(folder: &Path) -> BTreeSet<PathBuf> {
    std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runtime_opens_for_a_moment_is_no_change_and_what_stays_is() {
        let before = ["a", "a", "pipe"];
        let readings = std::cell::Cell::new(0);
        let moment = || {
            readings.set(readings.get() + 1);
            if readings.get() == 1 { vec!["a", "a", "limit", "pipe"] } else { before.to_vec() }
        };
        assert_eq!(changed_files("open", &before, moment), None);
        let stays = changed_files("open", &before, || vec!["a", "pipe", "left"]).unwrap();
        assert_eq!(stays, r#"its open files changed: gone ["a"], new ["left"]"#);
    }
}
