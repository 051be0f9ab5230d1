//! A share of a CPU for us on a machine where hundreds of threads compete for each.
//!
//! Two CPUs, a load of 500: a recorder that is one of 500 gets its turn every few seconds, loses what the rings hold, and takes
//! minutes to end. What it needs is little, but often. Two means, by how many compete for each CPU:
//!
//! * more than 3: a **nice value** for all our threads, from the first step of a recording to its sealing, chosen so that a thread of ours
//!   gets a quarter of one CPU against those that compete now. The target loses at most what it would lose to one more of its own threads
//!   among four, and only while we have something to do.
//! * more than 16: a nice value gives a share in the long run and no turn at the right time. The threads that keep the time of a recording
//!   ([`Turn`]) **reserve** theirs: the kernel lets them run in time, and no longer than they have reserved. Real-time priority would give
//!   them whatever they ask for, at the cost of the target.
//!
//! Both are refused to most users who are not root. Then things stay as they are.
//!
//! Where nobody waits for a recording ([`step_behind`]) it is the other way round: our threads come behind the target's, but for those
//! that keep the time, and those that fetch what would be lost.

mod overdue;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use biopsy_model::Tid;
use biopsy_sys::schedule::{Reserved, nice, set_nice, this_thread};

/// What one step of nice is worth (`sched_prio_to_weight` in kernel/sched/core.c).
const STEP: f64 = 1.25;
/// Competitors of the same weight that leave us a quarter.
const QUARTER: f64 = 3.0;

/// Above so many for each CPU a turn has to be reserved.
const CROWD: f64 = 16.0;
/// Within which a thread gets what it has reserved. The rings hold some tenths of a second of a machine that does nothing but switch.
const PERIOD: Duration = Duration::from_millis(25);

/// A nice value that leaves us a seventieth of a CPU that one other thread wants.
const BEHIND: i32 = 19;
/// The same where many compete, and a seventieth of what is left would be no turn at all: a third of what each of them gets.
const BEHIND_MANY: i32 = 5;

static IS_BEHIND: AtomicBool = AtomicBool::new(false);
/// Threads with a [`Turn`], which keep the time whatever the others do.
static KEEP_TIME: Mutex<BTreeSet<Tid>> = Mutex::new(BTreeSet::new());

/// The turns of a thread that must not be late, whatever competes with it. Of one thread; given back with this value.
#[derive(Debug)]
pub struct Turn {
    thread: Tid,
    /// In each [`PERIOD`].
    runtime: Duration,
    reserved: Option<Reserved>,
}

impl Turn {
    /// Of the thread that reads the rings, and before that of the one that attaches, for which the rings wait: at most two fifths of one CPU.
    #[must_use]
    pub fn of_reader() -> Self {
        Self::of(Duration::from_millis(10))
    }

    /// Of a thread that looks at clocks and counters: at most a tenth of one CPU.
    #[must_use]
    pub fn of_clock() -> Self {
        Self::of(Duration::from_micros(2500))
    }

    fn of(runtime: Duration) -> Self {
        let thread = this_thread();
        KEEP_TIME.lock().unwrap_or_else(PoisonError::into_inner).insert(thread);
        let mut turn = Self { thread, runtime, reserved: None };
        turn.renew();
        turn
    }

    /// By what competes now. To be called again from time to time, on the thread that made it.
    pub fn renew(&mut self) {
        let Some(competing) = competing() else { return };
        // Without CAP_SYS_NICE, or where nothing is left to reserve, things stay as they are.
        let _ = set_nice(self.thread, fitting(competing));
        if competing <= CROWD {
            self.reserved = None;
            overdue::forget(self.thread);
        } else if self.reserved.is_none() {
            // Before and behind: who has a reserved turn must hold nothing that its watcher needs.
            overdue::watch(self.thread);
            self.reserved = Reserved::begin(self.runtime, PERIOD).ok();
            if self.reserved.is_none() {
                overdue::forget(self.thread);
            }
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.reserved = None;
        overdue::forget(self.thread);
        KEEP_TIME.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.thread);
    }
}

/// From now on what we do does not hurry, because nobody waits for it. Not where this account could not take it back (CAP_SYS_NICE): on
/// a machine that starves us the recording would never end.
pub fn step_behind() {
    let this = this_thread();
    let may_come_back =
        nice(this).is_ok_and(|now| set_nice(this, now + 1).is_ok() && set_nice(this, now).is_ok());
    IS_BEHIND.store(may_come_back, Ordering::Relaxed);
    all_threads();
}

/// Ends that: from now on somebody waits, or the target stands still for us.
pub fn step_up() {
    IS_BEHIND.store(false, Ordering::Relaxed);
    all_threads();
}

