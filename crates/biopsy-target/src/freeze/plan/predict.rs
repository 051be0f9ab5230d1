//! How long a freeze makes a process stand still.

use std::time::Duration;

use crate::address_space::PresentCounts;

/// Bytes of a huge page on x86-64.
const HUGE_PAGE: u64 = 2 << 20;

/// What the parts of a pause cost, measured on a quiet machine; a plan should be within a factor of 2 of the truth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// For each entry of a page table that fork copies.
    pub entry: Duration,
    /// For each huge page.
    pub huge_page: Duration,
    /// For each thread: stopping it, reading its registers, letting it go.
    pub thread: Duration,
    /// For each mapping, which fork copies.
    pub mapping: Duration,
    /// Whatever the process is.
    pub base: Duration,
}

impl Costs {
    /// As measured (`docs/design`, and the benchmark `dump`).
    pub const MEASURED: Self = Self {
        entry: Duration::from_nanos(60),
        huge_page: Duration::from_micros(2),
        thread: Duration::from_micros(15),
        mapping: Duration::from_nanos(500),
        base: Duration::from_micros(500),
    };

    /// The sum for a fork.
    #[must_use]
    pub fn fork(&self, counts: &PresentCounts, threads: u64) -> Duration {
        self.stop(threads)
            .saturating_add(times(self.entry, counts.small_entries()))
            .saturating_add(times(self.huge_page, counts.huge_pages))
            .saturating_add(times(self.mapping, counts.mappings))
    }

    /// Stopping and releasing alone.
    #[must_use]
    pub fn stop(&self, threads: u64) -> Duration {
        self.base.saturating_add(times(self.thread, threads))
    }
}

/// How long a process with these pages and threads stands still while it is forked.
#[must_use]
pub fn predict_fork(counts: &PresentCounts, threads: u64) -> Duration {
    Costs::MEASURED.fork(counts, threads)
}

/// The same after its memory was turned into huge pages, where nine parts of ten of it could be.
#[must_use]
pub fn predict_collapse(counts: &PresentCounts, threads: u64) -> Duration {
    const PAGES: u64 = HUGE_PAGE / 4096;
    let collapsed = counts.pages_4k / 10 * 9;
    let after = PresentCounts {
        pages_4k: counts.pages_4k - collapsed,
        huge_pages: counts.huge_pages.saturating_add(collapsed / PAGES),
        ..*counts
    };
    Costs::MEASURED.fork(&after, threads)
}

fn times(one: Duration, count: u64) -> Duration {
    Duration::from_nanos(u64::try_from(one.as_nanos()).unwrap_or(u64::MAX).saturating_mul(count))
}

/// A duration for people, with as many digits as it deserves: `1.9 ms`, `25 ms`, `1.3 s`.
pub(super) fn text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    match seconds {
        _ if seconds < 0.01 => format!("{:.1} ms", seconds * 1e3),
        _ if seconds < 1.0 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{seconds:.1} s"),
    }
}

/// A value for `--max-pause` that would do: some more than predicted, round.
pub(super) fn more(predicted: Duration) -> String {
    let ms = predicted.saturating_mul(3).as_millis() / 2;
    let round = if ms < 100 { 10 } else { 100 };
    format!("{}ms", ms.div_ceil(round) * round)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pages_4k: u64, huge_pages: u64) -> PresentCounts {
        PresentCounts { pages_4k, huge_pages, exact: true, ..PresentCounts::default() }
    }

    #[test]
    fn pages_decide() {
        // The measured reference: 1 GiB with 21 threads took 13 to 22 ms with small pages, 1.4 to 2 ms with huge ones.
        let small = predict_fork(&counts(1 << 18, 0), 21);
        assert!((13..=22).contains(&small.as_millis()), "{small:?}");
        let huge = predict_fork(&counts(0, 512), 21);
        assert!((1_000..=3_000).contains(&huge.as_micros()), "{huge:?}");
        let collapsed = predict_collapse(&counts(1 << 18, 0), 21);
        assert!(collapsed < small / 3, "{collapsed:?}");
    }

    #[test]
    fn nothing_overflows() {
        let most = PresentCounts {
            swapped: u64::MAX,
            others: u64::MAX,
            mappings: u64::MAX,
            ..counts(u64::MAX, u64::MAX)
        };
        assert!(predict_fork(&most, u64::MAX) > Duration::from_secs(1_000_000));
        assert!(predict_collapse(&most, 1) > Duration::from_secs(1_000_000));
    }

    #[test]
    fn texts() {
        for (micros, expected, asked) in
            [(1_900, "1.9 ms", "10ms"), (25_000, "25 ms", "40ms"), (1_300_000, "1.3 s", "2000ms")]
        {
            let duration = Duration::from_micros(micros);
            assert_eq!((text(duration).as_str(), more(duration).as_str()), (expected, asked));
        }
    }
}
