//! Wall-clock times of a recording, in the zone of the machine it was taken on.

use biopsy_model::capture::CaptureHeader;
use biopsy_model::{ClockPair, MonoNanos};
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

/// `2025-11-21T10:27:03.123456789+01:00`; `None` where the pair holds no wall clock or one out of range.
pub(crate) fn rfc3339(clock: &ClockPair) -> Option<String> {
    zoned(clock).map(|zoned| zoned.strftime("%Y-%m-%dT%H:%M:%S%.f%:z").to_string())
}

/// `2025-11-21 10:27:03 +01:00 (Europe/Berlin)`.
pub(crate) fn for_people(clock: &ClockPair) -> Option<String> {
    let time = zoned(clock)?.strftime("%Y-%m-%d %H:%M:%S %:z").to_string();
    Some(if clock.zone.is_empty() { time } else { format!("{time} ({})", clock.zone) })
}

/// `10:27:03.123`.
pub(crate) fn of_day(clock: &ClockPair) -> Option<String> {
    zoned(clock).map(|zoned| zoned.strftime("%H:%M:%S%.3f").to_string())
}

/// Both clocks at a moment of the recording, by its start; `None` where that has no wall clock.
pub(crate) fn at(header: &CaptureHeader, time: MonoNanos) -> Option<ClockPair> {
    let wall_unix_nanos = wall_nanos(header, time)?;
    Some(ClockPair { mono: time, wall_unix_nanos, ..header.start.clone() })
}

/// Nanoseconds on the wall clock of a moment of the recording, by its start; `None` where the start has none.
pub(crate) fn wall_nanos(header: &CaptureHeader, time: MonoNanos) -> Option<i128> {
    (header.start.wall_unix_nanos != 0).then(|| {
        header.start.wall_unix_nanos.saturating_add(i128::from(time.0) - i128::from(header.start.mono.0))
    })
}

/// `2026-11-21 10:27:03 UTC` of seconds since 1970; `None`: not known, or out of range.
pub(crate) fn utc(unix_seconds: f64) -> Option<String> {
    if !(unix_seconds.is_finite() && unix_seconds > 0.0) {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is refused below")]
    let time = Timestamp::from_second(unix_seconds as i64).ok()?;
    Some(time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

fn zoned(clock: &ClockPair) -> Option<jiff::Zoned> {
    if clock.wall_unix_nanos == 0 {
        return None;
    }
    let timestamp = Timestamp::from_nanosecond(clock.wall_unix_nanos).ok()?;
    let offset = Offset::from_seconds(clock.utc_offset_seconds).ok()?;
    Some(timestamp.to_zoned(TimeZone::fixed(offset)))
}

#[cfg(test)]
mod tests;
