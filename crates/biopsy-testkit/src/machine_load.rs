//! What other programs took of the CPUs while a test ran: measured from /proc, so that a test of a diagnosis need not believe the
//! diagnosis.

use std::collections::HashMap;

use rustix::process::getpid;

/// Share of all CPU time from which on others are in the way: a waiting thread then waits for the CPU as well.
const IN_THE_WAY: f64 = 0.15;

/// The machine at one moment, and this test with all that it started.
#[derive(Debug)]
pub struct MachineLoad {
    machine: Times,
    own: f64,
}

/// Clock ticks of all CPUs since boot (proc_stat(5)).
#[derive(Clone, Copy, PartialEq, Debug)]
struct Times {
    all: f64,
    busy: f64,
    stolen: f64,
}

impl MachineLoad {
    /// Begins to measure.
    #[must_use]
    pub fn begin() -> Self {
        Self { machine: Times::now(), own: own_ticks() }
    }

    /// Share of all CPU time since then, 0 to 1, that went to programs which this test did not start, or to other machines on
    /// the same host.
    #[must_use]
    pub fn taken_by_others(&self) -> f64 {
        share(self.machine, Times::now(), own_ticks() - self.own)
    }

    /// Whether that was so much that a target's first trouble may have been the CPU.
    #[must_use]
    pub fn others_were_in_the_way(&self) -> bool {
        self.taken_by_others() > IN_THE_WAY
    }
}

fn share(begin: Times, end: Times, own: f64) -> f64 {
    let all = end.all - begin.all;
    let others = (end.busy - begin.busy - own).max(0.0) + (end.stolen - begin.stolen);
    if all > 0.0 { (others / all).clamp(0.0, 1.0) } else { 0.0 }
}

impl Times {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        Self::parse(&text)
    }

    fn parse(text: &str) -> Self {
        let first = text.lines().next().unwrap_or_default();
        let ticks: Vec<f64> =
            first.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal; what follows is contained in user and nice.
        let sum = |range: std::ops::Range<usize>| ticks.get(range).unwrap_or_default().iter().sum::<f64>();
        Self { all: sum(0..8), busy: sum(0..3) + sum(5..7), stolen: sum(7..8) }
    }
}

/// Ticks of this process, of all that it waited for, and of all that lives below it.
fn own_ticks() -> f64 {
    let processes: HashMap<u32, (u32, f64)> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, parent_and_ticks(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)?)))
        .collect();
    let own = getpid().as_raw_nonzero().get().unsigned_abs();
    let is_below = |mut pid: u32| {
        // A chain of parents ends at pid 1; the bound is for one that changes while it is walked.
        for _ in 0..64 {
            if pid == own {
                return true;
            }
            match processes.get(&pid) {
                Some(&(parent, _)) if parent > 1 => pid = parent,
                _ => return false,
            }
        }
        false
    };
    processes.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, (_, ticks))| ticks).sum()
}

/// Field 4 of the line, and the sum of fields 14 to 17: its own times and those of the children it waited for.
fn parent_and_ticks(line: &[u8]) -> Option<(u32, f64)> {
    let close = line.iter().rposition(|byte| *byte == b')')?;
    let text = std::str::from_utf8(line.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = text.split_ascii_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().filter_map(|word| word.parse::<f64>().ok()).sum();
    Some((fields.get(1)?.parse().ok()?, ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_ours_nor_idle_belongs_to_others() {
        let begin = Times::parse("cpu  100 0 50 1000 10 0 0 5 0 0\ncpu0 1 1 1 1\n");
        let end = Times::parse("cpu  160 0 70 1090 20 0 0 25 0 0\n");
        // 200 ticks in all, 80 busy of which 50 are ours, 20 stolen.
        assert!((share(begin, end, 50.0) - 0.25).abs() < 1e-9);
        assert!(
            (share(begin, end, 90.0) - 0.1).abs() < 1e-9,
            "ours are counted later: never less than nothing"
        );
        assert!(share(begin, begin, 0.0).abs() < 1e-9);
    }

    #[test]
    fn names_with_parentheses_do_not_shift_fields() {
        let line = b"7 (a) b) S 3 7 7 0 -1 0 1 1 1 1 10 20 30 40 20 0";
        assert_eq!(parent_and_ticks(line), Some((3, 100.0)));
    }

    #[test]
    fn own_work_is_not_that_of_others() {
        let before = own_ticks();
        let mut number = 0_u64;
        while own_ticks() <= before {
            for _ in 0..1_000_000 {
                number = std::hint::black_box(number.wrapping_mul(31).wrapping_add(1));
            }
        }
    }
}
