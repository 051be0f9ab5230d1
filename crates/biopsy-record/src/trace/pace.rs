//! How often a recorder does what it does.

use std::time::Duration;

/// The same where the kernel copies stacks by itself into small rings.
const SHORT_ROUND: Duration = Duration::from_millis(5);

/// How often a recorder does what it does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Between two rounds.
    round: Duration,
    /// Length of the slices that threads' times are cut into.
    pub(super) slice_nanos: u64,
}

impl Pace {
    /// Of a recording. The ring buffers hold many times what comes in a round.
    pub(super) const USUAL: Self = Self { round: Duration::from_millis(20), slice_nanos: 100_000_000 };
    /// Of one that goes on for days: few samples come, and its ring buffers hold them for long.
    pub(super) const CALM: Self = Self { round: Duration::from_millis(100), slice_nanos: 1_000_000_000 };

    /// Time between two rounds, with or without a part in the kernel.
    pub(super) fn round(self, has_kernel_part: bool) -> Duration {
        if has_kernel_part { self.round } else { SHORT_ROUND }
    }
}
