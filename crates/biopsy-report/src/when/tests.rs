//! Times of the wall: zones, the ends of what a clock can say, and moments before the beginning.

use super::*;

fn clock(mono: u64, wall: i128, offset: i32) -> ClockPair {
    ClockPair {
        mono: MonoNanos(mono),
        wall_unix_nanos: wall,
        utc_offset_seconds: offset,
        zone: String::new(),
    }
}

fn header(mono: u64, wall: i128) -> CaptureHeader {
    CaptureHeader { start: clock(mono, wall, 3600), ..CaptureHeader::default() }
}

const WALL: i128 = 1_763_720_823_500_000_000;

#[test]
fn zones_move_the_hour_and_the_day() {
    for (offset, time, people) in [
        (0, "2025-11-21T10:27:03.5+00:00", "2025-11-21 10:27:03 +00:00"),
        (-5 * 3600, "2025-11-21T05:27:03.5-05:00", "2025-11-21 05:27:03 -05:00"),
        (14 * 3600, "2025-11-22T00:27:03.5+14:00", "2025-11-22 00:27:03 +14:00"),
        (5 * 3600 + 45 * 60, "2025-11-21T16:12:03.5+05:45", "2025-11-21 16:12:03 +05:45"),
        (-11 * 3600, "2025-11-20T23:27:03.5-11:00", "2025-11-20 23:27:03 -11:00"),
    ] {
        let clock = clock(0, WALL, offset);
        assert_eq!(rfc3339(&clock).as_deref(), Some(time), "{offset}");
        assert_eq!(for_people(&clock).as_deref(), Some(people), "{offset}");
    }
}

#[test]
fn a_moment_is_as_far_on_both_clocks() {
    let header = header(10_000_000_000, WALL);
    for (mono, time) in [
        (10_000_000_000, "11:27:03.500"),
        (11_250_000_000, "11:27:04.750"),
        (9_000_000_000, "11:27:02.500"),
        // Before the machine was started there is nothing; the arithmetic goes on.
        (0, "11:26:53.500"),
    ] {
        let clock = at(&header, MonoNanos(mono)).expect("it has a wall clock");
        assert_eq!(of_day(&clock).as_deref(), Some(time), "{mono}");
        assert_eq!(clock.mono, MonoNanos(mono));
    }
}

#[test]
fn where_there_is_no_wall_clock_there_is_no_time() {
    assert_eq!(wall_nanos(&header(5, 0), MonoNanos(9)), None);
    assert!(at(&header(5, 0), MonoNanos(9)).is_none());
    // Far outside of what a calendar has, and at its ends.
    for wall in [i128::MIN, i128::MAX, i128::from(i64::MAX) * 1_000_000_000] {
        let header = header(0, wall);
        let clock = at(&header, MonoNanos(u64::MAX)).expect("it is a number");
        assert_eq!((rfc3339(&clock), for_people(&clock), of_day(&clock)), (None, None, None), "{wall}");
    }
    assert_eq!(of_day(&clock(0, WALL, i32::MIN)), None);
}

#[test]
fn seconds_since_1970_are_a_time_or_none() {
    for (seconds, time) in [
        (1_763_720_823.0, Some("2025-11-21 10:27:03 UTC")),
        (1_763_720_823.999, Some("2025-11-21 10:27:03 UTC")),
        (951_782_400.0, Some("2000-02-29 00:00:00 UTC")),
        (1.0, Some("1970-01-01 00:00:01 UTC")),
        (0.0, None),
        (-1.0, None),
        (1e300, None),
        (f64::NAN, None),
        (f64::INFINITY, None),
    ] {
        assert_eq!(utc(seconds).as_deref(), time, "{seconds}");
    }
}

#[test]
fn in_the_zone_of_the_recording() {
    let clock = ClockPair { zone: "Europe/Berlin".into(), ..clock(5, WALL, 3600) };
    assert_eq!(rfc3339(&clock).as_deref(), Some("2025-11-21T11:27:03.5+01:00"));
    assert_eq!(for_people(&clock).as_deref(), Some("2025-11-21 11:27:03 +01:00 (Europe/Berlin)"));
}

#[test]
fn absurd_clocks_are_absent() {
    assert_eq!(rfc3339(&clock(5, i128::MAX, 0)), None);
    assert_eq!(rfc3339(&clock(5, WALL, i32::MAX)), None);
    assert_eq!(for_people(&ClockPair::default()), None);
}
