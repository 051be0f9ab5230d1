//! Time stamps at the start of log lines, in the forms that servers write.
//!
//! | form | written by |
//! | --- | --- |
//! | `2026-11-21T10:00:00.123Z`, `2026-11-21 10:00:00,123 +0100`, `2026/11/21 10:00:00` | most; MySQL, PostgreSQL, Octopus Server, nginx, Go |
//! | `20261121 10:00:00`, `20261121T100000Z` | some C++ servers |
//! | `21/Nov/2026:10:00:00 +0000` | Apache, nginx (access logs) |
//! | `Nov 21 10:00:00`, `Nov 21 2026 10:00:00` | syslog |
//! | `Sat Nov 21 10:00:00.123456 2026`, `Sat, 21 Nov 2026 10:00:00 GMT` | Apache (error log), ctime |
//! | `21 Nov 2026 10:00:00.123`, `21-Nov-2026 10:00:00.123` | Redis, Tomcat, BIND |
//! | `21.11.2026 10:00:00` | programs with a German culture |
//! | `E1121 10:00:00.123456` | glog, Kubernetes |
//! | `10:00:00   Info` | Octopus task logs |
//! | `1795255200`, `1795255200.123`, `1795255200123` | Squid and others |
//! | `time="..."`, `ts=...` | logfmt |
//! | `{"time": ...}`, `@timestamp`, `@t`, `ts`, `t` | JSON lines: Docker, Serilog, Bunyan, MongoDB |

use jiff::civil::{Date, DateTime, Time};

/// A moment as it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stamp {
    /// With a zone or as a count since 1970: nanoseconds since 1970-01-01 UTC.
    Absolute(i128),
    /// Date and time without a zone.
    Local(DateTime),
    /// Without a year.
    NoYear {
        /// 1 to 12.
        month: i8,
        /// 1 to 31.
        day: i8,
        /// Of that day.
        time: Time,
    },
    /// Without a date.
    TimeOnly(Time),
}

/// Years that are taken for one.
const YEARS: std::ops::RangeInclusive<i16> = 1990..=2199;

/// Not more of a line than this is searched for the start of a stamp, nor more words.
const SEARCHED: usize = 200;
const WORDS: usize = 6;

/// Keys of JSON lines that hold the time, the best first.
const JSON_KEYS: [&str; 13] = [
    "@timestamp",
    "timestamp",
    "time",
    "@t",
    "ts",
    "t",
    "Timestamp",
    "Time",
    "datetime",
    "date",
    "eventTime",
    "asctime",
    "$date",
];

const LOGFMT_KEYS: [&[u8]; 5] = [b"time=", b"ts=", b"timestamp=", b"t=", b"at="];

