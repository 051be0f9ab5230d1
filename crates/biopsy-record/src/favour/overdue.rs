//! Turns that do not come: a thread that could run and has reserved its time is not let run.
//!
//! Seen once, on Linux 6.18 at a load of 77 on two CPUs: the kernel never gave a thread its next turn. It was runnable for 13 minutes, at
//! last with nothing beside it, and its recording did not end. As an ordinary thread it went on at once.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use biopsy_model::Tid;
use biopsy_sys::schedule::take_back;

/// From one look to the next: some forty turns.
const EVERY: Duration = Duration::from_secs(1);
/// So many looks in a row at a thread that could run and did not: nothing that a reservation allows.
const LOOKS: u32 = 3;

/// What was seen of a thread.
#[derive(Default, Debug)]
struct Seen {
    switches: Option<u64>,
    stood: u32,
}

struct Watched {
    threads: BTreeMap<Tid, Seen>,
    has_watcher: bool,
}

static WATCHED: Mutex<Watched> = Mutex::new(Watched { threads: BTreeMap::new(), has_watcher: false });

/// From now on the thread has reserved its time. Another one looks whether it gets it.
pub(super) fn watch(thread: Tid) {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched.threads.insert(thread, Seen::default());
    if !watched.has_watcher {
        let watcher = std::thread::Builder::new().name("biopsy-turns".to_owned());
        watched.has_watcher = watcher.spawn(look_while_there_is_one).is_ok();
    }
}

/// It has given it back, or is about to end.
pub(super) fn forget(thread: Tid) {
    WATCHED.lock().unwrap_or_else(PoisonError::into_inner).threads.remove(&thread);
}

fn look_while_there_is_one() {
    loop {
        std::thread::sleep(EVERY);
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.threads.is_empty() {
            watched.has_watcher = false;
            return;
        }
        watched.threads.retain(|thread, seen| {
            let path = format!("/proc/self/task/{thread}/status");
            let Ok(status) = biopsy_files::read_kernels(path) else { return false };
            let is_overdue = seen.is_overdue(&String::from_utf8_lossy(&status));
            if is_overdue {
                // It has a turn like everybody then.
                let _ = take_back(*thread);
            }
            !is_overdue
        });
    }
}

impl Seen {
    /// Whether the thread of this `/proc/self/task/TID/status` could run and did not at several looks in a row.
    fn is_overdue(&mut self, status: &str) -> bool {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let count = |name: &str| field(name)?.trim().parse::<u64>().ok();
        let switches = count("voluntary_ctxt_switches")
            .zip(count("nonvoluntary_ctxt_switches"))
            .map(|(voluntary, other)| voluntary.wrapping_add(other));
        let could_run = field("State").is_some_and(|state| state.trim_start().starts_with('R'));
        let stands = could_run && switches.is_some() && switches == self.switches;
        self.stood = if stands { self.stood + 1 } else { 0 };
        self.switches = switches;
        self.stood >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: &str, voluntary: u64, other: u64) -> String {
        format!(
            "Name:\tbiopsy\nState:\t{state}\nvoluntary_ctxt_switches:\t{voluntary}\nnonvoluntary_ctxt_switches:\t{other}\n"
        )
    }

    #[test]
    fn who_could_run_and_does_not_is_overdue() {
        /// State, and switches of both kinds.
        type Look = (&'static str, u64, u64);
        let table: &[(&str, &[Look], bool)] = &[
            ("stands", &[("R (running)", 13, 31); 4], true),
            ("not for long enough", &[("R (running)", 13, 31); 3], false),
            ("sleeps", &[("S (sleeping)", 13, 31); 9], false),
            (
                "is stopped by its throttle in between",
                &[
                    ("R (running)", 13, 31),
                    ("R (running)", 13, 32),
                    ("R (running)", 13, 33),
                    ("R (running)", 13, 34),
                ],
                false,
            ),
            (
                "went on after two looks",
                &[
                    ("R (running)", 13, 31),
                    ("R (running)", 13, 31),
                    ("R (running)", 13, 31),
                    ("R (running)", 14, 31),
                    ("R (running)", 14, 31),
                ],
                false,
            ),
        ];
        for (what, looks, wanted) in table {
            let mut seen = Seen::default();
            let is_overdue = looks
                .iter()
                .map(|&(state, voluntary, other)| seen.is_overdue(&status(state, voluntary, other)))
                .last();
            assert_eq!(is_overdue, Some(*wanted), "{what}");
        }
        let mut seen = Seen::default();
        assert!((0..9).all(|_| !seen.is_overdue("State:\tR\n")), "without numbers nothing is known");
    }

    #[test]
    fn one_watcher_looks_while_there_is_a_thread_and_ends_then() {
        let is_there = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
            tasks
                .filter(|task| {
                    std::fs::read_to_string(task.path().join("comm"))
                        .is_ok_and(|name| name == "biopsy-turns\n")
                })
                .count()
        };
        // This one sleeps and wakes: it is never overdue.
        let this = biopsy_sys::schedule::this_thread();
        watch(this);
        watch(this);
        let until = |wanted: usize| {
            (0..600).any(|_| {
                is_there() == wanted || {
                    std::thread::sleep(Duration::from_millis(10));
                    false
                }
            })
        };
        assert!(until(1));
        forget(this);
        assert!(until(0), "it looks on without a thread");
    }
}
