//! What one reading hands from collector to collector: the moment, the budgets, the warnings.

use biopsy_model::loss::Warning;
use biopsy_model::{MonoNanos, Nanos};

use super::procfile::Buffer;
use super::thread_rows::ThreadRows;

/// Constants of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) ticks_per_second: f64,
    pub(crate) page_size: u64,
    /// Time of waiting for block I/O is accounted (`kernel.task_delayacct`); otherwise it reads as zero.
    pub(crate) delay_accounting: bool,
}

/// State of one reading.
pub(crate) struct Reading<'a> {
    pub(crate) time: MonoNanos,
    /// Number of the reading, from 0.
    pub(crate) tick: u64,
    pub(crate) machine: Machine,
    pub(crate) buffer: &'a mut Buffer,
    pub(crate) files: &'a mut FileBudget,
    pub(crate) effort: &'a Effort,
    pub(crate) thread_rows: &'a mut ThreadRows,
    /// Threads that may still be read in this reading.
    pub(crate) threads_left: usize,
    /// Threads that were not read in this reading.
    pub(crate) threads_skipped: u64,
    pub(crate) pss_pause: Nanos,
    pub(crate) warnings: &'a mut Warnings,
}

impl Reading<'_> {
    pub(crate) fn warn(&mut self, warning: Warning) {
        self.warnings.add(self.time, warning);
    }
}

/// Warnings so far: each code and message once, and not more than [`Warnings::MOST`] in all.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    pub(crate) list: Vec<Warning>,
}

impl Warnings {
    const MOST: usize = 100;

    pub(crate) fn add(&mut self, time: MonoNanos, mut warning: Warning) {
        let known = |old: &Warning| old.code == warning.code && old.message == warning.message;
        if self.list.len() < Self::MOST && !self.list.iter().any(known) {
            warning.time.get_or_insert(time);
            self.list.push(warning);
        }
    }

    /// Adds a warning of which one is enough, whatever its numbers.
    pub(crate) fn add_once(&mut self, time: MonoNanos, warning: Warning) {
        if !self.list.iter().any(|old| old.code == warning.code) {
            self.add(time, warning);
        }
    }
}

/// How many files may stay open.
#[derive(Debug)]
pub(crate) struct FileBudget {
    left: usize,
}

impl FileBudget {
    pub(crate) fn new(files: usize) -> FileBudget {
        FileBudget { left: files }
    }

    /// Takes `count` files out of the budget, or says that there are not as many.
    pub(crate) fn take(&mut self, count: usize) -> bool {
        let enough = self.left >= count;
        if enough {
            self.left -= count;
        }
        enough
    }

    pub(crate) fn give_back(&mut self, count: usize) {
        self.left += count;
    }
}

/// How much is read, so that readings stay within their share of a core.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    level: u32,
    cheap_in_a_row: u32,
}

/// Readings may use this share of one core, 1 / 125: 0.8 %.
const SHARE: u64 = 125;

/// Levels that only make the details of threads rarer; those above halve the threads of a reading each.
const DETAIL_LEVELS: u32 = 3;
const MOST_LEVELS: u32 = 10;

impl Effort {
    /// Details of threads (switches by kind, I/O) are read every so many readings.
    pub(crate) fn detail_every(&self) -> u64 {
        1 << self.level.min(DETAIL_LEVELS)
    }

    /// How many threads of `most` a reading may read.
    pub(crate) fn threads(&self, most: usize) -> usize {
        (most >> self.level.saturating_sub(DETAIL_LEVELS)).max(16)
    }

    /// Learns what the last reading cost; true: from now on less is read than before.
    pub(crate) fn learn(&mut self, cpu: Nanos, interval: Nanos) -> bool {
        let allowed = interval.0 / SHARE;
        if cpu.0 > allowed {
            self.cheap_in_a_row = 0;
            let before = self.level;
            self.level = (self.level + 1).min(MOST_LEVELS);
            return self.level > before;
        }
        self.cheap_in_a_row = if cpu.0 < allowed / 3 { self.cheap_in_a_row + 1 } else { 0 };
        if self.cheap_in_a_row >= 10 {
            self.cheap_in_a_row = 0;
            self.level = self.level.saturating_sub(1);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_goes_down_under_load_and_comes_back() {
        let (mut effort, second) = (Effort::default(), Nanos(1_000_000_000));
        assert_eq!((effort.detail_every(), effort.threads(1_000)), (1, 1_000));
        for _ in 0..4 {
            assert!(effort.learn(Nanos(50_000_000), second));
        }
        assert_eq!((effort.detail_every(), effort.threads(1_000)), (8, 500));
        for _ in 0..40 {
            assert!(!effort.learn(Nanos(100_000), second));
        }
        assert_eq!((effort.detail_every(), effort.threads(1_000)), (1, 1_000));
        for _ in 0..50 {
            effort.learn(Nanos(50_000_000), second);
        }
        assert_eq!(effort.threads(1_000), 16, "never nothing at all");
    }
}