const MONTHS: [&[u8; 3]; 12] =
    [b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec"];
const WEEKDAYS: [&[u8; 3]; 7] = [b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun"];

/// Finds the time stamp that a line begins with, or nearly so. `None`: the line has none, and belongs to the
/// record before it.
pub(crate) fn find_stamp(line: &[u8]) -> Option<Stamp> {
    // Indented lines continue a record: stack traces quote other programs' time stamps.
    if line.first().is_none_or(|byte| byte.is_ascii_whitespace()) {
        return None;
    }
    if line.first() == Some(&b'{') {
        return json_stamp(line);
    }
    let searched = line.get(..SEARCHED).unwrap_or(line);
    if let Some(stamp) = logfmt_stamp(searched) {
        return Some(stamp);
    }
    let mut place = 0;
    for word in 0..WORDS {
        let rest = line.get(place..)?;
        if place >= SEARCHED {
            return None;
        }
        let bare = strip_opening(rest);
        if let Some(stamp) = parse_dated(bare) {
            return Some(stamp);
        }
        if word == 0
            && let Some(stamp) = parse_glog(bare).or_else(|| parse_epoch(bare))
        {
            return Some(stamp);
        }
        // After a level, but not after something that could have been a date.
        let alone = word == 0 || (word == 1 && !line.get(..place)?.iter().any(u8::is_ascii_digit));
        if alone && let Some(stamp) = parse_time_only(bare) {
            return Some(stamp);
        }
        let next = rest.iter().position(u8::is_ascii_whitespace)?;
        place += next + rest.get(next..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
    }
    None
}

/// Takes off what may stand before a stamp: brackets, quotes, and the priority of a syslog packet (`<34>1 `).
fn strip_opening(text: &[u8]) -> &[u8] {
    let mut rest = text;
    if let Some(inner) = rest.strip_prefix(b"<")
        && let Some(end) = inner.iter().take(4).position(|byte| *byte == b'>')
    {
        rest = inner.get(end + 1..).unwrap_or_default();
    }
    while let Some((b'[' | b'(' | b'"' | b'\'' | b'|', tail)) = rest.split_first() {
        rest = tail;
    }
    rest
}

/// Forms that have a date.
fn parse_dated(text: &[u8]) -> Option<Stamp> {
    let mut scan = Scan { rest: text };
    match text.first()? {
        b'0'..=b'9' => parse_iso(&mut scan.clone())
            .or_else(|| parse_day_first(&mut scan.clone()))
            .or_else(|| parse_compact(&mut scan)),
        b'A'..=b'Z' | b'a'..=b'z' => parse_month_first(&mut scan),
        _ => None,
    }
}

/// `2026-11-21T10:00:00.123Z` and its kin.
fn parse_iso(scan: &mut Scan<'_>) -> Option<Stamp> {
    let year = scan.digits(4)?;
    let separator = scan.one_of(b"-/.")?;
    let month = scan.digits(2)?;
    scan.byte(separator)?;
    let day = scan.digits(2)?;
    scan.one_of(b"T t_-:")?;
    scan.spaces();
    let time = scan.time()?;
    scan.zoned(date(year, month, day)?.to_datetime(time))
}

/// `20261121 10:00:00`, `20261121T100000Z`.
fn parse_compact(scan: &mut Scan<'_>) -> Option<Stamp> {
    let (year, month, day) = (scan.digits(4)?, scan.digits(2)?, scan.digits(2)?);
    scan.one_of(b"T -_")?;
    let mut with_colons = scan.clone();
    let time = match with_colons.time() {
        Some(time) => {
            *scan = with_colons;
            time
        }
        None => clock(scan.digits(2)?, scan.digits(2)?, scan.digits(2)?, 0)?,
    };
    scan.zoned(date(year, month, day)?.to_datetime(time))
}

/// `21/Nov/2026:10:00:00 +0000`, `21 Nov 2026 10:00:00`, `21-Nov-2026 10:00:00`, `21.11.2026 10:00:00`.
fn parse_day_first(scan: &mut Scan<'_>) -> Option<Stamp> {
    let day = scan.short_number()?;
    let separator = scan.one_of(b"/ -.")?;
    let month = if separator == b'.' { scan.digits(2)? } else { scan.month()? };
    scan.byte(separator)?;
    let year = scan.digits(4)?;
    scan.one_of(b": T,")?;
    scan.spaces();
    let time = scan.time()?;
    scan.zoned(date(year, month, day)?.to_datetime(time))
}

/// `Nov 21 10:00:00`, `Nov 21, 2026 10:00:00`, `Sat Nov 21 10:00:00.1 2026`, `Sat, 21 Nov 2026 10:00:00 GMT`.
fn parse_month_first(scan: &mut Scan<'_>) -> Option<Stamp> {
    if scan.weekday() {
        scan.one_of(b",");
        scan.spaces();
        if scan.rest.first().is_some_and(u8::is_ascii_digit) {
            return parse_day_first(scan);
        }
    }
    let month = scan.month()?;
    scan.byte(b' ')?;
    scan.spaces();
    let day = scan.short_number()?;
    scan.one_of(b",");
    scan.byte(b' ')?;
    scan.spaces();
    if let Some(year) = scan.clone().digits(4).filter(|_| scan.rest.get(4) == Some(&b' ')) {
        scan.digits(4);
        scan.spaces();
        let time = scan.time()?;
        return scan.zoned(date(year, month, day)?.to_datetime(time));
    }
    let time = scan.time()?;
    let mut after = scan.clone();
    after.spaces();
    if let Some(year) = after.digits(4).filter(|_| !after.rest.first().is_some_and(u8::is_ascii_alphanumeric))
        && let Some(date) = date(year, month, day)
    {
        return after.zoned(date.to_datetime(time));
    }
    // Any year will do to check the day.
    date(2000, month, day)?;
    Some(Stamp::NoYear { month: i8::try_from(month).ok()?, day: i8::try_from(day).ok()?, time })
}

/// `E1121 10:00:00.123456`.
fn parse_glog(text: &[u8]) -> Option<Stamp> {
    let mut scan = Scan { rest: text };
    scan.one_of(b"IWEFD")?;
    let (month, day) = (scan.digits(2)?, scan.digits(2)?);
    scan.byte(b' ')?;
    scan.spaces();
    let time = scan.time()?;
    date(2000, month, day)?;
    Some(Stamp::NoYear { month: i8::try_from(month).ok()?, day: i8::try_from(day).ok()?, time })
}

/// `10:00:00`, which must end there: `10:00:00:ab` is the start of something else.
fn parse_time_only(text: &[u8]) -> Option<Stamp> {
    let mut scan = Scan { rest: text };
    // Two digits and seconds: `1:2` is a ratio.
    let (hour, _, minute, _, second) =
        (scan.digits(2)?, scan.byte(b':')?, scan.digits(2)?, scan.byte(b':')?, scan.digits(2)?);
    let nanos = scan.fraction();
    let ends = scan.rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric() && !b":.-/".contains(byte));
    ends.then_some(())?;
    clock(hour, minute, second, nanos).map(Stamp::TimeOnly)
}

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by their number of digits.
fn parse_epoch(text: &[u8]) -> Option<Stamp> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let scale: i128 = match digits {
        10 => 1_000_000_000,
        13 => 1_000_000,
        16 => 1_000,
        19 => 1,
        _ => return None,
    };
    let whole: i128 = std::str::from_utf8(text.get(..digits)?).ok()?.parse().ok()?;
    let mut scan = Scan { rest: text.get(digits..)? };
    let mut nanos = whole.checked_mul(scale)?;
    if digits == 10 {
        nanos += i128::from(scan.fraction());
    }
    let ends = scan.rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric());
    // From 2001 on: ten digits.
    (ends && nanos >= 1_000_000_000_000_000_000).then_some(Stamp::Absolute(nanos))
}

