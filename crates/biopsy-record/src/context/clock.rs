//! The moment on both clocks, with the zone of the machine.

use biopsy_model::{ClockPair, MonoNanos};
use biopsy_sys::clock::{monotonic_nanos, realtime_nanos};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Pairs of readings are tried this often; the one with the smallest gap is kept.
const TRIES: usize = 5;

/// Now, on the monotonic and on the wall clock.
#[must_use]
pub fn clock_pair() -> ClockPair {
    let (mono, wall) = read_both();
    let zone = TimeZone::system();
    let moment = Timestamp::from_nanosecond(i128::from(wall)).unwrap_or_default();
    let offset = zone.to_offset_info(moment);
    let name = zone.iana_name().map_or_else(|| offset.abbreviation().to_owned(), str::to_owned);
    ClockPair {
        mono: MonoNanos(mono),
        wall_unix_nanos: i128::from(wall),
        utc_offset_seconds: offset.offset().seconds(),
        zone: name,
    }
}

/// A thread may be interrupted between the two readings: of several pairs, the closest is taken.
fn read_both() -> (u64, u64) {
    let pairs = (0..TRIES).map(|_| {
        let before = monotonic_nanos();
        let wall = realtime_nanos();
        let gap = monotonic_nanos().saturating_sub(before);
        (gap, before + gap / 2, wall)
    });
    pairs.min().map_or((0, 0), |(_, mono, wall)| (mono, wall))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_on_together() {
        let (first, second) = (clock_pair(), clock_pair());
        assert!(second.mono >= first.mono);
        let offset = |pair: &ClockPair| pair.wall_unix_nanos - i128::from(pair.mono.0);
        assert!((offset(&second) - offset(&first)).abs() < 50_000_000);
        assert!(!first.zone.is_empty());
    }
}