/// For all our threads, also those that they start from here on. To be called again from time to time.
pub fn all_threads() {
    let Some(wanted) = competing().map(fitting) else { return };
    let is_behind = IS_BEHIND.load(Ordering::Relaxed);
    let keep_time = KEEP_TIME.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        if let Some(tid) = task.file_name().to_str().and_then(|name| name.parse().ok()).map(Tid) {
            let behind = is_behind && !keep_time.contains(&tid);
            let nice = match (behind, wanted) {
                (false, _) => wanted,
                (true, 0) => BEHIND,
                (true, _) => BEHIND_MANY,
            };
            let _ = set_nice(tid, nice);
        }
    }
}

/// Threads that want each CPU besides one of ours; `None` where somebody has chosen another than the usual nice value for us.
fn competing() -> Option<f64> {
    static CHOSEN: OnceLock<i32> = OnceLock::new();
    let chosen = *CHOSEN.get_or_init(|| nice(Tid(std::process::id())).unwrap_or(0));
    if chosen != 0 {
        return None;
    }
    let text = String::from_utf8(biopsy_files::read_kernels("/proc/loadavg").ok()?).ok()?;
    let cpus = biopsy_sys::limits::online_cpus().ok()?.len();
    Some(for_each_cpu(running(&text)?, cpus))
}

/// Threads that run or could, of `0.50 0.40 0.30 5/300 4711` (proc(5)): now, or in the mean of the last minute where that is more. Where
/// thousands wake all the time, their number at one moment is anything between few and all.
fn running(loadavg: &str) -> Option<f64> {
    let mut fields = loadavg.split_ascii_whitespace();
    let minute: f64 = fields.next()?.parse().ok()?;
    let now: f64 = fields.nth(2)?.split_once('/')?.0.parse().ok()?;
    Some(now.max(minute))
}

/// Of so many that run or could, us included.
fn for_each_cpu(running: f64, cpus: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number of CPUs")]
    let cpus = cpus.max(1) as f64;
    (running - 1.0).max(0.0) / cpus
}

/// The nice value for a quarter of a CPU.
fn fitting(competing: f64) -> i32 {
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
        assert_eq!(running("201.10 80.02 30.50 501/9000 4711\n"), Some(501.0));
        assert_eq!(running("201.10 80.02 30.50 7/9000 4711\n"), Some(201.1));
        assert_eq!(running("nonsense"), None);
        // Not starved: like everybody.
        assert_eq!([0.0, 1.0, 2.0, 7.0].map(|running| fitting(for_each_cpu(running, 2))), [0; 4]);
        for running in [9.0, 20.0, 60.0, 200.0, 500.0] {
            let competing = for_each_cpu(running, 2);
            let weight = 1.25_f64.powi(-fitting(competing));
            let share = weight / (weight + competing);
            assert!((0.2..=0.3).contains(&share), "{running} compete: {share}");
        }
        assert_eq!(fitting(for_each_cpu(100_000.0, 2)), -20);
        assert_eq!(fitting(for_each_cpu(500.0, 0)), fitting(for_each_cpu(500.0, 1)));
    }

    /// In a process of its own: it is about all threads.
    #[test]
    fn who_keeps_the_time_is_not_put_behind() {
        const CHILD: &str = "BIOPSY_TEST_BEHIND";
        if std::env::var_os(CHILD).is_none() {
            let this = std::env::current_exe().unwrap();
            let mut again = std::process::Command::new(this);
            again.args(["--exact", "favour::tests::who_keeps_the_time_is_not_put_behind"]).env(CHILD, "1");
            assert!(again.output().unwrap().status.success());
            return;
        }
        let (turn, this) = (Turn::of_clock(), this_thread());
        let may = set_nice(this, nice(this).unwrap() - 1).is_ok();
        let before = nice(Tid(std::process::id())).unwrap();
        step_behind();
        let (kept, first) = (nice(this).unwrap(), nice(Tid(std::process::id())).unwrap());
        assert_ne!(kept, BEHIND);
        // On a machine that starves us, or where we could not come back, nothing is given away.
        let starves = competing().is_none_or(|competing| fitting(competing) != 0);
        assert!(starves || if may { first == BEHIND } else { first == before }, "{first} after {before}");
        drop(turn);
        all_threads();
        assert!(starves || !may || nice(this).unwrap() == BEHIND);
        step_up();
        assert!(starves || nice(this).unwrap() == before);
    }

    #[test]
    fn what_is_reserved_leaves_half_of_a_cpu_to_others() {
        let share = |turn: Duration| turn.as_secs_f64() / PERIOD.as_secs_f64();
        let shares = share(Turn::of_reader().runtime) + 2.0 * share(Turn::of_clock().runtime);
        assert!(shares <= 0.61, "{shares}");
    }
}