/// `time="2026-11-21T10:00:00Z"`, `ts=1795255200.5`, among the first words, before which only pairs stand.
fn logfmt_stamp(text: &[u8]) -> Option<Stamp> {
    let mut rest = text;
    for _ in 0..WORDS {
        for key in LOGFMT_KEYS {
            if let Some(value) = rest.strip_prefix(key) {
                let value = strip_opening(value);
                if let Some(stamp) = parse_dated(value).or_else(|| parse_epoch(value)) {
                    return Some(stamp);
                }
            }
        }
        let end = rest.iter().position(|byte| *byte == b' ')?;
        if !rest.get(..end)?.contains(&b'=') {
            return None;
        }
        rest = rest.get(end + 1..)?;
    }
    None
}

/// The value of the first key that holds a time.
fn json_stamp(line: &[u8]) -> Option<Stamp> {
    JSON_KEYS.into_iter().find_map(|key| {
        let value = json_value(line, key)?;
        match value.strip_prefix(b"\"") {
            Some(text) => parse_dated(text).or_else(|| parse_epoch(text)),
            None => parse_epoch(value),
        }
    })
}

/// What follows `"key":`. Quotes inside of JSON strings are escaped, so that this does not find keys in values.
pub(super) fn json_value<'l>(line: &'l [u8], key: &str) -> Option<&'l [u8]> {
    let quoted = format!("\"{key}\"");
    let mut from = 0;
    while let Some(found) = memchr::memmem::find(line.get(from..)?, quoted.as_bytes()) {
        from += found + quoted.len();
        let rest = line.get(from..)?.trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b":") {
            return Some(value.trim_ascii_start());
        }
    }
    None
}

