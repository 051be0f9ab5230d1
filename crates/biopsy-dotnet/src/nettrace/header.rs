//! What a stream says about itself: when it began, of which process, how it counts time.

use super::error::NettraceError;
use super::limits::Limits;
use super::text::text8;
use biopsy_bytes::{Cursor, ReadError};
use biopsy_model::{ClockPair, MonoNanos, Pid};

/// Bytes of a `Trace` object of versions 4 and 5.
pub(super) const TRACE_LENGTH: usize = 48;

/// What a stream says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// 4, 5 or 6.
    pub version: u32,
    /// The moment the session began, in ticks.
    pub start_ticks: u64,
    /// Ticks a second; never 0. On Linux 1,000,000,000: ticks are `CLOCK_MONOTONIC` in nanoseconds.
    pub frequency: u64,
    /// The same moment as wall clock, nanoseconds since 1970-01-01 UTC, to the millisecond; 0 where it is no date.
    pub start_unix_nanos: i128,
    /// Bytes of an address: 8 or 4.
    pub pointer_size: u32,
    /// The process; `None` where the stream does not say, or is about several.
    pub pid: Option<Pid>,
    /// CPUs, where reported.
    pub processors: Option<u32>,
    /// What else the writer of a version 6 stream noted: name and value.
    pub properties: Vec<(String, String)>,
}

impl Header {
    /// Ticks as nanoseconds of the same clock.
    #[must_use]
    #[inline]
    pub fn time(&self, ticks: u64) -> MonoNanos {
        if self.frequency == 1_000_000_000 {
            return MonoNanos(ticks);
        }
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.frequency.max(1));
        MonoNanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The start on both clocks.
    #[must_use]
    pub fn start(&self) -> ClockPair {
        ClockPair {
            mono: self.time(self.start_ticks),
            wall_unix_nanos: self.start_unix_nanos,
            utc_offset_seconds: 0,
            zone: "UTC".to_owned(),
        }
    }
}

/// The body of a `Trace` object (version 4, 5).
pub(super) fn parse_trace_object(version: u32, mut body: Cursor<'_>) -> Result<Header, NettraceError> {
    let mut header = parse_clocks(version, &mut body)?;
    header.pid = Some(Pid(body.u32("ProcessId")?)).filter(|pid| pid.0 != 0);
    header.processors = Some(body.u32("NumberOfProcessors")?);
    body.u32("ExpectedCPUSamplingRate")?;
    Ok(header)
}

/// The body of a trace block (version 6).
pub(super) fn parse_trace_block(
    version: u32,
    mut body: Cursor<'_>,
    limits: &Limits,
) -> Result<Header, NettraceError> {
    let mut header = parse_clocks(version, &mut body)?;
    let count = body.u32("KeyValueCount")?;
    for _ in 0..count {
        // Two empty texts are two bytes: a hostile count ends where the block does.
        let key = text8(&mut body, "Key", limits.text)?;
        let value = text8(&mut body, "Value", limits.text)?;
        match key.as_str() {
            "ProcessId" => header.pid = value.parse().ok().map(Pid),
            "HardwareThreadCount" => header.processors = value.parse().ok(),
            _ if header.properties.len() < limits.fields => header.properties.push((key, value)),
            _ => (),
        }
    }
    Ok(header)
}

fn parse_clocks(version: u32, body: &mut Cursor<'_>) -> Result<Header, ReadError> {
    let mut parts = [0_u16; 8];
    for part in &mut parts {
        *part = body.u16("SyncTimeUTC")?;
    }
    let start_ticks = body.u64("SyncTimeQPC")?;
    let frequency = body.u64("QPCFrequency")?.max(1);
    let pointer_size = body.u32("PointerSize")?;
    Ok(Header {
        version,
        start_ticks,
        frequency,
        start_unix_nanos: unix_nanos(parts),
        pointer_size: if pointer_size == 4 { 4 } else { 8 },
        pid: None,
        processors: None,
        properties: Vec::new(),
    })
}

/// Year, month, day of week, day, hour, minute, second, millisecond (`SYSTEMTIME` of Windows, UTC).
fn unix_nanos([year, month, _, day, hour, minute, second, millisecond]: [u16; 8]) -> i128 {
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return 0;
    }
    // Days since 1970-01-01 of the proleptic Gregorian calendar, with years that begin in March.
    let (y, m) = (i128::from(year) - i128::from(month <= 2), (i128::from(month) + 9) % 12);
    let era_days = y * 365 + y / 4 - y / 100 + y / 400;
    let days = era_days + (m * 153 + 2) / 5 + i128::from(day) - 1 - 719_468;
    let seconds = ((days * 24 + i128::from(hour)) * 60 + i128::from(minute)) * 60 + i128::from(second);
    (seconds * 1000 + i128::from(millisecond)) * 1_000_000
}

#[cfg(test)]
mod tests {
    use super::unix_nanos;

    #[test]
    fn a_system_time_becomes_nanoseconds_since_1970() {
        assert_eq!(unix_nanos([1970, 1, 4, 1, 0, 0, 0, 0]), 0);
        assert_eq!(unix_nanos([2026, 11, 6, 21, 16, 40, 24, 7]), 1_795_279_224_007_000_000);
        assert_eq!(unix_nanos([2024, 2, 4, 29, 0, 0, 0, 0]), 1_709_164_800_000_000_000);
        assert_eq!(unix_nanos([0, 0, 0, 0, 0, 0, 0, 0]), 0);
        assert_eq!(unix_nanos([2024, 13, 0, 1, 0, 0, 0, 0]), 0);
    }
}
