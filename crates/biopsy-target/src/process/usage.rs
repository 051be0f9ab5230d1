//! What processes use: CPU between two readings, memory, threads, up-time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use biopsy_model::{Pid, ProcessKey, Tid};

use super::identity;
use super::proc_root::{ProcRoot, SMALL};
use super::seen::Seen;
use super::stat::Stat;

/// Most threads of a process that are gone through.
const THREADS: usize = 4096;

/// What one process uses.
#[derive(Clone, PartialEq, Debug)]
pub struct Usage {
    /// Resident memory, bytes.
    pub resident_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Seconds since its start.
    pub up_seconds: f64,
    /// CPU seconds since its start.
    pub cpu_seconds: f64,
}

impl Usage {
    pub(crate) fn of(seen: &Seen) -> Self {
        Self::of_stat(&seen.stat)
    }

    pub(crate) fn of_stat(stat: &Stat) -> Self {
        Self {
            resident_bytes: stat.resident_pages.saturating_mul(rustix::param::page_size() as u64),
            threads: stat.threads,
            up_seconds: identity::seconds_since(stat.start_ticks),
            cpu_seconds: seconds(stat.user_ticks.saturating_add(stat.system_ticks)),
        }
    }
}

/// CPU times of all processes at one moment.
#[derive(Debug)]
pub struct CpuReading {
    taken: Instant,
    ticks: HashMap<Pid, (u64, u64)>,
}

impl CpuReading {
    /// Reads the CPU times of all processes.
    #[must_use]
    pub fn take(root: &ProcRoot) -> Self {
        let mut ticks = HashMap::new();
        for pid in root.pids().unwrap_or_default() {
            let line = root.process(pid).and_then(|process| process.read("stat", SMALL));
            if let Some(stat) = line.ok().and_then(|line| Stat::parse(&line)) {
                ticks.insert(pid, (stat.start_ticks, stat.user_ticks.saturating_add(stat.system_ticks)));
            }
        }
        Self { taken: Instant::now(), ticks }
    }

    /// Cores used by a process between `earlier` and this reading: 1.0 is one CPU fully used. The kernel counts in
    /// ticks of 10 ms, so over 200 ms this is good to 0.05. `None`: it was not there at both.
    #[must_use]
    pub fn cores_since(&self, earlier: &CpuReading, key: &ProcessKey) -> Option<f64> {
        let (start, now) = *self.ticks.get(&key.pid)?;
        let (start_before, before) = *earlier.ticks.get(&key.pid)?;
        let elapsed = self.taken.duration_since(earlier.taken).as_secs_f64();
        let is_same = start == start_before && start == key.start_ticks;
        (is_same && elapsed > 0.0).then(|| seconds(now.saturating_sub(before)) / elapsed)
    }
}

/// CPU time of each thread of a process, with its name. Empty: it is gone.
#[must_use]
pub fn threads(root: &ProcRoot, key: &ProcessKey) -> Vec<(Tid, String, Duration)> {
    let Ok(process) = root.process(key.pid) else { return Vec::new() };
    let one = |tid: Tid| {
        let stat = Stat::parse(&process.read(&format!("task/{tid}/stat"), SMALL).ok()?)?;
        let used = seconds(stat.user_ticks.saturating_add(stat.system_ticks));
        let name = String::from_utf8_lossy(&stat.comm).into_owned();
        Some((tid, name, Duration::try_from_secs_f64(used).unwrap_or_default()))
    };
    process.tids(THREADS).unwrap_or_default().into_iter().filter_map(one).collect()
}

#[expect(clippy::cast_precision_loss, reason = "CPU ticks are far below 2^53")]
fn seconds(ticks: u64) -> f64 {
    ticks as f64 / identity::ticks_per_second() as f64
}

/// A length of time for people, in its two largest units: `12 s`, `3 min 4 s`, `2 h 5 min`, `3 d 4 h`.
#[must_use]
pub fn up_time_text(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    let seconds = seconds.clamp(0.0, 1e15) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// As [`up_time_text`], for a narrow column: `12s`, `3m04s`, `2h05m`, `3d04h`.
#[must_use]
pub fn up_time_short(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to what fits")]
    let seconds = seconds.clamp(0.0, 1e15) as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_times() {
        for (seconds, text) in [
            (0.4, "0 s"),
            (59.9, "59 s"),
            (60.0, "1 min 0 s"),
            (7500.0, "2 h 5 min"),
            (90_000.0, "1 d 1 h"),
            (-1.0, "0 s"),
        ] {
            assert_eq!(up_time_text(seconds), text);
        }
    }

    #[test]
    fn cores_between_readings() {
        let reading = |taken, ticks| CpuReading { taken, ticks: HashMap::from([(Pid(1), (7, ticks))]) };
        let key = |start_ticks| ProcessKey { boot_id: Default::default(), pid: Pid(1), start_ticks };
        let start = Instant::now();
        let (before, after) = (reading(start, 100), reading(start + std::time::Duration::from_secs(1), 150));
        let cores = after.cores_since(&before, &key(7)).unwrap();
        assert!((cores - 50.0 / identity::ticks_per_second() as f64).abs() < 1e-9);
        assert_eq!(after.cores_since(&before, &key(8)), None);
    }
}