fn date(year: u16, month: u16, day: u16) -> Option<Date> {
    let year = i16::try_from(year).ok().filter(|year| YEARS.contains(year))?;
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

fn clock(hour: u16, minute: u16, second: u16, nanos: u32) -> Option<Time> {
    // A leap second is written as 60.
    let second = if second == 60 { 59 } else { second };
    let small = |value: u16| i8::try_from(value).ok();
    Time::new(small(hour)?, small(minute)?, small(second)?, i32::try_from(nanos).ok()?).ok()
}

/// A walk over the bytes of a stamp.
#[derive(Clone)]
struct Scan<'t> {
    rest: &'t [u8],
}

impl Scan<'_> {
    fn byte(&mut self, wanted: u8) -> Option<u8> {
        self.one_of(&[wanted])
    }

    fn one_of(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, tail) = self.rest.split_first()?;
        wanted.contains(first).then(|| {
            self.rest = tail;
            *first
        })
    }

    fn spaces(&mut self) {
        while self.byte(b' ').is_some() {}
    }

    /// A number of exactly `count` digits, at most six.
    fn digits(&mut self, count: usize) -> Option<u16> {
        let (digits, tail) = self.rest.split_at_checked(count)?;
        let value = digits.iter().try_fold(0_u32, |value, byte| {
            byte.is_ascii_digit().then(|| value.wrapping_mul(10).wrapping_add(u32::from(byte - b'0')))
        })?;
        self.rest = tail;
        Some(u16::try_from(value).unwrap_or(u16::MAX))
    }

    /// One or two digits.
    fn short_number(&mut self) -> Option<u16> {
        self.digits(2).or_else(|| self.digits(1))
    }

    fn month(&mut self) -> Option<u16> {
        let place = self.name(&MONTHS)?;
        // `November`
        while self.rest.first().is_some_and(u8::is_ascii_lowercase) {
            self.rest = self.rest.get(1..).unwrap_or_default();
        }
        u16::try_from(place + 1).ok()
    }

    fn weekday(&mut self) -> bool {
        self.name(&WEEKDAYS).is_some()
    }

    fn name(&mut self, names: &[&[u8; 3]]) -> Option<usize> {
        let (head, tail) = self.rest.split_at_checked(3)?;
        let place = names.iter().position(|name| head.eq_ignore_ascii_case(*name))?;
        self.rest = tail;
        Some(place)
    }

    /// `10:00:00.123`; seconds and fraction may be missing.
    fn time(&mut self) -> Option<Time> {
        let hour = self.short_number()?;
        self.byte(b':')?;
        let minute = self.digits(2)?;
        let mut seconds = self.clone();
        let second = seconds.byte(b':').and_then(|_| seconds.digits(2));
        let nanos = match second {
            Some(_) => {
                *self = seconds;
                self.fraction()
            }
            None => 0,
        };
        clock(hour, minute, second.unwrap_or(0), nanos)
    }

    /// `.123` or `,123` as nanoseconds; nothing: 0. Digits beyond the ninth are dropped.
    fn fraction(&mut self) -> u32 {
        let mut scan = self.clone();
        if scan.one_of(b".,").is_none() || !scan.rest.first().is_some_and(u8::is_ascii_digit) {
            return 0;
        }
        let (mut nanos, mut scale) = (0_u32, 100_000_000_u32);
        while let Some((digit @ b'0'..=b'9', tail)) = scan.rest.split_first() {
            nanos += u32::from(digit - b'0') * scale;
            scale /= 10;
            scan.rest = tail;
        }
        *self = scan;
        nanos
    }

    /// Reads a zone if one follows.
    fn zoned(&mut self, moment: DateTime) -> Option<Stamp> {
        match self.zone() {
            Some(seconds) => {
                let utc = jiff::tz::TimeZone::UTC.to_timestamp(moment).ok()?;
                Some(Stamp::Absolute(utc.as_nanosecond() - i128::from(seconds) * 1_000_000_000))
            }
            None => Some(Stamp::Local(moment)),
        }
    }

    /// Seconds east of UTC: `Z`, `+01:00`, `-0530`, `+01`, ` UTC`, ` CET`.
    fn zone(&mut self) -> Option<i32> {
        let mut scan = self.clone();
        if scan.one_of(b"Zz").is_some() {
            let ends = scan.rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric());
            return ends.then_some(0);
        }
        scan.spaces();
        if let Some(sign) = scan.one_of(b"+-") {
            let hours = scan.digits(2)?;
            scan.byte(b':');
            let minutes = scan.digits(2).unwrap_or(0);
            // `10:00:00 -12 connections` is no zone; `-1200` and `-12:00` at a word's end are.
            let ends = scan.rest.first().is_none_or(|byte| !byte.is_ascii_alphanumeric());
            let far = self.rest.len() - scan.rest.len() >= 5 || self.rest.first() != Some(&b' ');
            if !ends || !far || hours > 15 || minutes > 59 {
                return None;
            }
            let seconds = i32::from(hours) * 3600 + i32::from(minutes) * 60;
            return Some(if sign == b'-' { -seconds } else { seconds });
        }
        let length = scan.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let name = scan.rest.get(..length)?;
        abbreviation(name)
    }
}

