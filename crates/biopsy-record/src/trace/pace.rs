//! How often a recorder does what it does, and how much it holds for that.

use std::time::Duration;

/// The same where the kernel copies stacks by itself into small rings.
const SHORT_ROUND: Duration = Duration::from_millis(5);
/// Least bytes of a ring that waits for few records.
const SMALLEST_RING: u32 = 2 << 20;

/// How often a recorder does what it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// Between two rounds.
    round: Duration,
    /// Length of the slices that threads' times are cut into.
    pub(super) slice_nanos: u64,
    /// Unpacked DWARF held beside a production server. What does not fit is named by symbol tables.
    pub(super) debug_bytes: u64,
    /// Pages of a managed process that are held to name its methods and find its rules.
    pub(super) runtime_bytes: usize,
    /// The ring buffer of the kernel part is so many times smaller than usual.
    ring_part: u32,
    /// Switches are watched in turns where they are many.
    pub(super) takes_turns: bool,
}

impl Pace {
    /// Of a recording. The ring buffers hold many times what comes in a round.
    pub(super) const USUAL: Self = Self {
        round: Duration::from_millis(20),
        slice_nanos: 100_000_000,
        debug_bytes: 48 << 20,
        runtime_bytes: 16 << 20,
        ring_part: 1,
        takes_turns: false,
    };
    /// Of one beside a program that counts its allocations, with few samples.
    pub(super) const BESIDE: Self =
        Self { round: Duration::from_millis(100), debug_bytes: 8 << 20, ring_part: 4, ..Self::USUAL };
    /// Of one that goes on for days, in little memory: ten samples of 60 KB at most come from two processors in a round.
    pub(super) const CALM: Self = Self {
        round: Duration::from_millis(100),
        slice_nanos: 1_000_000_000,
        debug_bytes: 8 << 20,
        runtime_bytes: 2 << 20,
        ring_part: 4,
        takes_turns: true,
    };

    /// Time between two rounds, with or without a part in the kernel.
    pub(super) fn round(self, has_kernel_part: bool) -> Duration {
        if has_kernel_part { self.round } else { SHORT_ROUND }
    }

    /// Size of the ring buffer of the kernel part.
    pub(super) fn ring_bytes(self, cpus: u32) -> u32 {
        (biopsy_target::preflight::ring_bytes(cpus) / self.ring_part).max(SMALLEST_RING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_powers_of_two_and_hold_the_largest_samples_of_a_round() {
        /// Of a sample.
        const LARGEST: u32 = 64 << 10;
        for cpus in [1, 2, 3, 8, 48, 64, 500] {
            let (usual, calm) = (Pace::USUAL.ring_bytes(cpus), Pace::CALM.ring_bytes(cpus));
            assert!(usual.is_power_of_two() && calm.is_power_of_two() && calm <= usual);
            // Stacks of some KB are usual: more processors have rings for those.
            assert!(calm >= 5 * LARGEST * cpus.min(8), "{cpus}: {calm}");
        }
    }
}
