//! A share of a CPU for us on a machine where hundreds of threads compete for each.
//!
//! Two CPUs, a load of 500: a recorder that is one of 500 gets its turn every few seconds, loses what the rings hold, and takes
//! minutes to end. What reads the rings needs little, but often. Real-time priority would give it that, and whatever else it asks for,
//! at the cost of the target. A nice value gives a share: it is chosen so that a thread of ours gets a quarter of one CPU against
//! those that compete now, and is 0 on a machine that is not starved (3 or fewer for each CPU). So the target loses at most what it would
//! lose to one more of its own threads among four, and only while we have something to do.
//!
//! It is for all our threads, from the first step of a recording to its sealing: what is attached late, a reading of the metrics that is
//! late and an end that nobody comes to each make a recording longer than was asked for. The thread that reads the rings chooses for
//! itself, too, since it must not wait for another one to do so.

use std::sync::OnceLock;

use biopsy_model::Tid;
use biopsy_sys::schedule::{nice, set_nice, this_thread};

/// What one step of nice is worth (`sched_prio_to_weight` in kernel/sched/core.c).
const STEP: f64 = 1.25;
/// Competitors of the same weight that leave us a quarter.
const QUARTER: f64 = 3.0;

/// For the calling thread, by what competes now. To be called again from time to time.
pub(crate) fn this_thread_too() {
    if let Some(wanted) = wanted() {
        // Without CAP_SYS_NICE things stay as they are.
        let _ = set_nice(this_thread(), wanted);
    }
}

/// For all our threads, also those that they start from here on. To be called again from time to time.
pub fn all_threads() {
    let Some(wanted) = wanted() else { return };
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        if let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()).map(Tid) {
            let _ = set_nice(tid, wanted);
        }
    }
}

/// The nice value that fits now; `None` where somebody has chosen another than the usual one for us.
fn wanted() -> Option<i32> {
    static CHOSEN: OnceLock<i32> = OnceLock::new();
    let chosen = *CHOSEN.get_or_init(|| nice(Tid(std::process::id())).unwrap_or(0));
    if chosen != 0 {
        return None;
    }
    let text = String::from_utf8(biopsy_files::read_kernels("/proc/loadavg").ok()?).ok()?;
    let cpus = biopsy_sys::limits::online_cpus().ok()?.len();
    Some(fitting(running(&text)?, cpus))
}

/// Threads that run or could, of `0.50 0.40 0.30 5/300 4711`.
fn running(loadavg: &str) -> Option<u32> {
    loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

/// For a quarter of a CPU among so many that run or could, us included.
fn fitting(running: u32, cpus: usize) -> i32 {
    #[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
    let competing = f64::from(running.saturating_sub(1)) / cpus.max(1) as f64;
    let steps = (competing / QUARTER).max(1.0).ln() / STEP.ln();
    #[expect(clippy::cast_possible_truncation, reason = "at most 20")]
    let steps = steps.round().min(20.0) as i32;
    -steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_a_cpu_and_never_more() {
        assert_eq!(running("201.10 80.02 30.50 501/9000 4711\n"), Some(501));
        assert_eq!(running("nonsense"), None);
        // Not starved: like everybody.
        assert_eq!([1, 2, 7].map(|running| fitting(running, 2)), [0, 0, 0]);
        for running in [9, 20, 60, 200, 500] {
            let weight = 1.25_f64.powi(-fitting(running, 2));
            let competing = f64::from(running - 1) / 2.0;
            let share = weight / (weight + competing);
            assert!((0.2..=0.3).contains(&share), "{running} compete: {share}");
        }
        assert_eq!(fitting(100_000, 2), -20);
        assert_eq!(fitting(500, 0), fitting(500, 1));
    }
}