/// Abbreviations that mean one thing in logs of servers. Those that mean several (IST, CST, BST) are not here.
fn abbreviation(name: &[u8]) -> Option<i32> {
    let hours = match name {
        b"UTC" | b"GMT" | b"UT" | b"WET" => 0,
        b"CET" | b"WEST" | b"MEZ" => 1,
        b"CEST" | b"EET" | b"MESZ" => 2,
        b"EEST" | b"MSK" => 3,
        b"JST" => 9,
        b"AEST" => 10,
        b"AEDT" => 11,
        b"EDT" => -4,
        b"EST" => -5,
        b"PDT" => -7,
        b"PST" => -8,
        _ => return None,
    };
    Some(hours * 3600)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2026-11-21 10:00:00 UTC.
    const TEN: i128 = 1_795_255_200_000_000_000;
    const MILLI: i128 = 1_000_000;

    fn local(text: &str) -> Stamp {
        Stamp::Local(text.parse().expect("a civil time"))
    }

    #[track_caller]
    fn check(line: &str, expected: Stamp) {
        assert_eq!(find_stamp(line.as_bytes()), Some(expected), "{line}");
    }

    #[test]
    fn stamps_with_a_zone() {
        for line in [
            "2026-11-21T10:00:00Z message",
            "2026-11-21T10:00:00.000Z message",
            "2026-11-21 11:00:00 +0100 message",
            "2026-11-21T15:30:00+05:30 message",
            "2026-11-21 02:00:00-08 LOG:  checkpoint",
            "2026-11-21 10:00:00.000 UTC [123] LOG:  ready",
            "2026-11-21 11:00:00 CET [123] LOG:  ready",
            "[21/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\"",
            "10.0.0.1 - frank [21/Nov/2026:11:00:00 +0100] \"GET / HTTP/1.1\" 200",
            "<34>1 2026-11-21T10:00:00Z host app - - -",
            "[2026-11-21T10:00:00.000+0000][1][gc] Pause",
            "Sat, 21 Nov 2026 10:00:00 GMT",
            "20261121T100000Z x",
            "1795255200 x",
            "1795255200.000 x",
            "1795255200000 x",
            "1795255200000000 x",
            "time=\"2026-11-21T10:00:00Z\" level=info msg=x",
            "level=warn ts=1795255200.0 caller=x",
            "# Time: 2026-11-21T10:00:00.000000Z",
            r#"{"log":"a \"time\": 5","stream":"stdout","time":"2026-11-21T10:00:00.000000000Z"}"#,
            r#"{"@t":"2026-11-21T10:00:00Z","@mt":"x"}"#,
            r#"{"level":30,"time":1795255200000,"msg":"x"}"#,
            r#"{"t":{"$date":"2026-11-21T10:00:00.000+00:00"},"s":"I"}"#,
        ] {
            check(line, Stamp::Absolute(TEN));
        }
        check("2026-11-21T10:00:00.123456789123Z", Stamp::Absolute(TEN + 123_456_789));
        check("1795255200.250 1 TCP_MISS", Stamp::Absolute(TEN + 250 * MILLI));
    }

    #[test]
    fn stamps_without_a_zone() {
        for line in [
            "2026-11-21 10:00:00 0 [Note] InnoDB: x",
            "2026-11-21 10:00:00.000   1   10  INFO  Octopus",
            "[2026-11-21 10:00:00,000] {x.py:1} INFO",
            "2026/11/21 10:00:00 [error] 1#0: x",
            "[Sat Nov 21 10:00:00.000000 2026] [core:error]",
            "1:M 21 Nov 2026 10:00:00.000 * Ready",
            "21-Nov-2026 10:00:00.000 INFO [main]",
            "21.11.2026 10:00:00 x",
            "Nov 21 2026 10:00:00 host x",
            "Nov 21, 2026 10:00:00 x",
            "INFO  2026-11-21 10:00:00 x",
            "[INFO] [2026-11-21T10:00:00] x",
            "20261121 10:00:00 x",
            "2026-11-21 10:00 x",
            "2026-11-21 10:00:00 -12 connections",
            "2026-11-21 10:00:00 IST x",
        ] {
            check(line, local("2026-11-21T10:00:00"));
        }
        check("2026-11-21 10:00:00,123 x", local("2026-11-21T10:00:00.123"));
    }

    #[test]
    fn stamps_without_a_year_or_a_date() {
        let time = Time::constant(9, 5, 7, 0);
        check("Nov  1 09:05:07 host sshd[1]: x", Stamp::NoYear { month: 11, day: 1, time });
        check("E1121 09:05:07.000 1 x.go:1] x", Stamp::NoYear { month: 11, day: 21, time });
        check("<13>Nov 21 09:05:07 host x", Stamp::NoYear { month: 11, day: 21, time });
        check("09:05:07   Info     |   Deploying", Stamp::TimeOnly(time));
        check("[09:05:07 INF] Started", Stamp::TimeOnly(time));
    }

    #[test]
    fn lines_that_have_none() {
        for line in [
            "",
            "   at Foo.Bar() in /x.cs:line 12",
            "\tat java.lang.Thread.run",
            "  2026-11-21 10:00:00 quoted",
            "Caused by: java.lang.Exception",
            "10:00:00:aa:bb:cc is a MAC address",
            "2026-13-21 10:00:00 no such month",
            "2026-02-30 10:00:00 no such day",
            "2026-11-21 25:00:00 no such hour",
            "12345 items",
            "1234567890123456789012345 items",
            "SET timestamp=1795255200;",
            "May you live in interesting times",
            "{\"message\":\"no time\"}",
            "{\"time\":\"soon\"}",
        ] {
            assert_eq!(find_stamp(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = find_stamp(&line);
        }

        #[test]
        fn near_misses_are_survived(line in "[0-9T:., /Z+\\-\\[\\]{}\"a-zA-Z=]{0,60}") {
            let _ = find_stamp(line.as_bytes());
        }

        #[test]
        fn what_is_written_is_read(seconds in 1_000_000_000_i64..4_000_000_000, nanos in 0_i32..1_000_000_000) {
            let moment = jiff::Timestamp::new(seconds, nanos).expect("in range");
            let expected = Some(Stamp::Absolute(moment.as_nanosecond()));
            prop_assert_eq!(find_stamp(format!("{moment:.9} x").as_bytes()), expected);
            let zoned = moment.to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(-7)));
            let text = zoned.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
            let whole = i128::from(seconds) * 1_000_000_000;
            prop_assert_eq!(find_stamp(text.as_bytes()), Some(Stamp::Absolute(whole)));
        }
    }
}
